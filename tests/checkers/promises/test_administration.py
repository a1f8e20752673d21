"""What an operator asks for, and what becomes of a cluster that nobody disturbs; both ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from checkers.promises.administration import ANSWERED, MADE, check
from checkers.promises.administration.impossible import REFUSED as OF_WHAT_CANNOT_BE
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging

REFUSED, UNANSWERED = "request-refused", "request-unanswered"
VACANT, UNTOLD, UNMADE = "never-elected", "never-told", "never-made"
ASKED = 40_000


class _Cluster:
    """Three brokers from 1 s on; node 2 is elected at 2 s; heard until 90 s."""

    def __init__(self, *, elected: bool = True) -> None:
        self.story = Story()
        self._zxid: Iterator[int] = iter(range(1, 1_000))
        for node in (1, 2, 3):
            self.event(500, node, "start")
            self.wrote(1_000 + node, "broker", "created", node=node)
        if elected:
            self.elected(2_000, 2, 1)
        self.story.add("phase", 90_000, name="settle", event="end")

    def wrote(self, t: float, what: str, step: str, **fields: object) -> None:
        zxid = fields.pop("zxid", None) or next(self._zxid)
        where = {"topic": None, "partition": None} | fields
        self.story.add("zk_write", t, zxid=zxid, what=what, step=step, **where)

    def elected(self, t: float, node: int, epoch: int) -> None:
        zxid = next(self._zxid)
        self.wrote(t, "controller", "created", node=node, zxid=zxid)
        self.wrote(t, "controller_epoch", "set", controller_epoch=epoch, zxid=zxid)

    def event(self, t: float, node: int, event: str) -> None:
        self.story.add("node_event", t, node=node, event=event)

    def fault(self, name: str, from_t: float, to_t: float, nodes: list[int]) -> None:
        more = {"fault": name, "id": name, "nodes": nodes, "detail": "{}"}
        for t, phase in (
            (from_t, "inject"),
            (from_t, "injected"),
            (to_t, "heal"),
            (to_t, "healed"),
        ):
            self.story.add("fault", t, phase=phase, **more)

    def asked(
        self, error: int | None, t: float = ASKED, *, took: float = 10, node: int = 2
    ) -> None:
        came_of = "info" if error is None else "fail" if error else "ok"
        fields = {"type": came_of, "error": error, "failure": "timeout" if error is None else None}
        more = {"node": node, "api": "CREATE_TOPICS", "about": "t"}
        self.story.add("admin_request", t + took, invoke_t=t, **more, **fields)

    def untold(self, t: float = 62_000, node: int = 1) -> None:
        """Asked for the cluster, a minute after it was started."""
        told = {"type": "info", "error": None, "failure": "brokers [], controller -1"}
        more = {"node": node, "api": "METADATA", "about": "", **told}
        self.story.add("admin_request", t + 10, invoke_t=t, **more)

    def made(self, t: float = 20_000, *, state_after: float | None = None) -> None:
        one = {"topic": "t", "partition": 0}
        self.wrote(t, "topic", "created", replicas=[1, 3], **one)
        if state_after is not None:
            state = {"leader": 1, "leader_epoch": 0, "isr": [1, 3], "controller_epoch": 1}
            self.wrote(t + state_after, "state", "created", **state, **one)


CASES: dict[str, tuple[Callable[[_Cluster], object], str | None]] = {
    "done": (lambda c: c.asked(0), None),
    "refused": (lambda c: c.asked(42), REFUSED),
    "could not": (lambda c: c.asked(-1), REFUSED),
    "refused as it came up, and then done": (
        lambda c: (c.asked(39, 1_500), c.asked(0, 2_600)),
        None,
    ),
    "refused as it came up, and ever after": (
        lambda c: [c.asked(39, t) for t in (3_100, 5_000, 9_000)],
        REFUSED,
    ),
    "to be tried again": (lambda c: c.asked(7), None),
    "says that it is none": (lambda c: c.asked(41), "ruler-denies"),
    "says so of itself, and is none": (lambda c: c.asked(41, node=1), None),
    "says so as it had just been elected": (
        lambda c: (c.elected(ASKED - 3_000, 2, 2), c.asked(41)),
        None,
    ),
    "says so as its office was taken from it": (
        lambda c: (
            c.asked(41),
            c.wrote(ASKED + 5, "controller", "removed", node=2),
            c.elected(ASKED + 2_000, 3, 2),
        ),
        None,
    ),
    "says so long before that": (
        lambda c: (
            c.asked(41),
            c.wrote(ASKED + 3_000, "controller", "removed", node=2),
            c.elected(ASKED + 4_000, 3, 2),
        ),
        "ruler-denies",
    ),
    "says so beside a fault of its own": (
        lambda c: (c.fault("toxic", 30_000, 60_000, [2]), c.asked(41)),
        None,
    ),
    "says so as its leaderships are moved": (
        lambda c: (c.fault("move-leadership", 30_000, 60_000, [2]), c.asked(41)),
        "ruler-denies",
    ),
    "there already": (lambda c: c.asked(36), None),
    "who is not controller": (lambda c: c.asked(42, node=1), None),
    "who was just elected": (lambda c: (c.elected(ASKED - 500, 2, 2), c.asked(-1)), None),
    "who was elected a moment ago": (
        lambda c: (c.elected(ASKED - 3_000, 2, 2), c.asked(-1)),
        REFUSED,
    ),
    "a broker had just died": (
        lambda c: (
            (c.event(ASKED - 9_000, 1, "kill"), c.event(ASKED - 2_000, 1, "start")) and c.asked(39)
        ),
        None,
    ),
    "beside a fault of its own": (
        lambda c: (c.fault("toxic", 30_000, 60_000, [2]), c.asked(-1)),
        None,
    ),
    "beside a fault of anybody": (
        lambda c: (c.fault("toxic", 30_000, 60_000, []), c.asked(-1)),
        None,
    ),
    "beside one of another": (
        lambda c: (c.fault("toxic", 30_000, 60_000, [1]), c.asked(42)),
        REFUSED,
    ),
    "beside what only asks": (
        lambda c: (c.fault("move-leadership", 30_000, 60_000, [2]), c.asked(42)),
        REFUSED,
    ),
    "no answer": (lambda c: c.asked(None, took=30_000), UNANSWERED),
    "a broken connection": (lambda c: c.asked(None, took=300), None),
    "its time was up": (lambda c: c.asked(7, took=20_000), None),
    "no answer, and it was replaced": (
        lambda c: (c.asked(None, took=30_000), c.elected(ASKED + 9_000, 3, 2)),
        None,
    ),
    "no answer, and it was paused": (
        lambda c: (c.asked(None, took=30_000), c.event(ASKED + 9_000, 2, "pause")),
        None,
    ),
    "made": (lambda c: c.made(state_after=100), None),
    "made late": (lambda c: c.made(state_after=30_000), None),
    "never made": (lambda c: c.made(), UNMADE),
    "it was not looked at for long": (lambda c: c.made(75_000), None),
    "to be deleted": (
        lambda c: (c.made(), c.story.add("topic_deletion", 21_000, topic="t", step="requested")),
        None,
    ),
    "a replica had gone": (
        lambda c: (c.made(), c.wrote(25_000, "broker", "removed", node=3)),
        None,
    ),
    "the controller had gone": (
        lambda c: (
            (c.made(), c.wrote(25_000, "controller", "removed", node=2)) and c.elected(26_000, 3, 2)
        ),
        None,
    ),
    "the office fell vacant": (
        lambda c: c.wrote(40_000, "controller", "removed", node=2),
        VACANT,
    ),
    "and was taken again": (
        lambda c: (c.wrote(40_000, "controller", "removed", node=2), c.elected(41_000, 3, 2)),
        None,
    ),
    "it fell vacant by a fault that names one": (
        lambda c: (
            c.fault("link-down", 39_000, 70_000, [2]),
            c.wrote(40_000, "controller", "removed", node=2),
        ),
        VACANT,
    ),
    "it fell vacant by a fault of anybody": (
        lambda c: (
            c.fault("link-down", 39_000, 70_000, []),
            c.wrote(40_000, "controller", "removed", node=2),
        ),
        None,
    ),
    "it fell vacant by a fault of all": (
        lambda c: (
            c.fault("link-down", 39_000, 70_000, [1, 2, 3]),
            c.wrote(40_000, "controller", "removed", node=2),
        ),
        None,
    ),
    "two died, and the third never stood": (
        lambda c: (
            c.fault("joint-death", 39_000, 70_000, [1, 2]),
            [c.event(39_500, node, "kill") for node in (1, 2)],
            c.wrote(41_000, "broker", "removed", node=1),
            c.wrote(41_100, "controller", "removed", node=2),
            c.wrote(41_200, "broker", "removed", node=2),
        ),
        VACANT,
    ),
    "two died, and the third was paused": (
        lambda c: (
            c.fault("joint-death", 39_000, 70_000, [1, 2]),
            c.event(50_000, 3, "pause"),
            c.wrote(41_000, "broker", "removed", node=1),
            c.wrote(41_100, "controller", "removed", node=2),
            c.wrote(41_200, "broker", "removed", node=2),
        ),
        None,
    ),
    "all were stopped": (
        lambda c: (
            [c.event(86_000, node, "stop") for node in (1, 2, 3)],
            c.wrote(87_000, "controller", "removed", node=2),
            [c.wrote(88_000, "broker", "removed", node=node) for node in (1, 2, 3)],
        ),
        None,
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_what_is_asked_for_on_a_calm_cluster_is_done(name: str) -> Asks:
    tell, rule = CASES[name]
    cluster = _Cluster()
    tell(cluster)
    outcome = yield cluster.story
    assert [f.rule for f in outcome.findings] == ([] if rule is None else [rule])
    asked = name not in ("made", "made late") and cluster.story.rows.get("admin_request")
    assert bool(outcome.evidence[cluster.story.arm, 0, ANSWERED]) is bool(asked)
    assert bool(outcome.evidence[cluster.story.arm, 0, MADE]) is ("made" in name or name in _MADE)


_MADE = {"to be deleted", "it was not looked at for long"} | {
    "a replica had gone",
    "the controller had gone",
}


FORMING: dict[str, tuple[Callable[[_Cluster], object], bool]] = {
    "one never told of the cluster": (lambda c: c.untold(), True),
    "who is controller itself": (lambda c: c.untold(node=2), True),
    "all had come a moment ago": (lambda c: c.untold(15_000), False),
    "one came late": (
        lambda c: (
            c.event(500, 4, "start"),
            c.wrote(50_000, "broker", "created", node=4),
            c.untold(),
        ),
        False,
    ),
    "one never came": (lambda c: (c.event(500, 4, "start"), c.untold()), False),
    "a controller after the other": (lambda c: (c.elected(50_000, 3, 2), c.untold()), False),
    "one had died meanwhile": (lambda c: (c.event(50_000, 3, "exited"), c.untold()), False),
}


@pytest.mark.parametrize("name", FORMING)
@judging(check)
def test_a_cluster_that_comes_up_tells_of_itself(name: str) -> Asks:
    tell, is_found = FORMING[name]
    cluster = _Cluster()
    tell(cluster)
    outcome = yield cluster.story
    assert [f.rule for f in outcome.findings] == [UNTOLD] * is_found
    assert not outcome.evidence[cluster.story.arm, 0, ANSWERED]


@pytest.mark.parametrize("later", [None, 5_000, 60_000])
@judging(check)
def test_of_brokers_that_are_there_one_is_controller(later: float | None) -> Asks:
    cluster = _Cluster(elected=False)
    if later is not None:
        cluster.elected(later, 1, 1)
    findings = (yield cluster.story).findings
    assert [f.rule for f in findings] == ([] if later == 5_000 else [VACANT])


def refused(
    cluster: _Cluster,
    t: float,
    api: str,
    error: int | None,
    took: float = 5,
    failure: str = "timeout",
    wanted: int = 39,
) -> None:
    """Of role refused-asker, to node 1."""
    fields = {"type": "ok" if error == 0 else "info" if error is None else "fail", "error": error}
    more = {"node": 1, "api": api, "about": f"what {api} cannot do", "wanted": wanted}
    lost = {"failure": failure if error is None else None, "process": "refused-asker"}
    cluster.story.add("admin_request", t + took, invoke_t=t, **fields, **more, **lost)


def asked_in_turn(
    cluster: _Cluster, until: float, *, others: int | None = 41, then: int | None = None
) -> None:
    """ELECT_LEADERS in vain, every 5 s from 3 s on, and another after it; ``then``: the last."""
    for t in range(3_000, int(until), 5_000):
        last = t + 5_000 >= until
        refused(cluster, t, "ELECT_LEADERS", then if last else None, 3_000)
        refused(cluster, t + 3_500, "CREATE_TOPICS", others, 5 if others is not None else 1_000)


def half_sent(cluster: _Cluster, waited: float) -> None:
    """What nobody can read, in turn with what is refused, until its connection is ended."""
    for t in range(3_000, 60_000, 5_000):
        refused(cluster, t, "DELETE_RECORDS", None, waited)
        refused(cluster, t + 3_500, "CREATE_TOPICS", 41)


IMPOSSIBLE: dict[str, tuple[Callable[[_Cluster], object], list[str]]] = {
    "whose connection is ended": (lambda c: half_sent(c, 5), []),
    "whose connection is held": (lambda c: half_sent(c, 2_000), ["never-refused"]),
    "out of turn": (
        lambda c: [
            refused(c, ASKED + n, "DELETE_TOPICS", None, failure="out-of-turn") for n in range(2)
        ],
        ["answered-out-of-turn"],
    ),
    "lost": (
        lambda c: refused(c, ASKED, "DELETE_TOPICS", None, failure="disconnect"),
        [],
    ),
    "refused": (lambda c: refused(c, ASKED, "CREATE_TOPICS", 39), []),
    "refused by who is no controller": (lambda c: refused(c, ASKED, "CREATE_TOPICS", 41), []),
    "refused by who no longer leads": (lambda c: refused(c, ASKED, "PRODUCE", 6), []),
    "refused while it is moved": (lambda c: refused(c, ASKED, "CREATE_PARTITIONS", 60), []),
    "refused otherwise": (
        lambda c: [refused(c, ASKED + n, "CREATE_TOPICS", 42) for n in range(3)],
        ["refused-otherwise"],
    ),
    "refused otherwise beside a fault": (
        lambda c: (c.fault("kill", 30_000, 60_000, [1]), refused(c, ASKED, "CREATE_TOPICS", 38)),
        ["refused-otherwise"],
    ),
    "refused as before 3.2": (lambda c: refused(c, ASKED, "CONFIGS", 42, wanted=40), []),
    "done": (lambda c: refused(c, ASKED, "CREATE_TOPICS", 0), ["impossible-done"]),
    "done again and again": (
        lambda c: [refused(c, ASKED + n, "CREATE_TOPICS", 0) for n in range(3)],
        ["impossible-done"],
    ),
    "done beside a fault": (
        lambda c: (c.fault("kill", 30_000, 60_000, [1]), refused(c, ASKED, "CREATE_TOPICS", 0)),
        ["impossible-done"],
    ),
    "never answered": (lambda c: asked_in_turn(c, 60_000), ["never-refused"]),
    "answered in the end": (lambda c: asked_in_turn(c, 60_000, then=41), []),
    "answered before": (
        lambda c: (refused(c, 2_500, "ELECT_LEADERS", 41), asked_in_turn(c, 60_000)),
        ["never-refused"],
    ),
    "not often enough": (lambda c: asked_in_turn(c, 13_000), []),
    "nothing is answered": (lambda c: asked_in_turn(c, 60_000, others=None), []),
    "only before it was healed": (
        lambda c: (c.fault("link-down", 5_000, 70_000, [1]), asked_in_turn(c, 60_000)),
        [],
    ),
    "once after it was healed": (
        lambda c: (c.fault("link-down", 5_000, 57_000, [1]), asked_in_turn(c, 60_000)),
        [],
    ),
    "after it was healed as well": (
        lambda c: (c.fault("link-down", 5_000, 40_000, [1]), asked_in_turn(c, 60_000)),
        ["never-refused"],
    ),
    "it may not be healed yet": (
        lambda c: (
            c.story.add("fault", 5_000, phase="injected", fault="kill", id="k", detail="{}"),
            asked_in_turn(c, 60_000),
        ),
        [],
    ),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
@judging(check)
def test_what_cannot_be_done_is_refused(name: str) -> Asks:
    tell, rules = IMPOSSIBLE[name]
    cluster = _Cluster()
    tell(cluster)
    outcome = yield cluster.story
    assert [f.rule for f in outcome.findings] == rules
    assert not outcome.evidence[cluster.story.arm, 0, ANSWERED]
    seen = outcome.evidence[cluster.story.arm, 0, OF_WHAT_CANNOT_BE]
    assert (seen == 0) is (name in ("nothing is answered", "out of turn", "lost"))


def whole(cluster: _Cluster) -> None:
    """ZooKeeper's log from its beginning."""
    cluster.wrote(100, "controller_epoch", "created", controller_epoch=0)


def asks(
    cluster: _Cluster, api: str, error: int | None, t: float = ASKED, about: str = "t"
) -> None:
    came_of = "info" if error is None else "fail" if error else "ok"
    fields = {"type": came_of, "error": error, "failure": "timeout" if error is None else None}
    where = {"node": 2, "api": api, "about": about, "process": "harness"}
    cluster.story.add("admin_request", t + 10, invoke_t=t, **where, **fields)


def deletes(cluster: _Cluster, t: float) -> None:
    cluster.story.add("topic_deletion", t, topic="t", step="requested")
    cluster.wrote(t + 50, "topic", "removed", topic="t")


def led(cluster: _Cluster, t: float, leader: int) -> None:
    at = {"topic": "t", "partition": 0, "controller_epoch": 1}
    cluster.wrote(t, "state", "set", leader=leader, leader_epoch=1, isr=[1, 3], **at)


CREATE, DELETE, ELECT = "CREATE_TOPICS", "DELETE_TOPICS", "ELECT_LEADERS"
MOVE, GROW = "ALTER_PARTITION_REASSIGNMENTS", "CREATE_PARTITIONS"
GRANTED, DENIED = ["granted-and-not-done"], ["refused-and-done"]
NOT_NEEDED = ["election-denied"]


def grown(cluster: _Cluster, t: float) -> None:
    cluster.wrote(t, "topic", "set", replicas=[1, 3], topic="t", partition=0, zxid=900)
    cluster.wrote(t, "topic", "set", replicas=[2, 3], topic="t", partition=1, zxid=900)


KEPT_WORDS: dict[str, tuple[Callable[[_Cluster], object], list[str]]] = {
    "made": (lambda c: (asks(c, CREATE, 0), c.made(ASKED + 5, state_after=1)), []),
    "said to be made": (lambda c: asks(c, CREATE, 0), GRANTED),
    "made long after": (
        lambda c: (asks(c, CREATE, 0), c.made(ASKED + 5_000, state_after=1)),
        GRANTED,
    ),
    "refused, and not made": (lambda c: asks(c, CREATE, 38), []),
    "refused, and made": (
        lambda c: (asks(c, CREATE, 38), c.made(ASKED + 5, state_after=1)),
        DENIED,
    ),
    "refused by who is no controller, and made": (
        lambda c: (asks(c, CREATE, 41), c.made(ASKED + 5, state_after=1)),
        DENIED,
    ),
    "refused, then made": (
        lambda c: (asks(c, CREATE, 41), asks(c, CREATE, 0, ASKED + 100), c.made(ASKED + 105)),
        [],
    ),
    "its time was up, and it was made": (
        lambda c: (asks(c, CREATE, 7), c.made(ASKED + 500, state_after=1)),
        [],
    ),
    "lost, then there already": (
        lambda c: (
            asks(c, CREATE, None, about=""),
            c.made(ASKED + 300, state_after=1),
            asks(c, CREATE, 36, ASKED + 600),
        ),
        [],
    ),
    "there already, and made": (
        lambda c: (asks(c, CREATE, 36), c.made(ASKED + 5, state_after=1)),
        DENIED,
    ),
    "made by nobody's request": (lambda c: c.made(ASKED, state_after=1), []),
    "another is refused": (
        lambda c: (asks(c, CREATE, 38, about="u"), c.made(ASKED + 5, state_after=1)),
        [],
    ),
    "made again, and refused": (
        lambda c: (
            *(asks(c, CREATE, 0, 20_000), c.made(20_005, state_after=1), deletes(c, 25_000)),
            *(asks(c, CREATE, 37), c.made(ASKED + 5, state_after=1)),
        ),
        DENIED,
    ),
    "deleted": (lambda c: (asks(c, DELETE, 0), deletes(c, ASKED + 5)), []),
    "said to be deleted": (lambda c: asks(c, DELETE, 0), GRANTED),
    "deletion refused": (lambda c: asks(c, DELETE, 41), []),
    "deletion refused, and begun": (
        lambda c: (asks(c, DELETE, 41), deletes(c, ASKED + 5)),
        DENIED,
    ),
    "elected": (
        lambda c: (c.made(state_after=1), asks(c, ELECT, 0, about="t-0"), led(c, ASKED + 5, 1)),
        [],
    ),
    "said to be elected": (
        lambda c: (c.made(state_after=1), asks(c, ELECT, 0, about="t-0"), led(c, ASKED + 5, 3)),
        GRANTED,
    ),
    "led by it already": (
        lambda c: (c.made(state_after=1), asks(c, ELECT, 84, about="t-0")),
        [],
    ),
    "led by another": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3)),
            *(asks(c, ELECT, 84, about="t-0"), asks(c, ELECT, 84, 50_000, about="t-0")),
        ),
        NOT_NEEDED,
    ),
    "led by another, and refused otherwise": (
        lambda c: (c.made(state_after=1), led(c, 30_000, 3), asks(c, ELECT, 80, about="t-0")),
        [],
    ),
    "led by another until a moment ago": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3), led(c, ASKED - 50, 1)),
            asks(c, ELECT, 84, about="t-0"),
        ),
        [],
    ),
    "led by it a moment later": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3), led(c, ASKED + 5, 1)),
            asks(c, ELECT, 84, about="t-0"),
        ),
        [],
    ),
    "led by another, which was moved to the front": (
        lambda c: (
            *(c.made(state_after=1), led(c, 30_000, 3)),
            c.wrote(35_000, "topic", "set", replicas=[3, 1], topic="t", partition=0),
            asks(c, ELECT, 84, about="t-0"),
        ),
        [],
    ),
    "led by it, which was moved to the end": (
        lambda c: (
            *(c.made(state_after=1), asks(c, ELECT, 84, about="t-0")),
            c.wrote(35_000, "topic", "set", replicas=[3, 1], topic="t", partition=0),
        ),
        NOT_NEEDED,
    ),
    "moved": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, 0, about="t-0")),
            c.wrote(ASKED + 5, "topic", "set", replicas=[2, 1, 3], topic="t", partition=0),
        ),
        [],
    ),
    "moved to where it is": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, 0, about="t-0")),
            c.wrote(ASKED + 5, "topic", "set", replicas=[1, 3], topic="t", partition=0),
        ),
        [],
    ),
    "said to be moved": (
        lambda c: (
            *(c.made(state_after=1), asks(c, MOVE, 0, about="t-0")),
            c.wrote(ASKED + 5, "topic", "set", replicas=[2, 1, 3], topic="u", partition=0),
        ),
        GRANTED,
    ),
    "a move that was refused": (
        lambda c: (c.made(state_after=1), asks(c, MOVE, 41, about="t-0")),
        [],
    ),
    "grown": (
        lambda c: (
            *(c.made(state_after=1), asks(c, GROW, 0)),
            c.wrote(ASKED + 5, "topic", "set", replicas=[2, 3], topic="t", partition=1),
        ),
        [],
    ),
    "said to be grown": (lambda c: (c.made(state_after=1), asks(c, GROW, 0)), GRANTED),
    "growth that was refused": (lambda c: (c.made(state_after=1), asks(c, GROW, 37)), []),
    "growth that was refused, and came": (
        lambda c: (c.made(state_after=1), asks(c, GROW, 37), grown(c, ASKED + 5)),
        DENIED,
    ),
    "growth that nobody knew of, then refused": (
        lambda c: (
            *(c.made(state_after=1), asks(c, GROW, None), grown(c, ASKED + 5)),
            asks(c, GROW, 37, ASKED + 100),
        ),
        [],
    ),
    "grown before it was refused": (
        lambda c: (c.made(state_after=1), grown(c, ASKED - 5_000), asks(c, GROW, 37)),
        [],
    ),
    "moved while growth was refused": (
        lambda c: (
            *(c.made(state_after=1), asks(c, GROW, 37)),
            c.wrote(ASKED + 5, "topic", "set", replicas=[2, 3], topic="t", partition=0),
        ),
        [],
    ),
    "the request as a whole": (
        lambda c: (c.made(state_after=1), asks(c, ELECT, 0, about="")),
        [],
    ),
}


@pytest.mark.parametrize("name", KEPT_WORDS)
@judging(check)
def test_what_is_answered_is_what_is_done(name: str) -> Asks:
    tell, rules = KEPT_WORDS[name]
    cluster = _Cluster()
    whole(cluster)
    tell(cluster)
    outcome = yield cluster.story
    assert [f.rule for f in outcome.findings if f.rule in GRANTED + DENIED + NOT_NEEDED] == rules


@judging(check)
def test_what_is_answered_is_not_held_against_half_of_a_log() -> Asks:
    cluster = _Cluster()
    asks(cluster, CREATE, 0)
    assert not (yield cluster.story).findings


MADE_AND = "made-and-denied"
FORGOTTEN: dict[str, tuple[Callable[[_Cluster], object], str | None]] = {
    "deleted": (lambda c: (_churn(c, 10, "CREATE"), _churn(c, 20, "DELETE")), None),
    "none, by name": (lambda c: (_churn(c, 10, "CREATE"), _churn(c, 20, "DELETE", 3)), MADE_AND),
    "none, by id": (lambda c: (_churn(c, 10, "CREATE"), _churn(c, 20, "DELETE", 100)), MADE_AND),
    "none, beside a fault": (
        lambda c: (
            c.fault("delete-topic", 19_000, 22_000, [1, 2, 3]),
            _churn(c, 10, "CREATE"),
            _churn(c, 20, "DELETE", 3),
        ),
        MADE_AND,
    ),
    "none that could grow": (
        lambda c: (_churn(c, 10, "CREATE"), _churn(c, 20, "GROW", 3)), MADE_AND,
    ),
    "none, once it was to be deleted": (
        lambda c: (_churn(c, 10, "CREATE"), _churn(c, 20, "DELETE", 7), _churn(c, 30, "DELETE", 3)),
        None,
    ),
    "none, once it may have been": (
        lambda c: (
            _churn(c, 10, "CREATE"), _churn(c, 20, "DELETE", None), _churn(c, 30, "GROW", 3),
        ),
        None,
    ),
    "none, and nobody said that it was made": (
        lambda c: (_churn(c, 10, "CREATE", 7), _churn(c, 20, "DELETE", 3)), None,
    ),
    "none, asked of another": (
        lambda c: (_churn(c, 10, "CREATE"), _churn(c, 20, "DELETE", 3, node=1)), None,
    ),
    "none, after it was away": (
        lambda c: (
            _churn(c, 10, "CREATE"),
            c.event(12_000, 2, "kill"),
            c.event(14_000, 2, "start"),
            _churn(c, 20, "DELETE", 3),
        ),
        None,
    ),
    "none, asked before it was made": (
        lambda c: (_churn(c, 10, "CREATE", took=9_000), _churn(c, 15, "DELETE", 3)), None,
    ),
    "not allowed": (lambda c: (_churn(c, 10, "CREATE"), _churn(c, 20, "DELETE", 73)), None),
    "deleted, made again, and none": (
        lambda c: (
            _churn(c, 10, "CREATE"), _churn(c, 20, "DELETE"),
            _churn(c, 30, "CREATE"), _churn(c, 40, "DELETE", 3),
        ),
        MADE_AND,
    ),
}  # fmt: skip


def _churn(
    c: _Cluster, at_s: float, what: str, error: int | None = 0, *, node: int = 2, took: float = 10
) -> None:
    api = {"GROW": "CREATE_PARTITIONS"}.get(what, f"{what}_TOPICS")
    came_of = "info" if error is None else "fail" if error else "ok"
    more = {"node": node, "api": api, "about": "churn", "type": came_of, "error": error}
    t = at_s * 1_000
    c.story.add("admin_request", t + took, invoke_t=t, **more)


@pytest.mark.parametrize("name", FORGOTTEN)
@judging(check)
def test_who_has_made_a_topic_knows_it(name: str) -> Asks:
    tell, rule = FORGOTTEN[name]
    cluster = _Cluster()
    tell(cluster)
    outcome = yield cluster.story
    assert outcome.counts.get(MADE_AND, 0) == (1 if rule else 0)

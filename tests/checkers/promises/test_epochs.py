"""What controllers decide, state by state, and who acts on it: both ways.

Each defect is told twice: as ZooKeeper's own log has it, and as a watch alone has seen it.
"""

from __future__ import annotations

from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from checkers.judging.witness import attach
from checkers.promises.epochs import check
from tests.checkers.together import Asks, apart, judging

State = tuple[int, int, tuple[int, ...]]
"""Leader, leader epoch, in-sync set."""


class Log:
    """ZooKeeper's log, write by write."""

    def __init__(self, story: Any) -> None:
        self.story, self.zxid = story, 0

    def write(self, what: str, step: str, **fields: Any) -> None:
        self.zxid += 1
        # Times are ZooKeeper's to the millisecond: many writes share one.
        self.story.add("zk_write", 100, what=what, step=step, zxid=self.zxid, **fields)

    def topic(self, *replicas: int, step: str = "created", topic: str = "t") -> None:
        self.write("topic", step, replicas=list(replicas), topic=topic)

    def states(self, *states: State, begin: int = 0, **more: Any) -> None:
        for number, (leader, epoch, isr) in enumerate(states, begin):
            fields = {"leader": leader, "leader_epoch": epoch, "isr": list(isr), **more}
            step = "set" if number else "created"
            self.write("state", step, partition_epoch=number, controller_epoch=1, **fields)


class Teller:
    """Tells states one after the other, ``by`` ZooKeeper's log, its watch, or a metadata log."""

    def __init__(self, story: Any, by: str) -> None:
        self.story, self.by, self.log = story, by, Log(story)
        if by == "log":
            self.log.topic(1, 2, 3)

    def __call__(self, *states: State, topic: str = "t") -> None:
        if self.by == "log":
            self.log.states(*states, topic=topic)
            return
        source = "zk" if self.by == "watch" else "controller"
        for number, (leader, epoch, isr) in enumerate(states):
            fields = {
                "partition_epoch": number,
                "isr": list(isr),
                "commit_ms": number,
                "topic": topic,
            }
            for teller in (1,) if self.by == "watch" else (1, 2):
                told = {"process": f"node-{teller}", "source": source, **fields}
                self.story.commit(number, leader, epoch, **told)


LAWFUL: dict[str, list[State]] = {
    "shrinks and grows in one epoch": [(1, 0, (1, 2, 3)), (1, 0, (1, 2)), (1, 0, (1, 2, 3))],
    "a follower dies": [(1, 0, (1, 2, 3)), (1, 1, (1, 3))],
    "the leader dies": [(1, 0, (1, 2)), (2, 1, (2,))],
    "the last one dies, and comes back": [(1, 0, (1,)), (-1, 1, (1,)), (1, 2, (1,))],
    "controlled shutdown": [
        (1, 0, (1, 2, 3)),
        (2, 1, (2, 3)),
        (2, 1, (2, 3, 1)),
        (1, 2, (2, 3, 1)),
    ],
    "only the epoch": [(1, 0, (1, 2)), (1, 1, (1, 2))],
}
BROKEN: dict[str, tuple[list[State], dict[str, int]]] = {
    "back": ([(1, 0, (1, 2)), (2, 1, (2, 1)), (2, 0, (2, 1))],
             {"leader-epoch-went-back": 1, "two-leaders-in-epoch": 1}),
    "a new leader in the old epoch": ([(1, 0, (1, 2)), (2, 0, (2, 1))],
                                      {"two-leaders-in-epoch": 1}),
    "no leader in the old epoch": ([(1, 0, (1, 2)), (-1, 0, (1, 2))], {"two-leaders-in-epoch": 1}),
    "jumped": ([(1, 0, (1, 2)), (2, 2, (2, 1))], {"leader-epoch-jumped": 1}),
    "began high": ([(1, 3, (1, 2))], {"leader-epoch-jumped": 1}),
    "unclean": ([(1, 0, (1,)), (2, 1, (2,))], {"unclean-election": 1, "isr-grew-in-election": 1}),
    "unclean after none": ([(1, 0, (1,)), (-1, 1, (1,)), (3, 2, (3,))],
                           {"unclean-election": 1, "isr-grew-in-election": 1}),
    "grown by the controller": ([(1, 0, (1, 2)), (2, 1, (1, 2, 3))], {"isr-grew-in-election": 1}),
    "leads from outside": ([(1, 0, (2, 3))], {"leader-not-in-sync": 1}),
    "empty": ([(1, 0, (1,)), (-1, 1, ())], {"isr-empty": 1}),
    "no replica": ([(1, 0, (1, 2, 7))], {"not-a-replica": 1}),
}  # fmt: skip
ONLY_ZOOKEEPER = {"isr-grew-in-election", "isr-empty"}


@pytest.mark.parametrize("by", ["log", "watch", "metadata log"])
@pytest.mark.parametrize("case", ["lawful", "broken"])
@judging(check)
def test_states_in_a_row(story: Any, by: str, case: str) -> Asks:
    """Every case is a topic of its own, so that one history tells them all."""
    told = Teller(story, by)
    if case == "lawful":
        for name, states in LAWFUL.items():
            told(*states, topic=name)
        found = yield story
        assert found.verdict([(story.arm, 0)]) == (Verdict.VALID, [])
        assert found.evidence[story.arm, 0, "committed states"] == sum(map(len, LAWFUL.values()))
        return
    if by == "log":
        for name in BROKEN:
            Log(story).topic(1, 2, 3, topic=name)
    for name, (states, _) in BROKEN.items():
        told(*states, topic=name)
    by_topic: dict[str, dict[str, int]] = {name: {} for name in BROKEN}
    for finding in (yield story).findings:
        name = next(name for name in BROKEN if finding.says.startswith(f"{name}-"))
        by_topic[name][finding.rule] = by_topic[name].get(finding.rule, 0) + 1
    for name, (_, rules) in BROKEN.items():
        wanted = {
            rule: n
            for rule, n in rules.items()
            if (by != "metadata log" or rule not in ONLY_ZOOKEEPER)
            and (by == "log" or rule != "not-a-replica")
        }
        assert by_topic[name] == wanted, name


@judging(check)
def test_the_witness_is_both_states(story: Any, spark: Any) -> Asks:
    log = Log(story)
    log.topic(1, 2)
    log.states((1, 0, (1,)), (2, 1, (2,)))
    found = yield story
    violation = next(
        v for v in attach(story.history(spark), found.findings) if v.rule == "unclean-election"
    )
    assert [(e["f"], e["leader"]) for e in violation.events] == [("zk_write", 1), ("zk_write", 2)]


@judging(check)
def test_unclean_where_the_topic_allows_it(story: Any) -> Asks:
    story.run["topics"] = {"t": {"configs": {"unclean.leader.election.enable": "true"}}}
    log = Log(story)
    log.topic(1, 2)
    log.states((1, 0, (1,)), (2, 1, (2,)))
    assert not (yield story).counts


@pytest.mark.parametrize(("elr", "rules"), [([2], {}), ([3], {"unclean-election": 1})])
@judging(check)
def test_who_was_in_sync_last_is_eligible_in_kraft(
    story: Any, elr: list[int], rules: dict[str, int]
) -> Asks:
    states = [(1, [1], elr), (-1, [], elr), (2, [2], [])]
    for copy in ("node-1", "node-2"):
        for number, (leader, isr, able) in enumerate(states):
            told = {"process": copy, "source": "controller", "isr": isr, "elr": able}
            story.commit(number, leader, number, commit_ms=number, **told)
    assert (yield story).counts == rules


@judging(check)
def test_what_a_watch_missed_between_is_not_judged(story: Any) -> Asks:
    story.commit(1, 1, 0, isr=[1], partition_epoch=0)
    story.commit(2, 2, 2, isr=[2], partition_epoch=3)  # which joined, and was elected, between
    assert not (yield story).counts


@judging(check)
def test_moved_replicas_stay_lawful(story: Any) -> Asks:
    """A reassignment: assigned first, in sync later, elected before the old one goes."""
    log = Log(story)
    log.topic(1)
    log.states((1, 0, (1,)))
    log.topic(1, 2, step="set")
    log.states((1, 1, (1,)), (1, 1, (1, 2)), (2, 2, (1, 2)), (2, 3, (2,)), begin=1)
    log.topic(2, step="set")
    assert not (yield story).counts


@judging(check)
def test_a_replica_of_a_namesake_is_none(story: Any) -> Asks:
    log = Log(story)
    log.topic(1, 2)
    log.states((1, 0, (1, 2)))
    story.add("topic_deletion", 90, step="requested")
    log.write("topic", "removed", partition=None)
    log.topic(3)
    log.states((3, 0, (3,)))
    assert not (yield story).counts
    log.states((3, 0, (3, 1)), begin=1)
    assert (yield story).counts == {"not-a-replica": 1}


@judging(check)
def test_a_topic_made_again_begins_anew(story: Any) -> Asks:
    log = Log(story)
    story.add("topic_deletion", 90, step="requested")
    for leader in (1, 2):
        log.topic(1, 2)
        log.states((leader, 0, (1, 2)), (3 - leader, 1, (1, 2)))
        log.write("state", "removed")
        log.write("topic", "removed", partition=None)
    assert not (yield story).counts


@judging(check)
def test_a_state_made_again_in_one_life_of_its_topic(story: Any) -> Asks:
    """Every epoch is forgotten, and brokers that remember them refuse the new leader."""
    log = Log(story)
    log.topic(1, 2)
    log.states((1, 0, (1, 2)), (2, 1, (1, 2)))
    log.write("state", "removed")
    log.states((1, 0, (1, 2)))
    assert (yield story).counts == {"partition-made-twice": 1}


@judging(check)
def test_a_watch_cannot_tell_a_new_life_from_a_fall(story: Any) -> Asks:
    for number, epoch in ((0, 0), (1, 1), (0, 0), (1, 1)):
        story.commit(1, 1, epoch, partition_epoch=number, commit_ms=len(story.rows["leadership"])
                     if "leadership" in story.rows else 0)  # fmt: skip
    assert not (yield story).counts


@judging(check)
def test_a_metadata_log_that_falls(story: Any) -> Asks:
    """There a new life begins with partition epoch 0, and every copy holds that."""
    for ms, number in enumerate((0, 3, 2)):
        for node in (1, 2):
            fields = {"process": f"node-{node}", "source": "controller", "commit_ms": ms}
            story.commit(ms, 1, 0, partition_epoch=number, isr=[1, number], **fields)
    assert (yield story).counts == {"partition-epoch-went-back": 1}


# -- those who act on it --------------------------------------------------------------------------


def role(story: Any, t: float, node: int, role: str, leader: int, epoch: int) -> None:
    story.add("leader_change", t, node=node, role=role, leader=leader, leader_epoch=epoch)


@judging(check)
def test_roles_as_they_were_committed(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(10, 2, 1)
    role(story, 1, 1, "leader", 1, 0)
    role(story, 2, 2, "follower", 1, 0)
    role(story, 11, 2, "leader", 2, 1)
    role(story, 12, 3, "follower", 1, 0)  # late, as it may be
    role(story, 13, 1, "leader", 1, 9)  # nobody saw it committed
    found = yield story
    assert found.verdict([(story.arm, 0)]) == (Verdict.VALID, [])
    assert found.evidence[story.arm, 0, "roles taken"] == 4


@pytest.mark.parametrize(("node", "as_what", "leader"), [(1, "leader", 1), (3, "follower", 1)])
@judging(check)
def test_two_leaders_in_one_epoch(
    story: Any, spark: Any, node: int, as_what: str, leader: int
) -> Asks:
    story.commit(0, 1, 0)
    story.commit(10, 2, 1)
    role(story, 11, 2, "leader", 2, 1)
    role(story, 12, node, as_what, leader, 1)
    found = yield story
    assert found.counts == {"led-by-another": 1}
    (violation,) = attach(story.history(spark), found.findings)
    assert [e["f"] for e in violation.events] == ["leadership", "leader_change"]


@pytest.mark.parametrize(
    ("lie", "excused"), [("future_controller_epoch", True), ("stale_leader_epoch", False)]
)
@judging(check)
def test_a_forger_makes_leaders(story: Any, lie: str, excused: bool) -> Asks:
    story.commit(0, 1, 0)
    story.commit(10, 2, 1)
    for t in range(4):
        role(story, 11 + t, 2, "leader", 2, 1)
    told = {"leader": 3, "leader_epoch": 1, "error": 0}
    story.add("forged", 20, node=3, api="LEADER_AND_ISR", lie=lie, **told)
    role(story, 19.5, 3, "leader", 3, 1)
    found = yield story
    assert found.counts == ({} if excused else {"led-by-another": 1})
    assert sum(found.excused.values()) == int(excused)


def told_by_controller(story: Any, t: float, node: int, **more: Any) -> None:
    """A controller's request to a broker, and what it heard of it."""
    same = {"node": 9, "boot": 1, "to": node, "api": "LEADER_AND_ISR", "correlation_id": int(t)}
    part = {"topic": "t", "partition": 0, "leader": more.pop("leader", 2)}
    part["leader_epoch"] = more.pop("leader_epoch", 0)
    story.add("control_send", t - 1, controller_epoch=4, partitions=[part], **same)
    story.add("control_response", t, send_t=t - 1, **{"error": 0, **same, **more})


TOLD: dict[str, tuple[Any, bool]] = {
    "by its own word before": (lambda s: s.handled(15, 3, controller_epoch=4), False),
    "by its own word after": (lambda s: s.handled(30, 3, controller_epoch=4), True),
    "as the controller says before": (lambda s: told_by_controller(s, 15, 3), False),
    "as the controller says after": (lambda s: told_by_controller(s, 30, 3), True),
    "another before, itself after": (
        lambda s: (s.handled(15, 2, controller_epoch=4), s.handled(30, 3, controller_epoch=4)),
        True,
    ),
    "refused before, told after": (
        lambda s: (
            told_by_controller(s, 15, 3, error=77),
            s.handled(30, 3, controller_epoch=4),
        ),
        True,
    ),
    "refused by itself before": (
        lambda s: (
            s.handled(15, 3, controller_epoch=4, error=77),
            s.handled(30, 3, controller_epoch=4),
        ),
        True,
    ),
    "in a former life, and again": (
        lambda s: (
            s.handled(15, 3, controller_epoch=4),
            s.add("node_event", 17, node=3, event="start"),
            s.handled(30, 3, controller_epoch=4),
        ),
        True,
    ),
    "in a life to come": (
        lambda s: (
            s.add("node_event", 25, node=3, event="start"),
            s.handled(30, 3, controller_epoch=4),
        ),
        False,
    ),
    "nobody says": (lambda s: s.handled(15, 3, controller_epoch=3), False),
}


@pytest.mark.parametrize("how", TOLD)
@judging(check)
def test_a_controller_of_the_past_is_obeyed_by_who_was_not_told(story: Any, how: str) -> Asks:
    story.commit(0, 1, 0)
    story.commit(10, 2, 1)
    for t in range(4):
        role(story, 11 + t, 2, "leader", 2, 1)
    lie = {"lie": "stale_controller_epoch", "controller_epoch": 3, "leader": 3, "leader_epoch": 1}
    story.add("forged", 20, node=3, api="LEADER_AND_ISR", invoke_t=19, error=0, **lie)
    role(story, 19.5, 3, "leader", 3, 1)
    tell, excused = TOLD[how]
    tell(story)
    found = yield story
    assert found.counts == ({} if excused else {"led-by-another": 1})
    assert sum(found.excused.values()) == int(excused)


@pytest.mark.parametrize(
    ("told", "excused"),
    [
        ({15: 2}, False),
        ({30: 2}, True),
        ({30: 1}, False),
        ({15: 0}, False),
        ({15: 0, 30: 2}, True),
        ({15: 1, 30: 2}, False),  # an equal one is refused, too
        ({15: -1, 30: 2}, True),  # one that names no leader binds nobody
        ({15: -1}, True),
    ],
)
@judging(check)
def test_a_leader_epoch_of_the_past_is_obeyed_by_who_was_not_told(
    story: Any, told: dict[float, int], excused: bool
) -> Asks:
    story.commit(0, 1, 0)
    story.commit(9, 2, 1)
    story.commit(10, 2, 2)
    for at in range(4):
        role(story, 11 + at, 2, "leader", 2, 2)
    lie = {"lie": "stale_leader_epoch", "controller_epoch": 4, "leader": 3, "leader_epoch": 1}
    story.add("forged", 20, node=3, api="LEADER_AND_ISR", invoke_t=19, error=0, **lie)
    for t, leader_epoch in told.items():
        of = (
            {"leader_epoch": 2, "leader": -1}
            if leader_epoch < 0
            else {"leader_epoch": leader_epoch}
        )
        told_by_controller(story, t, 3, **of)
    role(story, 19.5, 3, "leader", 3, 1)
    assert (yield story).counts == ({} if excused else {"led-by-another": 1})


@judging(check)
def test_an_acknowledgement_from_another(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(10, 2, 1)
    story.produce(5, 1, 0, node=1, leader_epoch=0)
    story.produce(12, 2, 1, node=1, leader_epoch=0)  # it has not heard yet
    story.produce(13, 3, 1, node=2, leader_epoch=1)
    story.produce(14, 4, None, node=3, leader_epoch=1, type="fail")  # asked, and refused
    assert not (yield story).counts
    story.produce(15, 5, 2, node=3, leader_epoch=1)
    assert (yield apart(story)).counts == {"served-by-another": 1}
    lie = {"lie": "future_controller_epoch", "api": "UPDATE_METADATA", "error": 0}
    story.add("forged", 12, node=1, leader=3, leader_epoch=1, **lie)  # who may have told the client
    assert not (yield story).counts


@pytest.mark.parametrize(
    ("made", "wrong"), [((1, 2, 3), False), ((2, 1, 3), True), ((1, 2), True), ((1, 2, 4), True)]
)
@judging(check)
def test_a_topic_is_made_as_was_asked_for(story: Any, made: tuple[int, ...], wrong: bool) -> Asks:
    story.run["topics"] = {"t": {"assignment": {"0": [1, 2, 3]}}}
    log = Log(story)
    log.topic(*made)
    log.states((1, 0, (1, 2)))
    log.topic(2, 1, step="set")  # it is moved: what was asked for then is another thing
    log.topic(1, topic="another")
    assert (yield story).counts == ({"assigned-otherwise": 1} if wrong else {})


@pytest.mark.parametrize(
    ("how", "broken"),
    [
        ("asked for", False),
        ("asked for, within the error", False),
        ("never ended", False),
        ("vanished", True),
        ("vanished, by the watch alone", True),
        ("asked for later", True),
        ("another was asked for", True),
    ],
)
@judging(check)
def test_a_topic_goes_only_when_somebody_asked_for_it(story: Any, how: str, broken: bool) -> Asks:
    log = Log(story)
    log.topic(1)
    log.states((1, 0, (1,)))
    if "asked for" in how or how == "never ended":
        late = {"asked for later": 130, "asked for, within the error": 101}
        topic = "u" if how.startswith("another") else "t"
        story.add("topic_deletion", late.get(how, 90), step="requested", error_ns=1_000_000,
                  topic=topic)  # fmt: skip
    if how not in ("never ended", "vanished, by the watch alone"):
        log.topic(step="removed")
    if how == "vanished, by the watch alone":
        story.add("topic_deletion", 110, step="gone")
    assert (yield story).counts == ({"topic-vanished": 1} if broken else {})

"""Handing over, both ways: broker 1 leads a partition and is stopped at 10 s."""

from __future__ import annotations

import json
from typing import Any

from checkers.judging.witness import Finding
from checkers.promises.handing_over import HANDED, LEFT, REGISTERED, STOPS, check
from tests.checkers.conftest import ARM, Story, judged_together

S = 1000.0


class Cluster(Story):
    """Three registered brokers, 3 the controller, partition t-0 led by 1; times in ms."""

    def __init__(self) -> None:
        super().__init__()
        self._zxid = 0
        for node in (1, 2, 3):
            self.node(0, node, "start")
            self.zk(100, "broker", "created", node=node)
        self.zk(200, "controller", "created", node=3)
        self.lead(300, 1)

    def zk(self, t: float, what: str, step: str, **fields: Any) -> None:
        self._zxid += 1
        fields = {"error_ns": 1_500_000, "zxid": self._zxid, "what": what, "step": step} | fields
        if what not in ("state", "topic"):
            fields = {"topic": None, "partition": None} | fields
        self.add("zk_write", t, **fields)

    def lead(self, t: float, leader: int, *isr: int, step: str = "set") -> None:
        self.zk(t, "state", step, leader=leader, isr=list(isr or (1, 2, 3)))

    def node(self, t: float, node: int, event: str, **detail: Any) -> None:
        self.add("node_event", t, node=node, event=event, detail=json.dumps(detail))

    def fault(self, name: str, from_t: float, to_t: float | None = None) -> None:
        for t, phase in ((from_t, "inject"), (from_t + 50, "injected"), (to_t, "healed")):
            if t is not None:
                self.add("fault", t, fault=name, id=name, phase=phase)

    def answer(self, t: float, *, took: float = 0.001, **fields: Any) -> None:
        """What came of an order (s)."""
        sent = (t - took) * S
        self.add("control_response", t * S, send_t=sent, correlation_id=1, **fields)

    def stop(self, *, handed: bool, graceful: bool = True, back: float | None = 14 * S) -> Cluster:
        """Broker 1 is stopped by a fault at 10 s and gone at 12."""
        self.fault("stop", 9.9 * S, back)
        self.node(10 * S, 1, "stop")
        if handed:
            self.lead(10.1 * S, 2, 2, 3)
        self.zk(12 * S, "broker", "removed", node=1)
        self.node(12.1 * S, 1, "stopped", graceful=graceful)
        if back:
            self.node(back, 1, "start")
        return self


def paused() -> Cluster:
    cluster = Cluster()
    cluster.node(9.5 * S, 3, "pause")
    cluster.stop(handed=False)
    cluster.node(12.5 * S, 3, "resume")
    return cluster


def with_fault(from_t: float, to_t: float | None) -> Cluster:
    cluster = Cluster()
    cluster.fault("flood", from_t, to_t)
    return cluster.stop(handed=False)


def with_office(t: float) -> Cluster:
    cluster = Cluster()
    cluster.zk(t, "controller", "created", node=2)
    return cluster.stop(handed=False)


def slow(what: str, t: float, *isr: int) -> Cluster:
    """Broker 1 takes 8 s to go; meanwhile something else happens."""
    cluster = Cluster()
    cluster.lead(400, 1, *isr)
    cluster.fault("stop", 9.9 * S, 20 * S)
    cluster.node(10 * S, 1, "stop")
    if what == "fault":
        cluster.fault("kill", t, 19 * S)
        cluster.node(t, 2, "kill")
        if not isr:
            cluster.lead(t + S, 1, 1, 3)
    else:
        cluster.zk(t, "controller", "created", node=2)
    cluster.zk(18 * S, "broker", "removed", node=1)
    cluster.node(18.1 * S, 1, "stopped", graceful=True)
    cluster.node(20 * S, 1, "start")
    return cluster


def led(t: float, leader: int, *isr: int, step: str = "set") -> Cluster:
    cluster = Cluster()
    cluster.lead(t, leader, *isr, step=step)
    return cluster.stop(handed=False)


def meanwhile(leader: int, isr: list[int], then: int, then_isr: list[int]) -> Cluster:
    """What was so before the stop, and what was written while it lasted."""
    cluster = Cluster()
    cluster.lead(1 * S, leader, *isr)
    cluster.fault("stop", 9.9 * S, 14 * S)
    cluster.node(10 * S, 1, "stop")
    cluster.lead(11 * S, then, *then_isr)
    cluster.zk(12 * S, "broker", "removed", node=1)
    cluster.node(12.1 * S, 1, "stopped", graceful=True)
    cluster.node(14 * S, 1, "start")
    return cluster


def too_late() -> Cluster:
    cluster = Cluster().stop(handed=False)
    cluster.lead(12.05 * S, 2, 2, 3)
    return cluster


def dying() -> Cluster:
    cluster = Cluster()
    cluster.add("topic_deletion", 9 * S, step="requested")
    return cluster.stop(handed=False)


def heir_gone() -> Cluster:
    cluster = led(1 * S, 1, 1, 2)
    cluster.rows["zk_write"].sort(key=lambda row: row["t"])
    cluster.zk(5 * S, "broker", "removed", node=2)
    for zxid, row in enumerate(sorted(cluster.rows["zk_write"], key=lambda r: r["t"]), start=1):
        row["zxid"] = zxid
    return cluster


def by_the_controller() -> Cluster:
    """It is the controller that is stopped: its office goes with its session."""
    cluster = Cluster()
    cluster.lead(400, 3)
    cluster.fault("stop", 9.9 * S, 14 * S)
    cluster.node(10 * S, 3, "stop")
    cluster.zk(12 * S, "controller", "removed", node=3)
    cluster.zk(12 * S, "broker", "removed", node=3, zxid=cluster._zxid)
    cluster.node(12.1 * S, 3, "stopped", graceful=True)
    cluster.node(14 * S, 3, "start")
    return cluster


BROKEN = {
    "nobody else was given it": Cluster().stop(handed=False),
    "another fault was over long before": with_fault(2 * S, 7 * S),
    "the office changed hands long before": with_office(5 * S),
    "one other is in sync": led(1 * S, 1, 1, 2),
    "the controller itself": by_the_controller(),
    "another was elected when it had gone": too_late(),
    "another fault when it was long asked": slow("fault", 13 * S),
    "a new controller when it was long asked": slow("office", 13 * S),
}
LAWFUL = {
    "handed over": Cluster().stop(handed=True),
    "killed in the end": Cluster().stop(handed=False, graceful=False),
    "the end of the run": Cluster().stop(handed=False, back=None),
    "another fault": with_fault(8 * S, 11 * S),
    "another fault, for ever": with_fault(2 * S, None),
    "a new controller": with_office(9 * S),
    "another fault when it was just asked": slow("fault", 11 * S),
    "a new controller when it was just asked": slow("office", 11 * S),
    "a controller that is paused": paused(),
    "nobody else in sync": led(1 * S, 1, 1),
    "another leads": led(1 * S, 2, 2, 3),
    "the topic is being deleted": dying(),
    "the only one in sync died meanwhile": slow("fault", 13 * S, 1, 2),
    "another came into the in-sync set meanwhile": meanwhile(1, [1], 1, [1, 2]),
    "the others left the in-sync set meanwhile": meanwhile(1, [1, 2], 1, [1, 3]),
    "it was given the lead meanwhile": meanwhile(2, [1, 2], 1, [1, 2]),
    "who is in sync is not registered": heir_gone(),
    "the topic was removed": led(1 * S, 1, 1, 2, step="removed"),
}


def test_what_is_found_and_what_is_not(spark: Any) -> None:
    """No more than `Finding.KEPT` broken ones at a time: of a rule no more findings are kept."""
    names = list(BROKEN)
    for broken, lawful in ((names[: Finding.KEPT], LAWFUL), (names[Finding.KEPT :], {})):
        found = judged_together(spark, check, {**{n: BROKEN[n] for n in broken}, **lawful})
        assert {name: rules for name, (rules, _) in found.items()} == {
            **{name: {"left-leading": 1} for name in broken},
            **{name: {} for name in lawful},
        }


def given_up(*states: tuple[int, list[int]], leader: int = 1) -> Cluster:
    """Broker 1 is in sync, and leads unless ``leader`` does, when its stop begins; then these are
    its partition's leaders and in-sync sets, one after the other, until it is gone."""
    cluster = Cluster()
    cluster.lead(1 * S, leader)
    cluster.fault("stop", 9.9 * S, 14 * S)
    cluster.node(10 * S, 1, "stop")
    for number, (then, isr) in enumerate(states):
        cluster.lead(10.1 * S + 100 * number, then, *isr)
    cluster.zk(12 * S, "broker", "removed", node=1)
    cluster.node(12.1 * S, 1, "stopped", graceful=True)
    cluster.node(14 * S, 1, "start")
    return cluster


LEFT_IN_SYNC = {
    "another was elected, and it stayed in sync": (given_up((2, [1, 2, 3])), 1),
    "another, and then the set changed": (given_up((2, [1, 2, 3]), (2, [1, 2])), 1),
    "it followed, and nobody took it out": (given_up(leader=2), 1),
    "it was taken out in the election": (given_up((2, [2, 3])), 0),
    "it was taken out after the election": (given_up((2, [1, 2, 3]), (2, [2, 3])), 0),
    "it followed, and was taken out": (given_up((2, [2, 3]), leader=2), 0),
    "it was taken out, and its new leader let it in": (given_up((2, [2, 3]), (2, [1, 2, 3])), 0),
    "nobody else is in sync": (given_up((1, [1]), leader=1), 0),
}


def test_who_goes_leaves_the_in_sync_sets(spark: Any) -> None:
    stories = {name: story for name, (story, _) in LEFT_IN_SYNC.items()}
    found = judged_together(spark, check, stories)
    told = {name: rules.get("left-in-sync", 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in LEFT_IN_SYNC.items()}
    outcome = check(given_up((2, [2, 3]), leader=2).history(spark))
    assert outcome.evidence[ARM, 0, LEFT] == 1


def stayed(gone: float, *others: tuple[str, float], handed: float = 10.1, **more: Any) -> Cluster:
    """Broker 1 is stopped at 10 s, leads nothing from ``handed`` on, and is registered until
    ``gone`` (s); others are elected controller, or hit by a fault, meanwhile. ``replicas``: those
    that the partition was made with."""
    cluster = Cluster()
    if "replicas" in more:
        cluster.zk(9 * S, "topic", "created", replicas=more["replicas"])
    cluster.fault("stop", 9.9 * S, (gone + 2) * S)
    cluster.node(10 * S, 1, "stop")
    events = [(handed, "handed"), *((t, what) for what, t in others)]
    for t, what in sorted(events):
        if what == "handed":
            cluster.lead(t * S, *more.get("lead", (2, 2, 3)))
        elif what == "office":
            cluster.zk(t * S, "controller", "created", node=2)
        else:
            cluster.fault("kill", t * S, (t + 1) * S)
    cluster.zk(gone * S, "broker", "removed", node=1)
    cluster.node((gone + 0.1) * S, 1, "stopped", graceful=True)
    cluster.node((gone + 2) * S, 1, "start")
    return cluster


STAYED = {
    "it asks three times again": (stayed(25.2), 1),
    "it goes soon": (stayed(10.5), 0),
    "it takes its time": (stayed(17), 0),
    "it was relieved late": (stayed(25.2, handed=20), 0),
    "it asks three times": (stayed(20.8), 1),
    "it leads to the end": (stayed(25.2, lead=(1, 1)), 0),
    "it leads what nobody else could lead": (
        stayed(25.2, lead=(1, 1), replicas=[1]),
        1,
    ),
    "nobody else is in sync to the end": (stayed(25.2, lead=(1, 1), replicas=[1, 2]), 0),
    "another is elected meanwhile": (stayed(25.2, ("office", 18)), 0),
    "another fault meanwhile": (stayed(25.2, ("fault", 18)), 0),
}


def test_who_was_relieved_goes(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in STAYED.items()})
    told = {name: rules.get("stayed-on", 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in STAYED.items()}


def asked(
    *times: float, gone: float = 15.5, led: bool = True, fault: float | None = None, **more: Any
) -> Cluster:
    """As `stayed`; its controller is asked to let it go in the seconds that end at these times."""
    cluster = stayed(gone, *([("fault", fault)] if fault else []), **more)
    if not led:
        cluster.rows["zk_write"] = [
            row for row in cluster.rows["zk_write"] if row["what"] != "state"
        ]
        cluster.lead(0.3 * S, 2)
    for t in times:
        use = {"plane": "data", "listener": "L", "api": "CONTROLLED_SHUTDOWN", "requests": 1}
        cluster.add("plane_use", t * S, node=3, interval_ns=1_000_000_000, **use)
    other = {"plane": "data", "listener": "L", "api": "ALTER_PARTITION", "requests": 1}
    cluster.add("plane_use", 14 * S, node=3, interval_ns=1_000_000_000, **other)
    return cluster


ASKED = {
    "told that it has it still": (asked(10.6, 15.6), 1),
    "and once more": (asked(10.6, 15.6, 20.6, gone=21), 1),
    "told that it has nothing": (asked(10.6), 0),
    "counted a second later": (asked(11.6), 0),
    "it had it still": (asked(10.6, 15.6, handed=15.2), 0),
    "another's, afterwards": (asked(10.6, 18), 0),
    "it had led nothing, and began late": (asked(15.2, led=False), 0),
    "another fault meanwhile": (asked(10.6, 15.6, fault=13), 0),
}


def test_who_leads_nothing_any_more_is_told_so(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in ASKED.items()})
    told = {name: rules.get("asked-again", 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in ASKED.items()}
    (finding,) = check(ASKED["told that it has it still"][0].history(spark)).findings
    assert "more than 4.5 s after" in finding.says


def hears(
    lost: float = 10.2,
    *,
    heard: float | None = 6,
    until: float = 10.4,
    epoch: int | None = 5,
    failure: str = "disconnect",
    fault: tuple[float, float] | None = None,
    **more: Any,
) -> Cluster:
    """Broker 1 is stopped at 10 s; its controller is told by it at ``heard`` and not at ``lost``
    (s), and takes it out of the last in-sync set at ``until``, in leader ``epoch`` after 4."""
    cluster = Cluster()
    followed: dict[str, Any] = {"what": "state", "step": "set", "leader": 2, "partition": 1}
    cluster.zk(1 * S, isr=[1, 2, 3], leader_epoch=4, **followed)
    if fault is not None:
        cluster.fault("cut", fault[0] * S, fault[1] * S)
    cluster.fault("stop", 9.9 * S, 24 * S)
    cluster.node(10 * S, 1, "stop")
    cluster.lead(10.1 * S, 2, 2, 3)
    cluster.zk(until * S, isr=more.get("isr", [2, 3]), leader_epoch=epoch, **followed)
    cluster.zk(20 * S, "broker", "removed", node=1)
    cluster.node(20.1 * S, 1, "stopped", graceful=True)
    cluster.node(24 * S, 1, "start")
    order = {"node": 3, "boot": 1, "to": more.get("to", 1), "api": "LEADER_AND_ISR"}
    if heard is not None:
        cluster.answer(heard, error=0, **order)
    cluster.answer(lost, failure=failure, took=more.get("took", 0.001), **order)
    cluster.answer(lost + 0.1, failure="disconnect", **order)
    return cluster


HEARS = {
    "while it is relieved": (hears(), 1),
    "all was written by then": (hears(10.5), 0),
    "all was written just then": (hears(10.39), 0),
    "it was sent before the stop": (hears(10.001, took=0.01), 0),
    "it was never reached": (hears(heard=None), 0),
    "its link was cut in between": (hears(fault=(5, 7)), 0),
    "its link was cut before": (hears(fault=(4, 5.5)), 1),
    "another broker does not hear": (hears(to=2), 0),
    "no answer in time": (hears(failure="timeout"), 0),
    "its leader takes it out by itself": (hears(epoch=4), 0),
    "no leader epoch is known": (hears(epoch=None), 0),
    "it is not taken out": (hears(isr=[1, 2, 3]), 0),
    "it may have given up by then": (hears(15.2, until=15.4), 0),
    "it was late": (hears(14.5, until=14.8), 1),
}


def test_who_is_being_stopped_hears_its_controller_until_it_is_relieved(spark: Any) -> None:
    judged = judged_together(spark, check, {name: story for name, (story, _) in HEARS.items()})
    told = {name: rules.get("would-not-hear", 0) for name, (rules, _) in judged.items()}
    assert told == {name: n for name, (_, n) in HEARS.items()}
    found = check(hears().history(spark)).findings
    (finding,) = (finding for finding in found if finding.rule == "would-not-hear")
    assert "199 ms later, while its controller was relieving it, LEADER_AND_ISR" in finding.says


def joined(
    *states: tuple[float, int, tuple[int, ...]], partition: int = 0, may: bool = False
) -> Cluster:
    """Another leads when broker 1 is stopped at 10 s; then states (s, leader, in sync) follow, and
    its registration goes at 12 s."""
    cluster = Cluster()
    facts = {**cluster.run["arms"][ARM], "stopping_may_join": may}
    cluster.run = {**cluster.run, "arms": {ARM: facts}}
    first = {"what": "state", "step": "created", "partition": 1}
    cluster.zk(310, leader=2, isr=[1, 2, 3], **first)
    cluster.fault("stop", 9.9 * S, 14 * S)
    cluster.node(10 * S, 1, "stop")
    for t, leader, isr in sorted([*states, (12, None, ())], key=lambda state: state[0]):
        if leader is None:
            cluster.zk(t * S, "broker", "removed", node=1)
            continue
        cluster.zk(t * S, "state", "set", leader=leader, isr=list(isr), partition=partition)
        if t == states[0][0]:
            cluster.zk(t * S + 50, "state", "set", leader=2, isr=[2, 3], partition=1 - partition)
    cluster.node(12.1 * S, 1, "stopped", graceful=True)
    cluster.node(14 * S, 1, "start")
    return cluster


HANDED_OVER = (10.1, 2, (2, 3))
JOINED = {
    "where it had led": (joined(HANDED_OVER, (10.5, 2, (2, 3, 1))), 1),
    "where it had followed": (
        joined((10.1, 2, (2, 3)), (10.5, 2, (2, 3, 1)), partition=1),
        1,
    ),
    "again and again": (
        joined(HANDED_OVER, (10.5, 2, (2, 3, 1)), (10.6, 2, (2, 3)), (10.7, 2, (2, 3, 1))),
        1,
    ),
    "with an election": (joined(HANDED_OVER, (10.5, 3, (3, 1))), 1),
    "another comes back": (joined((10.1, 2, (2,)), (10.5, 2, (2, 3))), 0),
    "it stays out": (joined(HANDED_OVER, (10.5, 3, (2, 3))), 0),
    "its controller does not know yet": (
        joined((10.1, 1, (1, 2)), (10.5, 1, (1, 2, 3)), (10.9, 2, (2, 3))),
        0,
    ),
    "it lagged before it was relieved": (
        joined((10.1, 2, (2, 3)), (10.2, 2, (1, 2, 3)), partition=1),
        1,
    ),
    "once it is gone": (joined(HANDED_OVER, (13, 2, (2, 3, 1))), 0),
    "an old release": (joined(HANDED_OVER, (10.5, 2, (2, 3, 1)), may=True), 0),
}


def test_who_is_being_stopped_stays_out_of_sync(spark: Any) -> None:
    found = judged_together(spark, check, {name: story for name, (story, _) in JOINED.items()})
    told = {name: rules.get("joined-while-stopping", 0) for name, (rules, _) in found.items()}
    assert told == {name: n for name, (_, n) in JOINED.items()}


def test_what_was_judged_is_counted_and_the_rest_is_named(spark: Any) -> None:
    outcome = check(Cluster().stop(handed=True).history(spark))
    assert outcome.evidence == {
        (ARM, 0, REGISTERED): 3,
        (ARM, 0, STOPS): 1,
        (ARM, 0, HANDED): 1,
    }
    assert outcome.not_judged == []
    outcome = check(with_fault(8 * S, 11 * S).history(spark))
    assert outcome.evidence == {(ARM, 0, REGISTERED): 3, (ARM, 0, STOPS): 1}
    assert "while flood was in place" in outcome.not_judged[0]
    story = Story()
    story.add("node_event", 1, node=1, event="start", detail="{}")
    outcome = check(story.history(spark))
    assert "without ZooKeeper's own log" in outcome.not_judged[0]

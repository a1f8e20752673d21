"""Succession, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.facts.in_sync_writes import LEADERS
from checkers.facts.office import EPOCH_LATER, elections
from checkers.judging.verdict import Verdict
from checkers.judging.witness import attach
from checkers.promises.succession import LIVED_ON, check
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, apart, judging


def elect(story: Any, t: float, node: int, controller_epoch: int) -> None:
    story.add("controller", t, node=node, event="elected", controller_epoch=controller_epoch)


def decide(story: Any, t: float, leader_epoch: int, controller_epoch: int, **more: Any) -> None:
    fields = {"leader": 1, "commit_ms": int(t), "controller_epoch": controller_epoch, **more}
    story.commit(t, fields.pop("leader"), leader_epoch, **fields)


def depose(story: Any, t: float, successor_epoch: int) -> None:
    detail = json.dumps({"successor_epoch": successor_epoch})
    for phase, at in (("inject", t), ("injected", t + 3000)):
        story.add("fault", at, fault="depose-controller", id="d", phase=phase, detail=detail)


@judging(check)
def test_each_decides_in_its_time(story: Any) -> Asks:
    elect(story, 10, 1, 4)
    decide(story, 100, 0, 4)
    decide(story, 2100, 1, 4)
    depose(story, 200, 5)
    elect(story, 2200, 2, 5)
    decide(story, 2300, 2, 5)
    found = yield story
    assert found.verdict() == (Verdict.VALID, [])
    figures = found.arms[story.arm]
    assert (figures["elections"], figures["decisions"]) == (2, 3)
    assert figures["takeover"]["count"] == 1
    assert figures["takeover"]["max_ms"] == pytest.approx(2000)


@judging(check)
def test_an_old_controller_decides_later(story: Any, spark: Any) -> Asks:
    elect(story, 10, 1, 4)
    decide(story, 100, 0, 5, commit_ms=None)
    decide(story, 200, 1, 4, commit_ms=None)
    found = yield story
    assert found.counts == {"old-controller-decided": 1}
    (violation,) = attach(story.history(spark), found.findings)
    assert [e["controller_epoch"] for e in violation.events] == [5, 4]


def copied(story: Any, t: float, controller_epoch: int, partition: int = 0, **more: Any) -> None:
    """In both copies of a metadata log."""
    for process in ("node-1", "node-2"):
        own = {"partition_epoch": 0, "partition": partition, **more}
        decide(story, t, 0, controller_epoch, source="controller", process=process, **own)


@pytest.mark.parametrize(
    ("t", "epoch", "rules"),
    [
        (100, 4, []),
        (300, 4, ["decided-after-succession", "old-controller-decided"]),
        (200, 4, ["decided-after-succession"]),  # nobody knows which came first in a millisecond
        (300, 5, []),
        (300, 6, ["decided-out-of-office"]),
        (90, 5, ["old-controller-decided"]),  # before any was elected so
    ],
)
@judging(check)
def test_epochs_grow_along_a_metadata_log(
    story: Any, t: float, epoch: int, rules: list[str]
) -> Asks:
    elect(story, 10, 1, 4)
    elect(story, 150, 2, 5)
    copied(story, 100, 4)
    copied(story, 200, 5, 1)
    copied(story, t, epoch, 2)
    found = yield story
    assert found.counts == dict.fromkeys(rules, 1)


@judging(check)
def test_one_partition_epoch_with_two_states(story: Any) -> Asks:
    elect(story, 10, 1, 4)
    decide(story, 100, 1, 4, partition_epoch=3)
    decide(story, 101, 1, 4, partition_epoch=3, leader=2, source="controller", process="n1")
    decide(story, 101, 1, 4, partition_epoch=3, leader=2, source="controller", process="n2")
    assert (yield story).counts == {"two-decisions": 1}


@judging(check)
def test_what_one_copy_alone_holds_was_never_committed(story: Any) -> Asks:
    elect(story, 10, 1, 4)
    elect(story, 500, 2, 5)
    decide(story, 100, 0, 4, source="controller", process="node-1")
    decide(story, 100, 0, 4, source="controller", process="node-2")
    decide(story, 900, 1, 4, source="controller", process="node-1")
    found = yield story
    assert found.verdict() == (Verdict.VALID, [])
    assert found.looked_at == 1


@judging(check)
def test_written_after_the_election_of_another(story: Any, spark: Any) -> Asks:
    elect(story, 10, 1, 4)
    elect(story, 500, 2, 5)
    decide(story, 100, 0, 4)
    decide(story, 900, 1, 4)
    found = yield story
    assert found.counts == {"decided-after-succession": 1}
    (violation,) = attach(story.history(spark), found.findings)
    # Who decided, who was in office by then, and what was decided all the same.
    assert [(e["f"], e["controller_epoch"]) for e in violation.events] == [
        ("controller", 4),
        ("controller", 5),
        ("leadership", 4),
    ]
    assert "by controller epoch 4, was written at least" in violation.says
    assert "elected with controller epoch 5" in violation.says


@judging(check)
def test_a_watch_that_was_late_is_no_late_decision(story: Any) -> Asks:
    elect(story, 10, 1, 4)
    elect(story, 500, 2, 5)
    decide(story, 900, 0, 4, commit_ms=499)
    assert (yield story).verdict() == (Verdict.VALID, [])


@judging(check)
def test_a_topic_that_was_created_again_begins_anew(story: Any) -> Asks:
    elect(story, 10, 1, 4)
    decide(story, 100, 3, 5, commit_ms=None)
    decide(story, 200, 0, 4, commit_ms=None)
    assert not (yield story).counts


@judging(check)
def test_without_elections_there_is_nothing_to_hold_decisions_against(story: Any) -> Asks:
    decide(story, 100, 0, 4)
    depose(story, 200, 5)
    verdict, reasons = (yield story).verdict()
    assert verdict is Verdict.UNKNOWN
    assert len(reasons) == 2


@judging(check)
def test_each_life_of_a_topic_is_judged(story: Any) -> Asks:
    """An old controller that decides about a namesake is found, too."""
    elect(story, 10, 1, 4)
    decide(story, 100, 1, 4)
    decide(story, 200, 0, 5)
    decide(story, 300, 1, 4)
    assert (yield story).counts == {"old-controller-decided": 1}


# -- the office, by ZooKeeper's log ---------------------------------------------------------------


class Log:
    """ZooKeeper's log, transaction by transaction; all in one millisecond."""

    def __init__(self, story: Any) -> None:
        self.story, self.zxid = story, 0

    def write(self, *parts: dict[str, Any]) -> None:
        self.zxid += 1
        for part in parts:
            self.story.add("zk_write", 50, **{"step": "set", "zxid": self.zxid, **part})

    def raises(self, controller_epoch: int) -> dict[str, Any]:
        return {"what": "controller_epoch", "controller_epoch": controller_epoch}

    def elect(self, node: int, controller_epoch: int) -> None:
        taken = {"what": "controller", "step": "created", "node": node}
        self.write(taken, self.raises(controller_epoch))

    def resign(self, node: int) -> None:
        self.write({"what": "controller", "step": "removed", "node": node})

    def decide(self, version: int, controller_epoch: int, **more: Any) -> None:
        state = {"leader": 1, "leader_epoch": version, "isr": [1, 2, 3], **more}
        self.write(
            {
                "what": "state",
                "step": "set" if version else "created",
                "partition_epoch": version,
                "controller_epoch": controller_epoch,
                **state,
            }
        )


def office(story: Any) -> Log:
    """One controller, its first decision, and its successor."""
    log = Log(story)
    log.write({**log.raises(0), "step": "created"})
    log.elect(1, 1)
    log.decide(0, 1)
    log.resign(1)
    log.decide(1, 1)  # its last, under way as its session ended: nobody else is in office yet
    log.elect(2, 2)
    return log


@judging(check, log=office)
def test_an_orderly_office(story: Any, log: Log) -> Asks:
    log.decide(2, 2)
    elect(story, 10, 1, 1)  # node 2 was stopped before it could say so
    for epoch, ruler in ((0, 1), (1, 1), (2, 2)):
        more = {"source": "controller", "commit_ms": None, "process": f"node-{ruler}"}
        decide(story, 60 + epoch, epoch, ruler, **more)
    found = yield story
    assert found.verdict([(story.arm, 0)]) == (Verdict.VALID, [])
    assert found.evidence[story.arm, 0, "decisions"] == 3


@pytest.mark.parametrize("how", ["of the past", "of the future"])
@judging(check, log=office)
def test_a_decision_under_another_epoch(story: Any, spark: Any, log: Log, how: str) -> Asks:
    log.decide(2, 1 if how == "of the past" else 3)
    found = yield story
    assert found.counts.pop("old-controller-decided", 0) == 0
    assert found.counts == {"decided-out-of-office": 1}
    (violation,) = attach(story.history(spark), found.findings)
    assert [e["what"] for e in violation.events] == ["controller_epoch", "state"]


@pytest.mark.parametrize(
    ("leaders_write", "more", "found"),
    [
        (True, {}, False),
        (False, {}, True),
        (True, {"leader": 2}, True),
        (True, {"leader_epoch": 2}, True),
    ],
)
@judging(check, log=office)
def test_a_leader_may_write_its_in_sync_set_under_the_epoch_that_made_it_one(
    story: Any, log: Log, leaders_write: bool, more: dict[str, int], found: bool
) -> Asks:
    story.run["arms"][story.arm][LEADERS] = leaders_write
    log.decide(2, 1, **{"leader_epoch": 1, "isr": [1, 2], **more})
    assert ("decided-out-of-office" in (yield story).counts) is found


@pytest.mark.parametrize(("leaders_write", "found"), [(True, False), (False, True)])
@judging(check)
def test_a_leaders_own_write_after_a_succession(
    story: Any, leaders_write: bool, found: bool
) -> Asks:
    story.run["arms"][story.arm][LEADERS] = leaders_write
    elect(story, 10, 1, 4)
    decide(story, 100, 0, 4)
    elect(story, 500, 2, 5)
    decide(story, 900, 0, 4, partition_epoch=1, isr=[1, 2])
    counts = (yield story).counts
    assert counts == ({"decided-after-succession": 1} if found else {})


@pytest.mark.parametrize("epoch", [2, 1, 4])
@judging(check, log=office)
def test_an_epoch_that_is_not_the_next(story: Any, log: Log, epoch: int) -> Asks:
    log.resign(2)
    log.elect(3, epoch)
    assert (yield story).counts["office-without-epoch"] == 1


TAKEN: dict[str, Any] = {"what": "controller", "step": "created", "node": 3}


def raised_to(epoch: int) -> dict[str, Any]:
    return {"what": "controller_epoch", "step": "set", "controller_epoch": epoch}


@judging(check, log=office)
def test_an_office_taken_without_an_epoch(story: Any, log: Log) -> Asks:
    log.resign(2)
    log.write({"what": "controller", "step": "created", "node": 3})
    assert (yield story).counts == {"office-without-epoch": 1}


IN_TWO_WRITES: dict[str, tuple[list[dict[str, Any]], bool]] = {
    "taken, then raised": ([TAKEN, raised_to(3)], True),
    "taken, then raised by two": ([TAKEN, raised_to(4)], False),
    "taken, and dead before it was raised": ([TAKEN], True),
    "raised by who came next": ([TAKEN, TAKEN | {"node": 1}, raised_to(3)], True),
}


@pytest.mark.parametrize("later", [True, False])
@pytest.mark.parametrize("name", IN_TWO_WRITES)
@judging(check, log=office)
def test_an_office_taken_before_the_epoch_is_raised(
    story: Any, log: Log, name: str, later: bool
) -> Asks:
    """As it was until 2.1 (KAFKA-6082). Who took it is known by the epoch that was raised next."""
    writes, lawful = IN_TWO_WRITES[name]
    story.run["arms"][story.arm][EPOCH_LATER] = later
    log.resign(2)
    for row in writes:
        log.write(row)
    outcome = yield story
    found = outcome.counts.get("office-without-epoch", 0)
    assert (found == 0) is (later and lawful)


@judging(check, log=office)
def test_whose_the_epoch_is_that_is_raised_later(story: Any, log: Log) -> Asks:
    story.run["arms"][story.arm][EPOCH_LATER] = True
    log.resign(2)
    for row in (TAKEN, TAKEN | {"node": 1}, raised_to(3)):
        log.write(row)
    elect(story, 600, 3, 3)
    assert (yield story).counts == {"two-controllers": 1}


@pytest.mark.parametrize("later", [True, False])
def test_who_is_elected_by_a_later_epoch(spark: Any, later: bool) -> None:
    """Whoever took office last before it; without that, nobody tells of an election."""
    story = Story()
    story.run["arms"][story.arm] = {EPOCH_LATER: later}
    for zxid, row in enumerate((TAKEN, TAKEN | {"node": 1}, raised_to(3))):
        story.add("zk_write", 100 + zxid, zxid=zxid, topic=None, partition=None, **row)
    found = elections(story.history(spark)).get((story.arm, 0), [])
    assert [(one.node, one.controller_epoch, one.zxid) for one in found] == [(1, 3, 2)] * later


@pytest.mark.parametrize(("node", "epoch", "n"), [(2, 2, 0), (3, 2, 1), (1, 2, 1), (3, 3, 1)])
@judging(check, log=office)
def test_who_says_that_it_was_elected(story: Any, log: Log, node: int, epoch: int, n: int) -> Asks:
    elect(story, 60, node, epoch)
    assert (yield story).counts.get("two-controllers", 0) == n


@judging(check)
def test_two_that_say_so_of_one_epoch(story: Any) -> Asks:
    """Nobody else tells."""
    elect(story, 10, 1, 4)
    elect(story, 11, 1, 4)  # a row told twice
    decide(story, 100, 0, 4)
    assert not (yield story).counts
    elect(story, 12, 2, 4)
    assert (yield story).counts == {"two-controllers": 1}


@pytest.mark.parametrize(
    "claim", [{"leader": 3}, {"isr": [1]}, {"partition_epoch": 7}, {"controller_epoch": 1}]
)
@judging(check, log=office)
def test_a_controller_that_says_what_it_did_not_commit(
    story: Any, spark: Any, log: Log, claim: dict[str, Any]
) -> Asks:
    log.decide(2, 2)
    told = {"source": "controller", "commit_ms": None, "process": "node-2", **claim}
    decide(story, 60, 2, told.pop("controller_epoch", 2), **told)
    found = yield story
    assert found.counts == {"claimed-otherwise": 1}
    (violation,) = attach(story.history(spark), found.findings)
    assert violation.events[-1]["f"] == "leadership"


@pytest.mark.parametrize(("version", "says"), [(0, "lacks what node-1 committed"), (1, "")])
@judging(check, log=office)
def test_a_claim_of_a_write_that_the_log_lacks(
    story: Any, log: Log, version: int, says: str
) -> Asks:
    """Its head was lost: who tells of it is not refuted."""
    log.decide(2, 2)
    writes = story.rows["zk_write"]
    writes[:] = [row for row in writes if row.get("partition_epoch") != version or says == ""]
    told = {"source": "controller", "commit_ms": None, "process": "node-1"}
    decide(story, 60, version, 1, **told)
    found = yield story
    assert not found.counts
    assert says in " ".join(found.unknowns)
    assert bool(found.unknowns) == bool(says)


# -- who sends ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "broken"),
    [
        ("in its own epoch", 0),
        ("after its successor was elected", 0),
        ("as it was elected", 0),
        ("in a later epoch", 1),
        ("in another's epoch", 1),
        ("before it was elected", 1),
        ("nobody's log tells of elections", 0),
        ("another trial's log does", 0),
    ],
)
@judging(check)
def test_who_sends_was_elected(story: Any, how: str, broken: int) -> Asks:
    for zxid, (t, node, epoch) in enumerate([(100, 1, 4), (2_000, 2, 5)]):
        elect(story, t + 1, node, epoch)
        if how.startswith("nobody"):
            continue
        place = {"topic": None, "partition": None, "zxid": zxid, "error_ns": 1_000_000}
        story.add("zk_write", t, what="controller", step="created", node=node, **place)
        story.add(
            "zk_write", t, what="controller_epoch", step="set", controller_epoch=epoch, **place
        )
    decide(story, 150, 0, 4)
    t, node, epoch = {
        "after its successor was elected": (3_000, 1, 4),
        "as it was elected": (100, 1, 4),
        "in a later epoch": (300, 1, 6),
        "in another's epoch": (2_300, 1, 5),
        "before it was elected": (50, 1, 4),
        "nobody's log tells of elections": (300, 1, 6),
    }.get(how, (300, 1, 4))
    if how.startswith("another trial"):
        story.trial, epoch = 1, 6
    story.add("control_send", t + 1, node=node, to=3, controller_epoch=epoch, enqueue_t=t,
              api="LEADER_AND_ISR")  # fmt: skip
    asked = apart(story) if how == "in another's epoch" else story
    assert (yield asked).counts.get("sent-out-of-office", 0) == broken


def succeeded(story: Any, *, resigned: float | None = None, **more: Any) -> Any:
    """Broker 1 is succeeded by 2 at 2 s; all is healed at 10 s, and the load goes on to 20 s."""
    at = {"topic": None, "partition": None, "error_ns": 1_000_000}
    for zxid, (t, node, epoch) in enumerate(((10, 1, 4), (2_000, 2, 5)), 5):
        elect(story, t, node, epoch)
        story.rows["controller"][-1] |= {"boot": 1, "t": int(t * 1_000_000)}
        story.add("zk_write", t, what="controller", step="created", zxid=zxid, node=node, **at)
        raised = {"what": "controller_epoch", "step": "set", "controller_epoch": epoch}
        story.add("zk_write", t, zxid=zxid, **raised, **at)
    if resigned is not None:
        own = {"node": 1, "boot": 1, "controller_epoch": 4, **more}
        story.add("controller", resigned, event="resigned", **own)
    story.add("phase", 10_000, name="heal", event="end")
    story.add("phase", 20_000, name="quiesce", event="begin")
    for node in (1, 2, 3):
        story.add("final_state", 21_000, what="node", node=node, running=True)
    decide(story, 100, 0, 4)
    return story


def ended(story: Any, t: float, event: str) -> Any:
    succeeded(story).add("node_event", t, node=1, event=event)
    return story


RESIGNS: dict[str, tuple[Any, int, int]] = {
    "at once": (lambda s: succeeded(s, resigned=2_100), 0, 1),
    "before its successor is elected": (lambda s: succeeded(s, resigned=1_900), 0, 1),
    "late": (lambda s: succeeded(s, resigned=19_000), 0, 1),
    "never": (succeeded, 1, 1),
    "as it is stopped in the end": (lambda s: succeeded(s, resigned=22_000), 1, 1),
    "from another office": (lambda s: succeeded(s, resigned=2_100, controller_epoch=3), 1, 1),
    "in another life": (lambda s: succeeded(s, resigned=2_100, boot=2), 1, 1),
    "another one": (lambda s: succeeded(s, resigned=2_100, node=3), 1, 1),
    "never, but is resumed": (lambda s: ended(s, 9_000, "resume"), 1, 1),
    "killed": (lambda s: ended(s, 1_500, "kill"), 0, 0),
    "stopped after a while": (lambda s: ended(s, 15_000, "stop"), 0, 0),
    "stopped in the end": (lambda s: ended(s, 22_000, "stop"), 1, 1),
}


@pytest.mark.parametrize("how", RESIGNS)
@judging(check)
def test_who_is_succeeded_resigns(story: Any, how: str) -> Asks:
    tell, broken, seen = RESIGNS[how]
    outcome = yield tell(story)
    assert outcome.counts.get("never-resigned", 0) == broken
    assert outcome.evidence[story.arm, 0, LIVED_ON] == seen


@judging(check)
def test_who_was_looked_at_for_a_moment_may_not_have_heard(story: Any) -> Asks:
    succeeded(story)
    story.rows["phase"][-1]["t"] = 14_900_000_000
    outcome = yield story
    assert "never-resigned" not in outcome.counts
    assert not outcome.evidence[story.arm, 0, LIVED_ON]


@judging(check)
def test_without_zookeeper_nobody_says_so(story: Any) -> Asks:
    succeeded(story)
    del story.rows["zk_write"]
    assert "never-resigned" not in (yield story).counts

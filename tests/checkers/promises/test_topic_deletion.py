"""Topic deletion: what it took, what may not be, and when nothing can be said."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from checkers.promises.topic_deletion import check
from tests.checkers.together import Asks, apart, judging


def step(story: Any, t: float, name: str, topic: str = "d", **more: Any) -> None:
    story.add("topic_deletion", t, topic=topic, step=name, **more)


def stop(story: Any, t: float, node: int, topic: str = "d", **more: Any) -> None:
    fields = {"topic": topic, "delete": True, "leader_epoch": -2, **more}
    story.add("replica_stop", t, node=node, **fields)


@judging(check)
def test_figures_of_deletions(story: Any) -> Asks:
    step(story, 1000, "requested", commit_ms=500)
    stop(story, 1100, 1, delete=False)
    stop(story, 1300, 1)
    stop(story, 1400, 2)
    stop(story, 1450, 2)  # sent again: there was nothing left to do
    step(story, 1420, "gone", commit_ms=930)
    step(story, 2000, "requested", "e")
    step(story, 2100, "gone", "e")
    outcome = yield story
    assert outcome.verdict()[0] is Verdict.VALID
    figures = outcome.arms[story.arm]
    assert figures["deletion"]["max_ms"] == 430  # by ZooKeeper's own clock where it is known
    assert figures["deletion"]["count"] == 2
    assert figures["stopped"]["max_ms"] == 400
    assert figures["stopped"]["count"] == 1  # nobody said anything of the other's replicas
    assert (figures["requested"], figures["unfinished"]) == (2, 0)


@judging(check)
def test_what_a_fault_hinders_is_not_timed(story: Any) -> Asks:
    for t, phase in ((900, "inject"), (2000, "healed")):
        story.add("fault", t, id="slow", fault="toxic", phase=phase, nodes=[1])
        story.add("fault", t + 2000, id="f", fault="flood-produce", phase=phase, nodes=[1])
    for name, t in (("hindered", 1000), ("flooded", 3000)):
        step(story, t, "requested", name)
        stop(story, t + 100, 1, name)
        step(story, t + 400, "gone", name)
    figures = (yield story).arms[story.arm]
    assert (figures["deletion"]["count"], figures["requested"]) == (1, 2)


@judging(check)
def test_gone_before_a_replica_stopped(story: Any) -> Asks:
    step(story, 1000, "requested")
    stop(story, 1100, 1)
    step(story, 1200, "gone")
    stop(story, 1300, 2)
    outcome = yield story
    assert outcome.counts == {"gone-before-stopped": 1}
    assert "node 2" in outcome.findings[0].says


@judging(check)
def test_clock_errors_are_no_finding(story: Any) -> Asks:
    error_ns = 2_000_000
    step(story, 1000, "requested", error_ns=error_ns)
    stop(story, 999, 1, error_ns=error_ns)  # not before the request, but for the clocks
    step(story, 1200, "gone", error_ns=error_ns)
    stop(story, 1203, 2, error_ns=error_ns)
    outcome = yield story
    assert outcome.verdict()[0] is Verdict.VALID
    assert outcome.figures["topic_deletion"][0]["replicas"] == 2


@judging(check)
def test_a_namesake_is_another_deletion(story: Any) -> Asks:
    for t in (1000, 3000):
        step(story, t, "requested")
        stop(story, t + 100, 1)
        step(story, t + 200, "gone")
    outcome = yield story
    assert outcome.verdict()[0] is Verdict.VALID
    assert outcome.arms[story.arm]["deletion"]["count"] == 2


@judging(check)
def test_each_deletion_that_was_not_finished_is_named(story: Any) -> Asks:
    step(story, 1000, "requested", "done")
    stop(story, 1200, 1, "done")
    step(story, 1500, "gone", "done")
    step(story, 2000, "requested")
    outcome = yield story
    verdict, reasons = outcome.verdict()
    assert verdict is Verdict.UNKNOWN
    assert [("deletion" in r, "not finished" in r) for r in reasons] == [(True, True)]
    assert outcome.arms[story.arm]["unfinished"] == 1


@judging(check)
def test_nothing_was_deleted(story: Any) -> Asks:
    story.add("phase", 1000, name="chaos", event="end")
    outcome = yield story
    verdict, reasons = outcome.verdict()
    assert verdict is Verdict.UNKNOWN
    assert reasons == [f"{story.arm}, trial 0: no topic was deleted while faults were played"]


@pytest.mark.parametrize(("at", "verdict"), [(1500, Verdict.VALID), (2500, Verdict.UNKNOWN)])
@judging(check)
def test_one_that_nothing_was_played_beside_proves_nothing(
    story: Any, at: float, verdict: Verdict
) -> Asks:
    for t, event in ((1000, "begin"), (2000, "end")):
        story.add("phase", t, name="chaos", event=event)
    step(story, at, "requested")
    stop(story, at + 700, 1)
    step(story, at + 900, "gone")
    outcome = yield story
    assert outcome.verdict()[0] is verdict
    requested = outcome.arms.get(story.arm, {}).get("requested", 0)
    assert requested == (verdict is Verdict.VALID)


@pytest.mark.parametrize(("at", "broken"), [(1700, 0), (2200, 1)])
@judging(check)
def test_what_is_deleted_after_all_is_judged_nevertheless(
    story: Any, at: float, broken: int
) -> Asks:
    story.add("phase", 900, name="chaos", event="begin")
    story.add("phase", 1000, name="chaos", event="end")
    step(story, 1500, "requested")
    stop(story, at, 1)
    step(story, 2000, "gone")
    outcome = yield story
    assert outcome.counts == ({"gone-before-stopped": 1} if broken else {})


@judging(check)
def test_nothing_was_finished(story: Any) -> Asks:
    step(story, 1000, "requested")
    verdict, reasons = (yield story).verdict()
    assert verdict is Verdict.UNKNOWN
    assert "was not finished" in reasons[0]


@pytest.mark.parametrize(
    ("how", "broken"),
    [
        ("all stopped", 0),
        ("one never did", 1),
        ("one stopped, and did not delete", 1),
        ("one never did, and had died", 0),
        ("one never tells", 0),
        ("one never tells of stops, and does of roles", 1),
        ("one had been moved away", 0),
        ("nobody saw who was assigned", 0),
    ],
)
@judging(check)
def test_gone_without_a_replica_having_stopped(story: Any, how: str, broken: int) -> Asks:
    for zxid, (topic, replicas) in enumerate((("c", [1, 2]), ("d", [1, 2]))):
        fields = {"what": "topic", "topic": topic}
        if how != "nobody saw who was assigned":
            story.add("zk_write", 10, zxid=zxid, step="created", replicas=replicas, **fields)
            if how == "one had been moved away":
                story.add("zk_write", 20, zxid=zxid + 5, step="set", replicas=[1], **fields)
        t = 1_000 * (zxid + 1)
        step(story, t, "requested", topic)
        stop(story, t + 100, 1, topic)
        if (topic == "c" and "never tells" not in how) or how == "all stopped":
            stop(story, t + 100, 2, topic)
        step(story, t + 200, "gone", topic)
        story.add("zk_write", t + 200, zxid=zxid + 10, step="removed", partition=None, **fields)
    if how == "one stopped, and did not delete":
        stop(story, 2_100, 2, "d", delete=False)
    if how == "one never did, and had died":
        story.add("node_event", 2_150, node=2, event="kill")
    if "roles" in how:
        story.add("leader_change", 500, node=2, seq=7, role="leader", leader_epoch=0)
    outcome = yield story
    both = 2 if "roles" in how else 1
    assert outcome.counts == ({"gone-unstopped": both} if broken else {})
    unjudged = {"one never did, and had died": "ended", "one never tells": "tell of no stop"}
    assert bool(outcome.not_judged) == (how in unjudged)
    assert unjudged.get(how, "") in " ".join(outcome.not_judged)


@judging(check)
def test_when_no_replica_tells_nothing_is_known(story: Any) -> Asks:
    step(story, 1000, "requested")
    step(story, 1200, "gone")
    for zxid, made in enumerate(("created", "removed")):
        story.add("zk_write", 1200, zxid=zxid, what="topic", topic="d", step=made, replicas=[1])
    story.add("leader_change", 500, node=1, seq=7, role="leader", leader_epoch=0)
    outcome = yield apart(story)
    (why,) = outcome.unknowns
    assert "no replica told that it put its log aside" in why
    assert not outcome.counts  # this system does not tell of stops at all

"""Fencing, both ways. What is to be found is judged apart: a history in which nothing may be stale
is looked at no further, and a neighbour would open that gate."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.judging.witness import attach
from checkers.promises.fencing import check
from checkers.promises.fencing.addressed import SENT
from checkers.promises.fencing.goodbyes import GOODBYES
from tests.checkers.together import Asks, apart, judging


def states(leader_epoch: int, error: int = 0) -> list[dict[str, Any]]:
    return [
        {"topic": "t", "partition": 0, "leader": 2, "leader_epoch": leader_epoch, "error": error}
    ]


@judging(check)
def test_refused_is_fine(story: Any) -> Asks:
    story.handled(100, 1, controller_epoch=5)
    story.handled(200, 1, controller_epoch=4, error=11)
    story.handled(300, 1, controller_epoch=4, broker_epoch=40, error=77)
    found = yield story
    assert not found.counts
    assert found.arms[story.arm]["refused"] == {"11": 1, "77": 1}


@judging(check)
def test_an_older_controller_accepted(story: Any, spark: Any) -> Asks:
    story.handled(100, 1, controller_epoch=5)
    story.handled(200, 1, controller_epoch=4)
    found = yield apart(story)
    assert found.counts == {"stale-controller-epoch-accepted": 1}
    (violation,) = attach(story.history(spark), found.findings)
    assert [e["controller_epoch"] for e in violation.events] == [5, 4]


@pytest.mark.parametrize("why", ["other node", "concurrent", "restart", "refused newer"])
@judging(check)
def test_an_older_controller_that_nobody_had_succeeded_yet(story: Any, why: str) -> Asks:
    story.handled(100, 2 if why == "other node" else 1, controller_epoch=5,
                  error=77 if why == "refused newer" else 0)  # fmt: skip
    if why == "restart":
        story.add("node_event", 150, node=1, event="start")
    more = {"dequeue_t": 98} if why == "concurrent" else {}
    story.handled(200, 1, controller_epoch=4, **more)
    story.add("controller", 90, node=9, event="elected", controller_epoch=5)
    found = yield story
    assert not found.counts
    assert found.arms[story.arm]["exposure"]["accepted"] == 1


@pytest.mark.parametrize(("broker_epoch", "violations"), [(40, 1), (-1, 0), (60, 0), (50, 0)])
@judging(check)
def test_an_older_registration(story: Any, broker_epoch: int, violations: int) -> Asks:
    story.handled(100, 1)
    story.handled(200, 1, broker_epoch=broker_epoch)
    expected = {"stale-broker-epoch-accepted": 1} if violations else {}
    assert (yield apart(story)).counts == expected


@judging(check)
def test_a_registration_that_was_new_a_moment_ago(story: Any) -> Asks:
    story.handled(100, 1, own_broker_epoch=40, broker_epoch=40)
    story.handled(200, 1, own_broker_epoch=50, broker_epoch=40)  # learnt while handling
    assert not (yield story).counts


@judging(check)
def test_an_older_leader_epoch(story: Any) -> Asks:
    api = {"api": "LEADER_AND_ISR"}
    story.handled(100, 1, partitions=states(3), **api)
    story.handled(200, 1, partitions=states(3, 11), **api)  # equal: routine
    story.handled(300, 1, partitions=states(2, 11), **api)  # older, refused
    assert not (yield story).counts
    story.handled(400, 1, partitions=states(2), **api)
    assert (yield apart(story)).counts == {"stale-leader-epoch-accepted": 1}


@pytest.mark.parametrize("asked", [True, False])
@judging(check)
def test_an_older_leader_epoch_after_a_deletion_begins_anew(story: Any, asked: bool) -> Asks:
    """Once a controller asked for it: the broker's own word for a stop is none."""
    story.handled(100, 1, api="LEADER_AND_ISR", partitions=states(3))
    if asked:
        gone = [{"topic": "t", "partition": 0, "leader": -2, "leader_epoch": -2}]
        story.add("control_send", 140, node=9, to=1, api="STOP_REPLICA", partitions=gone)
    story.add("replica_stop", 150, node=1, leader_epoch=-2, delete=True)
    story.handled(200, 1, api="LEADER_AND_ISR", partitions=states(0))
    counts = (yield apart(story)).counts
    assert counts == ({} if asked else {"stale-leader-epoch-accepted": 1})


@judging(check)
def test_stop_replica_is_fenced_too(story: Any) -> Asks:
    story.add("leader_change", 90, node=1, role="leader", leader=1, leader_epoch=4,
              controller_epoch=1)  # fmt: skip
    story.handled(200, 1, api="STOP_REPLICA", partitions=states(3, 74))
    story.handled(250, 1, api="STOP_REPLICA", partitions=states(-2))
    assert not (yield story).counts
    story.rows["control_request"].pop()
    story.handled(300, 1, api="STOP_REPLICA", partitions=states(3))
    story.add("replica_stop", 298.5, node=1, leader_epoch=3, delete=False, correlation_id=300)
    assert (yield apart(story)).counts == {"stale-leader-epoch-accepted": 1}


@pytest.mark.parametrize(
    ("sender", "leader", "accused"),
    [
        ("9", 2, True),
        ("9", -1, False),
        ("biplane-forger-7", 2, False),  # to one that has just begun, and knows nobody
        ("biplane-forger-7", 1, True),  # who is told to lead knows itself
    ],
)
@pytest.mark.parametrize("api", ["STOP_REPLICA", "LEADER_AND_ISR"])
@judging(check)
def test_an_order_that_names_nobody_who_lives_changes_nothing(
    story: Any, api: str, sender: str, leader: int, accused: bool
) -> Asks:
    story.handled(100, 1, api="LEADER_AND_ISR", partitions=states(3))
    without = [{**state, "leader": leader} for state in states(4)]
    story.handled(200, 1, api="LEADER_AND_ISR", partitions=without, client_id=sender)
    story.handled(300, 1, api=api, partitions=states(3))
    found = yield apart(story)
    assert found.counts == ({"stale-leader-epoch-accepted": 1} if accused else {})


@judging(check)
def test_a_forgers_view_counts_once_with_the_brokers(story: Any) -> Asks:
    story.handled(100, 1, controller_epoch=5)
    story.handled(200, 1, controller_epoch=4)
    story.add("forged", 203, invoke_t=190, node=1, api="UPDATE_METADATA", error=0,
              controller_epoch=4, lie="stale_controller_epoch", correlation_id=200,
              client_id="c")  # fmt: skip
    found = yield apart(story)
    assert found.counts == {"stale-controller-epoch-accepted": 1}
    assert found.arms[story.arm]["forged"] == {"stale_controller_epoch": {"0": 1}}


@judging(check)
def test_a_forger_alone_is_evidence_enough(story: Any) -> Asks:
    for t, epoch in ((100, 15), (200, 5)):
        story.add("forged", t, node=1, api="UPDATE_METADATA", error=0, controller_epoch=epoch,
                  lie="x", correlation_id=t)  # fmt: skip
    assert (yield apart(story)).counts == {"stale-controller-epoch-accepted": 1}


@judging(check)
def test_nothing_to_judge_is_unknown(story: Any) -> Asks:
    assert (yield story).verdict()[0] == "unknown"


@pytest.mark.parametrize(("error_ms", "certain"), [(10, True), (60, False)])
@judging(check)
def test_times_with_an_error_must_be_apart_by_more_than_it(
    story: Any, error_ms: int, certain: bool
) -> Asks:
    """Rows read from log files: 100 and 200 ms, each off by as much as said."""
    for t, controller_epoch in ((100, 5), (200, 4)):
        story.handled(t, 1, controller_epoch=controller_epoch, error_ns=error_ms * 1_000_000)
    assert bool((yield apart(story)).counts) is certain


# ---- whom it is for ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "log", "broken"),
    [
        (50, (50,), 0),
        (50, (50, 90), 0),  # of its former life: the broker refuses it
        (90, (50, 90), 0),
        (-1, (50, 90), 1),  # passes every fence
        (70, (50, 90), 1),
        (91, (50, 90), 1),
        (40, (50, 90), 0),  # of a life before the log begins
        (69, (80, 90), 0),
        (75, (80, 90), 1),  # before its first, and the log has begun
        (91, (95,), 1),  # another broker's
        (None, (50,), 0),  # nobody tells of it
        (-1, (), 0),
    ],
)
@judging(check)
def test_requests_name_a_life(
    story: Any, epoch: int | None, log: tuple[int, ...], broken: int
) -> Asks:
    place = {"topic": None, "partition": None, "error_ns": 0}
    for zxid in log:
        story.add("zk_write", zxid, what="broker", step="created", node=1, zxid=zxid, **place)
    story.add("zk_write", 60, what="broker", step="set", node=1, zxid=70, **place)
    story.add("zk_write", 60, what="broker", step="created", node=2, zxid=91, **place)
    for t in (200, 300):
        story.add("control_send", t, node=2, to=1, api="UPDATE_METADATA", broker_epoch=epoch)
    found = yield story
    assert found.counts == ({"sent-to-no-life": 1} if broken else {})
    assert found.evidence[story.arm, 0, SENT] == bool(log and epoch is not None)


def goodbye(story: Any, t: float = 9_000, **more: Any) -> None:
    """Controller 1 is told that broker 2 shuts down, in the name of its registration 40."""
    about = {"api": "CONTROLLED_SHUTDOWN", "lie": "stale_broker_epoch", "plane": "data"}
    fields = {"node": 1, "broker": 2, "broker_epoch": 40, "topic": None, "partition": None}
    story.add("forged", t, **{"error": 0, "type": "ok", **about, **fields, **more})


def knows(story: Any, broker_epoch: int = 50, t: float = 5_000, **more: Any) -> None:
    fields = {"node": 1, "to": 2, "api": "UPDATE_METADATA", "correlation_id": int(t)}
    story.add("control_send", t, **{**fields, "broker_epoch": broker_epoch, **more})


@pytest.mark.parametrize(
    ("more", "knowledge", "broken", "judged"),
    [
        ({}, {}, 1, 1),
        ({"error": 77}, {}, 0, 1),
        ({"error": 42}, {}, 1, 1),
        ({"error": 41}, {}, 0, 0),
        ({"error": 11}, {}, 0, 0),
        ({"error": 8}, {}, 1, 1),  # it lives
        ({"error": -1}, {}, 1, 1),
        ({"error": -1}, {"gone": (4_000, 6_500)}, 0, 0),
        ({"error": 8}, {"gone": (8_000, None)}, 0, 0),
        ({"error": 8}, {"gone": (3_000, 4_000)}, 1, 1),  # it has long been back
        ({"error": 0}, {"gone": (8_000, None)}, 1, 1),
        ({"error": None, "type": "info"}, {}, 0, 0),
        ({"broker_epoch": 50}, {}, 0, 0),  # that of who lives
        ({"broker_epoch": 49}, {}, 1, 1),  # one that never was
        ({}, {"broker_epoch": 40}, 0, 0),  # it has not heard of it
        ({}, {"t": 9_500}, 0, 0),  # nor yet
        ({}, {"t": 8_990, "error_ns": 30_000_000}, 0, 0),  # as far as anybody knows
        ({}, {"to": 3}, 0, 0),  # of another broker
        ({}, {"node": 3}, 0, 0),  # another controller has
    ],
)
@judging(check)
def test_a_goodbye_of_the_past_is_refused(
    story: Any, more: dict[str, Any], knowledge: dict[str, Any], broken: int, judged: int
) -> Asks:
    spans = zip(knowledge.get("gone", ()), ("unregistered", "registered"), strict=False)
    for t, event in spans:
        if t is not None:
            story.add("node_event", t, node=2, event=event)
    knows(story, 40, 1_000)
    knows(story, **{name: value for name, value in knowledge.items() if name != "gone"})
    goodbye(story, **more)
    found = yield story
    assert found.counts == ({"stale-shutdown-accepted": 1} if broken else {})
    assert found.evidence[story.arm, 0, GOODBYES] == judged

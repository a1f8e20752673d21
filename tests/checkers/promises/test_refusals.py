"""Refusals, both ways: the table of errors, refused although current, refused and applied."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.promises.refusals import check
from tests.checkers.together import Asks, apart, judging


def states(leader_epoch: int, error: int = 0) -> list[dict[str, Any]]:
    return [
        {"topic": "t", "partition": 0, "leader": 2, "leader_epoch": leader_epoch, "error": error}
    ]


def answered(story: Any) -> Any:
    """Among those that were answered alike: what may be wrong is looked for by the answers of a
    whole history, so that others' would have it found."""
    requests = story.rows["control_request"]
    parts = {(row["api"], part["error"]) for row in requests for part in row["partitions"]}
    return apart(story, (frozenset(row["error"] for row in requests), frozenset(parts)))


@judging(check)
def test_refused_but_applied(story: Any) -> Asks:
    story.handled(200, 1, controller_epoch=4, error=11, partitions=states(1, 11))
    change = {"node": 1, "leader": 2, "leader_epoch": 1, "correlation_id": 200}
    story.add("metadata_update", 198.5, **change)
    assert (yield answered(story)).counts == {"refused-but-applied": 1}
    # ... unless somebody else's request with the same number was being handled.
    story.handled(200, 1, client_id="other", partitions=states(1))
    assert not (yield answered(story)).counts


@judging(check)
def test_who_fails_half_way_has_not_refused(story: Any) -> Asks:
    """Its session was over, so that it could not read what a log is to be like, after another."""
    story.handled(200, 1, error=-1, partitions=states(1, -1))
    change = {"node": 1, "leader": 2, "leader_epoch": 1, "correlation_id": 200}
    story.add("metadata_update", 198.5, **change)
    assert "refused-but-applied" not in (yield answered(story)).counts


@judging(check)
def test_a_change_is_tied_to_its_request_within_the_errors(story: Any) -> Asks:
    """Of two requests with one number the accepted one explains the change, were it only near."""
    asked = {"api": "LEADER_AND_ISR", "correlation_id": 7, "error_ns": 2_000_000}
    story.handled(100, 1, **asked, partitions=states(1))
    story.handled(105, 1, **asked, client_id="forger", partitions=states(0, error=11))
    story.add("leader_change", 102.5, node=1, role="leader", leader=1, leader_epoch=1,
              controller_epoch=1, correlation_id=7, error_ns=2_000_000)  # fmt: skip
    assert not (yield story).counts


@pytest.mark.parametrize(("error", "broken"), [(11, 0), (77, 0), (29, 0), (-1, 1), (3, 1)])
@judging(check)
def test_an_older_controller_is_refused_with_11(story: Any, error: int, broken: int) -> Asks:
    """Or with 77, if that was older as well: its own rule tells."""
    story.handled(100, 1, controller_epoch=5)
    story.handled(200, 1, controller_epoch=4, error=error)
    found = yield answered(story) if broken else story
    assert found.counts.get("refused-with-wrong-error", 0) == broken


@pytest.mark.parametrize(("error", "broken"), [(77, 0), (11, 1), (-1, 1)])
@judging(check)
def test_an_older_registration_is_refused_with_77(story: Any, error: int, broken: int) -> Asks:
    story.handled(100, 1, controller_epoch=5)
    story.handled(200, 1, controller_epoch=4, broker_epoch=40, error=error)
    found = yield answered(story) if broken else story
    assert found.counts.get("refused-with-wrong-error", 0) == broken


@pytest.mark.parametrize(
    ("api", "error", "broken"),
    [
        ("LEADER_AND_ISR", 11, 0),
        ("LEADER_AND_ISR", 56, 0),
        ("LEADER_AND_ISR", 74, 1),
        ("LEADER_AND_ISR", 3, 1),
        ("STOP_REPLICA", 74, 0),
        ("STOP_REPLICA", 11, 1),
    ],
)
@judging(check)
def test_a_partition_with_an_older_leader_epoch(
    story: Any, api: str, error: int, broken: int
) -> Asks:
    story.handled(100, 1, api="LEADER_AND_ISR", partitions=states(3))
    story.handled(200, 1, api=api, partitions=states(2, error))
    found = yield answered(story) if broken else story
    assert found.counts.get("refused-with-wrong-error", 0) == broken


def registered(story: Any, t: float, broker_epoch: int, node: int = 1) -> None:
    detail = f'{{"broker_epoch": {broker_epoch}}}'
    story.add("node_event", t, node=node, event="registered", detail=detail)


@pytest.mark.parametrize(
    ("broker_epoch", "broken"),
    [(40, 0), (50, 1), (60, 1)],  # KAFKA-9839 refuses the newer
)
@judging(check)
def test_a_registration_that_is_current_is_not_refused(
    story: Any, broker_epoch: int, broken: int
) -> Asks:
    registered(story, 10, 40)
    registered(story, 50, 50)
    registered(story, 60, 99, node=2)  # somebody else's
    own = {"own_broker_epoch": broker_epoch + 1}  # whatever it says of itself
    story.handled(10_000, 1, broker_epoch=broker_epoch, error=77, **own)
    found = yield answered(story) if broken else story
    assert found.counts.get("current-epoch-refused", 0) == broken


@judging(check)
def test_a_broker_knows_of_its_registration_before_the_watch(story: Any) -> Asks:
    registered(story, 10, 40)
    registered(story, 10_500, 50)
    story.handled(10_000, 1, broker_epoch=40, error=77)
    assert not (yield story).counts


@pytest.mark.parametrize(("believed", "broken"), [(None, 1), (0, 0), (11, 2)])
@judging(check)
def test_a_controller_that_is_current_is_not_refused(
    story: Any, believed: int | None, broken: int
) -> Asks:
    """Unless somebody from the future was believed before. (Who was not is newer than all, too.)"""
    for t, epoch in ((10, 1), (20, 2)):
        story.add("controller", t, node=9, event="elected", controller_epoch=epoch)
    if believed is not None:
        story.add("forged", 5_000, node=1, api="UPDATE_METADATA", error=believed,
                  controller_epoch=12, correlation_id=1, client_id="f")  # fmt: skip
    story.handled(10_000, 1, controller_epoch=1, error=11)
    story.handled(10_010, 1, controller_epoch=2, error=11)
    found = yield answered(story) if broken else story
    assert found.counts.get("current-epoch-refused", 0) == broken


@judging(check)
def test_where_nobody_tells_the_true_epochs_that_is_said(story: Any) -> Asks:
    story.handled(10_000, 1, controller_epoch=2, error=11)
    story.handled(10_010, 1, error=77)
    found = yield answered(story)
    assert not found.counts
    assert len(found.not_judged) == 2


@pytest.mark.parametrize(
    ("why", "broken"),
    [
        ("newer", 1),
        ("equal", 0),
        ("older", 0),
        ("own word", 0),
        ("restart", 1),
        ("shuts down", 0),
        ("later", 1),
    ],
)
@judging(check)
def test_a_leader_epoch_that_is_newer_is_not_refused(story: Any, why: str, broken: int) -> Asks:
    api = {"api": "LEADER_AND_ISR"}
    story.handled(100, 1, partitions=states(3), **api)
    epoch = {"equal": 3, "older": 2, "restart": 3, "shuts down": 3}.get(why, 4)
    if why in ("restart", "shuts down"):
        story.add("node_event", 150, node=1, event="stop" if why == "shuts down" else "start")
    if why == "own word":
        story.add("leader_change", 150, node=1, role="leader", leader=1, leader_epoch=4,
                  controller_epoch=1)  # fmt: skip
    story.handled(200, 1, partitions=states(epoch, 11), **api)
    if why == "later":
        story.handled(300, 1, partitions=states(4), **api)
    found = yield answered(story) if broken else story
    assert found.counts.get("current-epoch-refused", 0) == broken


@pytest.mark.parametrize(
    ("error", "of_partition", "broken"),
    [
        (0, 0, 0),
        (-1, 0, 1),
        (42, 0, 1),
        (31, 0, 1),
        (77, 77, 0),
        (0, 77, 1),
        (0, 56, 0),
        (0, 103, 1),
        (0, -1, 1),
        (0, 41, 1),
    ],
)
@judging(check)
def test_a_controllers_request_does_not_fail(
    story: Any, error: int, of_partition: int, broken: int
) -> Asks:
    request = {"api": "LEADER_AND_ISR", "correlation_id": 9, "controller_epoch": 1}
    story.add("control_send", 90, node=9, to=1, attempt=1, partitions=[], **request)
    story.handled(100, 1, error=error, partitions=states(1, of_partition), **request)
    story.handled(110, 1, error=-1, api="LEADER_AND_ISR", client_id="somebody", controller_id=7)
    assert (yield story).counts.get("failed-in-handling", 0) == broken


@pytest.mark.parametrize(
    ("error", "how", "broken", "unknown"),
    [
        (31, "an authorizer", 0, 0),
        (103, "its topic was deleted", 0, 0),
        (56, "", 0, 1),
        (56, "a disk was broken", 0, 0),
        (56, "another's disk was broken", 0, 1),
        (3, "", 0, 0),
        (3, "it is a replica", 1, 0),
        (3, "it was a replica", 0, 0),
        (3, "another is a replica", 0, 0),
    ],
)
@judging(check)
def test_an_error_has_a_reason_that_another_tells(
    story: Any, error: int, how: str, broken: int, unknown: int
) -> Asks:
    request = {"api": "LEADER_AND_ISR", "correlation_id": 9, "controller_epoch": 1}
    story.add("control_send", 90, node=9, to=1, attempt=1, partitions=[], **request)
    whole = error if how == "an authorizer" else 0
    story.handled(100, 1, error=whole, partitions=states(1, error), **request)
    if how == "an authorizer":
        story.run["settings"] = {"overrides": {"authorizer.class.name": "kafka.Acl"}}
    if how == "its topic was deleted":
        story.add("topic_deletion", 50, topic="t", step="gone")
    if "disk" in how:
        story.add("fault", 20, fault="disk-full", id="d", nodes=[2 if "another" in how else 1])
    if "replica" in how:
        held = [2, 3] if "another" in how else [1, 2]
        story.add("zk_write", 1, zxid=1, what="topic", step="created", replicas=held)
    if how == "it was a replica":
        story.add("zk_write", 2, zxid=2, what="topic", step="set", replicas=[2, 3])
    found = yield story
    assert found.counts.get("failed-in-handling", 0) == broken
    assert len(found.unknowns) == unknown


def registration(story: Any, t: float, node: int, step: str = "created") -> None:
    zxid = len(story.rows.get("zk_write", ()))
    place = {"topic": None, "partition": None}
    story.add("zk_write", t, what="broker", step=step, node=node, zxid=zxid, **place)


@pytest.mark.parametrize(
    ("how", "code", "broken"),
    [
        ("gone", -1, 0),
        ("back again", -1, 0),  # a handler had begun before
        ("gone, the whole request", -1, 0),
        ("gone", 42, 1),  # what it said itself was not for want of ZooKeeper
        ("back for long", -1, 1),
        ("gone later", -1, 1),
        ("another is gone", -1, 1),
        ("gone, asked to stop", -1, 1),  # it needs nothing of ZooKeeper for that
    ],
)
@judging(check)
def test_who_has_no_session_may_fail(story: Any, how: str, code: int, broken: int) -> Asks:
    api = "STOP_REPLICA" if "stop" in how else "LEADER_AND_ISR"
    request = {"api": api, "correlation_id": 9, "controller_epoch": 1}
    well = {"api": "LEADER_AND_ISR", "correlation_id": 8, "controller_epoch": 1}
    at_ms = 9_000 if "long" in how else 300
    story.add("control_send", 90, node=9, to=1, attempt=1, partitions=[], **request)
    story.add("control_send", 90, node=9, to=2, attempt=1, partitions=[], **well)
    for at in (100, 110, 120, 130, 140):
        story.handled(at, 2, seq=at, partitions=states(1), **well)
        story.add("leader_change", at, node=2, seq=at + 1, role="leader", leader=1, leader_epoch=1)
    whole = "whole" in how
    parts = states(1, code if not whole else 0)
    story.handled(at_ms, 1, error=code if whole else 0, partitions=parts, **request)
    node = 2 if "another" in how else 1
    registration(story, 10, node)
    registration(story, 400 if "later" in how else 200, node, "removed")
    if "back" in how:
        registration(story, 250, node)
    found = yield story
    assert found.counts.get("failed-in-handling", 0) == broken
    assert [(e.excuse, e.n) for e in found.excuses()] == [("session-over", 1)] * (1 - broken)


@pytest.mark.parametrize(
    ("how", "broken"),
    [
        ("applied", 0),
        ("not applied", 1),
        ("another epoch applied", 1),
        ("refused", 0),
        ("without a leader", 0),
        ("never tells", 0),
        ("rows without numbers", 0),
        ("its leader is gone", 0),
        ("its leader was gone long ago", 1),
        ("its leader has just registered", 1),
        ("its leader was just gone", 0),
        ("it waited, and its leader was gone when it was decided", 0),
        ("it waited, and its leader had long been back", 1),
        ("it waited as one of the same number had not", 1),
        ("the watch saw its leader go", 0),
        ("the watch saw it go itself", 1),
        ("it is the leader", 1),
        ("its controller says whom to follow to one that has just begun", 1),
        ("a forger says whom to follow", 0),
        ("a forger says whom to follow, who was told in a former life who lives", 0),
        ("a forger says whom to follow, who knows who lives", 1),
        ("a forger says that it is the leader", 1),
    ],
)
@judging(check)
def test_what_was_accepted_is_applied(story: Any, how: str, broken: int) -> Asks:
    state = states(1, 11 if how == "refused" else 0)
    state[0]["leader"] = {"without a leader": -1, "it is the leader": 1}.get(how, 2)
    if how == "a forger says that it is the leader":
        state[0]["leader"] = 1
    for node in (1, 2):
        registration(story, -60_000, node)
    if how in ("its leader is gone", "it is the leader"):
        registration(story, 50, state[0]["leader"], "removed")
    if how == "its leader was gone long ago":
        registration(story, -50_000, 2, "removed")
        registration(story, -40_000, 2)
    if how == "its leader has just registered":
        story.rows["zk_write"][1]["t"] = 90 * 1_000_000
    if how == "its leader was just gone":
        registration(story, -3_000, 2, "removed")
        registration(story, -1_000, 2)
    if "waited" in how:
        registration(story, -30_000, 2, "removed")
        registration(story, -20_000, 2)
        enqueued = [-10_000] if "long" in how else [-25_000, 90] if "same" in how else [-25_000]
        for t in enqueued:
            story.add("control_send", t + 1, node=9, to=1, api="LEADER_AND_ISR", enqueue_t=t,
                      correlation_id=100, controller_epoch=1)  # fmt: skip
    if how.startswith("the watch"):
        story.add("node_event", 60, node=2 if "leader" in how else 1, event="unregistered")
    seq = None if how == "rows without numbers" else 5
    sender = {}
    if "forger" in how:
        sender["client_id"] = "biplane-forger-7"
    if "forger" in how or "just begun" in how:
        story.add("node_event", 50, node=1, event="start")
    if "lives" in how:
        told_at = 40 if "former" in how else 60
        same = {"node": 9, "boot": 1, "to": 1, "api": "UPDATE_METADATA", "correlation_id": 3}
        story.add("control_send", told_at - 1, controller_epoch=1, partitions=[], **same)
        story.add("control_response", told_at, send_t=told_at - 1, error=0, **same)
    story.handled(100, 1, api="LEADER_AND_ISR", partitions=state, seq=seq, **sender)
    role = {"node": 1, "role": "follower", "leader": 2, "seq": 4}
    story.add("leader_change", 98.5, topic="u", leader_epoch=0, **role)
    if how == "never tells":
        story.rows["leader_change"][0]["node"] = 3
    if how in ("applied", "another epoch applied"):
        story.add("leader_change", 98.5, leader_epoch=1 if how == "applied" else 0, **role)
    found = yield story
    assert found.counts.get("accepted-but-not-applied", 0) == broken
    excused = {"its leader is gone", "its leader was just gone", "the watch saw its leader go"}
    excused |= {"it waited, and its leader was gone when it was decided"}
    knows_nobody = "whom to follow" in how and not broken
    assert [e.excuse for e in found.excuses()] == (
        ["unregistered"] * (how in excused) + ["knows-nobody"] * knows_nobody
    )
    # Too many of these, and nothing was judged.
    assert any("unregistered" in why for why in found.verdict()[1]) == (how in excused)

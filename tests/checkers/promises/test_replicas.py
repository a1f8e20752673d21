"""Replicas, both ways: what must be in every log, and what a follower may differ in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from checkers.promises.replicas import COMPARED, check
from tests.checkers.conftest import ARM, Story, judged_together
from tests.checkers.together import Asks, judging

THREE = {0: 1, 1: 2, 2: 3}


@judging(check)
def test_a_sound_history(story: Any) -> Asks:
    story.commit(1, 1, 0)
    for node in (1, 2, 3):
        story.final_log(THREE, node, leader=node == 1)
    found = yield story
    assert found.verdict([(story.arm, 0)]) == (Verdict.VALID, [])
    assert found.arms[story.arm]["replicas"] == 3
    assert found.evidence[story.arm, 0, COMPARED] == 9


@judging(check)
def test_replicas_that_differ_below_the_high_watermark(story: Any) -> Asks:
    story.final_log(THREE)
    story.final_log({0: 1, 1: 9, 2: 8}, 2, leader=False)
    assert (yield story).counts == {"replica-differs": 2}


@judging(check)
def test_the_same_value_in_another_epoch_differs_too(story: Any) -> Asks:
    story.final_log({0: 1})
    story.final_log({0: 1}, 2, leader=False, leader_epoch=3)
    assert (yield story).counts == {"replica-differs": 1}


@pytest.mark.parametrize("name", ["producer_epoch", "append_time_ms", "leader_epoch"])
@pytest.mark.parametrize(("one", "other"), [(3, 4), (3, None), (None, None)])
@judging(check)
def test_a_batch_is_copied_as_it_is(
    story: Any, name: str, one: int | None, other: int | None
) -> Asks:
    story.final_log({0: 1})
    story.final_log({0: 1}, 2, leader=False)
    for row, value in zip(story.rows["log_read"], (one, other), strict=True):
        row[name] = value
    assert (yield story).counts == ({} if one == other else {"replica-differs": 1})


@pytest.mark.parametrize(
    ("end", "mark", "broken"), [(5, 6, 1), (5, 5, 0), (5, None, 0), (-1, 0, 0)]
)
@judging(check)
def test_a_high_watermark_beyond_the_end(
    story: Any, end: int, mark: int | None, broken: int
) -> Asks:
    story.final_log(THREE)
    own = {"role": "leader", "leader": 3, "leader_epoch": 0}
    story.add("leader_change", 5, node=3, log_end_offset=end, high_watermark=mark, **own)
    counts = (yield story).counts
    assert counts == ({"high-watermark-beyond-end": 1} if broken else {})


def took_up(
    story: Any,
    t: float,
    node: int,
    end: int,
    mark: int | None,
    epoch: int = 1,
    seq: int | None = 7,
) -> None:
    """Node 2 leads leader epoch 1 with 3 in sync; 1 is gone and comes back late. ``seq`` None: by
    Apache Kafka's log."""
    role = {"role": "leader" if node == 2 else "follower", "leader": 2, "leader_epoch": epoch}
    role |= {"seq": seq}
    story.add("leader_change", t, node=node, log_end_offset=end, high_watermark=mark, **role)


def told(story: Any, epoch: int, offset: int, **more: Any) -> None:
    fields = {"node": 1, "asked_ms": -1, "believed_epoch": -1, "found_ms": -1, "error": 0, **more}
    story.add("listed_offset", 2, leader_epoch=epoch, offset=offset, **fields)


AHEAD = {
    # Each broken, then what looks alike and is lawful.
    "the leader": lambda s: (took_up(s, 5, 2, 3, 3), took_up(s, 9, 3, 2, 2)),
    "the leader, later": lambda s: (took_up(s, 5, 3, 2, 2), took_up(s, 9, 2, 3, 3)),
    "a follower": lambda s: (took_up(s, 5, 2, 2, 2), took_up(s, 9, 3, 3, 3)),
    "one out of sync": lambda s: (
        *(took_up(s, 5, 2, 2, 2), took_up(s, 5, 3, 2, 2)),
        took_up(s, 9, 1, 3, 3),
    ),
    "an end told before": lambda s: (
        told(s, 0, 3),
        *(took_up(s, 5, 2, 3, 2), took_up(s, 9, 3, 2, 2)),
    ),
    "an end told before, one in sync took it up": lambda s: (
        told(s, 0, 3),
        took_up(s, 5, 3, 2, 2),
    ),
    "Kafka's leader, before": lambda s: (
        *(took_up(s, 5, 2, 3, 3, seq=None), took_up(s, 9, 3, 2, 2, seq=None)),
    ),
    "Kafka's leader, long after": lambda s: (
        *(took_up(s, 5, 3, 2, 2, seq=None), took_up(s, 3006, 2, 3, 3, seq=None)),
    ),
    "Kafka's follower": lambda s: (
        *(took_up(s, 9, 2, 2, 2, seq=None), took_up(s, 5, 3, 3, 3, seq=None)),
    ),
    "lawful: Kafka's follower fetched on": lambda s: (
        *(took_up(s, 5, 3, 2, 2, seq=None), took_up(s, 9, 2, 3, 3, seq=None)),
    ),
    "lawful: Kafka's follower fetched on, and an end was told": lambda s: (
        told(s, 0, 3),
        *(took_up(s, 1, 3, 2, 2, seq=None), took_up(s, 1, 2, 3, 2, seq=None)),
    ),
    "lawful: an end told that all have": lambda s: (
        told(s, 0, 2),
        *(took_up(s, 5, 2, 3, 2), took_up(s, 9, 3, 2, 2)),
    ),
    "lawful: an end told in that epoch": lambda s: (
        told(s, 1, 3, node=2),
        *(took_up(s, 5, 2, 3, 2), took_up(s, 9, 3, 2, 2)),
    ),
    "lawful: a time": lambda s: (
        told(s, 0, 3, asked_ms=7),
        *(took_up(s, 5, 2, 3, 2), took_up(s, 9, 3, 2, 2)),
    ),
    "lawful: an end that one out of sync lacks": lambda s: (
        told(s, 0, 3),
        *(took_up(s, 5, 2, 3, 2), took_up(s, 9, 3, 3, 2)),
        took_up(s, 11, 1, 1, 1),
    ),
    "lawful: what all have": lambda s: (took_up(s, 5, 2, 3, 2), took_up(s, 9, 3, 2, 2)),
    "lawful: who is short is out of sync": lambda s: (
        *(took_up(s, 5, 2, 3, 3), took_up(s, 5, 3, 3, 2)),
        took_up(s, 9, 1, 1, 1),
    ),
    "lawful: the second time": lambda s: (
        *(took_up(s, 5, 2, 3, 2), took_up(s, 5, 3, 2, 2)),
        took_up(s, 9, 2, 3, 3),
    ),
    "lawful: another epoch": lambda s: (took_up(s, 5, 2, 3, 3), took_up(s, 9, 3, 2, 2, 2)),
    "lawful: not told": lambda s: (took_up(s, 5, 2, 3, None), took_up(s, 9, 3, 2, None)),
    "lawful: alone in sync": lambda s: (
        s.commit(4, 2, 2, isr=[2]),
        *(took_up(s, 5, 2, 3, 3, 2), took_up(s, 9, 3, 2, 2, 2)),
    ),
}


def begun(tell: Callable[[Story], object]) -> Story:
    story = Story()
    story.commit(1, 1, 0)
    story.commit(3, 2, 1, isr=[2, 3])
    for node in (1, 2, 3):
        story.final_log(THREE, node, leader=node == 2)
    tell(story)
    return story


@pytest.fixture(scope="module")
def ahead(spark: Any) -> Any:
    return judged_together(spark, check, {name: begun(tell) for name, tell in AHEAD.items()})


@pytest.mark.parametrize(
    ("name", "pairs"), [("lawful: Kafka's follower fetched on", 1), ("lawful: what all have", None)]
)
def test_what_a_follower_may_have_fetched_is_counted(
    spark: Any, name: str, pairs: int | None
) -> None:
    outcome = check(begun(AHEAD[name]).history(spark))
    assert outcome.arms[ARM].get("may_have_fetched_on") == pairs
    assert any("fetched on" in what for what in outcome.not_judged) is (pairs is not None)


@pytest.mark.parametrize("name", AHEAD)
def test_nobody_calls_committed_what_others_in_sync_lack(ahead: Any, name: str) -> None:
    counts = {key: n for key, n in ahead[name][0].items() if key == "high-watermark-ahead"}
    assert counts == ({} if "lawful" in name else {"high-watermark-ahead": 1})


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ("made again", "no log of d-0 was read"),
        ("gone", ""),
        ("to be deleted", ""),
        ("gone, and read", "a log of d-0 was read, whose topic is gone"),
    ],
)
@judging(check)
def test_topics_that_were_deleted(story: Any, how: str, says: str) -> Asks:
    story.final_log(THREE)
    story.final_log(THREE, 2, leader=False)
    story.commit(1, 1, 0, isr=[1, 2])
    story.run["trials"] = [{"arm": story.arm, "trial": 0, "topics": {"d": {}}}]
    story.commit(10, 1, 0, isr=[1, 2], topic="d")
    steps = ["created"] + ["removed"] * (how != "to be deleted") + ["created"] * (how[0] == "m")
    for zxid, step in enumerate(steps):
        story.add("zk_write", 20, zxid=zxid, what="topic", step=step, topic="d", replicas=[1, 2])
    story.add("topic_deletion", 15, topic="d", step="requested")
    if how != "to be deleted":
        story.add("topic_deletion", 20, topic="d", step="gone")
    if how == "gone, and read":
        story.final_log({}, topic="d")
    found = " | ".join((yield story).unknowns)
    assert bool(found) == bool(says)
    assert says in found


@pytest.mark.parametrize(("isr", "broken"), [([1], 0), ([1, 2], 1)])
@judging(check)
def test_beyond_a_replicas_own_high_watermark_it_may_differ(
    story: Any, isr: list[int], broken: int
) -> Asks:
    """Unless it is in sync: then it must have what was committed, whatever it says of itself."""
    story.commit(1, 1, 0, isr=isr)
    story.final_log(THREE)
    story.final_log({0: 1, 1: 9, 2: 8}, 2, leader=False, high_watermark=0)
    counts = (yield story).counts
    assert bool(counts.get("replica-differs")) == bool(broken)
    assert bool(counts.get("high-watermark-behind")) == bool(broken)


@judging(check)
def test_what_zookeeper_took_with_it_nobody_owes(story: Any) -> Asks:
    story.commit(1, 1, 0)
    story.final_log(THREE)
    story.final_log(THREE, 2, leader=False, high_watermark=1)
    assert (yield story).counts == {"high-watermark-behind": 1}
    story.add("infra", 50, component="zookeeper", reason="died")
    assert not (yield story).counts


@pytest.mark.parametrize(
    ("phases", "broken"),
    [(("chaos", "final_read"), 0), (("chaos", "settle", "final_read"), 1), (("chaos",), 1)],
)
@pytest.mark.parametrize("mark", [1, 2])
@judging(check)
def test_a_trial_that_was_ended_has_not_come_to_rest(
    story: Any, phases: tuple[str, ...], mark: int, broken: int
) -> Asks:
    """Its followers may hear of the last commit after their logs were read."""
    story.commit(1, 1, 0)
    story.final_log(THREE, high_watermark=2)
    story.final_log(THREE, 2, leader=False, high_watermark=mark)
    story.final_log(THREE, 3, leader=False, high_watermark=mark)
    for t, name in enumerate(phases):
        story.add("phase", t, name=name, event="end")
    found = {"high-watermark-stuck": 1} | ({"high-watermark-behind": 2} if mark < 2 else {})
    assert (yield story).counts == (found if broken else {})


@pytest.mark.parametrize(("torn", "excused"), [(1, True), (3, False)])
@judging(check)
def test_a_torn_log_excuses_what_its_node_alone_had(torn: int, excused: bool, story: Any) -> Asks:
    """Node 1 was once all of the in-sync set; a node that was not may not spoil anything."""
    story.add("fault", 5, fault="torn-tail", id="x", phase="injected", nodes=[torn])
    story.commit(1, 2, 0)
    story.commit(6, -1, 1, isr=[1])
    story.commit(7, 1, 2, isr=[1])
    story.commit(9, 1, 2, partition_epoch=3)
    story.final_log({0: 1, 1: 2})
    story.final_log({0: 1, 1: 1}, 3, leader=False)
    found = yield story
    assert found.counts == ({} if excused else {"replica-differs": 1})
    assert bool(found.excused) == excused


@judging(check)
def test_a_hole_in_a_replica(story: Any) -> Asks:
    story.final_log({v: v for v in range(6)})
    story.final_log({v: v for v in range(6) if v != 3}, 2, leader=False)
    found = yield story
    assert found.counts == {"replica-hole": 1}
    assert "the first at offset 3" in found.findings[0].says


@judging(check)
def test_a_replica_that_lost_its_head_has_lost_records(story: Any) -> Asks:
    story.final_log({v: v for v in range(6)})
    story.final_log({v: v for v in range(2, 6)}, 2, leader=False, log_start_offset=2)
    found = yield story
    assert found.counts == {"replica-hole": 2}
    assert "the first at offset 0" in found.findings[0].says


@pytest.mark.parametrize(("configs", "lacking"), [({"retention.ms": "1000"}, 2), ({}, 6)])
@judging(check)
def test_what_the_leader_has_purged_nobody_needs(
    story: Any, configs: dict[str, str], lacking: int
) -> Asks:
    """Where records may expire. Where they may not, each log that begins late has lost its head."""
    story.run["topics"] = {"t": {"configs": configs}}
    story.final_log({v: v for v in range(2, 6)}, log_start_offset=2)
    story.final_log({v: v for v in range(4, 6)}, 2, leader=False, log_start_offset=4)
    story.final_log({v: v for v in range(6)}, 3, leader=False)
    assert (yield story).counts == {"replica-hole": lacking}


@pytest.mark.parametrize(("isr", "broken"), [([1, 2], 1), ([1], 0)])
@judging(check)
def test_an_in_sync_replica_whose_log_is_empty(story: Any, isr: list[int], broken: int) -> Asks:
    story.commit(1, 1, 0, isr=isr)
    story.final_log(THREE)
    story.final_log({}, 2, leader=False)
    found = (yield story).counts
    assert found.get("replica-hole", 0) == 3 * broken


@judging(check)
def test_the_leader_has_no_holes_either(story: Any) -> Asks:
    story.final_log({0: 1, 1: 2, 3: 4})
    story.final_log({0: 1, 1: 2, 3: 4}, 2, leader=False)
    assert (yield story).counts == {"replica-hole": 2}  # each of its own log


@pytest.mark.parametrize(
    ("witness", "hw", "broken"),
    [("read", 2, 1), ("read", 3, 0), ("acked", 2, 1), ("acks=1", 2, 0), (None, 0, 0)],
)
@judging(check)
def test_a_high_watermark_below_what_was_read_or_promised(
    story: Any, witness: str | None, hw: int, broken: int
) -> Asks:
    if witness == "read":
        story.add("fetch", 10, offset=2, value=3, poll=1, process="c")
    elif witness is not None:
        story.produce(10, 3, 2, acks=1 if witness == "acks=1" else -1)
    story.final_log(THREE, high_watermark=hw)
    story.final_log(THREE, 2, leader=False, high_watermark=hw)
    assert (yield story).counts.get("high-watermark-went-back", 0) == broken


@judging(check)
def test_what_was_read_is_compared_although_the_high_watermark_went_back(story: Any) -> Asks:
    story.commit(1, 1, 0)
    story.add("fetch", 10, offset=2, value=3, poll=1, process="c")
    story.final_log(THREE, high_watermark=0)
    story.final_log({0: 1, 1: 2, 2: 9}, 2, leader=False, high_watermark=0)
    assert (yield story).counts["replica-differs"] == 1


@judging(check)
def test_leader_epochs_that_fall_along_a_log(story: Any) -> Asks:
    for node in (1, 2):
        for offset, epoch in enumerate((0, 2, 1 if node == 2 else 2)):
            story.add("log_read", 90_000, node=node, offset=offset, value=offset,
                      leader_epoch=epoch)  # fmt: skip
        story.add("log_end", 90_000, node=node, log_start_offset=0, log_end_offset=3,
                  high_watermark=2, is_leader=node == 1)  # fmt: skip
    # Beyond the high watermark logs may differ; no log may fall back, wherever.
    assert (yield story).counts == {"epochs-out-of-order": 1}
    for row in story.rows["log_end"]:
        row["high_watermark"] = 3
    assert (yield story).counts == {"epochs-out-of-order": 1, "replica-differs": 1}


@pytest.mark.parametrize(("event", "verdict"), [("kill", "valid"), ("resume", "unknown")])
@judging(check)
def test_a_replica_that_could_not_be_read(story: Any, event: str, verdict: str) -> Asks:
    story.add("node_event", 10, node=3, event=event)
    for node in (1, 2):
        story.final_log(THREE, node, leader=node == 1)
    story.add("log_end", 90_000, node=3, is_leader=False, error="the node does not run")
    found = yield story
    assert found.verdict([(story.arm, 0)])[0] == verdict
    assert bool(found.not_judged) == (event == "kill")


@judging(check)
def test_no_follower_at_all_is_unknown(story: Any) -> Asks:
    story.add("node_event", 10, node=2, event="kill")
    story.final_log(THREE)
    story.add("log_end", 90_000, node=2, is_leader=False, error="the node does not run")
    assert (yield story).verdict([(story.arm, 0)])[0] is Verdict.UNKNOWN


@judging(check)
def test_a_partition_whose_leader_was_not_read_is_unknown(story: Any) -> Asks:
    for node in (1, 2):
        story.final_log(THREE, node, leader=node == 1)
    story.final_log(THREE, 2, leader=False, partition=1)
    assert (yield story).verdict([(story.arm, 0)])[0] is Verdict.UNKNOWN


# ---- what is not there, or contradicts itself ----------------------------------------------------


def read(how: str) -> Story:
    """Three replicas, all in sync, read to their ends."""
    story = Story()
    story.commit(1, 1, 0)
    ends = {"high_watermark": 2} if how == "a watermark below the end" else {}
    for node in (1, 2, 3):
        story.final_log(THREE, node, leader=node == 1, **ends)
    logs = story.rows["log_end"]
    match how:
        case "a replica in sync is not read":
            story.rows["log_end"] = [row for row in logs if row["node"] != 3]
        case "a replica out of sync is not read":
            story.rows["leadership"][0]["isr"] = [1, 2]
            story.rows["log_end"] = [row for row in logs if row["node"] != 3]
        case "a partition is not read":
            story.commit(1, 1, 0, partition=1)
        case "a partition of another topic is not read":
            story.commit(1, 1, 0, topic="__consumer_offsets")
        case "a partition of a topic that is gone is not read":
            story.commit(1, 1, 0, partition=1)
            story.add("topic_deletion", 5, step="requested")
        case "two leaders":
            logs[1]["is_leader"] = True
        case "another leader":
            logs[0]["is_leader"], logs[1]["is_leader"] = False, True
        case "a watermark beyond the end":
            logs[2]["high_watermark"] = 9
        case "a watermark is not told":
            logs[2]["high_watermark"] = None
        case "an epoch of nobody's" | "an epoch of which a watch may not know":
            for row in story.rows["log_read"]:
                row["leader_epoch"] = 7
            if how == "an epoch of nobody's":
                state = {"leader": 1, "leader_epoch": 0, "isr": [1, 2, 3], "partition_epoch": 0}
                story.add("zk_write", 1, what="state", step="created", zxid=1, **state)
        case "an epoch that no copy has":
            for row in story.rows["log_read"]:
                row["leader_epoch"] = 7
            story.rows["leadership"].clear()
            for node in (1, 2):
                story.commit(1, 1, 0, source="controller", process=f"node-{node}")
        case "an epoch of nobody's in the checkpoint" | "its own epochs in the checkpoint":
            state = {"leader": 1, "leader_epoch": 0, "isr": [1, 2, 3], "partition_epoch": 0}
            story.add("zk_write", 1, what="state", step="created", zxid=1, **state)
            strange = [{"leader_epoch": 7, "offset": 3}] if how.startswith("an") else []
            noted = [{"leader_epoch": 0, "offset": 0}, *strange]
            story.add("log_folder", 90_000, node=2, checkpoint=noted)
        case "another time":
            for row in story.rows["log_read"]:
                row["append_time_ms"] = 5 + (row["node"] == 3 and row["offset"] == 1)
        case "an offset twice":
            story.rows["log_read"].append(dict(story.rows["log_read"][-1]))
        case "a watermark below the end, one out of sync":
            for row in logs:
                row["high_watermark"] = 2
            story.rows["leadership"][0]["isr"] = [1, 2]
        case "a watermark below the end, one behind":
            for row in logs:
                row["high_watermark"] = 2
            logs[2]["log_end_offset"] = 2
    return story


UNKNOWN = (
    "a replica in sync is not read",
    "a partition is not read",
    "two leaders",
    "another leader",
    "a watermark beyond the end",
    "a watermark is not told",
    "an offset twice",
)
LAWFUL = (
    "nothing",
    "a replica out of sync is not read",
    "a partition of another topic is not read",
    "a partition of a topic that is gone is not read",
    "a watermark below the end, one out of sync",
    "a watermark below the end, one behind",
    "an epoch of which a watch may not know",
    "its own epochs in the checkpoint",
)
BROKEN = {
    "a watermark below the end": {"high-watermark-stuck": 1},
    "an epoch of nobody's": {"epoch-never-committed": 3},
    "an epoch that no copy has": {"epoch-never-committed": 3},
    "an epoch of nobody's in the checkpoint": {"epoch-never-committed": 1},
    "another time": {"replica-differs": 1},
}


def test_what_the_final_read_lacks(spark: Any) -> None:
    stories = {name: read(name) for name in (*UNKNOWN, *LAWFUL, *BROKEN)}
    found = judged_together(spark, check, stories)
    assert {name: rules for name, (rules, _) in found.items() if rules} == BROKEN
    why = [name for name, (rules, why) in found.items() if why and not rules]
    assert sorted(why) == sorted(UNKNOWN)

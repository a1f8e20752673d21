"""Loss that somebody would like to be excused, through the whole check: hostile stories, each with
its lawful twin. Which excuse holds when: tests/checkers/judging.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.judging.outcome import Outcome
from checkers.judging.verdict import Verdict
from checkers.promises.truncation_loss import check
from tests.checkers.together import Asks, apart, judging

LOST = {"acked-all-lost": 1}


def excused(outcome: Outcome) -> set[tuple[str, str]]:
    return {(one.rule, one.excuse) for one in outcome.excuses()}


def verdict(story: Any, outcome: Outcome) -> Verdict:
    return outcome.verdict([(story.arm, 0)])[0]


def plenty(story: Any, acks: int = -1) -> dict[int, int]:
    """Ten records that are there, so that one that is excused is no great share; they lie before
    all others. Their final log is returned."""
    for offset in range(10):
        story.produce(5, 1000 + offset, offset, acks=acks)
    return {offset: 1000 + offset for offset in range(10)}


def lose(story: Any, acks: int = -1, t: float = 90, **more: Any) -> None:
    story.produce(t, 7, 12, acks=acks, **{"invoke_t": t - 5, **more})


def delete(story: Any) -> None:
    story.add("topic_deletion", 92, topic="t", step="requested")
    story.add("topic_deletion", 96, topic="t", step="gone")


def demote(story: Any) -> None:
    """Node 1 led until 100; node 2 leads from then on, and node 1 follows it."""
    story.commit(0, 1, 0)
    story.commit(100, 2, 1)
    following = {"role": "follower", "leader": 2, "leader_epoch": 1}
    story.add("leader_change", 150, node=1, **following)


# -- said by the suspect alone --------------------------------------------------------------------


@judging(check)
def test_a_replica_that_was_deleted_with_its_topic(story: Any) -> Asks:
    """Twice: nobody deleted the topic; ZooKeeper has its deletion."""
    story.commit(0, 1, 0)
    kept = plenty(story)
    lose(story)
    story.add("fetch", 91, offset=12, value=7, poll=0)
    story.add("replica_stop", 95, node=1, leader_epoch=-2, delete=True)
    story.add("metadata_update", 95, node=1, leader=-2)
    story.final_log(kept)
    found = yield story
    assert found.counts == {**LOST, "read-then-gone": 1, "unexplained-removal": 1}
    delete(story)
    found = yield story
    assert not found.counts
    rules = ("acked-all-lost", "read-then-gone", "unexplained-removal")
    assert excused(found) == {(rule, "deleted") for rule in rules}


@pytest.mark.parametrize(
    ("assigned", "lawful"),
    [
        ([(0, [1, 2]), (90, [1, 2, 3]), (95, [2, 3]), (900, [1, 2])], True),
        ([(0, [1, 2]), (90, [1, 2, 3]), (99, [2, 3]), (900, [1, 2])], True),  # stopped before
        ([(0, [1, 2])], False),
        ([(0, [1, 2]), (9_000, [2, 3]), (9_500, [1, 2])], False),  # moved long after
        ([(0, [2, 3]), (50, [1, 2])], False),  # moved there before
        ([(0, [1, 2]), (95, [])], True),  # removed, with the topic
    ],
)
@judging(check)
def test_a_replica_that_was_moved_away_and_back(
    story: Any, assigned: list[tuple[float, list[int]]], lawful: bool
) -> Asks:
    story.commit(0, 1, 0)
    kept = plenty(story)
    for zxid, (t, nodes) in enumerate(assigned):
        made = {"what": "topic", "step": "set" if zxid else "created", "zxid": zxid}
        story.add("zk_write", t, replicas=nodes, commit_ms=int(t), **made)
    story.add("replica_stop", 96, node=1, leader_epoch=1, delete=True)
    story.final_log(kept)
    assert (yield story).counts.get("unexplained-removal", 0) == (not lawful)


@pytest.mark.parametrize(
    ("taken_up", "lawful"),
    [
        ([(60, 1)], True),  # it handles only now what it was sent before it came back
        ([(60, 1), (92, 3)], False),  # it had taken up what came after that
        ([(60, 1), (98, 3)], True),
        ([], False),
    ],
)
@judging(check)
def test_a_replica_that_is_deleted_late_was_away_in_the_epoch_that_its_broker_knows(
    story: Any, taken_up: list[tuple[float, int]], lawful: bool
) -> Asks:
    for t, epoch in ((0, 0), (50, 1), (85, 3)):
        story.commit(t, 2, epoch, commit_ms=t)
    kept = plenty(story)
    for zxid, (t, nodes) in enumerate([(0, [1, 2]), (70, [2, 3]), (80, [1, 2])]):
        made = {"what": "topic", "step": "set" if zxid else "created", "zxid": zxid}
        story.add("zk_write", t, replicas=nodes, commit_ms=int(t), **made)
    for t, epoch in taken_up:
        told = {"role": "follower", "leader": 2, "leader_epoch": epoch}
        story.add("leader_change", t, node=1, **told)
    story.add("replica_stop", 96, node=1, leader_epoch=1, delete=True)
    story.final_log(kept, node=1, leader=False)
    story.final_log(kept, node=2)
    assert (yield story).counts.get("unexplained-removal", 0) == (not lawful)


@judging(check)
def test_what_is_excused_is_shown_and_is_no_great_share(story: Any) -> Asks:
    story.commit(0, 1, 0)
    kept = plenty(story)
    lose(story)
    delete(story)
    story.final_log(kept)
    found = yield story
    assert excused(found) == {("acked-all-lost", "deleted")}
    assert verdict(story, found) is Verdict.VALID
    story.produce(120, 8, 13, acks=-1, invoke_t=110)  # after the topic was gone
    assert (yield story).counts == LOST
    del story.rows["produce"][:9], story.rows["produce"][-1]
    assert verdict(story, (yield story)) is Verdict.UNKNOWN


@judging(check)
def test_epochs_that_fall_to_0_excuse_nothing(story: Any) -> Asks:
    """Every partition falls to leader epoch 0 in the same znode, its partition epochs rising, and
    what was acknowledged before is gone."""
    for partition in range(3):
        for number, leader_epoch in enumerate((0, 1, 2, 0)):
            more = {"partition_epoch": number, "incarnation": "77", "partition": partition}
            story.commit(10 * number, 1, leader_epoch, **more)
        story.produce(25, partition, 12, acks=-1, partition=partition)
        story.final_log({0: 100 + partition}, partition=partition)
    assert (yield story).counts == {"acked-all-lost": 3}
    for row in story.rows["leadership"]:
        if row["partition_epoch"] == 3:
            row |= {"incarnation": "99", "partition_epoch": 0}
    delete(story)
    found = yield story
    assert not found.counts
    assert excused(found) == {("acked-all-lost", "deleted")}


@judging(check)
def test_whether_it_was_created_again_nobody_says(story: Any) -> Asks:
    story.commit(0, 1, 3)
    story.commit(100, 1, 0)
    kept = plenty(story)
    lose(story)
    story.final_log(kept)
    assert verdict(story, (yield story)) is Verdict.UNKNOWN


@judging(check)
def test_a_truncation_that_nobody_asked_for(story: Any) -> Asks:
    """Node 1 leads all the while, cuts its log, and says so; and the same after a demotion."""
    kept = plenty(story, acks=1)
    demote(story)
    lose(story, acks=1, node=1)
    story.add("truncation", 200, node=1, leader_epoch=1, from_offset=20, to_offset=10)
    story.final_log(kept, 1, leader=False)
    story.final_log(kept, 2)
    found = yield story
    assert not found.counts
    assert found.arms[story.arm]["lost"] == {"before_commit": 1}
    del story.rows["leadership"][1], story.rows["leader_change"]
    for row in story.rows["log_end"]:
        row["is_leader"] = row["node"] == 1
    for row in story.rows["truncation"]:
        row["leader_epoch"] = 0
    counts = {"unexplained-loss": 1, "unexplained-truncation": 1}
    assert (yield story).counts == counts


@judging(check)
def test_an_epoch_that_the_broker_made_up(story: Any) -> Asks:
    """Nothing is lost, for it fetched the records anew: it would have been, had its leader died."""
    kept = plenty(story)
    story.commit(0, 2, 0)
    story.add("truncation", 200, node=1, leader_epoch=1, from_offset=10, to_offset=0)
    story.commit(5000, 2, 0, partition_epoch=1)  # long after, the watch was alive
    story.final_log(kept, 1, leader=False)
    story.final_log(kept, 2)
    assert (yield story).counts == {"unexplained-truncation": 1}
    story.add("forged", 150, node=1, api="LEADER_AND_ISR", lie="x", error=0, partition_error=0)
    found = yield story
    assert not found.counts
    assert excused(found) == {("unexplained-truncation", "forged")}


@judging(check)
def test_a_later_record_of_the_same_leader_survived(story: Any) -> Asks:
    """Its broker was demoted and truncated, lawfully; yet the next leader holds what it wrote after
    that record, and so had the record."""
    kept = plenty(story, acks=1)
    demote(story)
    lose(story, acks=1, node=1)
    story.add("truncation", 200, node=1, leader_epoch=1, from_offset=20, to_offset=10)
    story.final_log(kept, 1, leader=False)
    story.final_log({**kept, 10: 1, 11: 2, 13: 3}, 2)
    assert (yield story).counts == {"unexplained-loss": 1}
    for row in story.rows["log_read"]:
        row["leader_epoch"] = int(row["offset"] >= 10)
    assert not (yield story).counts


@judging(check)
def test_a_leader_whose_log_begins_anew(story: Any) -> Asks:
    """It goes on to lead, with other records at the same offsets, and no truncation is told of."""
    story.commit(0, 1, 0)
    plenty(story, acks=1)
    story.add("fetch", 20, offset=3, value=1003, poll=0)
    story.add("leader_change", 1, node=1, role="leader", leader=1, leader_epoch=0)
    story.final_log({offset: 2000 + offset for offset in range(5)})
    assert (yield apart(story)).counts == {"unexplained-loss": 10, "read-then-changed": 1}


@judging(check)
def test_a_broker_that_is_down_only_by_its_own_word(story: Any) -> Asks:
    """Its log need not have been cut if it does not run: that, the harness says."""
    kept = plenty(story, acks=1)
    demote(story)
    lose(story, acks=1, node=1)
    story.add("log_end", 90_000, node=1, is_leader=False, error="NOT_LEADER_OR_FOLLOWER")
    story.final_log(kept, 2)
    assert verdict(story, (yield story)) is Verdict.UNKNOWN
    story.add("node_event", 200, node=1, event="kill")
    found = yield story
    assert excused(found) == {("unexplained-loss", "stranded")}
    assert verdict(story, found) is Verdict.VALID
    story.add("node_event", 300, node=1, event="start")
    assert verdict(story, (yield story)) is Verdict.UNKNOWN


@judging(check)
def test_a_broker_that_has_yet_to_follow(story: Any) -> Asks:
    kept = plenty(story, acks=1)
    demote(story)
    lose(story, acks=1, node=1)
    story.final_log({**kept, 10: 1, 11: 2, 12: 7}, 1, leader=False)
    story.final_log(kept, 2)
    found = yield story
    assert excused(found) == {("unexplained-loss", "held")}
    assert not found.counts
    for row in story.rows["log_read"]:
        row["value"] = 99 if row["value"] == 7 else row["value"]
    assert (yield story).counts == {"unexplained-loss": 1}


@judging(check)
def test_a_log_that_was_torn_while_others_were_in_sync(story: Any) -> Asks:
    detail = json.dumps({"partition": "t-0", "mode": "cut", "from_offset": 11, "next_offset": 14})
    for phase, at in (("inject", 95), ("injected", 96), ("heal", 110), ("healed", 120)):
        fields = {"fault": "torn-tail", "id": "tear", "phase": phase, "detail": detail}
        story.add("fault", at, nodes=[1], **fields)
    story.commit(0, 1, 0, isr=[1, 2])
    kept = plenty(story)
    lose(story)
    story.final_log(kept)
    assert (yield story).counts == LOST
    story.rows["leadership"][0]["isr"] = [1]
    found = yield story
    assert not found.counts
    assert excused(found) == {("acked-all-lost", "damage")}


# -- where logs begin -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("configs", "brokers", "lawful"),
    [
        ({"retention.ms": "100"}, {}, True),
        ({"retention.bytes": "1000"}, {}, True),
        ({}, {"log.retention.minutes": "1"}, True),
        ({}, {}, False),
        ({"retention.ms": "604800000", "retention.bytes": "-1"}, {}, False),
        ({"retention.ms": "-1"}, {"log.retention.ms": "10", "log.retention.hours": "1"}, False),
    ],
)
@judging(check)
def test_log_starts_that_jump_to_the_end(
    story: Any, configs: dict[str, str], brokers: dict[str, str], lawful: bool
) -> Asks:
    """On every replica. Where nothing expires, what lies below is lost, and was read."""
    story.run["topics"] = {"t": {"configs": configs}}
    story.run["settings"] = {"overrides": brokers}
    story.commit(0, 1, 0)
    lose(story)
    story.add("fetch", 95, offset=12, value=7, poll=0)
    for node in (1, 2, 3):
        story.final_log({}, node, leader=node == 1, log_start_offset=20, log_end_offset=20)
    counts = {} if lawful else {**LOST, "read-then-gone": 1, "log-start-moved": 3}
    found = yield story
    assert found.counts == counts
    assert found.arms[story.arm].get("acked_all_purged", 0) == lawful


@judging(check)
def test_one_follower_that_begins_later(story: Any) -> Asks:
    story.commit(0, 1, 0)
    kept = plenty(story)
    story.final_log(kept)
    story.final_log({o: v for o, v in kept.items() if o > 4}, 2, leader=False, log_start_offset=5)
    assert (yield story).counts == {"log-start-moved": 1}


# -- faults that failed; how much was there -------------------------------------------------------


@judging(check)
def test_a_fault_that_failed_elsewhere_hides_no_loss(story: Any) -> Asks:
    story.commit(0, 1, 0)
    for t, phase in ((50, "inject"), (51, "failed")):
        story.add("fault", t, fault="toxic", id="a", phase=phase, nodes=[3])
    lose(story)
    story.final_log({0: 1})
    assert (yield story).counts == LOST


@judging(check)
def test_a_trial_without_an_acknowledged_record_proves_nothing(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.add("fetch", 50, offset=0, value=1, poll=0)
    story.final_log({0: 1})
    assert verdict(story, (yield story)) is Verdict.UNKNOWN


def test_many_losses_are_judged_where_they_are_and_alike(
    story: Any, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every one of them is classified and counted; the first few are shown."""
    story.commit(0, 1, 0)
    story.commit(60, 2, 1)
    story.add("leader_change", 400, node=1, role="follower", leader=2, leader_epoch=1)
    for value in range(30):
        story.produce(90 + value, value, value + 10, acks=1 if value % 3 else -1, node=1)
        story.add("fetch", 200 + value, offset=value + 10, value=value, poll=value)
    story.final_log({0: 100}, node=2)
    story.final_log({0: 100}, node=1, leader=False)
    here = check(story.history(spark))
    assert here.counts == {"acked-all-lost": 10, "unexplained-loss": 20, "read-then-gone": 30}
    assert here.arms[story.arm]["lost"] == {"acked_all": 10, "unexplained": 20}
    first = [f.says.split()[1] for f in here.findings if f.rule == "acked-all-lost"]
    assert first == ["0", "3", "6", "9", "12"]
    monkeypatch.setattr("checkers.judging.tally.ON_THE_DRIVER", 0)
    there = check(story.history(spark))
    assert there == here
    assert [f.says for f in there.findings[:2]] == [f.says for f in here.findings[:2]]


@pytest.mark.parametrize(
    ("told", "seq", "wrong"), [(20, 5, True), (11, 5, True), (10, 5, False), (20, 7, False)]
)
@judging(check)
def test_who_told_of_a_longer_log_as_it_took_up_the_lead_has_cut_as_its_leader(
    story: Any, told: int, seq: int, wrong: bool
) -> Asks:
    kept = plenty(story)
    story.commit(0, 2, 0)
    story.commit(190, 1, 1)
    role = {"role": "leader", "leader": 1, "leader_epoch": 1, "log_end_offset": told}
    story.add("leader_change", 195, node=1, boot=1, seq=seq, **role)
    cut = {"leader_epoch": 1, "from_offset": 20, "to_offset": 10}
    story.add("truncation", 200, node=1, boot=1, seq=6, **cut)
    story.final_log(kept, 1)
    story.final_log(kept, 2, leader=False)
    assert (yield story).counts == ({"unexplained-truncation": 1} if wrong else {})

"""Loss and its excuses: each with its witness, and the same story without it.

What the suspect says of itself (its truncations, its stops, its log's start) excuses nothing; what
ZooKeeper, the harness or the final log of another says does.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.judging.outcome import Outcome
from checkers.judging.verdict import Verdict
from checkers.promises.truncation_loss import check

pytestmark = pytest.mark.spark
LOST = {"acked-all-lost": 1}


def judged(story: Any, spark: Any) -> Outcome:
    return check(story.history(spark))


def excused(outcome: Outcome) -> set[tuple[str, str]]:
    return {(one.rule, one.excuse) for one in outcome.excuses()}


def plenty(story: Any, acks: int = -1, first: int = 1000, **more: Any) -> dict[int, int]:
    """Ten records that are there, so that one that is excused is no great share. They lie before
    all others; their final log is returned."""
    for value in range(first, first + 10):
        story.produce(5, value, value - first, acks=acks, **more)
    return {value - first: value for value in range(first, first + 10)}


def lose(story: Any, acks: int = -1, t: float = 90, **more: Any) -> None:
    story.produce(t, 7, 12, acks=acks, **{"invoke_t": t - 5, **more})


# -- the topic was deleted ------------------------------------------------------------------------


def deleted(story: Any, *, requested: float = 92, gone: float | None = 96) -> None:
    story.add("topic_deletion", requested, topic="t", step="requested")
    if gone is not None:
        story.add("topic_deletion", gone, topic="t", step="gone")


def test_a_deletion_that_zookeeper_has_excuses(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0)
    deleted(story)
    kept = plenty(story)
    lose(story)
    story.final_log(kept)
    found = judged(story, spark)
    assert not found.counts
    assert excused(found) == {("acked-all-lost", "deleted")}
    assert found.verdict([(story.arm, 0)])[0] is Verdict.VALID


def test_only_what_came_before_it(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0)
    deleted(story)
    lose(story, t=120)
    story.final_log({0: 1})
    assert judged(story, spark).counts == LOST


def test_a_deletion_that_is_not_over_excuses_all_that_comes(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0)
    deleted(story, gone=None)
    lose(story, t=120)
    story.final_log({0: 1})
    assert not judged(story, spark).counts


@pytest.mark.parametrize("word", ["stop", "no leader"])
def test_a_brokers_own_word_for_a_deletion_excuses_nothing(
    story: Any, spark: Any, word: str
) -> None:
    story.commit(0, 1, 0)
    lose(story)
    if word == "stop":
        story.add("replica_stop", 95, node=1, leader_epoch=-2, delete=True)
    else:
        story.add("metadata_update", 95, node=1, leader=-2)
    story.final_log({0: 1}, 2)
    assert judged(story, spark).counts == LOST


def test_another_topics_deletion_excuses_nothing(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0)
    deleted(story)
    story.rows["topic_deletion"][0]["topic"] = story.rows["topic_deletion"][1]["topic"] = "other"
    lose(story)
    story.final_log({0: 1})
    assert judged(story, spark).counts == LOST


def test_a_topic_that_was_created_again_lost_its_records(story: Any, spark: Any) -> None:
    """KRaft: nobody but the topic's id tells."""
    for process in ("node-1", "node-2"):
        story.commit(0, 1, 3, incarnation="a", source="controller", process=process)
        story.commit(100, 1, 0, incarnation="b", source="controller", process=process)
    lose(story)
    story.final_log({0: 1})
    found = judged(story, spark)
    assert not found.counts
    assert excused(found) == {("acked-all-lost", "deleted")}
    for row in story.rows["leadership"]:
        row["incarnation"] = "a"
    assert judged(story, spark).counts == LOST


def test_epochs_that_fall_to_0_excuse_nothing(story: Any, spark: Any) -> None:
    """Every partition falls to leader epoch 0 in the same znode, its partition epochs rising, and
    what was acknowledged before is gone."""
    for partition in range(3):
        for number, leader_epoch in enumerate((0, 1, 2, 0)):
            more = {"partition_epoch": number, "incarnation": "77", "partition": partition}
            story.commit(10 * number, 1, leader_epoch, **more)
        story.produce(25, partition, 12, acks=-1, partition=partition)
        story.final_log({0: 100 + partition}, partition=partition)
    assert judged(story, spark).counts == {"acked-all-lost": 3}


def test_where_nobody_says_whether_it_was_created_again_it_is_unknown(
    story: Any, spark: Any
) -> None:
    story.commit(0, 1, 3)
    story.commit(100, 1, 0)
    lose(story)
    story.final_log({0: 1})
    found = judged(story, spark)
    assert not found.counts
    assert any("created again" in why for why in found.unknowns)


# -- unclean elections ----------------------------------------------------------------------------


def unclean(story: Any, *, happened: bool = True, topic: str = "t") -> None:
    story.run["topics"] = {topic: {"configs": {"unclean.leader.election.enable": "true"}}}
    story.commit(0, 1, 0, isr=[1])
    story.commit(100, 2 if happened else 1, 1, isr=[2])


def test_an_unclean_election_excuses(story: Any, spark: Any) -> None:
    unclean(story)
    lose(story)
    story.final_log({0: 1}, 2, leader_epoch=1)
    found = judged(story, spark)
    assert not found.counts
    assert excused(found) == {("acked-all-lost", "unclean")}


def test_one_that_may_happen_and_did_not_excuses_nothing(story: Any, spark: Any) -> None:
    unclean(story, happened=False)
    lose(story)
    story.final_log({0: 1})
    assert judged(story, spark).counts == LOST


def test_it_excuses_only_the_topic_that_allows_it(story: Any, spark: Any) -> None:
    unclean(story, topic="lax")
    lose(story)
    story.final_log({0: 1}, 2, leader_epoch=1)
    assert judged(story, spark).counts == LOST


# -- damaged logs ---------------------------------------------------------------------------------


def torn(story: Any, node: int = 1, t: float = 80, mode: str = "cut", **more: Any) -> None:
    where = {"partition": "t-0", "mode": mode, "from_offset": 11, "next_offset": 14, **more}
    for phase, at in (("inject", t), ("injected", t + 5), ("heal", t + 30), ("healed", t + 40)):
        detail = json.dumps(where if phase != "inject" else {})
        story.add(
            "fault", at, fault="torn-tail", id="tear", phase=phase, nodes=[node], detail=detail
        )


def test_what_was_cut_off_the_only_replica_in_sync_is_lost(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0, isr=[1])
    lose(story, t=70)
    torn(story)
    story.final_log({0: 1})
    found = judged(story, spark)
    assert not found.counts
    assert excused(found) == {("acked-all-lost", "damage")}


@pytest.mark.parametrize(
    "lack",
    ["never alone", "only added to", "elsewhere", "another partition", "alone long after"],
)
def test_damage_excuses_nothing_else(story: Any, spark: Any, lack: str) -> None:
    story.commit(0, 1, 0, isr=[1, 2] if lack in ("never alone", "alone long after") else [1])
    if lack == "alone long after":
        story.commit(5000, 1, 0, isr=[1], partition_epoch=9)
    lose(story, t=70)
    more: dict[str, Any] = {"partition": "t-1"} if lack == "another partition" else {}
    more |= {"from_offset": 13} if lack == "elsewhere" else {}
    torn(story, mode="garbage" if lack == "only added to" else "cut", **more)
    story.final_log({0: 1})
    assert judged(story, spark).counts == LOST


def test_two_torn_nodes_may_be_all_that_is_in_sync(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0, isr=[1, 2])
    lose(story, t=70)
    torn(story)
    for row in story.rows["fault"]:
        row["nodes"] = [1, 2]
    story.final_log({0: 1})
    assert not judged(story, spark).counts


# -- forged requests ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "lawful"),
    [
        ({"error": 0, "partition_error": 0}, True),
        ({"error": None, "type": "info"}, True),  # nobody knows what became of it
        ({"error": 11}, False),
        ({"error": 0, "partition_error": 11}, False),
        ({"error": 0, "partition_error": 0, "lie": "stale_leader_epoch"}, False),
        ({"error": 0, "partition_error": 0, "api": "UPDATE_METADATA"}, False),
        ({"error": 0, "partition_error": 0, "partition": 1}, False),
    ],
)
def test_only_a_forgery_that_was_believed_excuses(
    story: Any, spark: Any, fields: dict[str, Any], lawful: bool
) -> None:
    story.commit(0, 1, 0)
    lose(story)
    told = {"api": "LEADER_AND_ISR", "lie": "future_leader_epoch", **fields}
    story.add("forged", 50, node=1, **told)
    story.final_log({0: 1})
    found = judged(story, spark)
    assert found.counts == ({} if lawful else LOST)
    assert excused(found) == ({("acked-all-lost", "forged")} if lawful else set())


# -- read and gone --------------------------------------------------------------------------------


def test_what_was_read_may_go_with_its_topic_and_that_is_counted(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0)
    deleted(story)
    kept = plenty(story)
    story.add("fetch", 50, offset=12, value=7, poll=0)
    story.final_log(kept)
    found = judged(story, spark)
    assert excused(found) == {("read-then-gone", "deleted")}
    assert not found.counts
    del story.rows["topic_deletion"]
    assert judged(story, spark).counts == {"read-then-gone": 1}


# -- where logs begin -----------------------------------------------------------------------------


@pytest.mark.parametrize("configs", [{"retention.ms": "100"}, {"retention.bytes": "1000"}])
def test_what_retention_took_is_purged(story: Any, spark: Any, configs: dict[str, str]) -> None:
    story.run["topics"] = {"t": {"configs": configs}}
    story.commit(0, 1, 0)
    lose(story)
    for node in (1, 2):
        story.final_log({20: 100}, node, leader=node == 1, log_start_offset=20)
    found = judged(story, spark)
    assert not found.counts
    assert found.arms[story.arm]["acked_all_purged"] == 1


@pytest.mark.parametrize(
    "configs",
    [{}, {"retention.ms": "604800000"}, {"retention.ms": "-1"}, {"retention.bytes": "-1"}],
)
def test_where_nothing_expires_no_log_begins_later(
    story: Any, spark: Any, configs: dict[str, str]
) -> None:
    """Every replica's log start jumps to its end: what lies below is lost, and was read."""
    story.run["topics"] = {"t": {"configs": configs}}
    story.commit(0, 1, 0)
    lose(story)
    story.add("fetch", 95, offset=12, value=7, poll=0)
    for node in (1, 2, 3):
        story.final_log({}, node, leader=node == 1, log_start_offset=20, log_end_offset=20)
    counts = {**LOST, "read-then-gone": 1, "log-start-moved": 3}
    assert judged(story, spark).counts == counts


def test_a_brokers_own_retention_may_move_it(story: Any, spark: Any) -> None:
    story.run["settings"] = {"overrides": {"log.retention.minutes": "1"}}
    story.commit(0, 1, 0)
    lose(story)
    story.final_log({20: 100}, log_start_offset=20)
    assert not judged(story, spark).counts
    story.run["settings"] = {"overrides": {"log.retention.hours": "168"}}
    assert judged(story, spark).counts == {**LOST, "log-start-moved": 1}


def test_one_follower_that_begins_later_is_a_violation(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0)
    kept = plenty(story)
    story.final_log(kept)
    story.final_log({o: v for o, v in kept.items() if o > 4}, 2, leader=False, log_start_offset=5)
    assert judged(story, spark).counts == {"log-start-moved": 1}


# -- faults that failed ---------------------------------------------------------------------------


def test_a_fault_that_failed_elsewhere_hides_no_loss(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0)
    for t, phase in ((50, "inject"), (51, "failed")):
        story.add("fault", t, fault="toxic", id="a", phase=phase, nodes=[3])
    lose(story)
    story.final_log({0: 1})
    assert judged(story, spark).counts == LOST


# -- how much was there ---------------------------------------------------------------------------


def test_a_trial_without_an_acknowledged_record_proves_nothing(story: Any, spark: Any) -> None:
    story.commit(0, 1, 0)
    story.add("fetch", 50, offset=0, value=1, poll=0)
    story.final_log({0: 1})
    assert judged(story, spark).verdict([(story.arm, 0)])[0] is Verdict.UNKNOWN


def test_what_is_not_classified_is_counted(
    story: Any, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those with acks=all come first."""
    monkeypatch.setattr("checkers.promises.lost.JUDGED", 2)
    story.commit(0, 1, 0)
    for value in range(6):
        story.produce(90, value, value + 10, acks=1 if value < 4 else -1)
    story.final_log({0: 100})
    found = judged(story, spark)
    assert found.counts == {"acked-all-lost": 2}
    assert found.arms[story.arm]["lost"] == {"acked_all": 2, "unclassified": 4}
    assert found.unknowns

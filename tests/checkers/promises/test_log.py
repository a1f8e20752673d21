"""Jepsen's anomalies and replica agreement, both ways."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.judging.outcome import Outcome
from checkers.promises.log import check

pytestmark = pytest.mark.spark


def judged(story: Any, spark: Any) -> Outcome:
    return check(story.history(spark))


def poll(story: Any, number: int, *offsets: int, process: str = "c1", **more: Any) -> None:
    for offset in offsets:
        story.add("fetch", 10 + number, offset=offset, value=offset, poll=number, process=process,
                  **more)  # fmt: skip


def test_a_sound_history(story: Any, spark: Any) -> None:
    log = {v: v for v in range(10)}
    for value in log:
        story.produce(5, value, value, acks=-1)
    poll(story, 0, 0, 1, 2)
    poll(story, 1, 3, 4, 5, 6, 7, 8, 9)
    story.final_log(log)
    story.final_log(log, 2, leader=False)
    found = judged(story, spark)
    assert not found.counts
    assert not found.unknowns
    assert found.arms[story.arm]["replicas"] == 2


def test_replicas_that_differ_below_the_high_watermark(story: Any, spark: Any) -> None:
    story.final_log({0: 1, 1: 2, 2: 3})
    story.final_log({0: 1, 1: 9, 2: 3}, 2, leader=False)
    assert judged(story, spark).counts == {"replica-differs": 1}


def test_the_same_value_in_another_epoch_differs_too(story: Any, spark: Any) -> None:
    story.final_log({0: 1})
    story.final_log({0: 1}, 2, leader=False, leader_epoch=3)
    assert judged(story, spark).counts == {"replica-differs": 1}


def test_beyond_a_replicas_own_high_watermark_it_may_differ(story: Any, spark: Any) -> None:
    story.final_log({0: 1, 1: 2, 2: 3})
    story.final_log({0: 1, 1: 9, 2: 8}, 2, leader=False, high_watermark=1)
    assert not judged(story, spark).counts


@pytest.mark.parametrize(("torn", "excused"), [(1, True), (3, False)])
def test_a_torn_log_excuses_what_its_node_alone_had(
    torn: int, excused: bool, story: Any, spark: Any
) -> None:
    """Node 1 was once all of the in-sync set; a node that was not may not spoil anything."""
    story.add("fault", 5, fault="torn-tail", id="x", phase="injected", nodes=[torn])
    story.commit(1, 2, 0)
    story.commit(6, -1, 1, isr=[1])
    story.commit(7, 1, 2, isr=[1])
    story.commit(9, 1, 2, partition_epoch=3)
    story.final_log({0: 1, 1: 2})
    story.final_log({0: 1, 1: 1}, 3, leader=False)
    assert judged(story, spark).counts == ({} if excused else {"replica-differs": 1})


def test_a_hole_in_a_replica(story: Any, spark: Any) -> None:
    story.final_log({v: v for v in range(6)})
    story.final_log({v: v for v in range(6) if v != 3}, 2, leader=False)
    story.final_log({v: v for v in range(2, 6)}, 3, leader=False, log_start_offset=2)
    assert judged(story, spark).counts == {"replica-hole": 2}  # no log may begin at 2
    story.run["topics"] = {"t": {"configs": {"retention.ms": "1000"}}}
    assert judged(story, spark).counts == {"replica-hole": 1}


@pytest.mark.parametrize(("took_ms", "violations"), [(5, 1), (300, 0)])
def test_twice_in_the_log_unless_it_was_retried(
    story: Any, spark: Any, took_ms: int, violations: int
) -> None:
    story.produce(500, 7, 0, invoke_t=500 - took_ms)
    story.final_log({0: 7, 1: 7})
    found = judged(story, spark)
    assert sum(found.counts.values()) == violations
    assert found.arms[story.arm]["duplicates"] == 1


def test_a_certain_failure_that_landed(story: Any, spark: Any) -> None:
    story.produce(10, 1, None, type="fail", error=10)
    story.produce(10, 2, None, type="fail", error=6)  # NOT_LEADER_OR_FOLLOWER is never certain
    story.final_log({0: 1, 1: 2})
    assert judged(story, spark).counts == {"failed-write-visible": 1}


def test_two_consumers_that_disagree(story: Any, spark: Any) -> None:
    story.add("fetch", 10, offset=0, value=1, poll=0, process="c1")
    story.add("fetch", 10, offset=0, value=2, poll=0, process="c2")
    story.final_log({0: 1})
    assert judged(story, spark).counts == {"inconsistent-offset": 1}


def test_going_back(story: Any, spark: Any) -> None:
    story.final_log({v: v for v in range(6)})
    poll(story, 0, 0, 1, 2)
    poll(story, 1, 1, 2, 3)
    poll(story, 0, 0, 1, process="c2")  # another consumer begins where it likes
    assert judged(story, spark).counts == {"poll-went-back": 1}


def test_going_back_after_a_reset_is_lawful(story: Any, spark: Any) -> None:
    story.final_log({v: v for v in range(6)})
    poll(story, 0, 0, 1, 2)
    story.add("fetch", 11, poll=1, process="c1", type="fail", error=1)
    poll(story, 2, 0, 1)
    assert not judged(story, spark).counts


def test_a_skip_needs_a_record_to_be_skipped(story: Any, spark: Any) -> None:
    story.final_log({0: 0, 1: 1, 4: 4, 5: 5, 6: 6})  # 2 and 3 are no records
    poll(story, 0, 0, 1)
    poll(story, 1, 4)
    assert not judged(story, spark).counts
    poll(story, 2, 6)
    assert judged(story, spark).counts == {"poll-skipped": 1}

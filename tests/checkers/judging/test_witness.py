"""Witness rows: of what a pick matches the first or the last few, and no more."""

from __future__ import annotations

from typing import Any

from checkers.judging.witness import Finding, Pick, attach

MS = 1_000_000


def shown(story: Any, spark: Any, *picks: Pick) -> list[dict[str, Any]]:
    finding = Finding("rule", "says", story.arm, story.trial, picks)
    other = Finding("rule", "says", story.arm, 7, picks)  # of a trial in which nothing happened
    first, nothing = attach(story.history(spark), [finding, other])
    assert not nothing.events
    return first.events


def test_the_first_or_the_last_of_many(story: Any, spark: Any) -> None:
    for number in range(50):
        story.produce(100 - number, number, number)
        story.add("fetch", 100 + number, offset=number, value=number)
    story.trial = 1
    story.produce(1, 99, 99)
    story.trial = 0
    events = shown(
        story,
        spark,
        Pick("produce", {"topic": "t"}, rows=2),
        Pick("produce", {"topic": "t"}, from_t=90 * MS, to_t=99 * MS, last=True),
        Pick("fetch", {}, last=True, rows=1),
        Pick("produce", {"value": 49}),  # the same row again
        Pick("fetch", {"value": None}),
        Pick("log_end", {}),
    )
    assert [(e["f"], e["value"]) for e in events] == [
        ("produce", 49), ("produce", 48), ("produce", 3), ("produce", 2), ("produce", 1),
        ("fetch", 49),
    ]  # fmt: skip


def test_a_pick_of_one_partition_of_many(story: Any, spark: Any) -> None:
    for t, partitions in ((10, [0]), (20, [0, 1]), (30, [1])):
        story.handled(t, 1, partitions=[{"topic": "t", "partition": p} for p in partitions])
    (event,) = shown(story, spark, Pick("control_request", {"node": 1}, at=("t", 1), rows=1))
    assert event["t"] == 20 * MS
    assert [(p["topic"], p["partition"]) for p in event["partitions"]] == [("t", 1)]
    assert not shown(story, spark, Pick("control_request", {"node": 1}, at=("t", 2)))


def test_rows_of_one_moment_are_shown_in_the_order_of_the_history(story: Any, spark: Any) -> None:
    for value in range(5):
        story.produce(10, value, value)
    pick = Pick("produce", {})
    assert [e["value"] for e in shown(story, spark, pick)] == [0, 1, 2]
    pick = Pick("produce", {}, last=True)
    assert [e["value"] for e in shown(story, spark, pick)] == [2, 3, 4]

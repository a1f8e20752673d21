"""Metrics of the controller's queues that lie, and those that only look as if they did."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from checkers.promises.controller_queues import LOOKS, check
from tests.checkers.together import Asks, apart, judging

WAY: dict[str, Any] = {"node": 1, "boot": 1, "to": 2}


def slow_channel(story: Any, *, start: int = 0, epoch: int = 1, count: int = 41) -> None:
    """A request every 10 ms, answered every 100 ms: each waits 90 ms longer than the one before."""
    for number in range(count):
        story.add(
            "control_send", start + 100 * number, **WAY, api="UPDATE_METADATA", partitions=[],
            correlation_id=number, controller_epoch=epoch, broker_epoch=7, attempt=1,
            enqueue_t=start + 10 * number,
        )  # fmt: skip


def look(story: Any, t: float, size: int, taken: int, longest_ms: float, **more: Any) -> None:
    longest_us = int(longest_ms * 1000)
    fields = {"queue_time_p99_us": longest_us, "queue_time_max_us": longest_us, **WAY, **more}
    story.add("channel_queue", t, from_t=int(t * 1e6) - 1000, size=size, taken=taken, **fields)


def truthful(story: Any, start: int = 0) -> None:
    """At 255 ms: 0 to 25 have entered; 0, 1 and 2 have been sent, 3 is in hand since 251. The last
    of the three was behind 1 until that was sent, at 100: it came at 20."""
    look(story, start + 255, 22, 4, 221)


@judging(check)
def test_metrics_that_tell_it(story: Any) -> Asks:
    slow_channel(story)
    truthful(story)
    look(story, 255, 23, 3, 180)  # 3 is still in the queue
    look(story, 255, 21, 4, 221)  # and 25 is on its way in
    look(story, 255, 23, 3, 80)
    found = yield story
    assert found.verdict([(story.arm, 0)]) == (Verdict.VALID, [])
    assert found.evidence[story.arm, 0, LOOKS] == 4
    figures = found.arm(story.arm)
    assert (figures["size_max"], figures["queue_time_max_ms"]) == (23, 221)
    assert figures["by_broker"]["2"]["size_max"] == 23


@pytest.mark.parametrize(
    ("rule", "size", "taken", "longest_ms"),
    [
        ("queue-size", 0, 4, 221),
        ("queue-size", 20, 4, 221),
        ("queue-size", 24, 4, 221),
        ("queue-count", 22, 2, 221),
        ("queue-count", 22, 5, 221),
        ("queue-time", 22, 4, 0),
        ("queue-time", 22, 4, 78),
        ("queue-time", 22, 4, 227),
    ],
)
@judging(check)
def test_metrics_that_do_not(
    story: Any, rule: str, size: int, taken: int, longest_ms: float
) -> Asks:
    slow_channel(story)
    truthful(story)
    look(story, 255, size, taken, longest_ms)
    found = yield apart(story) if size == 0 else story
    assert found.counts == {rule: 1}
    assert "controller 1 to broker 2: " in found.findings[0].says


@pytest.mark.parametrize(
    ("at", "size", "taken", "longest_ms"),
    [
        (401, 4000, 400, 9999),  # whatever else entered, and was dropped with the channel
        (600.5, 32, 7, 440),
        (4001, 0, 41, 3510),
        (4001, 0, 0, 0),  # the channel may have ended, and another one begun
        (4001, 4000, 400, 9999),
    ],
)
@judging(check)
def test_what_came_after_the_last_that_left_is_not_known(
    story: Any, at: float, size: int, taken: int, longest_ms: float
) -> Asks:
    """What entered then went with the channel, and left no trace: there may be any more."""
    slow_channel(story)
    look(story, at, size, taken, longest_ms)
    assert (yield story).verdict([(story.arm, 0)]) == (Verdict.VALID, [])


@pytest.mark.parametrize(
    ("at", "size", "taken", "longest_ms", "rule"),
    [
        (600.5, 0, 7, 450, "queue-size"),  # 34 that were to be sent later
        (600.5, 34, 2, 450, "queue-count"),
        (600.5, 34, 7, 0.45, "queue-time"),  # in seconds
        (4001, 0, 41, 3.51, "queue-time"),
    ],
)
@judging(check)
def test_what_was_there_after_the_last_had_entered_was_there(
    story: Any, at: float, size: int, taken: int, longest_ms: float, rule: str
) -> Asks:
    """A link that is down for seconds: all have entered by then, and wait."""
    slow_channel(story)
    look(story, at, size, taken, longest_ms)
    assert (yield story).counts == {rule: 1}


@judging(check)
def test_nobody_looks_before_the_first_request(story: Any) -> Asks:
    slow_channel(story, start=1000)
    look(story, 900, 7, 7, 7)
    truthful(story, start=1000)
    found = yield story
    assert found.evidence[story.arm, 0, LOOKS] == 1
    assert not found.counts


@judging(check)
def test_a_new_channel_counts_anew(story: Any) -> Asks:
    slow_channel(story)
    truthful(story)
    slow_channel(story, start=10_000, epoch=2)
    truthful(story, start=10_000)
    assert (yield story).verdict([(story.arm, 0)]) == (Verdict.VALID, [])
    look(story, 10_255, 22, 4 + 41, 221)
    assert (yield story).counts == {"queue-count": 1}


@judging(check)
def test_what_is_sent_again_is_taken_once(story: Any) -> Asks:
    slow_channel(story)
    for number in range(1, 8):
        story.add(
            "control_send", 100 + number, **WAY, api="UPDATE_METADATA", partitions=[],
            correlation_id=100 + number, controller_epoch=1, broker_epoch=7, attempt=1 + number,
            enqueue_t=10,
        )  # fmt: skip
    truthful(story)
    assert not (yield story).counts


@judging(check)
def test_without_a_look_nothing_is_said(story: Any) -> Asks:
    slow_channel(story)
    assert (yield story).verdict([(story.arm, 0)])[0] is Verdict.UNKNOWN

"""Partitions that are led as soon as one of their replicas lives, and each thing that they may have
waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.epochs.first_leaders import FIRST, LIMIT_NS, first_leaders
from tests.checkers.conftest import ARM, MS
from tests.checkers.promises.epochs.zookeepers_log import ZookeepersLog
from tests.checkers.together import Asks, judging, ruled

MADE, BACK = 20_000, 23_000
LIMIT_MS = LIMIT_NS // MS
LATE = BACK + LIMIT_MS + 1_500
"""That long after all was there."""
RULE = "made-without-leader"


class Log(ZookeepersLog):
    def topic(self, t: float, *replicas: int, step: str = "created", **more: Any) -> None:
        fields = {"topic": "t", "partition": 0, "replicas": list(replicas), **more}
        self.write(t, "topic", step, **fields)

    def led(self, t: float, partition: int = 0) -> None:
        fields = {"topic": "t", "partition": partition, "leader": 2, "leader_epoch": 0}
        self.write(t, "state", "created", **fields, isr=[2])

    def fault(self, name: str, from_t: float, to_t: float) -> None:
        for t, phase in ((from_t, "inject"), (from_t + 1, "injected"), (to_t, "healed")):
            self.story.add("fault", t, fault=name, id=name, phase=phase, nodes=[2])

    def event(self, t: float, node: int, event: str) -> None:
        self.story.add("node_event", t, node=node, event=event)

    def until(self, t: float) -> None:
        self.story.add("phase", t, name="settle", event="end")


def begin() -> Log:
    """Three brokers, of which 1 is in office."""
    log = Log()
    for node in (1, 2, 3):
        log.comes(100 + node, node)
    log.office(110, 1)
    return log


def away(log: Log) -> None:
    """A topic is made on a broker that is away, and comes back."""
    log.goes(MADE - 1_000, 2)
    log.topic(MADE, 2)
    log.comes(BACK, 2)


def live(log: Log) -> None:
    log.topic(MADE, 2, 3)


def grown(log: Log) -> None:
    log.topic(1_000, 2)
    log.led(1_100)
    for partition in (0, 1):
        log.topic(MADE, 2, step="set", partition=partition)


def succeeded(log: Log) -> None:
    log.write(BACK + LIMIT_MS - 500, "controller", "removed", node=1)
    log.office(BACK + LIMIT_MS, 3)


def late(log: Log) -> None:
    log.led(LATE)


Tell = Callable[[Log], object]
CASES: dict[str, tuple[tuple[Tell, ...], int, int]] = {
    # What tells it, how often the rule is broken, and how many were made.
    "left as it was": ((live, late), 1, 1),
    "led at once": ((live, lambda log: log.led(MADE + 400)), 0, 1),
    "its only replica is back": ((away, late), 1, 1),
    "led as its only replica is back": ((away, lambda log: log.led(BACK + 400)), 0, 1),
    "its replica is away for long": (
        (
            lambda log: log.goes(MADE - 1_000, 2),
            lambda log: log.topic(MADE, 2),
            lambda log: log.comes(MADE + 60_000, 2),
            lambda log: log.led(MADE + 60_500),
        ),
        *(0, 1),
    ),
    "one of two is away": ((lambda log: log.goes(MADE - 1_000, 2), live, late), 1, 1),
    "the next controller does it": (
        (live, succeeded, lambda log: log.led(BACK + LIMIT_MS + 200)),
        *(1, 1),
    ),
    "a controller that is new in office": ((away, succeeded, late), 0, 1),
    "nobody in office": (
        (lambda log: log.write(MADE - 10, "controller", "removed", node=1), live, late),
        *(0, 1),
    ),
    "a controller that is paused": (
        (live, lambda log: log.event(MADE + 1, 1, "pause"), late),
        *(0, 1),
    ),
    "a fault in the way": ((live, lambda log: log.fault("toxic", MADE - 10, 1e6), late), 0, 1),
    "a topic that is asked for meanwhile": (
        (live, lambda log: log.fault("recreate-topic", MADE - 10, 1e6), late),
        *(1, 1),
    ),
    "it grew": ((grown, lambda log: log.led(LATE, 1)), 1, 2),
    "it grew, and was led at once": ((grown, lambda log: log.led(MADE + 300, 1)), 0, 2),
    "only others have replicas that live": (
        (
            lambda log: log.goes(MADE - 1_000, 2),
            lambda log: log.topic(MADE, 2),
            lambda log: log.topic(MADE, 3, partition=1),
            lambda log: log.led(MADE + 300, 1),
            lambda log: log.until(LATE),
        ),
        *(0, 2),
    ),
    "never": ((live, lambda log: log.until(LATE)), 1, 1),
    "looked at for too short a time": ((live, lambda log: log.until(MADE + 4_000)), 0, 1),
    "to be deleted soon": (
        (
            live,
            lambda log: log.story.add("topic_deletion", MADE + 900, topic="t", step="requested"),
            late,
        ),
        *(0, 1),
    ),
    "deleted, and made again": (
        (
            lambda log: log.topic(1_000, 2),
            lambda log: log.led(1_100),
            lambda log: log.write(MADE - 300, "topic", "removed", topic="t"),
            live,
            late,
        ),
        *(1, 2),
    ),
    "deleted as was asked for, and made again on others": (
        (
            lambda log: log.topic(1_000, 3),
            lambda log: log.led(1_100),
            lambda log: log.story.add("topic_deletion", 1_500, topic="t", step="requested"),
            lambda log: log.write(MADE - 300, "topic", "removed", topic="t"),
            lambda log: log.goes(MADE - 200, 2),
            lambda log: log.topic(MADE, 2),
            lambda log: log.comes(LATE, 2),
            lambda log: log.led(LATE + 300),
        ),
        *(0, 2),
    ),
    "deleted as was asked for, and not led again": (
        (
            lambda log: log.topic(1_000, 3),
            lambda log: log.led(1_100),
            lambda log: log.story.add("topic_deletion", 1_500, topic="t", step="requested"),
            lambda log: log.write(MADE - 300, "topic", "removed", topic="t"),
            live,
            late,
        ),
        *(1, 2),
    ),
    "its replica is registered anew, and not ready": (
        (
            lambda log: log.topic(MADE, 2),
            lambda log: log.write(MADE + 10, "broker", "created", node=2),
            late,
        ),
        *(0, 1),
    ),
    "gone without a word": (
        (live, lambda log: log.write(LATE, "topic", "removed", topic="t")),
        *(1, 1),
    ),
    "made before the log begins": (
        (lambda log: log.topic(MADE, 2, 3, step="set"), lambda log: log.until(LATE)),
        *(0, 0),
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(first_leaders))
def test_partitions_are_led_as_soon_as_a_replica_lives(name: str) -> Asks:
    steps, broken, made = CASES[name]
    log = begin()
    for step in steps:
        step(log)
    outcome = yield log.story
    assert [f.rule for f in outcome.findings] == [RULE] * broken
    assert outcome.evidence[ARM, 0, FIRST] == made

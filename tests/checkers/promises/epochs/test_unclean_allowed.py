"""Partitions without a leader that are allowed an unclean election, both ways."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.epochs.unclean_allowed import ALLOWED, LIMIT_NS, WAITS, unclean_allowed
from tests.checkers.conftest import ARM, MS
from tests.checkers.promises.epochs.zookeepers_log import ZookeepersLog
from tests.checkers.together import Asks, judging, ruled

LIMIT_MS = LIMIT_NS // MS
ALLOWED_AT = 20_000
UNTIL = ALLOWED_AT + LIMIT_MS + 3_000
RULE = "allowed-and-not-led"


class Log(ZookeepersLog):
    def led(self, t: float, leader: int, partition: int = 0, step: str = "set") -> None:
        place = {"topic": "t", "partition": partition}
        self.write(t, "state", step, **place, leader=leader, leader_epoch=int(t), isr=[1])

    def fault(self, name: str, from_t: float, to_t: float, **detail: Any) -> None:
        for t, phase in ((from_t, "inject"), (to_t - 1, "injected"), (to_t, "healed")):
            told = json.dumps(detail if phase != "inject" else {})
            row = {"fault": name, "id": name, "phase": phase, "nodes": [1, 2], "detail": told}
            self.story.add("fault", t, **row)

    def allowed(self, until_t: float = UNTIL, partition: str = "t-0") -> None:
        times = {"allowed_t": ALLOWED_AT * MS, "looked_until_t": int(until_t * MS)}
        self.fault("unclean-allowed", 9_000, until_t + 500, partition=partition, **times)


def begin() -> Log:
    """Broker 3 is in office. Broker 2 goes, then 1, which led alone, and 2 comes back."""
    log = Log()
    for node in (1, 2, 3):
        log.comes(100 + node, node)
    log.office(110, 3)
    for partition in (0, 1):
        place = {"topic": "t", "partition": partition, "replicas": [1, 2]}
        log.write(200, "topic", "created", **place)
        log.led(300, 1, partition, "created")
    log.goes(10_000, 2)
    log.goes(12_000, 1)
    for partition in (0, 1):
        log.led(12_100, -1, partition)
    log.comes(15_000, 2)
    return log


Tell = Callable[[Log], object]
CASES: dict[str, tuple[tuple[Tell, ...], int, int]] = {
    # What tells it, how often the rule is broken, and how many are judged.
    "nobody leads": ((Log.allowed,), 1, 1),
    "led at once": ((Log.allowed, lambda log: log.led(ALLOWED_AT + 300, 2)), 0, 1),
    "led before that was answered": ((Log.allowed, lambda log: log.led(ALLOWED_AT - 5, 2)), 0, 1),
    "led late": ((Log.allowed, lambda log: log.led(ALLOWED_AT + LIMIT_MS + 900, 2)), 1, 1),
    "led by whoever came back": ((Log.allowed, lambda log: log.led(UNTIL + 3_000, 1)), 1, 1),
    "another is led": ((Log.allowed, lambda log: log.led(ALLOWED_AT + 300, 2, 1)), 1, 1),
    "another is meant": (
        (lambda log: log.allowed(partition="t-1"), lambda log: log.led(ALLOWED_AT + 300, 2, 1)),
        *(0, 1),
    ),
    "looked at for too short a time": ((lambda log: log.allowed(ALLOWED_AT + 4_000),), 0, 0),
    "who lived is away again": ((Log.allowed, lambda log: log.goes(ALLOWED_AT + 900, 2)), 0, 0),
    "a controller that is new in office": (
        (
            Log.allowed,
            lambda log: log.write(ALLOWED_AT + 3_900, "controller", "removed", node=3),
            lambda log: log.write(ALLOWED_AT + 4_000, "controller", "created", node=2),
        ),
        *(0, 0),
    ),
    "another fault in the way": (
        (Log.allowed, lambda log: log.fault("toxic", ALLOWED_AT - 10, UNTIL)),
        *(0, 0),
    ),
    "it did not come to that": ((lambda log: log.fault("unclean-allowed", 9_000, UNTIL),), 0, 0),
    "allowed as nothing else was": ((), 0, 0),
}


@pytest.mark.parametrize("waits", [True, False])
@judging(ruled(unclean_allowed))
def test_who_elects_on_another_occasion_is_not_judged(waits: bool) -> Asks:
    log = begin()
    log.story.run["arms"][ARM] = {**log.story.run["arms"].get(ARM, {}), WAITS: waits}
    log.allowed()
    outcome = yield log.story
    assert len(outcome.findings) == (not waits)
    assert outcome.evidence.get((ARM, 0, ALLOWED), 0) == (not waits)


@pytest.mark.parametrize("name", CASES)
@judging(ruled(unclean_allowed))
def test_who_lives_leads_as_soon_as_it_may(name: str) -> Asks:
    steps, broken, judged = CASES[name]
    log = begin()
    for step in steps:
        step(log)
    outcome = yield log.story
    assert [f.rule for f in outcome.findings] == [RULE] * broken
    assert outcome.evidence.get((ARM, 0, ALLOWED), 0) == judged

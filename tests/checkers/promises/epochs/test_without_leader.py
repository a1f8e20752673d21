"""Partitions that were left without a leader, both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checkers.promises.epochs.without_leader import LEADERLESS, without_leader
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

AT = 100_000
"""When it was left without one."""


class Log:
    """ZooKeeper's, one write after the other."""

    def __init__(self) -> None:
        self.story = Story()
        self.zxid = 0

    def write(self, commit_ms: int, what: str, step: str, **fields: Any) -> None:
        self.zxid += 1
        fields = {"zxid": self.zxid, "commit_ms": commit_ms, **fields}
        self.story.add("zk_write", commit_ms, what=what, step=step, **fields)

    def broker(self, commit_ms: int, node: int, step: str = "created") -> None:
        self.write(commit_ms, "broker", step, node=node, topic=None, partition=None)

    def state(self, commit_ms: int, leader: int, *isr: int, **more: Any) -> None:
        fields = {"controller_epoch": 1, "partition": 0, "step": "set", **more}
        step = fields.pop("step")
        self.write(commit_ms, "state", step, leader=leader, isr=list(isr), **fields)


def sound() -> Log:
    """Broker 1 leads in sync with 2 and 3, and its controller has elected before."""
    log = Log()
    for node in (1, 2, 3):
        log.broker(10_000, node)
        log.broker(10_000, node, "set")
    log.state(20_000, 1, 1, 2, 3, step="created")
    return log


def left(*isr: int, **more: Any) -> Callable[[Log], object]:
    return lambda log: log.state(AT, -1, *isr, **more)


def both(*steps: Callable[[Log], object]) -> Callable[[Log], object]:
    def tell(log: Log) -> None:
        for step in steps:
            step(log)

    return tell


def gone(node: int, at_ms: int) -> Callable[[Log], object]:
    return lambda log: log.broker(at_ms, node, "removed")


def back(node: int, at_ms: int) -> Callable[[Log], object]:
    return lambda log: log.broker(at_ms, node)


CASES: dict[str, tuple[Callable[[Log], object], int]] = {
    # What tells it, and how often the rule is broken.
    "all live": (left(2, 3), 1),
    "the leader is gone": (both(gone(1, AT - 10), left(2, 3)), 1),
    "one of two lives": (both(gone(1, AT - 20), gone(2, AT - 10), left(2, 3)), 1),
    "the leader alone": (left(1), 0),
    "none lives": (both(gone(1, AT - 30), gone(2, AT - 20), gone(3, AT - 10), left(2, 3)), 0),
    "who has just come back": (both(gone(2, AT - 9_000), back(2, AT - 1_000), left(2)), 0),
    "who came back before that": (both(gone(2, AT - 9_000), back(2, AT - 6_000), left(2)), 1),
    "who is about to stop": (both(left(2), gone(2, AT + 4_000)), 0),
    "who stops long after": (both(left(2), gone(2, AT + 40_000)), 1),
    "a controller that has elected nobody yet": (left(2, 3, controller_epoch=2), 0),
    "one that has elected for another partition": (
        both(
            lambda log: log.state(AT - 50, 2, 2, 3, partition=1, step="created"),
            lambda log: log.state(AT - 40, 3, 3, partition=1, controller_epoch=2),
            left(2, 3, controller_epoch=2),
        ),
        1,
    ),
    "one that only wrote of a leader that stays": (
        both(
            lambda log: log.state(AT - 50, 1, 1, 2, controller_epoch=2),
            left(2, controller_epoch=2),
        ),
        0,
    ),
    "it had none before": (both(left(1), lambda log: log.state(AT + 10, -1, 1)), 0),
    "elected": (lambda log: log.state(AT, 2, 2, 3), 0),
    "a topic that is deleted": (
        both(
            left(2, 3), lambda log: log.story.add("topic_deletion", AT, topic="t", step="requested")
        ),
        0,
    ),
    "another topic that is deleted": (
        both(
            left(2, 3), lambda log: log.story.add("topic_deletion", AT, topic="u", step="requested")
        ),
        1,
    ),
    "made anew": (
        both(
            lambda log: log.state(AT - 9, 1, 1, step="removed"),
            left(2, 3, step="created"),
        ),
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(ruled(without_leader))
def test_where_somebody_lives_and_is_in_sync_somebody_leads(name: str) -> Asks:
    tell, broken = CASES[name]
    log = sound()
    tell(log)
    outcome = yield log.story
    assert outcome.counts == ({"left-without-leader": broken} if broken else {})


@judging(ruled(without_leader))
def test_what_was_judged_is_counted() -> Asks:
    log = sound()
    log.state(AT, -1, 2, 3)
    outcome = yield log.story
    assert outcome.evidence[log.story.arm, 0, LEADERLESS] == 1

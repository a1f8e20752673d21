"""What is made in its turn, both ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from checkers.promises.administration import check
from checkers.promises.administration.in_turn import MADE_IN_TURN
from tests.checkers.promises.administration.cluster import Cluster
from tests.checkers.together import Asks, judging

RULE = "made-out-of-turn"


def topic(c: Cluster, t: float, name: str, *partitions: int, step: str = "created") -> None:
    for partition in partitions:
        where = {"topic": name, "partition": partition, "replicas": [1, 3]}
        c.wrote(t, "topic", step, **where)


def state(c: Cluster, t: float, name: str, partition: int) -> None:
    of = {"topic": name, "partition": partition, "leader": 1, "leader_epoch": 0, "isr": [1, 3]}
    c.wrote(t, "state", "created", **of)


def grown(c: Cluster) -> None:
    """Topic a has one partition, and is given another at 20 s."""
    topic(c, 10_000, "a", 0)
    state(c, 10_100, "a", 0)
    topic(c, 20_000, "a", 0, 1, step="set")


def later(c: Cluster) -> None:
    """Topic b is written at 25 s, and made."""
    topic(c, 25_000, "b", 0)
    state(c, 25_100, "b", 0)


CASES: dict[str, tuple[Callable[[Cluster], object], int]] = {
    "in turn": (lambda c: (grown(c), state(c, 20_100, "a", 1), later(c)), 0),
    "out of turn": (lambda c: (grown(c), later(c), state(c, 25_200, "a", 1)), 1),
    "never": (lambda c: (grown(c), later(c)), 1),
    "the other was written before": (
        lambda c: (
            topic(c, 19_000, "b", 0),
            grown(c),
            state(c, 25_100, "b", 0),
            state(c, 25_200, "a", 1),
        ),
        0,
    ),
    "by the next controller": (
        lambda c: (
            grown(c),
            topic(c, 25_000, "b", 0),
            c.elected(26_000, 3, 2),
            state(c, 26_100, "b", 0),
            state(c, 26_200, "a", 1),
        ),
        0,
    ),
    "its topic is to be deleted": (
        lambda c: (
            grown(c),
            c.story.add("topic_deletion", 21_000, topic="a", step="requested"),
            later(c),
        ),
        0,
    ),
    "nobody is there to lead it": (
        lambda c: (
            grown(c),
            c.wrote(21_000, "broker", "removed", node=1),
            c.wrote(21_100, "broker", "removed", node=3),
            later(c),
        ),
        0,
    ),
    "it may have lost ZooKeeper": (
        lambda c: (c.fault("link-down", 18_000, 22_000, [2]), grown(c), later(c)),
        0,
    ),
    "beside a flood": (
        lambda c: (c.fault("flood-heavy-produce", 18_000, 22_000, [2]), grown(c), later(c)),
        1,
    ),
    "a move of replicas": (
        lambda c: (
            topic(c, 10_000, "a", 0),
            state(c, 10_100, "a", 0),
            topic(c, 20_000, "a", 0, step="set"),
            later(c),
        ),
        0,
    ),
}


@pytest.mark.parametrize("name", CASES)
@judging(check)
def test_what_was_written_first_is_made_first(name: str) -> Asks:
    tell, broken = CASES[name]
    cluster = Cluster()
    tell(cluster)
    outcome = yield cluster.story
    assert outcome.counts.get(RULE, 0) == broken
    assert outcome.evidence[cluster.story.arm, 0, MADE_IN_TURN] > 0

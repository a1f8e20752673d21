"""Whom brokers name as a group's coordinator, both ways."""

from __future__ import annotations

import pytest

from checkers.promises.groups.coordinators import NAMED, coordinators
from checkers.promises.groups.offices import OFFSETS_TOPIC, partition_of
from harness.scenarios.group_rebalance import offsets_partition
from tests.checkers.conftest import Story
from tests.checkers.together import Asks, judging, ruled

GROUP, PARTITIONS = "sharers", 3
MINE = partition_of(GROUP, PARTITIONS)
LATE = 40_000
"""Long after anything that happened."""


@pytest.mark.parametrize("partitions", [1, 3, 50])
@pytest.mark.parametrize("group", ["", "sharers", "polygenelubricants", "a-group-of-consumers"])
def test_a_group_falls_into_kafkas_partition(group: str, partitions: int) -> None:
    """The third hashes to the smallest integer of Java, whose absolute value is none."""
    assert partition_of(group, partitions) == offsets_partition(group, partitions)


def story(*, leader: int = 2, t: float = 1_000) -> Story:
    told = Story()
    for partition in range(PARTITIONS):
        at = {"topic": OFFSETS_TOPIC, "partition": partition}
        told.commit(500, 1, 0, **at)
        if partition == MINE:
            told.commit(t, leader, 1, **at)
    return told


def named(told: Story, t: float, node: int, coordinator: int, **more: object) -> None:
    told.add("coordinator", t, node=node, group=GROUP, coordinator=coordinator, **more)


CASES = {
    "the present one": (story, lambda s: named(s, LATE, 1, 2), 0),
    "the one before": (story, lambda s: named(s, LATE, 1, 1), 1),
    "by itself": (story, lambda s: (named(s, LATE, 2, 2), named(s, LATE, 3, 3)), 1),
    "too early to know": (story, lambda s: named(s, 2_000, 1, 1), 0),
    "too early to know the last": (lambda: story(t=39_000), lambda s: named(s, LATE, 1, 1), 0),
    "for a while": (story, lambda s: (named(s, LATE, 1, 1), named(s, LATE + 100, 1, 2)), 1),
    "until it was calm": (story, lambda s: (named(s, 2_000, 1, 1), named(s, LATE, 1, 2)), 0),
    "no more": (story, lambda s: (named(s, LATE, 1, 2), named(s, LATE + 100, 1, 1)), 1),
    "no answer": (story, lambda s: named(s, LATE, 1, -1, type="info", error=None), 0),
    "nobody leads": (lambda: story(leader=-1), lambda s: named(s, LATE, 1, 1), 0),
    "nobody leads, and nobody is named": (
        lambda: story(leader=-1),
        lambda s: named(s, LATE, 1, -1, type="fail", error=15),
        0,
    ),
    "by who is gone": (
        story,
        lambda s: (named(s, LATE, 1, 1), s.add("node_event", 39_900, node=1, event="unregistered")),
        0,
    ),
    "by who has just come back": (
        story,
        lambda s: (named(s, LATE, 1, 1), s.add("node_event", 39_000, node=1, event="resume")),
        0,
    ),
}


NEVER = {
    "the present one, at once": (lambda s: named(s, 1_001, 1, 2), 0),
    "the one before": (lambda s: named(s, 1_001, 1, 1), 0),
    "before the watch saw it": (lambda s: named(s, 400, 1, 2), 0),
    "long before it led": (lambda s: named(s, 900, 1, 2), 0),
    "one that never led": (lambda s: named(s, 2_000, 1, 3), 1),
    "a stranger": (lambda s: named(s, 2_000, 1, 9), 1),
    "two by two": (lambda s: (named(s, 2_000, 1, 3), named(s, 2_100, 2, 3)), 2),
    "nobody": (lambda s: named(s, 2_000, 1, -1, type="fail", error=15), 0),
    "in an answer that failed": (lambda s: named(s, 2_000, 1, 3, type="fail", error=15), 0),
    "of a black box": (
        lambda s: (
            named(s, 2_000, 1, 3),
            [row.update(source="shown") for row in s.rows["leadership"]],
        ),
        0,
    ),
}


@pytest.mark.parametrize("name", NEVER)
@judging(ruled(coordinators))
def test_who_is_named_has_led(name: str) -> Asks:
    tell, broken = NEVER[name]
    told = story(t=4_000 if name == "long before it led" else 1_000)
    broken += name == "long before it led"
    tell(told)
    assert [f.rule for f in (yield told).findings] == ["coordinator-never-led"] * broken


UNTOLD = {
    "that there is none": (LATE, 15, 1),
    "amid all that happens": (2_000, 15, 0),
    "that it may not say": (LATE, 30, 0),
}


@pytest.mark.parametrize("name", UNTOLD)
@judging(ruled(coordinators))
def test_a_live_broker_knows_a_coordinator(name: str) -> Asks:
    t, error, broken = UNTOLD[name]
    told = story()
    named(told, t, 1, -1, type="fail", error=error)
    named(told, LATE + 1_000, 1, 2)
    assert [f.rule for f in (yield told).findings] == ["coordinator-untold"] * broken


@pytest.mark.parametrize("name", CASES)
@judging(ruled(coordinators))
def test_a_live_broker_names_the_present_coordinator(name: str) -> Asks:
    make, tell, broken = CASES[name]
    told = make()
    tell(told)
    outcome = yield told
    assert [f.rule for f in outcome.findings if f.rule != "coordinator-never-led"] == (
        ["coordinator-superseded"] * broken
    )
    assert not broken or outcome.evidence[told.arm, 0, NAMED]

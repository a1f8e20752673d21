"""Histories that are long, in Spark itself: what groups did stays with its workers, and no query
grows with the number of floods."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import pytest

from checkers.judging import courses
from checkers.judging.outcome import Outcome
from checkers.promises import availability, controller_latency, stale_metadata
from checkers.promises.groups.absent_members import absent_members
from checkers.promises.groups.kept_groups import kept_groups
from checkers.promises.groups.known_members import known_members
from checkers.promises.groups.later_generations import later_generations
from checkers.promises.groups.left_members import left_members
from checkers.promises.groups.raised_positions import raised_positions
from checkers.promises.groups.told_members import told_members
from checkers.promises.groups.visited_groups import visited_groups
from tests.checkers.conftest import Story
from tests.checkers.soak import BROUGHT, NODES, PARTITIONS, brought, grouped, soak

__all__ = ["brought"]


@pytest.fixture(scope="module")
def spark(spark_itself: Any) -> Any:
    return spark_itself


IN_COURSES: Final = (
    *(kept_groups, visited_groups, left_members, raised_positions),
    *(absent_members, known_members, told_members, later_generations),
)


def test_what_groups_did_stays_with_the_workers(
    spark: Any, brought: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story, rounds = Story(), 2 * BROUGHT
    grouped(story, rounds)
    history, seen = story.history(spark), []
    for most in (10**9, BROUGHT // 4):
        monkeypatch.setattr(courses, "ON_THE_DRIVER", most)
        brought.clear()
        outcomes = []
        for rule in IN_COURSES:
            outcome = Outcome()
            assert not list(rule(history, outcome))
            assert outcome.looked_at > rounds // 2, rule
            outcomes.append(outcome.evidence)
        seen.append(outcomes)
        many = [where for where, n in brought.items() if n > BROUGHT]
        assert bool(many) is (most > rounds), many
    assert seen[0] == seen[1]


def test_a_thousand_floods(spark: Any) -> None:
    story = Story()
    soak(story, 1_000, load=1)
    history = story.history(spark)
    found = stale_metadata.check(history).arms[story.arm]
    assert found["reads"] == 1_000 * len(NODES) * len(PARTITIONS)
    assert found["reads_flooded"]["count"] == 1_000
    assert found["propagation_applied"]["count"] > 900 * len(PARTITIONS)
    latency = controller_latency.check(history).arms[story.arm]
    assert latency["round_trip"]["count"] == 1_000 * len(NODES)
    assert availability.check(history).arms[story.arm]["first_produce"]["count"] == 999 * len(
        PARTITIONS
    )

"""The plan that puts controllers out of office: both ways, one at a time, on every system."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from harness.run import arms_of
from harness.scenarios import SCENARIOS
from harness.settings import PROFILES, Settings

SCENARIO = SCENARIOS["controller-pause"]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@pytest.mark.parametrize("seed", range(5))
def test_both_ways_and_one_at_a_time(profile: object, seed: int) -> None:
    plan = SCENARIO.plan(random.Random(seed), profile)  # type: ignore[arg-type]
    assert {entry.params["how"] for entry in plan.entries} == {"pause", "cut"}
    for before, after in pairwise(plan.entries):
        # The old one is back, and a quorum of three whole, before the next is taken away.
        assert after.at_ms - (before.at_ms + before.duration_ms) >= 1000


def test_it_is_played_with_zookeeper_and_without() -> None:
    settings = Settings.of(sut="dualplane,kafka-zk,kafka-kraft", store="s", seed=1)
    assert [arm.label for arm in arms_of(SCENARIO, settings)] == [
        "dualplane-single",
        "dualplane-dual",
        "kafka-zk-single",
        "kafka-zk-dual",
        "kafka-kraft-dual",
    ]

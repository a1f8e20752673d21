"""The plan that puts controllers out of office: every way, one at a time, on every system."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from checkers.promises.handing_over import SETTLED_NS
from faults.protocol import Capability
from harness.arms import arms_of
from harness.scenarios import SCENARIOS
from harness.scenarios.base import REST_MS
from harness.settings import PROFILES, Profile, Settings
from harness.sut.registry import get

SCENARIO = SCENARIOS["controller-pause"]


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
@pytest.mark.parametrize("seed", range(5))
def test_every_way_and_one_at_a_time(profile: Profile, seed: int) -> None:
    plan = SCENARIO.plan(random.Random(seed), profile)
    assert {(e.fault, e.params.get("how")) for e in plan.entries} == {
        ("depose-controller", "pause"),
        ("depose-controller", "cut"),
        ("oust-controller", None),
        ("remove-controller", None),
        ("forsaken-orders", None),
        ("delete-topic", None),
        ("grow-topic", None),
        ("stop", None),
    }
    first, *others = plan.entries
    assert first.fault == "forsaken-orders"  # while all are in sync
    *turns, deleted, again, _, last_again, grown, removed, stopped = others
    over_ms = turns[-1].at_ms + turns[-1].duration_ms
    assert len(turns) == 3 or over_ms <= profile.chaos_s * 1000 + REST_MS
    # Who was in office before the topic went may be so again, and whoever is then grows one.
    assert [e.fault for e in (deleted, again, grown)] == [
        *("delete-topic", "remove-controller", "grow-topic")
    ]
    # The one before it puts somebody into office by what it is removed by.
    assert (last_again.fault, removed.fault) == ("remove-controller", "remove-controller")
    # It is judged where nothing was done to anybody for two seconds.
    assert stopped.params["target"] == "registered-last"
    assert (stopped.at_ms - removed.at_ms) * 1_000_000 > SETTLED_NS
    for before, after in pairwise(plan.entries):
        assert after.after == before.id
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


@pytest.mark.parametrize("sut", ["dualplane", "kafka-zk", "kafka-kraft"])
def test_where_there_is_no_zookeeper_nobody_can_remove_its_znode(sut: str) -> None:
    plan = SCENARIO.plan(random.Random(1), PROFILES["smoke"])
    offered = get(sut).capabilities | {
        *(Capability.LINKS, Capability.PAUSE, Capability.CONTROLLED_STOP),
        Capability.ELECT_LEADERS,
    }
    kept, skipped = plan.for_capabilities(offered)
    assert len(kept.entries) + len(skipped) == 11
    reasons = [(entry.fault, reason) for entry, reason in skipped]
    removals = ("forsaken-orders", "oust-controller", *["remove-controller"] * 4)
    wanted = [(name, "needs zookeeper") for name in removals] if sut == "kafka-kraft" else []
    assert reasons == wanted

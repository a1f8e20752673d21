"""Scenarios whose floods must last: what they plan, and on whom."""

from __future__ import annotations

import dataclasses
import random

import pytest

from faults.deletion import DeleteTopic, DeleteTopicAway, RecreateTopic
from faults.growth import GrowTopic
from harness.scenarios import SCENARIOS
from harness.scenarios.base import Stage
from harness.settings import PROFILES, Profile

STAGE = Stage(nodes=(1, 2, 3), controller=1, victim=2, profile=PROFILES["smoke"])
LONG = Profile(name="x", chaos_s=60.0, warmup_s=1.0, rounds=1, says="")


@pytest.mark.parametrize("profile", [*PROFILES.values(), LONG], ids=lambda p: p.name)
@pytest.mark.parametrize("name", ["topic-deletion", "leader-unavailability"])
@pytest.mark.parametrize("seed", range(5))
def test_everything_happens_under_the_flood(name: str, profile: Profile, seed: int) -> None:
    plan = SCENARIOS[name].plan(random.Random(seed), profile)
    (flood,) = [e for e in plan.entries if e.fault.startswith("flood")]
    apart = ("rehearsal", "slow", "late", "away", "again", "move-groups")
    others = [e for e in plan.entries if e is not flood and e.id not in apart]
    assert others
    for entry in others:
        assert flood.at_ms + 900 < entry.at_ms
        assert entry.at_ms + 2000 < flood.at_ms + flood.duration_ms
    assert SCENARIOS[name].plan(random.Random(seed), profile) == plan


@pytest.mark.parametrize("profile", [*PROFILES.values(), LONG], ids=lambda p: p.name)
def test_the_session_ends_while_the_flood_lasts(profile: Profile) -> None:
    scenario = SCENARIOS["leader-unavailability"]
    by_id = {e.id: e for e in scenario.plan(random.Random(1), profile).entries}
    flood, kill = by_id["flood"], by_id["kill"]
    over_ms = flood.at_ms + flood.duration_ms
    assert kill.at_ms + scenario.session_timeout_ms + 2000 < over_ms
    assert kill.at_ms + kill.duration_ms > over_ms
    assert by_id["rehearsal"].at_ms + 1500 < flood.at_ms


def test_the_flooded_broker_is_next_in_line() -> None:
    topics = {t.name: t for t in SCENARIOS["leader-unavailability"].topics(STAGE)}
    del topics["victim"]
    assert len(topics) == 2
    for topic in topics.values():
        for replicas in topic.assignment.values():
            assert replicas[0] not in (STAGE.victim, STAGE.controller)
            assert replicas[1] == STAGE.victim
    roles = SCENARIOS["leader-unavailability"].workloads(STAGE)
    acks = {r.params["topic"]: r.params["acks"] for r in roles if r.role == "direct-producer"}
    assert acks == {"leaderless-1": 1, "leaderless-all": -1}
    first = [r.params["first_value"] for r in roles if r.role == "direct-producer"]
    assert len(set(first)) == len(first)


@pytest.mark.parametrize("profile", [*PROFILES.values(), LONG], ids=lambda p: p.name)
def test_who_names_the_deleted_topics_is_asked(profile: Profile) -> None:
    scenario = SCENARIOS["topic-deletion"]
    plan = scenario.plan(random.Random(1), profile)
    kinds = {kind.name: kind for kind in (DeleteTopic, DeleteTopicAway)}
    doomed = [kinds[e.fault](e).topic for e in plan.entries if e.fault in kinds]
    stage = dataclasses.replace(STAGE, profile=profile)
    (reader,) = [r for r in scenario.workloads(stage) if r.role == "metadata-reader"]
    assert len(doomed) > 2
    (slow,) = [e for e in plan.entries if e.fault == "toxic"]
    again, away, _, late, moved = plan.entries[-5:]
    assert away.fault == DeleteTopicAway.name
    assert away.params["succeeded"]
    assert late.params["succeeded"]
    assert away.at_ms < slow.at_ms < late.at_ms < slow.at_ms + slow.duration_ms
    assert slow.params["target"] == away.params["target"]
    # Who is away is neither the flooded broker nor the controller.
    (kept,) = [t for t in scenario.topics(stage) if t.name == "kept"]
    assert away.params["target"] == "leader:kept-0"
    assert kept.assignment[0][0] not in (stage.victim, stage.controller)
    assert reader.params["topics"] == ["kept", "again", "grown", *doomed]
    # One is made again, and written to before and after; no later deletion reminds of who waits.
    assert again.fault == RecreateTopic.name
    assert again.at_ms < away.at_ms
    assert late.at_ms == max(e.at_ms for e in plan.entries if e is not moved)
    # Nor does an election: another coordinates groups when it is gone, long after it was made anew.
    assert (moved.fault, moved.after) == ("move-leadership", late.id)
    assert moved.at_ms >= slow.at_ms + slow.duration_ms
    assert moved.at_ms > again.at_ms + 5_000
    assert again.params["topic"] in {t.name for t in scenario.topics(stage)}
    writers = {
        t: r.role
        for r in scenario.workloads(stage)
        if "acks" in r.params
        for t in r.params["topics"]
    }
    assert writers == {"kept": "producer", "again": "joint-producer", "grown": "producer"}
    # One grows under the flood, and is written to as a whole.
    (growth,) = [e for e in plan.entries if e.fault == GrowTopic.name]
    flood = plan.entries[0]
    assert flood.at_ms < growth.at_ms < flood.at_ms + flood.duration_ms
    (grown,) = [t for t in scenario.topics(stage) if t.name == growth.params["topic"]]
    writes = [r.params["topics"] for r in scenario.workloads(stage) if "acks" in r.params]
    assert {"grown": len(grown.assignment) + growth.params["partitions"]} in writes
    risers = [r for r in scenario.workloads(stage) if r.role == "group-riser"]
    assert [r.params["topic"] for r in risers] == ["again"] * 2
    # One of them raises no more when its topic is deleted.
    (held_ms,) = [r.params["raises_ms"] for r in risers if "raises_ms" in r.params]
    assert held_ms < again.at_ms


def test_they_are_left_to_longer_profiles() -> None:
    for name in ("topic-deletion", "leader-unavailability"):
        assert SCENARIOS[name].profiles == ("ci", "nightly")

"""Plans that scenarios draw: repeatable, within their profile's time, on targets that exist."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from harness.scenarios import SCENARIOS
from harness.scenarios.base import Stage
from harness.settings import PROFILES

ROOT = Path(__file__).resolve().parents[2]
STAGE = Stage(nodes=(1, 2, 3), controller=2, victim=1, profile=PROFILES["smoke"])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_seed_draws_one_plan(name: str, profile: str) -> None:
    scenario = SCENARIOS[name]
    plans = [scenario.plan(random.Random(seed), PROFILES[profile]) for seed in (7, 7, 8)]
    assert plans[0] == plans[1]
    assert plans[0] != plans[2]
    assert plans[0].entries
    # A round that a profile is too short for is played whole all the same.
    assert plans[0].duration_ms <= max(PROFILES[profile].chaos_s * 1000, 16_000)


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_a_plan_names_is_a_topic_of_the_scenario(name: str) -> None:
    scenario = SCENARIOS[name]
    known = {t.name for t in scenario.topics(STAGE)} | {"__consumer_offsets"}
    plan = scenario.plan(random.Random(1), PROFILES["ci"])
    for entry in plan.entries:
        target = str(entry.params.get("target", ""))
        if ":" in target:
            assert target.split(":", 1)[1].rsplit("-", 1)[0] in known, entry


def collected(*options: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "harness/", "--collect-only", "-q", *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if "test_scenario[" in line]
    return {line.split("[", 1)[1].rstrip("]") for line in lines}


def test_a_profile_plays_its_scenarios_and_those_that_are_named() -> None:
    smoke = {name for name, s in SCENARIOS.items() if "smoke" in s.profiles}
    assert "zombie-broker" not in smoke
    assert collected() == smoke
    assert collected("-k", "zombie") == {"zombie-controller"}
    assert collected("-k", "zombie-broker") == {"zombie-broker"}
    assert collected("--profile=ci") == {n for n, s in SCENARIOS.items() if "ci" in s.profiles}


def test_handed_over_partitions_are_fetched_by_threads_of_their_own() -> None:
    """As the scenario needs it: not by one that may be waiting for the consumers' offsets."""
    from harness.scenarios import leader_handover
    from nodes.core.types import TopicPartition
    from nodes.replication.fetcher_manager import ReplicaFetcherManager

    class Nobody:
        def partition(self, _tp: object) -> None: ...
        def complete_delayed_fetches(self, _tps: object) -> None: ...

    def threads(topic: str, partitions: int) -> set[int]:
        manager = ReplicaFetcherManager(
            Nobody(),  # type: ignore[arg-type]
            lambda _leader, _thread: pytest.fail("nothing is fetched here"),
            fetchers_per_leader=int(leader_handover.FETCHERS),
            max_bytes=1,
            backoff_ms=1,
            now_ns=lambda: 0,
        )
        return {manager._fetcher_id(TopicPartition(topic, p)) for p in range(partitions)}

    own = threads(leader_handover.TOPIC, leader_handover.PARTITIONS)
    assert not own & threads("__consumer_offsets", 3)


def test_a_torn_log_ends_where_a_batch_of_its_leader_ends() -> None:
    """Else who trusts the torn end is stuck behind it, and nobody sees what it would have done."""
    producers = [r for r in SCENARIOS["log-recovery"].workloads(STAGE) if r.role == "producer"]
    assert len(producers) == 2
    assert all(r.params["client"] == {"batch.num.messages": "1"} for r in producers)

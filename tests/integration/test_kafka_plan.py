"""One plan file on all three systems: the same faults at the same offsets, whoever is under test.

Skipped, with what would bring them, where Kafka's jars are not on the machine.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.judging.verdict import Verdict
from faults.plan import Plan
from faults.protocol import Entry
from harness.run import run
from harness.runtime.protocol import SetupError
from harness.scenarios import SCENARIOS
from harness.settings import Settings
from harness.studies.offsets import read_offsets, table
from harness.sut.kafka_jars import KRAFT_LINE, ZOOKEEPER_LINE, libs_dir
from harness.sut.registry import SYSTEMS

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

LATE = {"kind": "latency", "attributes": {"latency": 300}}
PLAN = Plan.of(
    29,
    [
        Entry(
            id="reads",
            fault="flood-metadata",
            at_ms=200,
            duration_ms=1200,
            params={"target": "controller", "connections": 16},
        ),
        Entry(
            id="late",
            fault="toxic",
            at_ms=300,
            duration_ms=900,
            params={"target": "leader:kept-0", "link": "inter-broker", **LATE},
        ),
        Entry(
            id="kill",
            fault="kill",
            at_ms=1800,
            duration_ms=500,
            params={"target": "leader:kept-1"},
        ),
        Entry(
            id="pause",
            fault="pause",
            at_ms=4200,
            duration_ms=1200,
            params={"target": "not-controller"},
        ),
        Entry(
            id="unseen",
            fault="link-down",
            at_ms=6300,
            duration_ms=700,
            params={"target": "leader:kept-3", "link": "client"},
        ),
    ],
)


def test_the_same_faults_at_the_same_offsets(tmp_path: Path) -> None:
    try:
        for release in (ZOOKEEPER_LINE, KRAFT_LINE):
            libs_dir(release)
    except SetupError as lacking:
        pytest.skip(str(lacking))
    PLAN.save(tmp_path / "plan.json")
    settings = Settings.of(
        store=tmp_path,
        sut=",".join(SYSTEMS),
        planes="dual",
        seed=29,
        plan=tmp_path / "plan.json",
        time_limit_s=8,
    )
    outcome = run(SCENARIOS["broker-restart"], settings, lambda _where, _what: None)
    assert outcome.verdict is Verdict.VALID, outcome.reasons
    found = read_offsets(outcome.folder)
    assert found.plan == PLAN
    assert found.arms == sorted(f"{name}-dual" for name in SYSTEMS)
    print("\n".join(table(found)))
    assert not found.differences()

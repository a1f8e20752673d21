"""Which checks a run is held to and which roles it has, by what its systems can do."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.promises import promise
from faults.plan import Plan
from faults.protocol import Capability
from harness.arms import arms_of
from harness.scenarios import SCENARIOS
from harness.scenarios.base import EVERYWHERE, Role, Stage, checks_for
from harness.settings import PROFILES, Settings
from harness.sut.protocol import Planes
from harness.sut.registry import get
from harness.trial import TrialRunner
from harness.trial_result import Arm

KRAFT = get("kafka-kraft").capabilities
OURS = get("dualplane").capabilities


def test_nothing_is_fenced_where_no_broker_takes_a_controllers_requests() -> None:
    checks = SCENARIOS["broker-restart"].checks
    assert "fencing" in checks_for(checks, [KRAFT, OURS])
    alone = checks_for(checks, [KRAFT])
    assert "truncation-loss" in alone
    assert not {"fencing", "controller-latency"} & set(alone)


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_every_scenario_is_judged_by_it_can_show(name: str) -> None:
    """What brokers tell clients and what they keep is judged everywhere, so everywhere somebody
    asks them and writes to them."""
    stage = Stage(nodes=(1, 2, 3), controller=1, victim=2, profile=PROFILES["smoke"])
    roles = [role.role for role in SCENARIOS[name].workloads(stage)]
    assert "metadata-reader" in roles
    assert {"producer", "direct-producer"} & set(roles)
    reads = {"consumer", "group-consumer"} & set(roles)
    assert ("polls" in SCENARIOS[name].checks) == bool(reads)
    assert "truncation-loss" in SCENARIOS[name].checks
    for check in EVERYWHERE:
        assert promise(check).name == check
    # Where no broker takes a controller's requests, and no ZooKeeper tells who is there.
    unseen = {"planes", "refusals", "fencing", "handing-over", "controller-queues"}
    unseen |= {"administration", "exceptions"}
    assert checks_for(EVERYWHERE, [OURS]) == [*EVERYWHERE]
    assert set(checks_for(EVERYWHERE, [KRAFT])) == set(EVERYWHERE) - unseen


def test_only_who_speaks_as_a_controller_is_left_out() -> None:
    assert Role(role="prober", process="p").needs == {Capability.CONTROL_REQUESTS}
    assert not Role(role="prober", process="p").needs <= KRAFT
    assert not Role(role="metadata-reader", process="m").needs


def test_what_clients_see_of_a_flood_can_be_played_without_zookeeper() -> None:
    settings = Settings.of(sut="kafka-kraft", store="s", seed=1)
    for name in ("request-flood", "acks1-truncation", "broker-restart"):
        assert [arm.label for arm in arms_of(SCENARIOS[name], settings)] == ["kafka-kraft-dual"]


def test_a_role_that_is_left_out_is_named_in_the_trials_record(tmp_path: Path) -> None:
    only: Any = lambda _stage: [Role(role="prober", process="prober")]  # noqa: E731
    runner = TrialRunner(
        dataclasses.replace(SCENARIOS["request-flood"], workloads=only),
        Arm(sut=get("kafka-kraft"), planes=Planes.DUAL),
        0,
        plan=Plan.of(1, []),
        settings=Settings.of(store=tmp_path, seed=1),
        runtime=SimpleNamespace(),
        folder=tmp_path,
        progress=lambda _what: None,
    )
    cluster: Any = SimpleNamespace(capabilities=KRAFT)
    with ExitStack() as stack:
        assert not runner._launch(cluster, SimpleNamespace(), stack)  # type: ignore[arg-type]
    assert runner.result.skipped_roles == ["prober (prober): kafka-kraft lacks control-requests"]

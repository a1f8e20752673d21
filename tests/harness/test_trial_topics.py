"""How a trial makes its topics: a cluster that has just come up may refuse them for a while, and
one that refuses them for ever must have been asked when it has no excuse any more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.history.run_info import UNIQUE
from checkers.promises.administration import BEFORE_NS
from faults.plan import Plan
from faults.protocol import FaultFailed
from harness import trial as module
from harness.scenarios import SCENARIOS
from harness.scenarios.base import Stage
from harness.settings import PROFILES, Settings
from harness.sut.protocol import Planes
from harness.sut.registry import get
from harness.trial import TrialRunner
from harness.trial_result import Arm


class Admin:
    """Refuses until ``until_t`` (s, monotonic)."""

    def __init__(self, until_t: float) -> None:
        self._until_t = until_t
        self.asked: list[float] = []
        self.configs: dict[str, object] = {}

    def create_topic(self, name: str, _: Mapping[int, Sequence[int]], configs: object) -> None:
        self.configs[name] = configs
        self.asked.append(time.monotonic())
        if time.monotonic() < self._until_t:
            raise FaultFailed(f"creating topic {name}: INVALID_REPLICA_ASSIGNMENT")


@pytest.fixture
def make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Admin, float], dict[str, Any]]:
    def make(admin: Admin, patience_s: float, scenario: str = "reassignment") -> dict[str, Any]:
        monkeypatch.setattr(module, "_COMING_UP_S", patience_s)
        monkeypatch.setattr(module, "_ASK_AGAIN_S", 0.01)
        settings = Settings.of(store=tmp_path, seed=1)
        runner = TrialRunner(
            SCENARIOS[scenario],
            Arm(sut=get("dualplane"), planes=Planes.DUAL),
            0,
            plan=Plan.of(1, []),
            settings=settings,
            runtime=SimpleNamespace(capabilities=frozenset()),  # type: ignore[arg-type]
            folder=tmp_path,
            progress=lambda _: None,
        )
        cluster = SimpleNamespace(admin=admin, wait_full_isr=lambda *_: True)
        stage = Stage(nodes=(1, 2, 3), controller=1, victim=2, profile=settings.profile)
        runner._create_topics(cluster, stage)  # type: ignore[arg-type]
        return runner.result.topics

    return make


def test_a_topic_that_is_refused_is_asked_for_again(make: Callable[..., dict[str, Any]]) -> None:
    admin = Admin(time.monotonic() + 0.1)
    topics = make(admin, 30.0)
    stage = Stage(nodes=(1, 2, 3), controller=1, victim=2, profile=PROFILES["smoke"])
    assert topics.keys() == {t.name for t in SCENARIOS["reassignment"].topics(stage)}
    assert len(admin.asked) > len(topics)
    assert all(topic["keys"] == UNIQUE for topic in topics.values())


def test_who_refuses_it_for_long_is_asked_no_more(make: Callable[..., dict[str, Any]]) -> None:
    admin = Admin(time.monotonic() + 60)
    with pytest.raises(FaultFailed, match="INVALID_REPLICA_ASSIGNMENT"):
        make(admin, 0.2)
    assert len(admin.asked) > 2
    assert admin.asked[-1] - admin.asked[0] > 0.1


def test_it_is_asked_for_until_a_refusal_is_judged() -> None:
    assert module._COMING_UP_S - module._ASK_AGAIN_S > BEFORE_NS / 1e9


def test_what_a_fault_gives_a_topic_is_told_and_not_made(
    make: Callable[..., dict[str, Any]],
) -> None:
    admin = Admin(0)
    topics = make(admin, 30.0, "last-in-sync")
    given = {"unclean.leader.election.enable": "true"}
    assert (admin.configs["allowed"], topics["allowed"]["configs"]) == ({}, given)

"""A trial ends when all is well, and goes on looking where something has not recovered."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.facts.strain import MOST
from checkers.promises.recovery import LONG_NS
from faults.plan import Plan
from faults.protocol import Entry
from harness import trial as module
from harness.scenarios import SCENARIOS
from harness.scenarios.base import Scenario
from harness.settings import Settings
from harness.sut.protocol import Planes
from harness.sut.registry import get
from harness.trial import TrialRunner
from harness.trial_result import Arm
from harness.workload.recorder import RecorderFailed

LACK = {"what": "deletion", "topic": "d"}


@pytest.fixture
def runner(tmp_path: Path) -> TrialRunner:
    scenario = dataclasses.replace(SCENARIOS["broker-restart"], quiesce_s=0.2)
    return TrialRunner(
        scenario,
        Arm(sut=get("dualplane"), planes=Planes.DUAL),
        0,
        plan=Plan.of(
            1, [Entry(id="k", fault="kill", at_ms=5, duration_ms=7, params={"target": 1})]
        ),
        settings=Settings.of(store=tmp_path, seed=1),
        runtime=SimpleNamespace(),  # type: ignore[arg-type]
        folder=tmp_path,
        progress=lambda _what: None,
    )


@pytest.mark.parametrize(("patience", "waited_s"), [(1.0, 0.25), (3.0, 0.75)])
def test_on_a_busy_machine_the_load_goes_on_for_longer(
    runner: TrialRunner, monkeypatch: pytest.MonkeyPatch, patience: float, waited_s: float
) -> None:
    """By as many times as whoever judges gives it longer; by what was told since healing."""
    now_s, asked = [0.0], []

    def wait(seconds: float) -> bool:
        now_s[0] += seconds
        return False

    def told(since_t: int) -> float:
        asked.append(since_t)
        return patience

    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    runner.settings = dataclasses.replace(
        runner.settings, profile=dataclasses.replace(runner.settings.profile, settle_s=0.25)
    )
    runner._strain = SimpleNamespace(patience=told)  # type: ignore[assignment]
    runner._over = SimpleNamespace(is_set=lambda: False, wait=wait)  # type: ignore[assignment]
    runner._settle(77)
    assert now_s == [waited_s]
    assert set(asked) == {77}


@pytest.mark.parametrize(("patience", "longer"), [(1.0, 1.0), (1.5, 1.5), (4.0, 2.0)])
def test_on_a_busy_machine_what_lacks_is_given_longer_and_not_without_end(
    runner: TrialRunner, patience: float, longer: float
) -> None:
    told = {77: patience}
    runner._strain = SimpleNamespace(patience=told.__getitem__)  # type: ignore[assignment]
    assert runner._patience_s(77) == longer * runner.scenario.quiesce_s


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_as_long_as_whoever_judges_may_ask_for(scenario: Scenario) -> None:
    """Else a machine may be too busy for any verdict, however long it is given."""
    assert scenario.quiesce_s * 1e9 >= LONG_NS
    assert scenario.quiesce_s * module._MOST_PATIENCE * 1e9 >= MOST * LONG_NS


def look_on(
    runner: TrialRunner, lacks: Callable[[int], bool], waits: Callable[[int], bool]
) -> tuple[int, list[tuple[Any, ...]]]:
    """Looks how often; what was recorded. ``lacks(n)``: whether the nth look finds a lack."""
    looks, events = [0], []

    def read() -> bool:
        looks[0] += 1
        return not lacks(looks[0])

    rest: Any = SimpleNamespace(read=read, lacking=[LACK])
    served: Any = SimpleNamespace(
        waiting=lambda: [("produce", "t", 0, "p")] if waits(looks[0]) else []
    )
    recorder: Any = SimpleNamespace(event=lambda kind, **f: events.append((kind, *f.values())))
    runner._look_on(rest, served, recorder, 77)
    return looks[0], events


def never(_n: int) -> bool:
    return False


def test_where_all_is_well_nobody_looks_twice(runner: TrialRunner) -> None:
    assert look_on(runner, never, never) == (1, [])


def test_until_the_last_has_recovered(runner: TrialRunner) -> None:
    runner.scenario = dataclasses.replace(runner.scenario, quiesce_s=60.0)
    assert look_on(runner, lambda n: n < 2, lambda n: n < 3) == (3, [])


@pytest.mark.parametrize("lacks", [True, False])
def test_in_vain(runner: TrialRunner, lacks: bool) -> None:
    looks, events = look_on(runner, lambda _: lacks, lambda _: not lacks)
    assert looks >= 2
    assert events == [("phase", "settle", "timeout")]


def test_a_run_that_is_stopped_does_not_look_on(runner: TrialRunner) -> None:
    runner.interrupt()
    assert look_on(runner, lambda _: True, never) == (1, [])


def infra(runner: TrialRunner, events: list[Any]) -> None:
    recorder: Any = SimpleNamespace(event=lambda kind, **f: events.append((kind, *f.values())))
    runner._watching_infra(recorder)("infra", component="toxiproxy", reason="exited with -9")


def test_what_the_trial_stands_on_ends_it_when_it_fails(runner: TrialRunner) -> None:
    events: list[Any] = []
    infra(runner, events)
    assert events == [("infra", "toxiproxy", "exited with -9")]
    assert look_on(runner, lambda _: True, never) == (1, [])


def test_other_rows_end_nothing(runner: TrialRunner) -> None:
    runner.scenario = dataclasses.replace(runner.scenario, quiesce_s=60.0)
    recorder: Any = SimpleNamespace(event=lambda *_, **__: None)
    runner._watching_infra(recorder)("node_event", node=1, event="exited")
    assert look_on(runner, lambda n: n < 3, never) == (3, [])


class Plays:
    """A schedule that is never through, and counts for how long it was waited for."""

    def __init__(self, most: int = 20) -> None:
        self.waited, self.most = 0, most

    def start(self) -> None: ...

    def join(self, timeout_s: float) -> bool:
        self.waited += 1
        assert self.waited < self.most
        return False


def chaos(runner: TrialRunner, plays: Plays, *alive: bool, chaos_s: float = 3600.0) -> None:
    profile = dataclasses.replace(runner.settings.profile, chaos_s=chaos_s)
    runner.settings = dataclasses.replace(runner.settings, profile=profile)
    workloads: Any = [SimpleNamespace(alive=lambda one=one: one) for one in alive]
    runner._chaos(plays, workloads)  # type: ignore[arg-type]


def test_an_hour_of_chaos_ends_with_what_it_stands_on(runner: TrialRunner) -> None:
    infra(runner, [])
    chaos(runner, plays := Plays(), True)
    assert not plays.waited


def test_and_with_a_client_that_died(runner: TrialRunner) -> None:
    chaos(runner, plays := Plays(), True, False)
    assert not plays.waited


def test_nor_is_the_plans_end_waited_for(runner: TrialRunner) -> None:
    plays = Plays()
    plays.join = lambda timeout_s: infra(runner, []) or Plays.join(plays, timeout_s)  # type: ignore[method-assign,func-returns-value]
    chaos(runner, plays, True, chaos_s=0.0)
    assert plays.waited == 1


def test_the_plan_that_is_to_be_played_is_told(runner: TrialRunner) -> None:
    cluster: Any = SimpleNamespace(
        capabilities=get("dualplane").capabilities | {"kill"}, context=lambda **_: None
    )
    runner.live.mkdir()
    runner._schedule(cluster, SimpleNamespace(event=None))  # type: ignore[arg-type]
    assert runner.result.planned == [{"id": "k", "fault": "kill", "at_ms": 5, "duration_ms": 7}]


def test_a_harness_that_could_not_write_its_own_history_says_so(
    runner: TrialRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Recorder:
        def __init__(self, *_: Any, **__: Any) -> None: ...
        def event(self, *_: Any, **__: Any) -> None: ...
        def close(self) -> None:
            raise RecorderFailed("harness.jsonl: the end is not written")

    cluster: Any = SimpleNamespace(log_dirs=[], stop=lambda: None)
    monkeypatch.setattr(module, "LiveRecorder", Recorder)
    monkeypatch.setattr(module, "cluster_of", lambda *_, **__: cluster)
    monkeypatch.setattr(runner, "_live", lambda *_: None)
    monkeypatch.setattr(runner, "_collect_evidence", lambda *_: None)
    monkeypatch.setattr(runner, "_disk_bytes", lambda: None)
    result = runner.run()
    assert result.failure == "RecorderFailed: harness.jsonl: the end is not written"
    assert result.end_t

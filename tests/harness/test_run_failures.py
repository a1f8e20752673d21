"""What a run makes of a place that fails (before anything ran a refusal, later an unknown), and
what it leaves behind."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from checkers.history import HistoryError
from checkers.history.frames import History
from checkers.history.playing import is_played
from checkers.history.run_info import RunInfo
from faults.plan import Plan
from harness import arms
from harness import run as run_module
from harness.arms import arms_of
from harness.history.again import finish_again
from harness.run_record import trial_record
from harness.runtime.protocol import Programs, RuntimeFailed, SetupError
from harness.scenarios import SCENARIOS
from harness.settings import Settings, SettingsError
from harness.trial import TrialRunner
from harness.trial_result import TrialResult


class Place:
    """A runtime in which nothing runs. ``fails_at``: which `prepare` fails, counted from 1."""

    capabilities: frozenset[Any] = frozenset()
    programs = Programs(python="python", java="java")

    def __init__(self, fails_at: int) -> None:
        self.fails_at, self.prepared = fails_at, 0

    def prepare(self) -> None:
        self.prepared += 1
        if self.prepared == self.fails_at:
            raise RuntimeFailed("the engine is gone")

    def close(self) -> None:
        """Nothing to end."""


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def play(
        fails_at: int = 0,
        refusals: tuple[SetupError | None, ...] = (None, None),
        verdict: str = "unknown",
        keep_data: bool = False,
    ) -> Any:
        place, left = Place(fails_at), list(refusals)

        def runner(_scenario: Any, arm: Any, trial: int, *, folder: Path, **_: Any) -> Any:
            refusal = left.pop(0)
            failure = None if refusal is None else str(refusal)
            result = TrialResult(arm.label, trial, folder, failure=failure)
            result.log_dirs = [folder / "node-1" / "data"]
            (folder / "node-1" / "data").mkdir(parents=True)
            return SimpleNamespace(result=result, refusal=refusal, run=lambda: None)

        judged = {"verdict": verdict, "reasons": []}
        for module in (run_module, arms):
            monkeypatch.setattr(module, "get_runtime", lambda *_: place)
        monkeypatch.setattr(run_module, "TrialRunner", runner)
        monkeypatch.setattr(run_module, "judge", lambda _: judged)
        monkeypatch.setattr(run_module, "write_report", lambda _: None)
        settings = Settings.of(
            profile="smoke", seed=1, rounds=1, store=tmp_path, keep_data=keep_data
        )
        outcome = run_module.run(SCENARIOS["zombie-controller"], settings, lambda *_: None)
        return json.loads((outcome.folder / "run.json").read_text())["trials"]

    return play


def test_nothing_fails(play: Any) -> None:
    assert [trial["failure"] for trial in play()] == [None, None]


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_place_that_is_not_there_is_a_refusal(play: Any, tmp_path: Path, fails_at: int) -> None:
    with pytest.raises(RuntimeFailed, match="the engine is gone"):
        play(fails_at=fails_at)
    made = list(tmp_path.glob("zombie-controller/*"))
    assert bool(made) is (fails_at == 2)  # what lacks from the start lacks before anything is made


def test_a_place_that_is_gone_before_the_second_trial_leaves_the_first_to_be_judged(
    play: Any,
) -> None:
    first, second = play(fails_at=3)
    assert first["failure"] is None
    assert second["failure"] == "RuntimeFailed: the engine is gone"


def test_what_cannot_even_be_started_is_a_refusal(play: Any) -> None:
    with pytest.raises(SetupError, match="make image"):
        play(refusals=(SetupError("the image cannot run; make image"), None))


def test_what_cannot_be_started_any_more_is_not(play: Any) -> None:
    first, second = play(refusals=(None, SetupError("the image cannot run")))
    assert first["failure"] is None
    assert second["failure"] == "the image cannot run"


@pytest.mark.parametrize("verdict", ["valid", "invalid", "unknown"])
@pytest.mark.parametrize("keep_data", [False, True])
def test_only_a_valid_run_gives_its_log_directories_back(
    play: Any, tmp_path: Path, verdict: str, keep_data: bool
) -> None:
    play(verdict=verdict, keep_data=keep_data)
    left = list(tmp_path.glob("zombie-controller/*/trials/*/node-1/data"))
    assert len(left) == (0 if verdict == "valid" and not keep_data else 2)
    assert len(list(tmp_path.glob("zombie-controller/*/trials/*/node-1"))) == 2
    (record,) = tmp_path.glob("zombie-controller/*/run.json")
    assert ("log_dirs_removed" in json.loads(record.read_text())) == (not left)


@pytest.mark.parametrize(
    ("fails", "then"),
    [("_finish", "history finish"), ("judge", "check"), ("write_report", "check")],
)
def test_a_disk_that_is_full_is_a_refusal_that_says_how_to_go_on(
    play: Any, monkeypatch: pytest.MonkeyPatch, fails: str, then: str
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    original = monkeypatch.setattr

    def keep(target: Any, name: str, value: Any) -> None:
        original(target, name, full if name == fails else value)

    original(monkeypatch, "setattr", keep)  # `play` sets its own
    monkeypatch.setattr(run_module, fails, full)
    with pytest.raises(SetupError, match=f"No space left .* kept: free some, then biplane {then}"):
        play()


def test_two_runs_of_one_seed_and_second_do_not_share_a_folder(
    play: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "strftime", lambda _: "20261123T000000")
    play()
    with pytest.raises(SettingsError, match="another run with --seed 1 began there"):
        play()


def test_while_it_is_played_nobody_else_makes_its_history(
    play: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, finish = [], run_module._finish

    def finishing(folder: Path, trials: Any) -> Any:
        (folder / "trials" / "x-0" / "live").mkdir(parents=True)
        for judge in (lambda: list(finish_again(folder)), lambda: History.load(folder)):
            with pytest.raises(HistoryError, match="it is being played") as refused:
                judge()
            told.append(str(refused.value))
        return finish(folder, trials)

    monkeypatch.setattr(run_module, "_finish", finishing)
    play()
    assert len(told) == 2
    (folder,) = tmp_path.glob("zombie-controller/*")
    assert not is_played(folder)
    with pytest.raises(HistoryError, match="no live files to be finished"):
        list(finish_again(folder))


def test_a_history_that_could_not_be_written_makes_the_run_unknown(tmp_path: Path) -> None:
    """Whatever became of the rows: run.json says it, and who reads it judges by it."""
    said: list[str] = []
    settings = Settings.of(profile="smoke", seed=1, rounds=1, store=tmp_path)
    scenario = SCENARIOS["zombie-controller"]
    (arm, *_) = arms_of(scenario, settings)
    runner = TrialRunner(
        scenario,
        arm,
        0,
        plan=Plan(seed=1, entries=[]),
        settings=settings,
        runtime=None,  # type: ignore[arg-type]
        folder=tmp_path,
        progress=said.append,
    )
    runner._cannot_record("harness.jsonl: it cannot be written: no space")
    record = trial_record(runner.result)
    (why,) = RunInfo.from_dict({"trials": [record]}).failures
    assert "RecorderFailed: harness.jsonl: it cannot be written" in why
    assert said == ["harness.jsonl: it cannot be written: no space"]

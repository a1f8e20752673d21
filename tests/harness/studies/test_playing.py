"""Runs that are judged while the next is played: what comes back, and what is left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from checkers.history import HistoryError
from checkers.judging.verdict import Verdict
from harness.run import Recorded
from harness.settings import Settings
from harness.studies import playing
from harness.studies.ledger import Play


def recorded(folder: Path, *, keep_data: bool = False) -> Recorded:
    (folder / "data").mkdir(parents=True)
    (folder / "run.json").write_text('{"seed": 1}')
    return Recorded(
        scenario="mixture",
        folder=folder,
        log_dirs=[folder / "data"],
        keep_data=keep_data,
        seconds=2.0,
    )


@pytest.mark.parametrize("keep", [True, False])
def test_a_judged_run_gives_its_log_directories_back(tmp_path: Path, keep: bool) -> None:
    verdict: Future[tuple[dict[str, Any], float]] = Future()
    pending = playing._Judged(recorded(tmp_path, keep_data=keep), verdict)
    verdict.set_result(({"verdict": "invalid", "reasons": ["why"]}, 3.0))
    outcome = pending.result()
    assert (outcome.verdict, outcome.reasons, outcome.seconds) == (Verdict.INVALID, ["why"], 5.0)
    assert (tmp_path / "data").exists() == keep
    record = json.loads((tmp_path / "run.json").read_text())
    assert record == {"seed": 1, **({} if keep else {"log_dirs_removed": True})}


def test_a_run_is_recorded_at_once_and_judged_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Settings] = []

    def record_run(scenario: Any, settings: Settings, progress: Any) -> Recorded:
        asked.append(settings)
        return recorded(tmp_path / scenario.name)

    monkeypatch.setattr(playing, "record_run", record_run)
    with playing.player(lambda *_: None, profile="ci", store=tmp_path) as play:
        pending = play(Play(scenario="mixture", seed=7, planes="dual"))
        assert [(s.seed, s.planes, s.profile.name) for s in asked] == [(7, ("dual",), "ci")]
        with pytest.raises(HistoryError, match="no folder 'history'"):  # nothing to be judged
            pending.result()


LEFT = """
import multiprocessing, os, time
from harness.studies.playing import _stand_back

def child(pipe):
    _stand_back()
    pipe.send((os.getpid(), os.nice(0)))
    time.sleep(60)

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=child, args=(theirs,)).start()
    print(*ours.recv(), flush=True)
    os.kill(os.getpid(), 9)
"""


def test_the_judge_stands_back_and_ends_with_the_study(tmp_path: Path) -> None:
    script = tmp_path / "study.py"
    script.write_text(LEFT)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, env=env, check=False
    )
    child, nice = map(int, done.stdout.split())
    assert nice >= os.nice(0) + 5
    deadline = time.monotonic() + 30
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)

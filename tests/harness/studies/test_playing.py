"""Runs that are judged while the next is played: what comes back, and what is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from checkers.history import HistoryError
from harness.settings import Settings
from harness.studies import playing
from harness.studies.ledger import Play

pytestmark = pytest.mark.slow


def test_a_run_is_judged_in_a_process_of_its_own(tmp_path: Path) -> None:
    with playing.judges() as judge:
        verdict = judge(tmp_path)
        with pytest.raises(HistoryError, match="no folder 'history'"):  # nothing to be judged
            verdict.result()


def test_a_recorder_asks_for_what_the_play_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Settings] = []
    monkeypatch.setattr(playing, "record_run", lambda _s, settings, _p: asked.append(settings))
    record = playing.recorder(lambda *_: None, profile="ci", store=tmp_path)
    record(Play(scenario="mixture", seed=7, planes="dual", bug="double-append"))
    assert [(s.seed, s.planes, s.profile.name, s.mutants) for s in asked] == [
        (7, ("dual",), "ci", ("double-append",))
    ]


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

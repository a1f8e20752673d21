"""`biplane history watch`: what it says of stored runs, and how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import checkers.live.replay as replaying
import checkers.spark
from checkers.live.accusation import Accusation
from checkers.live.replay import Replayed
from harness.cli import command

WENT_BACK = Accusation(
    promise="stale-metadata", rule="metadata-went-back", arm="a", trial=0, says="node 1 went back",
    t=1, place=(1,),
)  # fmt: skip


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Watch a store of one run, of which ``told`` is told and ``rules`` were judged as broken."""

    def watch(told: tuple[Accusation, ...], rules: list[str] | None) -> tuple[int, str]:
        run = tmp_path / "store" / "mixture" / "20260101T000000-1"
        (run / "history").mkdir(parents=True)
        (run / "run.json").write_text("{}")
        if rules is not None:
            checks = {"c": {"violation_counts": dict.fromkeys(rules, 1)}}
            (run / "results.json").write_text(json.dumps({"checks": checks}))
        monkeypatch.setattr(checkers.spark, "session", lambda *_, **__: None)
        monkeypatch.setattr(checkers.spark, "tuned", lambda *_: None)
        seen = Replayed(told=told, rows=7, looks=3)
        monkeypatch.setattr(replaying, "replay", lambda *_: seen)
        monkeypatch.setattr(sys, "argv", ["biplane", "history", "watch", str(tmp_path / "store")])
        code = command()
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return watch


def test_what_agrees(watch: Any) -> None:
    code, says = watch((WENT_BACK,), [WENT_BACK.rule, "never-converged"])
    assert code == 0
    assert "7 rows in 3 looks; told of metadata-went-back" in says
    assert "1 runs, 1 accused; 0 of them told otherwise than judged" in says


@pytest.mark.parametrize(
    ("told", "rules", "says"),
    [
        ((WENT_BACK,), [], "not confirmed: node 1 went back"),
        ((), [WENT_BACK.rule], "not told of: metadata-went-back"),
    ],
)
def test_what_does_not(watch: Any, told: Any, rules: list[str], says: str) -> None:
    code, said = watch(told, rules)
    assert code == 1
    assert says in said
    assert f"1 runs, {len(told)} accused; 1 of them told otherwise than judged" in said


def test_a_run_that_was_not_judged(watch: Any) -> None:
    code, says = watch((), None)
    assert code == 254
    assert "it was not judged: run `biplane check` on it" in says

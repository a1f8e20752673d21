"""`biplane trust`: what is played, what is kept, what the page says."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.run import Skipped
from harness.studies.ledger import Budget, Entry, Ledger, Play, interval, rate, seconds_of
from harness.studies.trust import exit_code, page, plays, study
from nodes.mutants import MUTANTS

BUG = next(iter(MUTANTS))
WANTED: dict[str, Any] = {
    "bugs": [BUG],
    "scenarios": ["request-flood"],
    "planes": ["single", "dual"],
    "suts": ["dualplane"],
}


def outcome(verdict: str) -> Any:
    done = SimpleNamespace(
        verdict=verdict, results={"checks": {}}, reasons=["why\nmore"], seconds=3, folder=Path("x")
    )
    return SimpleNamespace(result=lambda: done)


def test_one_seed_of_everything_comes_before_the_next() -> None:
    order = list(plays(seeds=[1, 2], **WANTED))
    assert [p.seed for p in order] == [1, 1, 1, 2, 2, 2]
    assert order[0].bug == BUG
    assert {(p.bug, p.planes) for p in order[1:3]} == {("", "single"), ("", "dual")}


def test_what_is_in_the_ledger_is_not_played_again(tmp_path: Path) -> None:
    played: list[Play] = []

    def play(one: Play) -> Any:
        played.append(one)
        if one.planes == "single":
            raise Skipped("has no such planes")
        return outcome("invalid" if one.bug else "valid")

    wanted = list(plays(seeds=[1], **WANTED))
    for _ in range(2):
        ledger = Ledger(tmp_path / "trust.jsonl")
        assert study(wanted, ledger, play, Budget(60), lambda _e: None)
    assert played == wanted
    assert exit_code(ledger) == 0
    assert "1/1" in page(list(ledger), "biplane trust")


def test_nothing_is_begun_when_the_budget_is_spent(tmp_path: Path) -> None:
    spent = Budget(0, now=lambda: 1.0)
    ledger = Ledger(tmp_path / "t")
    assert not study(plays(seeds=[1], **WANTED), ledger, outcome, spent, lambda _e: None)
    assert exit_code(ledger) == 2


@pytest.mark.parametrize(
    ("bug", "sound", "code"),
    [
        (["invalid", "valid"], ["valid"], 0),  # found once: the rate says how often
        (["valid", "unknown"], ["valid"], 1),
        (["invalid"], ["invalid"], 1),
        (["invalid"], ["unknown"], 2),
    ],
)
def test_the_exit_code(bug: list[str], sound: list[str], code: int) -> None:
    entries = [
        Entry(play=Play(scenario="s", seed=i, planes="dual", bug=b), verdict=v)
        for b, of in ((BUG, bug), ("", sound))
        for i, v in enumerate(of)
    ]
    assert exit_code(entries) == code
    text = page(entries, "biplane trust")
    assert ("accused" in text.partition("## Sound systems that")[2]) or "invalid" not in sound
    assert ("Why runs were unknown" in text) == ("unknown" in bug + sound)


def test_rates_come_with_their_interval() -> None:
    assert rate(19, 20) == "19/20 (76% to 99%)"
    assert interval(0, 0) == (0.0, 1.0)
    assert interval(20, 20)[1] == 1.0


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("20m", 1200), ("2h", 7200), ("5", 5)])
def test_budgets_are_times(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "-1h", "soon", "0s"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="allowed: a time such as"):
        seconds_of(text)

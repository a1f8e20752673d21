"""command: what to type to have the same again."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.bugs.book import load_all
from harness.bugs.scenario import profile_of, scenario_of
from harness.report.command import command
from harness.settings import Settings

ROOT = Path(__file__).resolve().parents[3]


def run_of(settings: Settings) -> dict[str, Any]:
    return {"scenario": "request-flood", "seed": settings.seed, "settings": settings.to_dict()}


def test_defaults_are_left_out() -> None:
    words = command(run_of(Settings.of(seed=7)))
    assert words == ["biplane", "run", "request-flood", "--seed", "7", "--profile", "smoke"]


def test_everything_else_is_there() -> None:
    settings = Settings.of(
        profile="ci",
        seed=7,
        time_limit_s=2.5,
        rounds=3,
        planes="single,dual",
        mutants="never-truncate",
        sut="dualplane,kafka",
        plan="my plan.json",
        overrides={"queued.max.requests": "400"},
    )
    words = command(run_of(settings))
    assert words is not None
    text = " ".join(words)
    assert shlex.split(text)[5:] == [
        "--profile", "ci", "--time-limit", "2.5", "--rounds", "3", "--sut", "dualplane,kafka",
        "--planes", "single,dual", "--mutants", "never-truncate", "--plan", "my plan.json",
        "--config", "queued.max.requests=400",
    ]  # fmt: skip


def test_a_round_of_a_soak_is_played_once() -> None:
    words = command(run_of(Settings.of(profile="soak", seed=7)))
    assert words is not None
    assert words[5:] == ["--profile", "soak", "--rounds", "1"]


def test_a_try_of_a_bug_is_reproduced() -> None:
    """It is no scenario that `biplane run` knows."""
    bug = load_all(ROOT / "bugs")["KIP-966"]
    settings = replace(Settings.of(seed=2), profile=profile_of(bug))
    run = {"scenario": scenario_of(bug, {}).name, "seed": 2, "settings": settings.to_dict()}
    assert command(run) == ["biplane", "reproduce", bug.id, "--tries", "2"]


def test_a_run_that_says_nothing() -> None:
    assert command({}) is None

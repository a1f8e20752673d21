"""What `biplane compare` does: begin a comparison or continue one, play rounds, write its page."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.progress import show_progress
from harness.run import Outcome
from harness.scenarios import SCENARIOS
from harness.settings import Settings, SettingsError
from harness.studies.compare.page import publish, write_page
from harness.studies.compare.rounds import DEFAULT, PROFILE, RECORD, Comparison, play_rounds


def play_comparison(
    folder: Path,
    *,
    sut: str | None,
    planes: str | None,
    scenarios: Sequence[str] | None,
    profile: str | None,
    rounds: int,
    idle_rounds: int = 0,
    seed: int | None,
    time_limit_s: float | None,
    runtime: str,
    overrides: dict[str, str],
    out: Path | None = None,
) -> tuple[list[Outcome], Path]:
    """Begin or continue a comparison and write its page: what the command does."""
    settings = Settings.of(
        profile=profile or "smoke",
        seed=seed,
        planes=planes or "single,dual",
        sut=sut or "dualplane",
        runtime=runtime,
        time_limit_s=time_limit_s,
        overrides=overrides,
    )
    if profile is None:
        chaos_s = time_limit_s or PROFILE.chaos_s
        settings = dataclasses.replace(
            settings, profile=dataclasses.replace(PROFILE, chaos_s=chaos_s)
        )
    for name in scenarios or ():
        if name not in SCENARIOS:
            raise SettingsError(f"--scenario: {name!r}; allowed: {', '.join(SCENARIOS)}")
    if (folder / RECORD).exists():
        comparison = Comparison.load(folder.absolute())
        if seed is not None and seed != comparison.seed:
            raise SettingsError(
                f"--seed: {seed}; allowed: {comparison.seed}, with which {folder} began"
            )
        modes = tuple(str(p) for p in settings.planes or ())
        _same("--sut", sut, settings.suts, comparison.suts, folder)
        _same("--planes", planes, modes, comparison.planes, folder)
        known = comparison.scenarios
        comparison.scenarios = tuple(dict.fromkeys((*known, *(scenarios or ()))))
    else:
        modes = tuple(str(p) for p in settings.planes or ())
        comparison = Comparison(
            folder.absolute(),
            settings.suts,
            modes,
            tuple(scenarios or DEFAULT),
            seed=settings.seed,
        )
    if not rounds and not idle_rounds and not comparison.runs:
        raise SettingsError("--rounds: 0; allowed: at least 1 for a comparison without runs")
    with show_progress(sys.stdout) as progress:
        outcomes = play_rounds(
            comparison,
            settings,
            scenarios or comparison.scenarios,
            rounds,
            idle_rounds,
            progress,
        )
    page = write_page(comparison)
    return outcomes, page if out is None else publish(comparison, out)


def _same(
    option: str, given: str | None, asked: Sequence[str], began: Sequence[str], folder: Path
) -> None:
    """What a comparison compares it was begun with. Raises `SettingsError`."""
    if given is not None and set(asked) != set(began):
        allowed = ",".join(began)
        raise SettingsError(f"{option}: {given}; allowed: {allowed}, with which {folder} began")

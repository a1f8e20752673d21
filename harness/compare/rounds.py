"""Rounds of a comparison: runs of one round each, so that figures have a spread and not only a sum.

    store/compare/<name>/
        compare.json     what is compared, and the runs so far (written after each)
        rounds/<scenario>/<run id>/     ordinary runs, each with its own report.html
        compare.md, latency.svg         the page

Rounds outside, scenarios inside, arms innermost, the order of the arms turned every round: what
drifts with time (the machine, caches, other users) meets both arms alike. Each round draws its own
plan from seed + round, the same for all of its arms. A comparison can be continued: rounds are
added to what is there.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.run import Outcome, Progress, run
from harness.scenarios import SCENARIOS
from harness.settings import Profile, Settings, SettingsError
from harness.sut.protocol import Planes

RECORD: Final = "compare.json"
DEFAULT: Final = ("request-flood", "acks1-truncation")
QUIET: Final = {"biplane.kafka.evidence": "quiet"}
"""Nothing that slows a system while it is being timed. Systems that lack the switch ignore it."""
CHECKS: Final = ("controller-latency", "stale-metadata", "truncation-loss", "availability")
PROFILE: Final = Profile(
    name="compare", chaos_s=12.0, warmup_s=8.0, rounds=1, says="long enough to be warm"
)


@dataclass(slots=True)
class Comparison:
    """What lies in a comparison's folder. ``runs``: scenario, round, seed, folder (relative)."""

    folder: Path
    suts: tuple[str, ...]
    planes: tuple[str, ...]
    scenarios: tuple[str, ...]
    runs: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path) -> Comparison:
        """Raises `SettingsError` naming the file when it is not a comparison's."""
        path = folder / RECORD
        try:
            data = json.loads(path.read_text())
            return cls(
                folder,
                tuple(data["suts"]),
                tuple(data["planes"]),
                tuple(data["scenarios"]),
                list(data["runs"]),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SettingsError(
                f"{path}: not a comparison: {error}; allowed: a folder that `biplane compare` made"
            ) from error

    @property
    def rounds(self) -> int:
        return len({entry["round"] for entry in self.runs})

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        data = {
            "suts": list(self.suts),
            "planes": list(self.planes),
            "scenarios": list(self.scenarios),
            "runs": self.runs,
        }
        scratch = self.folder / f"{RECORD}.tmp"
        scratch.write_text(json.dumps(data, indent=2) + "\n")
        scratch.replace(self.folder / RECORD)


def play_rounds(
    comparison: Comparison, settings: Settings, rounds: int, progress: Progress
) -> list[Outcome]:
    """Add rounds. Raises what `harness.run.run` raises; finished runs are kept."""
    outcomes = []
    first = comparison.rounds
    for number in range(first, first + rounds):
        for name in comparison.scenarios:
            outcome = run(
                dataclasses.replace(SCENARIOS[name], checks=CHECKS),
                _of_round(comparison, settings, number),
                lambda where, what, number=number: progress(  # type: ignore[misc]
                    f"round {number + 1}: {where}", what
                ),
            )
            outcomes.append(outcome)
            comparison.runs.append(
                {
                    "scenario": name,
                    "round": number,
                    "seed": settings.seed + number,
                    "verdict": str(outcome.verdict),
                    "folder": str(outcome.folder.relative_to(comparison.folder.absolute())),
                }
            )
            comparison.save()
    return outcomes


def _of_round(comparison: Comparison, settings: Settings, number: int) -> Settings:
    turned = number % 2 == 1
    return dataclasses.replace(
        settings,
        seed=settings.seed + number,
        store=comparison.folder / "rounds",
        profile=dataclasses.replace(settings.profile, rounds=1),
        suts=_turn(comparison.suts, turned),
        planes=tuple(Planes(p) for p in _turn(comparison.planes, turned)),
        overrides={**QUIET, **settings.overrides},
    )


def _turn(names: Sequence[str], turned: bool) -> tuple[str, ...]:
    return tuple(reversed(names)) if turned else tuple(names)


def play_comparison(
    folder: Path,
    *,
    sut: str,
    planes: str,
    scenarios: Sequence[str] | None,
    profile: str | None,
    rounds: int,
    seed: int | None,
    time_limit_s: float | None,
    runtime: str,
    overrides: dict[str, str],
    out: Path | None = None,
) -> tuple[list[Outcome], Path]:
    """Begin or continue a comparison and write its page: what the command does."""
    from harness.compare.page import publish, write_page
    from harness.progress import show_progress

    settings = Settings.of(
        profile=profile or "smoke",
        seed=seed,
        planes=planes,
        sut=sut,
        runtime=runtime,
        time_limit_s=time_limit_s,
        overrides=overrides,
    )
    if profile is None:
        chaos_s = time_limit_s or PROFILE.chaos_s
        settings = dataclasses.replace(
            settings, profile=dataclasses.replace(PROFILE, chaos_s=chaos_s)
        )
    if (folder / RECORD).exists():
        comparison = Comparison.load(folder.absolute())
        if comparison.runs and seed is None:
            settings = dataclasses.replace(settings, seed=int(comparison.runs[0]["seed"]))
    else:
        wanted = tuple(scenarios or DEFAULT)
        for name in wanted:
            if name not in SCENARIOS:
                raise SettingsError(f"--scenario: {name!r}; allowed: {', '.join(SCENARIOS)}")
        modes = tuple(str(p) for p in settings.planes or ())
        comparison = Comparison(folder.absolute(), settings.suts, modes, wanted)
    if not rounds and not comparison.runs:
        raise SettingsError("--rounds: 0; allowed: at least 1 for a comparison without runs")
    with show_progress(sys.stdout) as progress:
        outcomes = play_rounds(comparison, settings, rounds, progress)
    page = write_page(comparison)
    return outcomes, page if out is None else publish(comparison, out)

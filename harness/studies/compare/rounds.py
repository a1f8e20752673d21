"""Rounds of a comparison: runs of one round each, so that figures have a spread and not only a sum.

    store/compare/<name>/
        compare.json     what is compared, and the runs so far (written after each)
        rounds/<scenario>/<run id>/     ordinary runs, each with its own report.html
        idle/<scenario>/<run id>/       the same without floods
        compare.md, latency.svg         the page

Rounds outside, scenarios inside, arms innermost, the order of the arms turned every round: what
drifts with time (the machine, caches, other users) meets both arms alike. Each round draws its own
plan from seed + round, the same for all of its arms. A comparison can be continued: rounds are
added to what is there, of all of its scenarios or of those that are named.

The idle floor: a round can be played without its floods, all else of its plan kept (the same moves,
kills and deletions at the same offsets). What is left there, no control plane can take away.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from faults.plan import Plan
from harness.run import Outcome, Progress, run
from harness.scenarios import SCENARIOS, Scenario
from harness.settings import Profile, Settings, SettingsError
from harness.sut.protocol import Planes

RECORD: Final = "compare.json"
DEFAULT: Final = ("request-flood", "acks1-truncation")
_FLOOD: Final = "flood"
"""What the names of all floods begin with."""
QUIET: Final = {"biplane.kafka.evidence": "quiet"}
"""Nothing that slows a system while it is being timed. Systems that lack the switch ignore it."""
CHECKS: Final = ("controller-latency", "stale-metadata", "truncation-loss", "availability")
"""Of the `DEFAULT` scenarios: what a comparison times, and no more. Others bring their own."""
_NEEDS_REQUEST_LOG: Final = frozenset({"fencing"})
"""Checks that have nothing to judge where `QUIET` left the log of every control request out."""
PROFILE: Final = Profile(
    name="compare", chaos_s=12.0, warmup_s=8.0, rounds=1, says="long enough to be warm"
)


@dataclass(slots=True)
class Comparison:
    """What lies in a comparison's folder. ``runs``: scenario, round, seed, folder (relative), and
    idle when its floods were left out. ``seed``: of the first round."""

    folder: Path
    suts: tuple[str, ...]
    planes: tuple[str, ...]
    scenarios: tuple[str, ...]
    runs: list[dict[str, Any]] = field(default_factory=list)
    seed: int = 0

    @classmethod
    def load(cls, folder: Path) -> Comparison:
        """Raises `SettingsError` naming the file when it is not a comparison's."""
        path = folder / RECORD
        try:
            data = json.loads(path.read_text())
            runs = list(data["runs"])
            first = int(runs[0]["seed"]) - int(runs[0]["round"]) if runs else 0
            return cls(
                folder,
                tuple(data["suts"]),
                tuple(data["planes"]),
                tuple(data["scenarios"]),
                runs,
                int(data.get("seed", first)),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise SettingsError(
                f"{path}: not a comparison: {error}; allowed: a folder that `biplane compare` made"
            ) from error

    def played(self, scenario: str, idle: bool) -> int:
        """How many rounds of a scenario there are, with its floods or without."""
        return sum(
            entry["scenario"] == scenario and bool(entry.get("idle")) == idle for entry in self.runs
        )

    def rounds(self, idle: bool = False) -> int:
        """Of the scenario that has most."""
        return max((self.played(name, idle) for name in self.scenarios), default=0)

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        data = {
            "suts": list(self.suts),
            "planes": list(self.planes),
            "scenarios": list(self.scenarios),
            "seed": self.seed,
            "runs": self.runs,
        }
        scratch = self.folder / f"{RECORD}.tmp"
        scratch.write_text(json.dumps(data, indent=2) + "\n")
        scratch.replace(self.folder / RECORD)


def play_rounds(
    comparison: Comparison,
    settings: Settings,
    scenarios: Sequence[str],
    rounds: int,
    idle_rounds: int,
    progress: Progress,
) -> list[Outcome]:
    """Add rounds of some of its scenarios, idle ones after those with floods. Raises what
    `harness.run.run` raises; finished runs are kept."""
    outcomes = []
    for turn in range(max(rounds, idle_rounds)):
        wanted = [False] * (turn < rounds) + [True] * (turn < idle_rounds)
        for name in scenarios:
            for idle in wanted:
                outcomes.append(_play(comparison, settings, name, idle, progress))
    return outcomes


def _play(
    comparison: Comparison, settings: Settings, name: str, idle: bool, progress: Progress
) -> Outcome:
    """One round of one scenario, written down when it is over."""
    number = comparison.played(name, idle)
    where = f"round {number + 1}{', idle' if idle else ''}"
    outcome = run(
        _timed(SCENARIOS[name], idle),
        _of_round(comparison, settings, number, idle),
        lambda what, step: progress(f"{where}: {what}", step),
    )
    comparison.runs.append(
        {
            "scenario": name,
            "round": number,
            "idle": idle,
            "seed": comparison.seed + number,
            "verdict": str(outcome.verdict),
            "folder": str(outcome.folder.relative_to(comparison.folder.absolute())),
        }
    )
    comparison.save()
    return outcome


def _timed(scenario: Scenario, idle: bool) -> Scenario:
    """The scenario as a comparison plays it."""
    own = tuple(name for name in scenario.checks if name not in _NEEDS_REQUEST_LOG)
    scenario = dataclasses.replace(
        scenario,
        checks=CHECKS if scenario.name in DEFAULT else own,
        overrides={**scenario.overrides, **QUIET},
    )
    if not idle:
        return scenario
    return dataclasses.replace(
        scenario, plan=lambda rng, profile: without_floods(scenario.plan(rng, profile))
    )


def without_floods(plan: Plan) -> Plan:
    """The same plan, but for whatever floods a broker."""
    return dataclasses.replace(
        plan, entries=tuple(e for e in plan.entries if not e.fault.startswith(_FLOOD))
    )


def _of_round(comparison: Comparison, settings: Settings, number: int, idle: bool) -> Settings:
    turned = number % 2 == 1
    return dataclasses.replace(
        settings,
        seed=comparison.seed + number,
        store=comparison.folder / ("idle" if idle else "rounds"),
        profile=dataclasses.replace(settings.profile, rounds=1),
        suts=_turn(comparison.suts, turned),
        planes=tuple(Planes(p) for p in _turn(comparison.planes, turned)),
    )


def _turn(names: Sequence[str], turned: bool) -> tuple[str, ...]:
    return tuple(reversed(names)) if turned else tuple(names)

"""`biplane mutants`: does the harness find what it claims to find?

Each planted bug of the bundled server (`nodes.mutants`) names the scenario that exposes it and the
check that must notice. Here each is played twice with one seed, and so one plan: with the bug,
where that check must find a violation, and without any, where the run must be valid. A check that
is silent about a planted bug is worth nothing, and one that accuses a sound server is worth less.

A scenario that exposes several bugs needs one sound run only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.judging.verdict import Verdict
from harness.run import Outcome, Progress, run
from harness.scenarios import SCENARIOS
from harness.settings import Settings, SettingsError
from nodes.mutants import MUTANTS, Mutant

Play = Callable[[str, str], Outcome]
"""(scenario, planted bug or "") -> what came of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """One planted bug: its run, and the sound one of the same scenario and seed."""

    mutant: Mutant
    outcome: Outcome
    control: Outcome

    @property
    def found(self) -> bool:
        """By the check that claims it. What else is broken by the bug does not count."""
        return self.outcome.verdict is Verdict.INVALID and bool(self.rules)

    @property
    def rules(self) -> list[str]:
        """The broken rules that the check has seen."""
        check = self.outcome.results["checks"].get(self.mutant.found_by) or {}
        return list(check.get("violation_counts") or {})

    @property
    def witness(self) -> str:
        """The first violation in a sentence; why there is none, otherwise."""
        check: dict[str, Any] = self.outcome.results["checks"].get(self.mutant.found_by) or {}
        for violation in check.get("violations") or []:
            return str(violation["says"])
        if self.outcome.verdict is Verdict.INVALID:
            return f"not found by {self.mutant.found_by}; " + "; ".join(self.outcome.reasons[:2])
        return "; ".join(self.outcome.reasons[:2]) or "nothing was found"


def chosen(names: Sequence[str]) -> list[Mutant]:
    """The planted bugs of these names (all when there are none); `SettingsError` names the rest."""
    for name in names:
        if name not in MUTANTS:
            raise SettingsError(f"planted bug {name!r}; allowed: {', '.join(MUTANTS)}")
    return [mutant for mutant in MUTANTS.values() if not names or mutant.name in names]


def hunt(mutants: Iterable[Mutant], play: Play) -> Iterator[Hunt]:
    """Play each, scenario by scenario, the sound run first."""
    by_scenario: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_scenario.setdefault(mutant.scenario, []).append(mutant)
    for scenario, of in by_scenario.items():
        control = play(scenario, "")
        for mutant in of:
            yield Hunt(mutant=mutant, outcome=play(scenario, mutant.name), control=control)


def exit_code(hunts: Sequence[Hunt]) -> int:
    """0: each was found and each sound run is valid; 1: one was not, or a sound run is invalid;
    2: a run proved nothing."""
    verdicts = {h.control.verdict for h in hunts}
    missed = [h for h in hunts if not h.found]
    if Verdict.INVALID in verdicts or any(h.outcome.verdict is not Verdict.UNKNOWN for h in missed):
        return Verdict.INVALID.exit_code
    if missed or verdicts != {Verdict.VALID}:
        return Verdict.UNKNOWN.exit_code
    return Verdict.VALID.exit_code


def table(hunts: Sequence[Hunt]) -> Iterator[str]:
    """One row a planted bug, then the sound runs, then where each report is."""
    rows: list[Sequence[str]] = [("planted bug", "scenario", "verdict", "found by", "rule")]
    for h in hunts:
        verdict = str(h.outcome.verdict) if h.found else f"{h.outcome.verdict} (NOT FOUND)"
        rules = ", ".join(h.rules) or "-"
        rows.append((h.mutant.name, h.mutant.scenario, verdict, h.mutant.found_by, rules))
    for control in _controls(hunts):
        rows.append(("(none)", control.scenario, str(control.verdict), "-", "-"))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()
    yield ""
    for h in hunts:
        yield f"  {h.mutant.name}: {h.mutant.says}"
        yield f"    {h.witness}"
        yield f"    {h.outcome.folder / 'report.html'}"
    for control in _controls(hunts):
        if control.verdict is not Verdict.VALID:
            yield f"  {control.scenario} without a planted bug: {'; '.join(control.reasons[:3])}"
            yield f"    {control.folder / 'report.html'}"


def _controls(hunts: Sequence[Hunt]) -> list[Outcome]:
    return list({h.control.scenario: h.control for h in hunts}.values())


def player(progress: Progress, **options: Any) -> Play:
    """Plays with these options of `Settings.of`; a seed among them, the same for all runs."""

    def play(scenario: str, mutant: str) -> Outcome:
        return run(SCENARIOS[scenario], Settings.of(mutants=mutant, **options), progress)

    return play

"""Verdicts: what a run's evidence amounts to, how parts are merged, and ``results.json``.

    valid    every check that was asked for looked at something and found no violation
    invalid  at least one violation, each with a witness: the few events that prove it
    unknown  nothing was proven: a crash, a failed assumption, an infrastructure fault, or a run in
             which nothing happened

A violation is a fact about the system under test even in a run that is otherwise worthless, so
invalid beats unknown, and unknown beats valid. Exit codes of several runs are merged in the order
1 (invalid), 255 (crash), 2 (unknown), and any other failure (254) before 0.

This module imports neither Spark nor Arrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from checkers.history import HistoryError

VERSION: Final = 1
"""Raised whenever a stored results.json could be read differently by newer code."""

RESULTS_FILE: Final = "results.json"


class Verdict(StrEnum):
    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        return {Verdict.VALID: 0, Verdict.INVALID: 1, Verdict.UNKNOWN: 2}[self]


EXIT_BAD_ARGUMENTS: Final = 254
EXIT_CRASH: Final = 255
_WORST_FIRST: Final = (1, EXIT_CRASH, 2)


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict of the whole: invalid beats unknown beats valid. Of nothing: unknown."""
    seen = set(verdicts)
    for verdict in (Verdict.INVALID, Verdict.UNKNOWN, Verdict.VALID):
        if verdict in seen:
            return verdict
    return Verdict.UNKNOWN


def worst_exit_code(codes: Iterable[int]) -> int:
    """The exit code of several runs. Of none: unknown (2)."""
    seen = set(codes)
    for code in _WORST_FIRST:
        if code in seen:
            return code
    failures = seen - {0}
    if failures:
        return max(failures)
    return 0 if seen else Verdict.UNKNOWN.exit_code


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken guarantee. ``events``: history rows (with their kind in ``f``), in order of t."""

    rule: str
    says: str
    arm: str
    trial: int
    events: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Excused:
    """``n`` would-be violations of one rule that an excuse made lawful, and the share that they are
    of what was judged there."""

    arm: str
    trial: int
    rule: str
    excuse: str
    n: int
    share: float


@dataclass(slots=True)
class CheckResult:
    """One check's result. ``says``: the promise; ``rules``: by rule, what should have held.
    ``arms``: figures by arm. Only the first violations of each rule are kept in ``violations``;
    ``violation_counts`` says how many there were. ``evidence``: by arm, trial and what, how much
    there was to judge; ``not_judged``: what was left out, named."""

    name: str
    verdict: Verdict
    says: str = ""
    rules: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    arms: dict[str, dict[str, Any]] = field(default_factory=dict)
    violations: list[Violation] = field(default_factory=list)
    violation_counts: dict[str, int] = field(default_factory=dict)
    evidence: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    excused: list[Excused] = field(default_factory=list)
    not_judged: list[str] = field(default_factory=list)
    required: bool = True
    """False: nobody asked for this check and there was nothing for it to judge, so that its
    `unknown` does not make the run unknown."""
    seconds: float = 0.0


@dataclass(slots=True)
class Results:
    """Everything that the checkers say about a run: the content of ``results.json``."""

    run_id: str
    scenario: str
    seed: int
    arms: dict[str, dict[str, Any]]
    checks: dict[str, CheckResult]
    verdict: Verdict = Verdict.UNKNOWN
    reasons: list[str] = field(default_factory=list)
    comparison: dict[str, Any] = field(default_factory=dict)
    engine: str = ""
    """Who answered what was asked of the history, with its version."""

    def conclude(self) -> None:
        """Merge the checks' verdicts and reasons into the run's."""
        counted = [c for c in self.checks.values() if c.required or c.verdict is Verdict.INVALID]
        self.verdict = merge(c.verdict for c in counted)
        wanted = [c for c in counted if c.verdict is self.verdict and c.verdict != Verdict.VALID]
        self.reasons = [f"{c.name}: {reason}" for c in wanted for reason in c.reasons]

    @property
    def exit_code(self) -> int:
        return self.verdict.exit_code

    def to_dict(self) -> dict[str, Any]:
        """As stored: the layout is part of the interface, see `VERSION`."""
        checks = {name: asdict(check) for name, check in self.checks.items()}
        for check in checks.values():
            del check["name"]
        return {
            "version": VERSION,
            "run_id": self.run_id,
            "scenario": self.scenario,
            "seed": self.seed,
            "verdict": str(self.verdict),
            "reasons": self.reasons,
            "arms": self.arms,
            "checks": checks,
            "comparison": self.comparison,
            "engine": self.engine,
        }

    def to_json(self) -> str:
        """The content of ``results.json``."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    @classmethod
    def load(cls, folder: Path) -> Results:
        """Read a stored ``results.json``; `HistoryError` names what is wrong with it."""
        path = folder / RESULTS_FILE
        try:
            data = json.loads(path.read_text())
            if data.get("version") != VERSION:
                raise HistoryError(
                    f"{path}: field 'version': {data.get('version')!r}; allowed: {VERSION}"
                )
            return cls(
                run_id=data["run_id"],
                scenario=data["scenario"],
                seed=data["seed"],
                arms=data["arms"],
                checks={name: _check(name, body) for name, body in data["checks"].items()},
                verdict=Verdict(data["verdict"]),
                reasons=data["reasons"],
                comparison=data["comparison"],
                engine=data.get("engine", ""),  # older ones do not say
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            if isinstance(error, HistoryError):
                raise
            raise HistoryError(f"{path}: not a results file: {error!r}") from error


def _check(name: str, body: Mapping[str, Any]) -> CheckResult:
    return CheckResult(
        **{
            **body,
            "name": name,
            "verdict": Verdict(body["verdict"]),
            "violations": [Violation(**violation) for violation in body["violations"]],
            "excused": [Excused(**excused) for excused in body.get("excused", [])],
        }
    )

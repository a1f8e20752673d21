"""What came of a soak's rounds so far, as data: ``soak.json`` in the soak's folder.

It is replaced whole after each round, so that a soak that was killed has told of all rounds that
were judged. ``path`` of a round is seen from the store.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from checkers.history import HistoryError
from checkers.judging.verdict import Verdict, worst_exit_code
from harness.report.key_figures import value
from harness.run import Outcome
from harness.runs.rows import FIGURES

SOAK_FILE: Final = "soak.json"
FOLDER: Final = "soak"
"""Below the store: where soaks lie."""
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One judged round. ``figures``: by arm; ``dropped``: its evidence was given back."""

    number: int
    scenario: str
    seed: int
    verdict: str
    reasons: Sequence[str]
    seconds: float
    path: str
    figures: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    dropped: bool = False


def round_of(outcome: Outcome, number: int, seed: int, store: Path) -> Round:
    return Round(
        number=number,
        scenario=outcome.scenario,
        seed=seed,
        verdict=str(outcome.verdict),
        reasons=tuple(outcome.reasons),
        seconds=round(outcome.seconds, 1),
        path=outcome.folder.relative_to(store.absolute()).as_posix(),
        figures={arm: dict(_figures(outcome.results, arm)) for arm in outcome.results["arms"]},
    )


def _figures(results: Mapping[str, Any], arm: str) -> Iterator[tuple[str, float]]:
    for name, figure in FIGURES.items():
        found = value(results, arm, figure.path)
        if found is not None:
            yield name, found


@dataclass(slots=True, kw_only=True)
class Account:
    """A soak. ``limit_s``: how long it was to last; ``most_rounds``: how many at most; ``keep``: of
    how many sound rounds the evidence stays. ``unfinished``: a run that was stopped on its way.
    ``ended``: why it ended; None: it goes on, or was killed."""

    scenarios: Sequence[str]
    seed: int
    limit_s: float
    most_rounds: int | None
    keep: int
    started_at_ms: int
    options: Mapping[str, Any] = field(default_factory=dict)
    rounds: list[Round] = field(default_factory=list)
    unfinished: str | None = None
    ended: str | None = None
    whole: bool = False
    """Whether it came to the end that was asked for: its time, its rounds, or an invalid one."""

    @property
    def exit_code(self) -> int:
        """The worst of its rounds; what was not played to the end is not known."""
        codes = [Verdict(one.verdict).exit_code for one in self.rounds]
        return worst_exit_code([*codes, *([] if self.whole else [Verdict.UNKNOWN.exit_code])])

    def count(self, verdict: Verdict) -> int:
        return sum(one.verdict == verdict for one in self.rounds)

    @property
    def arms(self) -> list[str]:
        return sorted({arm for one in self.rounds for arm in one.figures})

    def spread(self, name: str, arm: str) -> Spread | None:
        """A figure over all rounds that have it."""
        found = [r.figures[arm][name] for r in self.rounds if name in r.figures.get(arm, {})]
        return Spread(min(found), statistics.median(found), max(found)) if found else None

    def drop(self, numbers: Sequence[int]) -> None:
        """Those rounds have no evidence any more."""
        self.rounds = [
            replace(one, dropped=True) if one.number in numbers else one for one in self.rounds
        ]


@dataclass(frozen=True, slots=True)
class Spread:
    least: float
    median: float
    most: float


def save(account: Account, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SOAK_FILE
    scratch = path.with_suffix(".tmp")
    scratch.write_text(json.dumps({"version": VERSION, **asdict(account)}, indent=2) + "\n")
    scratch.replace(path)


def load(folder: Path) -> Account:
    """Raises `HistoryError`."""
    path = folder / SOAK_FILE
    try:
        body = json.loads(path.read_text())
        if body.pop("version") != VERSION:
            raise HistoryError(f"{path}: field 'version': allowed: {VERSION}")
        return Account(**{**body, "rounds": [Round(**one) for one in body["rounds"]]})
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, HistoryError):
            raise
        raise HistoryError(f"{path}: not a soak: {type(error).__name__}: {error}") from None

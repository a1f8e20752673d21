"""Courses: what is judged step by step, in order of time, where columns do not say enough.

A course is all rows that agree in some columns (those of one group in one trial), and a Python
function goes through it. Few rows are brought to the driver and judged there, which spares a small
history the start of Python workers. Many are judged by Spark's workers, each task handing back what
there was to judge, how many findings, and the first few: so what comes to the driver does not grow
with a run. Both give the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from checkers.judging.outcome import Outcome
from checkers.judging.witness import Finding
from checkers.judging.workers import on_workers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ON_THE_DRIVER: Final = 20_000
"""So many rows are brought to the driver at most."""
Row = Mapping[str, Any]
Judge = Callable[[list[Row], Outcome], Iterable[Finding]]
"""Of the outcome it uses `saw` and `excuse` alone. It goes to Spark's workers when rows are many:
it holds plain data, and no frame."""
Place = tuple[str, str, int]
"""Rule, arm and trial."""
_Found = tuple[tuple[Any, ...], int, Finding]
"""A course, the number of the finding in it, and the finding."""


@dataclass(slots=True)
class _Judged:
    """What some courses came to. ``firsts``: of each place those that come first."""

    evidence: Counter[tuple[str, int, str]] = field(default_factory=Counter)
    excused: Counter[tuple[str, int, str, str, str]] = field(default_factory=Counter)
    counts: Counter[Place] = field(default_factory=Counter)
    firsts: dict[Place, list[_Found]] = field(default_factory=dict)

    def merge(self, other: _Judged) -> None:
        self.evidence.update(other.evidence)
        self.excused.update(other.excused)
        self.counts.update(other.counts)
        for place, found in other.firsts.items():
            both = sorted([*self.firsts.get(place, ()), *found], key=lambda one: one[:2])
            self.firsts[place] = both[: Finding.KEPT]


def in_courses(
    outcome: Outcome, frame: DataFrame, by: Sequence[str], order: Sequence[str], judge: Judge
) -> Iterator[tuple[Finding, int]]:
    """Every course judged, and what it saw added to ``outcome``. The first findings of each rule
    and trial, each with how many it stands for. Columns of ``by`` and ``order`` are not null."""
    names = [*by, *order]
    few = frame.limit(ON_THE_DRIVER + 1).toArrow()
    if few.num_rows <= ON_THE_DRIVER:
        rows = few.sort_by([(name, "ascending") for name in names]).to_pylist()
        whole = _judged(rows, by, judge)
    else:
        whole = _Judged()
        spread = frame.repartition(*by).sortWithinPartitions(*names)
        for part in on_workers(spread, lambda rows: _judged(rows, by, judge)):
            whole.merge(part)
    outcome.evidence.update(whole.evidence)
    outcome.excused.update(whole.excused)
    more = {place: whole.counts[place] - len(found) for place, found in whole.firsts.items()}
    every = ((one, place) for place, found in whole.firsts.items() for one in found)
    for (_, _, finding), place in sorted(every, key=lambda each: each[0][:2]):
        yield finding, 1 + more.pop(place, 0)


def _judged(rows: Iterable[Row], by: Sequence[str], judge: Judge) -> _Judged:
    """``rows``: courses one after the other, each in its order."""
    found = _Judged()
    for key, course in groupby(rows, key=lambda row: tuple(row[name] for name in by)):
        seen = Outcome()
        for number, finding in enumerate(judge(list(course), seen)):
            place = (finding.rule, finding.arm, finding.trial)
            found.counts[place] += 1
            kept = found.firsts.setdefault(place, [])
            if len(kept) < Finding.KEPT:
                kept.append((key, number, finding))
        found.evidence.update(seen.evidence)
        found.excused.update(seen.excused)
    return found

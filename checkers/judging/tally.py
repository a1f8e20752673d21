"""Suspects judged where they are: what comes to the driver is how many there were of each sort, and
the first few.

A rule that needs more than columns (who led when, what a fault cut) is a Python function of one
suspect. Few suspects are brought to the driver and judged there, which spares a small history the
start of Python workers. Many are judged by Spark's workers, each task handing back one `Tally`: so
a million differing records cost their judging and no memory here. Both give the same answer.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from checkers.judging.witness import Finding
from checkers.judging.workers import on_workers

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.judging.outcome import Outcome

ON_THE_DRIVER: Final = 2_000
"""So many suspects are brought to the driver at most."""
RULE: Final = "_rule"
Row = Mapping[str, Any]
Order = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Sort:
    """What a suspect turned out to be: ``label``, anything hashable; ``rule``: which rule it breaks
    (then the first few are kept); ``order``: which of them come first."""

    label: tuple[Any, ...]
    order: Order
    rule: str | None = None
    n: int = 1
    """How much the suspect stands for, in the counts by label."""


Judge = Callable[[Row], Sort]
Place = tuple[str, str, int]
"""Rule, arm and trial."""


@dataclass(slots=True)
class Tally:
    """``counts``: by label, how many, and the first one's order; ``firsts``: by rule and trial, the
    first `Finding.KEPT` suspects that break it, ascending; ``broken``: how many there are."""

    counts: dict[tuple[Any, ...], tuple[int, Order]] = field(default_factory=dict)
    firsts: dict[Place, list[tuple[Order, dict[str, Any]]]] = field(default_factory=dict)
    broken: Counter[Place] = field(default_factory=Counter)

    def add(self, row: Row, sort: Sort) -> None:
        self._count(sort.label, sort.n, sort.order)
        if sort.rule is not None:
            place = (sort.rule, row["arm"], row["trial"])
            self.broken[place] += 1
            known = self.firsts.setdefault(place, [])
            if len(known) < Finding.KEPT or sort.order < known[-1][0]:
                self._keep(place, [(sort.order, dict(row))])

    def merge(self, other: Tally) -> None:
        for label, (n, order) in other.counts.items():
            self._count(label, n, order)
        self.broken.update(other.broken)
        for place, rows in other.firsts.items():
            self._keep(place, rows)

    def _count(self, label: tuple[Any, ...], n: int, order: Order) -> None:
        before = self.counts.get(label)
        self.counts[label] = (
            (n, order) if before is None else (before[0] + n, min(before[1], order))
        )

    def _keep(self, place: Place, rows: list[tuple[Order, dict[str, Any]]]) -> None:
        both = [*self.firsts.get(place, ()), *rows]
        self.firsts[place] = heapq.nsmallest(Finding.KEPT, both, key=lambda one: one[0])

    def leave_out(self, rule: str) -> int:
        """Forget the suspects that break it; how many there were."""
        places = [place for place in self.firsts if place[0] == rule]
        for place in places:
            del self.firsts[place]
        return sum(self.broken.pop(place) for place in places)

    def in_order(self) -> list[tuple[tuple[Any, ...], int]]:
        """Labels and how many, by whose first one came first."""
        found = sorted(self.counts.items(), key=lambda item: item[1][1])
        return [(label, n) for label, (n, _) in found]

    def findings(self) -> list[tuple[str, dict[str, Any]]]:
        """(rule, suspect) of the first of each rule and trial, in their order."""
        each = [
            (order, rule, row) for (rule, *_), rows in self.firsts.items() for order, row in rows
        ]
        return [(rule, row) for _, rule, row in sorted(each, key=lambda one: one[:2])]


def tally(frame: DataFrame, n: int | None, judge: Judge) -> Tally:
    """Every row of ``frame`` judged; ``n``: about how many there are, None: nobody knows. ``judge``
    goes to Spark's workers when there are many: it holds plain data, and no frame."""
    if n is None:
        few = frame.limit(ON_THE_DRIVER + 1).toArrow()
        if few.num_rows <= ON_THE_DRIVER:
            return judged(few.to_pylist(), judge)
    elif n <= ON_THE_DRIVER:
        return judged(frame.toArrow().to_pylist(), judge)

    whole = Tally()
    for part in on_workers(frame, lambda rows: judged(rows, judge)):
        whole.merge(part)
    return whole


def by_rule(frame: DataFrame, broken: Mapping[str, Column]) -> DataFrame:
    """Each row once for every rule that it may break, named in `RULE`: one job for them all."""
    from pyspark.sql import functions as F

    rules = [F.when(condition, F.lit(rule)) for rule, condition in broken.items()]
    return frame.withColumn(RULE, F.explode(F.array_compact(F.array(*rules))))


def one_of_each(frame: DataFrame, by: Sequence[str], order: Sequence[str]) -> DataFrame:
    """Of rows that agree in ``by`` the first in ``order``."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    each = F.row_number().over(Window.partitionBy(*by).orderBy(*order))
    return frame.withColumn("_nth", each).where("_nth = 1").drop("_nth")


def judged(rows: Iterable[Row], judge: Judge) -> Tally:
    found = Tally()
    for row in rows:
        found.add(row, judge(row))
    return found


def add(outcome: Outcome, found: Tally, finding: Callable[[str, Row], Finding]) -> None:
    """The first suspects that break a rule as findings, and all of them counted."""
    more = {place: found.broken[place] - len(first) for place, first in found.firsts.items()}
    for rule, row in found.findings():
        outcome.add(finding(rule, row), 1 + more.pop((rule, row["arm"], row["trial"]), 0))

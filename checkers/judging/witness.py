"""Witnesses: the few rows of a history that prove a violation, in order of time.

A check finds violations in aggregates, where the rows themselves are gone. It therefore says which
rows to look up (`Pick`s: a kind, values that columns must have, a span of time), and only when
there is a violation does `attach` go back to the history: one query a kind for all of them. A
valid history pays nothing.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from checkers.history import KINDS
from checkers.judging.verdict import Violation

if TYPE_CHECKING:
    from pyspark.sql import Column

    from checkers.history.frames import History

ROWS_A_PICK: Final = 3
"""A witness shows a few rows: of a pick that matches more, the first ones."""
_FETCHED: Final = 20_000


@dataclass(frozen=True, slots=True)
class Pick:
    """Rows of ``kind`` whose columns equal ``where``, with ``t`` in [from_t, to_t]; with ``at``,
    the element (topic, partition) must be among its ``partitions``. ``last``: the latest rows."""

    kind: str
    where: Mapping[str, Any]
    from_t: int | None = None
    to_t: int | None = None
    at: tuple[str, int] | None = None
    last: bool = False
    rows: int = ROWS_A_PICK

    def condition(self, arm: str, trial: int) -> Column:
        """The pick as a Spark condition (without ``at``, which `matches` looks at)."""
        from pyspark.sql import functions as F

        parts = [F.col("arm") == arm, F.col("trial") == trial]
        for name, value in self.where.items():
            parts.append(F.col(name).isNull() if value is None else F.col(name) == value)
        if self.from_t is not None:
            parts.append(F.col("t") >= self.from_t)
        if self.to_t is not None:
            parts.append(F.col("t") <= self.to_t)
        return functools.reduce(operator.and_, parts)

    def matches(self, row: Mapping[str, Any], arm: str, trial: int) -> bool:
        if row["arm"] != arm or row["trial"] != trial:
            return False
        if any(row[name] != value for name, value in self.where.items()):
            return False
        if self.from_t is not None and row["t"] < self.from_t:
            return False
        if self.to_t is not None and row["t"] > self.to_t:
            return False
        if self.at is None:
            return True
        partitions = row.get("partitions") or ()
        return any((p["topic"], p["partition"]) == self.at for p in partitions)


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation as a check found it."""

    KEPT: ClassVar[int] = 5
    """So many violations of one rule come with their witness; the others are counted."""

    rule: str
    says: str
    arm: str
    trial: int
    picks: tuple[Pick, ...] = field(default=())


def attach(history: History, findings: Sequence[Finding]) -> list[Violation]:
    """Look up every finding's witness rows."""
    wanted: dict[str, list[tuple[Finding, Pick]]] = {}
    for finding in findings:
        for pick in finding.picks:
            wanted.setdefault(pick.kind, []).append((finding, pick))
    rows = {kind: _fetch(history, kind, pairs) for kind, pairs in wanted.items()}
    return [Violation(f.rule, f.says, f.arm, f.trial, _events(f, rows)) for f in findings]


def _fetch(
    history: History, kind: str, pairs: Sequence[tuple[Finding, Pick]]
) -> list[dict[str, Any]]:
    if not history.has(kind):
        return []
    conditions = [pick.condition(finding.arm, finding.trial) for finding, pick in pairs]
    frame = history.frame(kind).where(functools.reduce(operator.or_, conditions))
    columns = [*KINDS[kind].all_columns, "arm", "trial"]
    found = frame.select(*columns).limit(_FETCHED).collect()
    rows = [row.asDict(recursive=True) for row in found]
    rows.sort(key=lambda row: row["t"])
    return rows


def _events(finding: Finding, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Any]:
    chosen: dict[tuple[str, int], dict[str, Any]] = {}
    for pick in finding.picks:
        found = [
            (index, row)
            for index, row in enumerate(rows[pick.kind])
            if pick.matches(row, finding.arm, finding.trial)
        ]
        kept = found[-pick.rows :] if pick.last else found[: pick.rows]
        for index, row in kept:
            chosen[pick.kind, index] = _event(pick, row)
    return sorted(chosen.values(), key=lambda event: event["t"])


def _event(pick: Pick, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without nulls; of many partitions only the one that matters."""
    event: dict[str, Any] = {"f": pick.kind}
    for name, value in row.items():
        if value is None or name in ("arm", "trial"):
            continue
        if name == "partitions" and pick.at is not None:
            value = [p for p in value if (p["topic"], p["partition"]) == pick.at]  # noqa: PLW2901
        event[name] = value
    return event

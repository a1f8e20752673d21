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
from checkers.sail import as_read

if TYPE_CHECKING:
    from pyspark.sql import Column

    from checkers.history.frames import History

ROWS_A_PICK: Final = 3
"""A witness shows a few rows: of a pick that matches more, the first ones."""
_ROW: Final = "_row"
Row = Mapping[str, Any]


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
        """The pick as a Spark condition."""
        from pyspark.sql import functions as F

        parts = [F.col("arm") == arm, F.col("trial") == trial]
        for name, value in self.where.items():
            parts.append(F.col(name).isNull() if value is None else F.col(name) == value)
        if self.from_t is not None:
            parts.append(F.col("t") >= self.from_t)
        if self.to_t is not None:
            parts.append(F.col("t") <= self.to_t)
        if self.at is not None:
            topic, partition = self.at
            here = "partitions" in KINDS[self.kind].columns
            parts.append(
                F.exists(
                    "partitions", lambda p: (p["topic"] == topic) & (p["partition"] == partition)
                )
                if here
                else F.lit(False)
            )
        return functools.reduce(operator.and_, parts)


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
    wanted: dict[str, list[tuple[int, int]]] = {}
    for number, finding in enumerate(findings):
        for place, pick in enumerate(finding.picks):
            wanted.setdefault(pick.kind, []).append((number, place))
    rows: dict[tuple[int, int], list[Row]] = {}
    for kind, places in wanted.items():
        rows.update(_fetch(history, kind, findings, places))
    return [
        Violation(
            f.rule,
            f.says,
            f.arm,
            f.trial,
            _events(f, [rows.get((number, place), []) for place in range(len(f.picks))]),
        )
        for number, f in enumerate(findings)
    ]


def _fetch(
    history: History, kind: str, findings: Sequence[Finding], places: Sequence[tuple[int, int]]
) -> dict[tuple[int, int], list[Row]]:
    """The rows of each pick (by finding and place), in order of time: one query, which gives no
    more of them than are shown."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    if not history.has(kind):
        return {}
    picks = [findings[number].picks[place] for number, place in places]
    conditions = [
        pick.condition(findings[number].arm, findings[number].trial)
        for pick, (number, _) in zip(picks, places, strict=True)
    ]
    columns = [*KINDS[kind].all_columns, "arm", "trial"]
    frame = as_read(history.frame(kind)).where(functools.reduce(operator.or_, conditions))
    frame = frame.select(*columns, F.monotonically_increasing_id().alias(_ROW))
    each = [
        F.when(condition, F.struct(*(F.lit(n).alias(name) for name, n in known.items())))
        for condition, known in zip(
            conditions, map(_ordered, range(len(picks)), picks), strict=True
        )
    ]
    frame = frame.withColumn("_one", F.explode(F.array_compact(F.array(*each))))
    sign = F.col("_one.sign")
    order = Window.partitionBy("_one.pick").orderBy(F.col("t") * sign, F.col(_ROW) * sign)
    ranked = frame.withColumn("_rank", F.row_number().over(order))
    kept = ranked.where(F.col("_rank") <= F.col("_one.rows"))
    kept = kept.where(F.col("_rank") <= max(pick.rows for pick in picks))
    found: dict[tuple[int, int], list[Row]] = {}
    for row in kept.select(*columns, _ROW, F.col("_one.pick").alias("_pick")).collect():
        known = row.asDict(recursive=True)
        found.setdefault(places[known.pop("_pick")], []).append(known)
    for rows in found.values():
        rows.sort(key=lambda row: (row["t"], row[_ROW]))
    return found


def _ordered(number: int, pick: Pick) -> dict[str, int]:
    return {"pick": number, "rows": pick.rows, "sign": -1 if pick.last else 1}


def _events(finding: Finding, rows: Sequence[Sequence[Row]]) -> list[Any]:
    chosen: dict[tuple[str, int], dict[str, Any]] = {}
    for pick, found in zip(finding.picks, rows, strict=True):
        for row in found:
            chosen[pick.kind, row[_ROW]] = _event(pick, row)
    return sorted(chosen.values(), key=lambda event: event["t"])


def _event(pick: Pick, row: Mapping[str, Any]) -> dict[str, Any]:
    """The row without nulls; of many partitions only the one that matters."""
    event: dict[str, Any] = {"f": pick.kind}
    for name, value in row.items():
        if value is None or name in ("arm", "trial", _ROW):
            continue
        if name == "partitions" and pick.at is not None:
            value = [p for p in value if (p["topic"], p["partition"]) == pick.at]  # noqa: PLW2901
        event[name] = value
    return event

"""What held when: spans of time looked up for every row of a load, at a cost that grows neither
with how many spans there are nor with how long they last.

A range join compares every row with every span of its key. Here time is cut into slots, each span
is listed under every slot that it touches, and rows are joined by equality (key and slot) with the
span itself as the residue. Slots are counted modulo their number, so that a span without an end is
listed so often and no more; one is so wide that within a trial no two share a number.

Spans come from what happened (faults, kills, commits): a few rows for each, broadcast.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from checkers.history.parts import arrow_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

FROM: Final = "_from"
TO: Final = "_to"
FOREVER: Final = 2**62
ALWAYS: Final = -(2**62)
_FEWEST, _MOST = 16, 1 << 16
_NARROWEST_NS: Final = 100_000_000
"""A row that lasts touches a slot for each of these."""
_SLOT: Final = "_slot"
_TYPES: Final = {"arm": "string", "trial": "int", "topic": "string", "process": "string"}
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Spans [`FROM`, `TO`) in ns by ``keys`` (columns of the rows that they are looked up for),
    each with its ``values``: column -> DDL type."""

    rows: Sequence[Row]
    keys: Sequence[str]
    values: Mapping[str, str] = field(default_factory=dict)
    _made: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def at(self, history: History, frame: DataFrame, t: Column, how: str = "left") -> DataFrame:
        """Add `FROM`, `TO` and the values of the span that holds at ``t``; nulls where none does.
        Spans of one key must be disjoint."""
        from pyspark.sql import functions as F

        width, slots = self._slots()
        slot = F.pmod(_number(t, width), F.lit(slots)).cast("int")
        rows = frame.select("*", t.alias("_at"), slot.alias(_SLOT))
        within = (F.col("l._at") >= F.col(f"r.{FROM}")) & (F.col("l._at") < F.col(f"r.{TO}"))
        return self._joined(history, rows, within, how).drop("_at", *self._mine())

    def during(self, history: History, frame: DataFrame, begin: Column, end: Column) -> DataFrame:
        """Pair each row with every span that begins by ``end`` and ends after ``begin``, adding
        `FROM`, `TO` and its values; rows that meet none are gone. Spans may overlap."""
        from pyspark.sql import functions as F

        width, slots = self._slots()
        numbers = F.sequence(_number(begin, width), _number(end, width))
        rows = frame.where(begin <= end).select(
            "*", begin.alias("_begin"), end.alias("_end"), F.explode(numbers).alias("_in")
        )
        rows = rows.withColumn(_SLOT, F.pmod("_in", F.lit(slots)).cast("int"))
        meets = (F.col("l._end") >= F.col(f"r.{FROM}")) & (F.col("l._begin") < F.col(f"r.{TO}"))
        # A pair meets in many slots and counts in the first of them.
        first = _number(F.greatest("l._begin", f"r.{FROM}"), width) == F.col("l._in")
        joined = self._joined(history, rows, meets & first, "inner")
        return joined.drop("_begin", "_end", "_in", *self._mine())

    def _joined(self, history: History, rows: DataFrame, within: Column, how: str) -> DataFrame:
        from pyspark.sql import functions as F

        same = within
        for name in (*self.keys, _SLOT):
            same = same & (F.col(f"l.{name}") == F.col(f"r.{_own(name)}"))
        return rows.alias("l").join(F.broadcast(self._table(history)).alias("r"), same, how)

    def _mine(self) -> list[str]:
        """The columns that a join leaves behind."""
        return [_SLOT, *(_own(name) for name in (*self.keys, _SLOT))]

    def _slots(self) -> tuple[int, int]:
        """How wide a slot is (ns), and how many there are."""
        if "slots" not in self._made:
            self._made["slots"] = self._cut()
        found: tuple[int, int] = self._made["slots"]
        return found

    def _cut(self) -> tuple[int, int]:
        by_key = Counter(tuple(row[name] for name in self.keys) for row in self.rows)
        most = max(by_key.values(), default=0)
        slots = min(max(_FEWEST, 1 << (2 * most).bit_length()), _MOST)
        ends: dict[Any, list[int]] = {}
        for row in self.rows:
            of = ends.setdefault((row.get("arm"), row.get("trial")), [])
            of += (t for t in (row[FROM], row[TO]) if ALWAYS < t < FOREVER)
        longest = max((max(of) - min(of) for of in ends.values() if of), default=0)
        return max(longest // slots + 1, _NARROWEST_NS), slots

    def listed(self) -> pa.Table:
        """Each span under every slot that it touches."""
        import pyarrow as pa

        width, slots = self._slots()
        kinds = {name: _TYPES.get(name, "int") for name in self.keys}
        kinds |= {FROM: "bigint", TO: "bigint", **self.values}
        spans = arrow_table(self.rows, ", ".join(f"{n} {kind}" for n, kind in kinds.items()))
        places, numbers = list[int](), list[int]()
        for place, row in enumerate(self.rows):
            if row[FROM] < row[TO]:
                first, last = row[FROM] // width, (row[TO] - 1) // width
                touched = range(first, min(last, first + slots - 1) + 1)
                places += [place] * len(touched)
                numbers += (number % slots for number in touched)
        own = [_own(name) if name in self.keys else name for name in kinds]
        table = spans.rename_columns(own).take(pa.array(places, pa.int64()))
        return table.append_column(_own(_SLOT), pa.array(numbers, pa.int32()))

    def _table(self, history: History) -> DataFrame:
        if "table" not in self._made:
            self._made["table"] = history.local(self.listed())
        found: DataFrame = self._made["table"]
        return found


def _number(t: Column, width: int) -> Column:
    """The slot's number, rounded down, also before 0."""
    from pyspark.sql import functions as F

    wide = F.lit(width).cast("long")
    return F.call_function("div", t - F.pmod(t, wide), wide)


def _own(name: str) -> str:
    return f"_of_{name}"


def steps(times: Sequence[int]) -> list[tuple[int, int]]:
    """The spans between ``times`` (ascending), with one before the first and one after the last."""
    edges = [ALWAYS, *times, FOREVER]
    return list(pairwise(edges))


def merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans that overlap or touch made one; ascending."""
    found: list[tuple[int, int]] = []
    for from_t, to_t in sorted(spans):
        if found and from_t <= found[-1][1]:
            found[-1] = (found[-1][0], max(to_t, found[-1][1]))
        else:
            found.append((from_t, to_t))
    return found

"""Acknowledged with acks=all, and not what consumers read at that offset.

A consumer is given what is committed, in order; what acks=all has acknowledged at an offset is
committed there. So of one offset it is certain, whatever the logs may hold in the end, that a
promise is broken when

    two records were acknowledged there          acked-twice-otherwise
    a consumer read another record there         acked-not-read
    different records were read there            read-twice-otherwise
    a consumer that had begun before it read on past it, and never got it    acked-skipped

Which promise, judging tells: it holds the final logs against all of them (`truncation-loss`: lost,
moved, read and gone; `polls`: skipped, inconsistent). `JUDGED_BY` has what each may become.

The state is one row an offset: the newest (of `LATE_NS`), whatever was said of them, and older ones
that were acknowledged and that a consumer has yet to reach. It does not grow with the run, and is
cut at `MOST` rows; what is cut is counted, and left to the end. So are acknowledgements that took
half of `LATE_NS` (who had read the record by then may be forgotten), and with `acked-skipped`
members of groups, whose partitions move, and consumers who were told that their position was reset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.disputes import NO_VALUE
from checkers.live.accusation import Accusation
from checkers.live.intake import Intake

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

TOLD_BY: Final = frozenset({"produce", "fetch", "assignment"})
_TWICE: Final = "acked-twice-otherwise"
_NOT_READ: Final = "acked-not-read"
_GONE: Final = frozenset({"acked-all-lost", "acked-all-moved"})
_READ: Final = frozenset({"read-then-gone", "read-then-changed"})
JUDGED_BY: Final[Mapping[str, frozenset[str]]] = {
    # By their own names where nobody could read the final log.
    _TWICE: _GONE | {_TWICE},
    _NOT_READ: _GONE | _READ | {_NOT_READ, _TWICE, "inconsistent-offset"},  # read again, as due
    "read-twice-otherwise": _READ | {"inconsistent-offset"},
    "acked-skipped": _GONE | {"poll-skipped"},
}
LATE_NS: Final = 20_000_000_000
MOST: Final = 200_000
_READERS: Final = 62
"""More of them are not told apart."""
_RESETS: Final = frozenset({1, -139, -140})
_RESET_NAMES: Final = frozenset({"OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET", "_LOG_TRUNCATION"})
"""librdkafka's own errors come by name."""
_PLACE: Final = ("topic", "partition", "offset")
Row = Mapping[str, Any]
At = tuple[str, int]


@dataclass(slots=True)
class Offsets:
    """``open``: the state. ``reach``: by partition and consumer, the first and last offset that it
    was given."""

    open: pa.Table | None = None
    reach: dict[At, dict[str, tuple[int, int]]] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    """Consumers that are members of groups, or were reset."""
    bits: dict[str, int] = field(default_factory=dict)
    """By consumer, its bit in ``readers``."""
    cut: int = 0
    _low: dict[At, int] = field(default_factory=dict)
    """By partition, the lowest offset that something new is said of."""

    def take(self, rows: Mapping[str, list[dict[str, Any]]]) -> None:
        """How far consumers have come, and which offsets are spoken of."""
        self._low.clear()
        for row in (*rows.get("produce", ()), *rows.get("fetch", ())):
            offset = row.get("offset")
            if offset is not None and offset >= 0:
                at = (row["topic"], row["partition"])
                self._low[at] = min(offset, self._low.get(at, offset))
        for row in rows.get("assignment", ()):
            self.moved.add(row["process"])
        for row in rows.get("fetch", ()):
            process = row["process"]
            if process not in self.bits:
                self.bits[process] = 1 << len(self.bits) if len(self.bits) < _READERS else 0
            if row.get("error") in _RESETS or row.get("failure") in _RESET_NAMES:
                self.moved.add(process)
            offset = row.get("offset")
            if row.get("type") != "ok" or offset is None or offset < 0:
                continue
            of = self.reach.setdefault((row["topic"], row["partition"]), {})
            first, last = of.get(process, (offset, offset))
            if offset < last or not self.bits[process]:
                self.moved.add(process)  # it was reset, or is accused of that in the end
            of[process] = (first, max(last, offset))

    def fold(self, history: History, now_t: int) -> list[Row]:
        """Take in what is new; answer the offsets at which something is certainly wrong. ``now_t``:
        up to when rows are there."""
        import pyarrow as pa

        parts = [part for part in (_acked(history), _read(history, self.bits)) if part is not None]
        if not parts:
            return []
        touched, rest = self._touched()
        if touched is not None and touched.num_rows:
            parts.append(history.spark.createDataFrame(touched))
        said = parts[0]
        for part in parts[1:]:
            said = said.unionByName(part)
        known = said.groupBy(*_PLACE).agg(
            F.min("acked").alias("acked"),
            F.max("acked_last").alias("acked_last"),
            F.min("least").alias("least"),
            F.max("most").alias("most"),
            F.bit_or("readers").alias("readers"),
            F.max("t").alias("t"),
        )
        other = (F.col("least") != F.col("acked")) | (F.col("most") != F.col("acked"))
        wrong = (
            F.when(F.col("acked") != F.col("acked_last"), _TWICE)
            .when(other, _NOT_READ)
            .when(F.col("least") != F.col("most"), "read-twice-otherwise")
        )
        judged = known.withColumn("wrong", wrong).toArrow()
        if rest is not None:
            more = rest.append_column("wrong", pa.nulls(rest.num_rows, pa.string()))
            judged = pa.concat_tables(
                [judged, more.select(judged.column_names).cast(judged.schema)]
            )
        return self._settle(judged, now_t)

    def _touched(self) -> tuple[pa.Table | None, pa.Table | None]:
        """The state's offsets from the lowest on that something new is said of, and the others,
        which stay as they are and need no Spark."""
        import pyarrow.compute as pc

        if self.open is None:
            return None, None
        names = self.open.column_names
        each = _with(self.open, "low", self._low)
        is_touched = pc.fill_null(pc.greater_equal(each["offset"], each["low"]), False)
        touched, rest = each.filter(is_touched), each.filter(pc.invert(is_touched))
        return touched.select(names), rest.select(names)

    def _settle(self, known: pa.Table, now_t: int) -> list[Row]:
        """Keep what is open, and give out what is wrong."""
        import pyarrow as pa
        import pyarrow.compute as pc

        is_wrong = pc.is_valid(known["wrong"])
        wrong: list[Row] = known.filter(is_wrong).to_pylist()
        rest = known.filter(pc.invert(is_wrong)).drop_columns(["wrong"])
        there = {at: self._there(at) for at in self.reach}
        readers = {at: sum(bit for _, bit, *_ in of) for at, of in there.items() if of}
        rest = _with(rest, "everybody", readers)
        young = pc.greater_equal(rest["t"], now_t - LATE_NS)
        by_all = pc.equal(pc.bit_wise_and(rest["readers"], rest["everybody"]), rest["everybody"])
        settled = pc.or_(pc.is_null(rest["acked"]), pc.fill_null(by_all, False))
        rest = rest.drop_columns(["everybody"])
        awaited, are_young = (each.filter(pc.invert(settled)) for each in (rest, young))
        open_ = awaited.filter(_awaited(awaited, are_young, there, wrong, is_cut=self.cut > 0))
        rest = pa.concat_tables([rest.filter(pc.and_(settled, young)), open_])
        if rest.num_rows > MOST:
            self.cut += rest.num_rows - MOST
            rest = rest.sort_by([("t", "descending")]).slice(0, MOST)
        self.open = rest
        return wrong

    def _there(self, at: At) -> list[tuple[str, int, int, int]]:
        """Who reads a partition in order: its bit, and from where to where."""
        of = self.reach[at].items()
        return [(who, self.bits[who], *ends) for who, ends in of if who not in self.moved]


def _with(rows: pa.Table, name: str, values: Mapping[At, int]) -> pa.Table:
    """The rows, and by their partition the value; null where there is none."""
    import pyarrow as pa

    schema = pa.schema([rows.schema.field("topic"), rows.schema.field("partition")])
    schema = schema.append(pa.field(name, pa.int64()))
    of = [{"topic": at[0], "partition": at[1], name: value} for at, value in values.items()]
    return rows.join(pa.Table.from_pylist(of, schema), ["topic", "partition"])


def _awaited(
    rows: pa.Table,
    young: pa.ChunkedArray,
    there: Mapping[At, list[tuple[str, int, int, int]]],
    wrong: list[Row],
    *,
    is_cut: bool,
) -> pa.Array:
    """Which acknowledged offsets that somebody has yet to read are kept. Those that somebody read
    past go to ``wrong``; not where some were cut (``is_cut``): nobody knows who had read those."""
    import pyarrow as pa

    keep = []
    columns = (rows[name].to_pylist() for name in (*_PLACE, "acked", "readers", "t"))
    each = zip(*columns, young.to_pylist(), strict=True)
    for topic, partition, offset, acked, readers, t, is_young in each:
        of = there.get((topic, partition), [])
        passed = [
            who for who, bit, first, last in of if not readers & bit and first <= offset < last
        ]
        if passed and not is_cut:
            row = {"topic": topic, "partition": partition, "offset": offset, "acked": acked}
            row |= {"wrong": "acked-skipped", "missed": ", ".join(sorted(passed)), "t": t}
            wrong.append(row)
        reached = bool(of) and all(last >= offset for *_, last in of)
        keep.append(not passed and (is_young or not reached))
    return pa.array(keep, pa.bool_())


def _acked(history: History) -> DataFrame | None:
    if not history.has("produce"):
        return None
    rows = history.frame("produce").where("type = 'ok' and acks = -1 and offset >= 0")
    rows = rows.where(F.col("t") - F.col("invoke_t") < LATE_NS // 2)
    none = F.lit(None).cast("bigint")
    return rows.select(
        *_PLACE,
        F.col("value").alias("acked"),
        F.col("value").alias("acked_last"),
        none.alias("least"),
        none.alias("most"),
        F.lit(0).cast("bigint").alias("readers"),
        "t",
    )


def _read(history: History, bits: Mapping[str, int]) -> DataFrame | None:
    if not history.has("fetch"):
        return None
    rows = history.frame("fetch").where("type = 'ok' and offset >= 0")
    value, none = F.coalesce(F.col("value"), F.lit(NO_VALUE)), F.lit(None).cast("bigint")
    reader = F.lit(0)
    for process, bit in bits.items():
        reader = F.when(F.col("process") == process, F.lit(bit)).otherwise(reader)
    return rows.select(
        *_PLACE,
        none.alias("acked"),
        none.alias("acked_last"),
        value.alias("least"),
        value.alias("most"),
        reader.cast("bigint").alias("readers"),
        "t",
    )


def accused(wrong: list[Row], intake: Intake) -> Iterator[Accusation]:
    """One a partition and rule: the first offset tells of all."""
    for row in sorted(wrong, key=lambda row: (row["topic"], row["partition"], row["offset"])):
        at = (row["topic"], row["partition"])
        if intake.silenced.loss(at, row["offset"]):
            continue
        yield Accusation(
            promise="polls" if row["wrong"] == "read-twice-otherwise" else "truncation-loss",
            rule=row["wrong"],
            arm=intake.arm,
            trial=intake.trial,
            says=_says(row),
            t=row["t"],
            place=at,
        )


def _says(row: Row) -> str:
    at = f"{row['topic']}-{row['partition']} offset {row['offset']}"
    if row["wrong"] == "read-twice-otherwise":
        return f"consumers read values {row['least']} and {row['most']} at {at}"
    promised = f"acks=all acknowledged value {row['acked']} at {at}"
    if row["wrong"] == _TWICE:
        return f"{promised}, and value {row['acked_last']} there as well"
    if row["wrong"] == "acked-skipped":
        return f"{promised}; {row['missed']} read on past it and was never given it"
    other = row["least"] if row["least"] != row["acked"] else row["most"]
    return f"{promised}; a consumer read {other} there"

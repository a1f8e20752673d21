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
_GONE: Final = frozenset({"acked-all-lost", "acked-all-moved"})
_READ: Final = frozenset({"read-then-gone", "read-then-changed"})
JUDGED_BY: Final[Mapping[str, frozenset[str]]] = {
    "acked-twice-otherwise": _GONE,
    "acked-not-read": _GONE | _READ | {"inconsistent-offset"},  # read again, as it should be
    "read-twice-otherwise": _READ | {"inconsistent-offset"},
    "acked-skipped": _GONE | {"poll-skipped"},
}
LATE_NS: Final = 20_000_000_000
MOST: Final = 200_000
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
    cut: int = 0

    def take(self, rows: Mapping[str, list[dict[str, Any]]]) -> None:
        """How far consumers have come."""
        for row in rows.get("assignment", ()):
            self.moved.add(row["process"])
        for row in rows.get("fetch", ()):
            if row.get("error") in _RESETS or row.get("failure") in _RESET_NAMES:
                self.moved.add(row["process"])
            offset = row.get("offset")
            if row.get("type") != "ok" or offset is None or offset < 0:
                continue
            of = self.reach.setdefault((row["topic"], row["partition"]), {})
            first, last = of.get(row["process"], (offset, offset))
            if offset < last:  # it was reset, or is accused of that in the end
                self.moved.add(row["process"])
            of[row["process"]] = (first, max(last, offset))

    def fold(self, history: History, now_t: int) -> list[Row]:
        """Take in what is new; answer the offsets at which something is certainly wrong. ``now_t``:
        up to when rows are there."""
        parts = [part for part in (_acked(history), _read(history)) if part is not None]
        if self.open is not None and self.open.num_rows:
            parts.append(history.spark.createDataFrame(self.open))
        if not parts:
            return []
        said = parts[0]
        for part in parts[1:]:
            said = said.unionByName(part)
        known = said.groupBy(*_PLACE).agg(
            F.min("acked").alias("acked"),
            F.max("acked_last").alias("acked_last"),
            F.min("least").alias("least"),
            F.max("most").alias("most"),
            F.array_distinct(F.flatten(F.collect_list("readers"))).alias("readers"),
            F.max("t").alias("t"),
        )
        other = (F.col("least") != F.col("acked")) | (F.col("most") != F.col("acked"))
        wrong = (
            F.when(F.col("acked") != F.col("acked_last"), "acked-twice-otherwise")
            .when(other, "acked-not-read")
            .when(F.col("least") != F.col("most"), "read-twice-otherwise")
        )
        return self._settle(known.withColumn("wrong", wrong).toArrow(), now_t)

    def _settle(self, known: pa.Table, now_t: int) -> list[Row]:
        """Keep what is open, and give out what is wrong."""
        import pyarrow as pa
        import pyarrow.compute as pc

        is_wrong = pc.is_valid(known["wrong"])
        wrong: list[Row] = known.filter(is_wrong).to_pylist()
        rest = known.filter(pc.invert(is_wrong)).drop_columns(["wrong"])
        keep = []
        for row in rest.select([*_PLACE, "acked", "readers", "t"]).to_pylist():
            young = row["t"] >= now_t - LATE_NS
            if row["acked"] is None:
                keep.append(young)
                continue
            there = self._there((row["topic"], row["partition"]))
            passed = _passed(row, there)
            # Of what was cut nobody knows any more who had read it.
            if passed and not self.cut:
                wrong.append({**row, "wrong": "acked-skipped", "missed": ", ".join(passed)})
            reached = bool(there) and all(last >= row["offset"] for _, last in there.values())
            keep.append(not passed and (young or not reached))
        rest = rest.filter(pa.array(keep, pa.bool_()))
        if rest.num_rows > MOST:
            self.cut += rest.num_rows - MOST
            rest = rest.sort_by([("t", "descending")]).slice(0, MOST)
        self.open = rest
        return wrong

    def _there(self, at: At) -> dict[str, tuple[int, int]]:
        """Who reads a partition in order."""
        return {who: of for who, of in self.reach.get(at, {}).items() if who not in self.moved}


def _passed(row: Row, there: Mapping[str, tuple[int, int]]) -> list[str]:
    """Those who had begun before that offset, went on past it, and never got it."""
    offset, readers = row["offset"], row["readers"]
    return sorted(
        who for who, (first, last) in there.items() if first <= offset < last and who not in readers
    )


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
        F.array().cast("array<string>").alias("readers"),
        "t",
    )


def _read(history: History) -> DataFrame | None:
    if not history.has("fetch"):
        return None
    rows = history.frame("fetch").where("type = 'ok' and offset >= 0")
    value, none = F.coalesce(F.col("value"), F.lit(NO_VALUE)), F.lit(None).cast("bigint")
    return rows.select(
        *_PLACE,
        none.alias("acked"),
        none.alias("acked_last"),
        value.alias("least"),
        value.alias("most"),
        F.array("process").alias("readers"),
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
    if row["wrong"] == "acked-twice-otherwise":
        return f"{promised}, and value {row['acked_last']} there as well"
    if row["wrong"] == "acked-skipped":
        return f"{promised}; {row['missed']} read on past it and was never given it"
    other = row["least"] if row["least"] != row["acked"] else row["most"]
    return f"{promised}; a consumer read {other} there"

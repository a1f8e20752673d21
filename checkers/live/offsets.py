"""Acknowledged with acks=all, and not what consumers read at that offset.

A consumer that is assigned a partition is given what is committed, in order; what acks=all has
acknowledged at an offset is committed there. So of one offset it is certain, whatever the logs may
hold in the end, that a promise is broken when

    a consumer read another record there        acked-not-read
    two consumers read different records        read-twice-otherwise
    a consumer that had begun before it read on past it, and never got it    acked-skipped

Which promise, judging tells: it holds the final logs against both (`truncation-loss`: lost, moved,
read and gone; `polls`: skipped, inconsistent). `JUDGED_BY` has what each may become.

The state is the offsets of which somebody has yet to speak: acknowledged and not read by all who
are there, or read and not acknowledged for `LATE_NS` (an acknowledgement that took half of that is
left to the end: who had read it by then is not known any more). It does not grow with the run, and
is cut at `MOST` rows; what is cut is counted, and left to the end. So are consumers of groups,
whose partitions move, and those who were told that their position was reset.
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
JUDGED_BY: Final[Mapping[str, frozenset[str]]] = {
    "acked-not-read": frozenset(
        {"acked-all-lost", "acked-all-moved", "read-then-gone", "read-then-changed"}
    ),
    "read-twice-otherwise": frozenset(
        {"inconsistent-offset", "read-then-gone", "read-then-changed"}
    ),
    "acked-skipped": frozenset({"acked-all-lost", "acked-all-moved", "poll-skipped"}),
}
LATE_NS: Final = 30_000_000_000
MOST: Final = 200_000
_ACK: Final = ""
_RESETS: Final = frozenset({1, -139, -140})
_RESET_NAMES: Final = frozenset({"OFFSET_OUT_OF_RANGE", "_AUTO_OFFSET_RESET", "_LOG_TRUNCATION"})
"""librdkafka's own errors come by name."""
_TP: Final = ("topic", "partition")
Row = Mapping[str, Any]
At = tuple[str, int]


@dataclass(slots=True)
class Offsets:
    """``open``: what each has said of an offset (``who``: a consumer, or "" for the producer that
    was answered). ``reach``: by partition and consumer, the first and last offset it was given."""

    open: pa.Table | None = None
    reach: dict[tuple[At, str], tuple[int, int]] = field(default_factory=dict)
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
            key = ((row["topic"], row["partition"]), row["process"])
            first, last = self.reach.get(key, (offset, offset))
            if offset < last:  # it was reset, or is accused of that in the end
                self.moved.add(row["process"])
            self.reach[key] = (first, max(last, offset))

    def fold(self, history: History, now_t: int) -> list[Row]:
        """Take in what is new; answer the offsets at which something is certainly wrong. ``now_t``:
        up to when rows are there."""
        rows = [part for part in (_acked(history), _read(history)) if part is not None]
        if self.open is not None and self.open.num_rows:
            rows.append(history.spark.createDataFrame(self.open))
        if not rows:
            return []
        said = rows[0]
        for more in rows[1:]:
            said = said.unionByName(more)
        if self.moved:
            said = said.where(~F.col("who").isin(*self.moved))
        kept = self._with_reach(history, said, now_t).toArrow()
        return self._settle(kept)

    def _with_reach(self, history: History, said: DataFrame, now_t: int) -> DataFrame:
        """Each offset: what was said of it, whether it is ``wrong``, and whether it is done."""
        reach = [
            {"topic": at[0], "partition": at[1], "of": who, "first": first, "last": last}
            for (at, who), (first, last) in self.reach.items()
            if who not in self.moved
        ]
        names = "topic string, partition int, of string, first bigint, last bigint"
        there = (
            history.table(reach, names)
            .groupBy(*_TP)
            .agg(F.collect_list(F.struct("of", "first", "last")).alias("readers"))
        )
        read = F.col("who") != _ACK
        each = said.groupBy(*_TP, "offset").agg(
            F.max(F.when(~read, F.col("value"))).alias("acked"),
            F.min(F.when(read, F.col("value"))).alias("least"),
            F.max(F.when(read, F.col("value"))).alias("most"),
            F.collect_set(F.when(read, F.col("who"))).alias("whom"),
            F.max("t").alias("t"),
            F.collect_list(F.struct("who", "value", "t")).alias("said"),
        )
        each = each.join(F.broadcast(there), list(_TP), "left")
        passed = F.expr(
            "filter(readers, r -> r.first <= offset and r.last > offset "
            "and not array_contains(whom, r.of))"
        )
        other = F.col("acked").isNotNull() & (
            (F.col("least") != F.col("acked")) | (F.col("most") != F.col("acked"))
        )
        wrong = (
            F.when(F.coalesce(other, F.lit(False)), "acked-not-read")
            .when(F.coalesce(F.col("least") != F.col("most"), F.lit(False)), "read-twice-otherwise")
            .when(F.col("acked").isNotNull() & (F.size(passed) > 0), "acked-skipped")
        )
        late = F.col("t") < now_t - LATE_NS
        all_past = F.expr("readers is not null and forall(readers, r -> r.last >= offset)")
        done = F.when(F.col("acked").isNotNull(), all_past).otherwise(late)
        names = [*_TP, "offset", "acked", "least", "most", "t", "said"]
        missed = F.concat_ws(", ", passed["of"]).alias("missed")
        found = each.select(*names, wrong.alias("wrong"), missed, done.alias("done"))
        return found.where("wrong is not null or not coalesce(done, false)")

    def _settle(self, kept: pa.Table) -> list[Row]:
        """Keep what is open, and give out what is wrong."""
        import pyarrow as pa
        import pyarrow.compute as pc

        is_wrong = pc.is_valid(kept["wrong"])
        # What was cut may have been read: of the rest nobody knows who read on past it.
        blind = frozenset({"acked-skipped"} if self.cut else ())
        wrong: list[Row] = kept.filter(is_wrong).drop_columns(["said"]).to_pylist()
        rest = kept.filter(pc.invert(is_wrong))
        if rest.num_rows > MOST:
            self.cut += rest.num_rows - MOST
            rest = rest.sort_by([("t", "descending")]).slice(0, MOST)
        said = rest["said"].combine_chunks()
        places = pc.list_parent_indices(said)
        flat = pc.list_flatten(said)
        self.open = pa.table(
            {
                **{name: rest[name].take(places) for name in (*_TP, "offset")},
                **{name: pc.struct_field(flat, name) for name in ("who", "value", "t")},
            }
        )
        return [row for row in wrong if row["wrong"] not in blind]


def _acked(history: History) -> DataFrame | None:
    if not history.has("produce"):
        return None
    rows = history.frame("produce").where("type = 'ok' and acks = -1 and offset >= 0")
    rows = rows.where(F.col("t") - F.col("invoke_t") < LATE_NS // 2)
    return rows.select(*_TP, "offset", F.lit(_ACK).alias("who"), "value", "t")


def _read(history: History) -> DataFrame | None:
    if not history.has("fetch"):
        return None
    rows = history.frame("fetch").where("type = 'ok' and offset >= 0")
    value = F.coalesce(F.col("value"), F.lit(NO_VALUE)).alias("value")
    return rows.select(*_TP, "offset", F.col("process").alias("who"), value, "t")


def accused(wrong: list[Row], intake: Intake) -> Iterator[Accusation]:
    """One a partition and rule: the first offset tells of all."""
    for row in sorted(wrong, key=lambda row: (row["topic"], row["partition"], row["offset"])):
        at = (row["topic"], row["partition"])
        if intake.silenced.loss(at):
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
    if row["wrong"] == "acked-skipped":
        return (
            f"acks=all acknowledged value {row['acked']} at {at}; {row['missed']} read on past it "
            "and was never given it"
        )
    if row["wrong"] == "acked-not-read":
        other = row["least"] if row["least"] != row["acked"] else row["most"]
        return f"acks=all acknowledged value {row['acked']} at {at}; a consumer read {other} there"
    return f"consumers read values {row['least']} and {row['most']} at {at}"

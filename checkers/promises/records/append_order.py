"""Append times that fall along a log, for `checkers.promises.records`.

With LogAppendTime a leader dates each batch as it appends it, holding the log's lock, by its own
clock (UnifiedLog.append, LogValidator). One leader epoch has one leader, so that along a log, in
one leader epoch, append times do not fall. A consumer that goes by them is given the past after
the present, and one that asks for a time (ListOffsets) begins too late.

- ``append-times-fell``: a record has an earlier append time than one before it, of the same leader
  epoch, by more than clocks may be off (`SLACK_NS`, and what the run's own clocks moved by).

Lawful, and looks similar: the next leader's clock may be behind; a topic with CreateTime, whose
producers date its records, one that was deleted, and made again without LogAppendTime, or one whose
settings were altered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.accounts import final_leaders
from checkers.facts.altered import altered
from checkers.facts.append_clock import slack_ns
from checkers.facts.leadership import TP, Key, key_of
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

RULE: Final = "append-times-fell"
_MS: Final = 1_000_000
Row = Mapping[str, Any]


def fallen_times(history: History) -> Iterator[tuple[Finding, int]]:
    """By partition, the first such record and how many there are."""
    gone = {(row["arm"], row["trial"], row["topic"]) for row in history.rows("topic_deletion")}
    others = altered(history)
    ruled = [
        {**dict(zip(TP, key, strict=True)), "node": end["node"], "_log": number}
        for number, (key, end) in enumerate(final_leaders(history).items())
        if key[:3] not in gone
        and history.run.topic(*key[:3]).log_append_time
        and key[:3] not in others
    ]
    kinds = "arm string, trial int, topic string, partition int, node int, _log int"
    leaders = F.broadcast(history.table(ruled, kinds))
    log = history.frame("log_read").join(leaders, [*TP, "node"])
    log = log.where("append_time_ms >= 0 and leader_epoch >= 0")
    # By numbers, of times alone: names cost twice as much, structs six times.
    order = Window.partitionBy("_log", "leader_epoch").orderBy("offset")
    so_far = F.max("append_time_ms").over(order.rowsBetween(Window.unboundedPreceding, -1))
    dated = log.select(
        *TP, "node", "offset", "leader_epoch", "append_time_ms", so_far.alias("newest_ms")
    )
    fell_ns = (F.col("newest_ms") - F.col("append_time_ms")) * _MS
    fallen = dated.where(fell_ns > slack_ns(history) + _MS)
    first = fallen.groupBy(*TP, "node").agg(
        F.count("*").alias("n"),
        F.min(F.struct("offset", "append_time_ms", "leader_epoch", "newest_ms")).alias("first"),
    )
    found = first.orderBy(*TP).toArrow().to_pylist()
    newest = _newest(history, log, found)
    for row in found:
        one, at = row["first"], {"topic": row["topic"], "partition": row["partition"]}
        before_it = newest[key_of(row)]
        fell_ms = one["newest_ms"] - one["append_time_ms"]
        own = {**at, "node": row["node"]}
        yield (
            Finding(
                RULE,
                f"offset {one['offset']} of {row['topic']}-{row['partition']} was appended "
                f"{fell_ms} ms before offset {before_it}, by its append time, in the same leader "
                f"epoch {one['leader_epoch']}",
                row["arm"],
                row["trial"],
                (
                    Pick("log_read", {**own, "offset": before_it}, rows=1),
                    Pick("log_read", {**own, "offset": one["offset"]}, rows=1),
                ),
            ),
            row["n"],
        )


def _newest(history: History, log: DataFrame, found: Sequence[Row]) -> dict[Key, int]:
    """By partition, the first offset that has the time which its first such record fell below."""
    if not found:
        return {}
    kinds = "arm string, trial int, topic string, partition int, leader_epoch int, newest_ms bigint"
    table = history.table(({**row, **row["first"]} for row in found), kinds)
    same = log.join(F.broadcast(table), [*TP, "leader_epoch"])
    same = same.where("append_time_ms = newest_ms")
    rows = same.groupBy(*TP).agg(F.min("offset").alias("offset")).toArrow().to_pylist()
    return {key_of(row): row["offset"] for row in rows}

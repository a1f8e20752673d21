"""What every witness says of one offset: consumers, the final leader's log, every replica's log.

Below the high watermark an offset has one record for ever. One aggregation by offset over `fetch`
and `log_read` rows finds where that is not so:

    gone             a consumer read it, the final log has nothing there
    changed          a consumer read it, the final log has another value there
    fetch-disagree   two consumers read different values
    replica-differs  two replicas hold different records below their own and the leader's high
                     watermark (a follower that has not yet truncated is not compared beyond)

Offsets below the final log's start were purged and are not judged, if it may have moved at all
(`checkers.facts.accounts.lawful_start`): else every log, the leader's and the replicas', is judged
from 0, whatever its broker says. Partitions whose final log was
not read are skipped. Values that are not the workload's count as one value each other disagrees
with only when somebody else decoded a value there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import lawful_start, leaders_table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

NO_VALUE: Final = -(2**63)
_TP: Final = ["arm", "trial", "topic", "partition"]


def disputes(history: History) -> list[dict[str, Any]]:
    """Folded rows: arm, trial, topic, partition, class (``agreed`` for the rest), offset (None in
    folded rows), n, n_read (of these, how many a consumer had read), read_value, log_value,
    first_read_t, last_read_t."""
    found: list[dict[str, Any]] = history.memo(
        "disputes", lambda: _disputes(history).toArrow().to_pylist()
    )
    return found


def replica_rows(history: History) -> DataFrame:
    """`log_read` of readable replicas, with the bounds that `disputes` judges by."""
    ends = [
        {
            "arm": row["arm"],
            "trial": row["trial"],
            "topic": row["topic"],
            "partition": row["partition"],
            "node": row["node"],
            "_own_hw": row["high_watermark"],
            "_own_start": lawful_start(history, row),
            "_own_end": row["log_end_offset"],
        }
        for row in history.rows("log_end")
        if row["error"] is None
    ]
    table = history.table(
        ends,
        "arm string, trial int, topic string, partition int, node int, "
        "_own_hw bigint, _own_start bigint, _own_end bigint",
    )
    both = table.join(F.broadcast(leaders_table(history)), _TP)
    hw = F.least(F.coalesce("_own_hw", "_own_end"), F.col("leader_hw"))
    both = both.withColumn("_bound", F.coalesce(hw, F.lit(0)))
    return history.frame("log_read").join(F.broadcast(both), [*_TP, "node"])


def _disputes(history: History) -> DataFrame:
    nothing, no_int = F.lit(None).cast("long"), F.lit(None).cast("int")
    value = F.coalesce(F.col("value"), F.lit(NO_VALUE))
    committed = F.col("offset") < F.col("_bound")
    logs = replica_rows(history).select(
        *_TP,
        "offset",
        nothing.alias("_read"),
        nothing.alias("_t"),
        F.when(F.col("node") == F.col("leader_node"), value).alias("_log"),
        F.when(committed, value).alias("_held"),
        F.when(committed, F.col("leader_epoch")).alias("_held_epoch"),
    )
    reads = (
        history.frame("fetch")
        .where("type = 'ok' and offset >= 0")
        .select(
            *_TP,
            "offset",
            value.alias("_read"),
            F.col("t").alias("_t"),
            nothing.alias("_log"),
            nothing.alias("_held"),
            no_int.alias("_held_epoch"),
        )
    )
    by_offset = (
        logs.unionAll(reads)
        .groupBy(*_TP, "offset")
        .agg(
            F.min("_read").alias("read_value"),
            F.max("_read").alias("_read_max"),
            F.min("_t").alias("first_read_t"),
            F.max("_t").alias("last_read_t"),
            F.max("_log").alias("log_value"),
            F.min("_held").alias("_held_min"),
            F.max("_held").alias("_held_max"),
            F.min("_held_epoch").alias("_epoch_min"),
            F.max("_held_epoch").alias("_epoch_max"),
        )
    )
    known = by_offset.join(F.broadcast(leaders_table(history)), _TP, "left")
    known = known.withColumn("class", _class())
    known = known.withColumn("offset", F.when(F.col("class") != "agreed", F.col("offset")))
    return known.groupBy(*_TP, "class", "offset").agg(
        F.count("*").alias("n"),
        F.count("read_value").alias("n_read"),
        F.max("read_value").alias("read_value"),
        F.max("log_value").alias("log_value"),
        F.min("first_read_t").alias("first_read_t"),
        F.max("last_read_t").alias("last_read_t"),
    )


def _class() -> Column:
    readable = F.col("log_end").isNotNull() & (F.col("offset") >= F.col("log_start"))
    read = F.col("read_value").isNotNull()
    differs = (F.col("_held_min") != F.col("_held_max")) | (
        F.col("_epoch_min") != F.col("_epoch_max")
    )
    return (
        F.when(readable & F.coalesce(differs, F.lit(False)), "replica-differs")
        .when(read & (F.col("read_value") != F.col("_read_max")), "fetch-disagree")
        .when(read & readable & F.col("log_value").isNull(), "gone")
        .when(read & readable & (F.col("read_value") != F.col("log_value")), "changed")
        .otherwise("agreed")
    )

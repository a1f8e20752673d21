"""What every reader says of one offset, held against the final leader's log.

Below the high watermark an offset has one record for ever. One aggregation by offset over `fetch`
and `log_read` rows finds where that is not so (what replicas say: `checkers.facts.replicas`); in a
large history only of those blocks of offsets that a consumer read otherwise, or not whole, or twice
(`checkers.facts.blocks`):

    gone             a consumer read it, the final log has nothing there
    changed          a consumer read it, the final log has another value there
    fetch-disagree   two consumers read different values

Offsets below the final log's start were purged and are not judged, if it may have moved at all
(`checkers.facts.accounts.lawful_start`): else the log is judged from 0, whatever its broker says.
Partitions whose final log was not read are skipped. Values that are not the workload's count as one
value each other disagrees with only when somebody else decoded a value there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import leaders_table
from checkers.facts.blocks import bit_of, block_of, unlike
from checkers.facts.log_blocks import leaders_blocks

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

NO_VALUE: Final = -(2**63)
_TP: Final = ["arm", "trial", "topic", "partition"]


def disputes(history: History) -> list[dict[str, Any]]:
    """Offsets folded by sort: arm, trial, class (``agreed`` for the rest), n, n_read (of these, how
    many a consumer had read)."""

    def make() -> list[dict[str, Any]]:
        folded = _by_offset(history).groupBy("arm", "trial", "class")
        found = folded.agg(F.count("*").alias("n"), F.count("read_value").alias("n_read"))
        return [*found.toArrow().to_pylist(), *_agreed(history)]

    found: list[dict[str, Any]] = history.memo("disputes", make)
    return found


def _agreed(history: History) -> list[dict[str, Any]]:
    """What is told by blocks alone."""
    blocks = _blocks(history)
    if blocks is None:
        return []
    found = blocks.where("alike").groupBy("arm", "trial", F.lit("agreed").alias("class"))
    bits = F.bit_count("held")
    read = F.sum(F.when(F.col("readers") > 0, bits).otherwise(0))
    return list(found.agg(F.sum(bits).alias("n"), read.alias("n_read")).toArrow().to_pylist())


def _blocks(history: History) -> DataFrame | None:
    """TP, block, held, readers (how many consumers read of it), and whether they are ``alike``:
    each read the whole block once, and what is there. None: there is too little to be folded."""
    if not (history.many("log_read") and history.many("fetch")):
        return None

    def make() -> DataFrame:
        reads = history.frame("fetch").where("type = 'ok' and offset >= 0")
        each = reads.groupBy(*_TP, "process", block_of("offset").alias("block")).agg(
            F.bit_or(bit_of("offset")).alias("held"),
            F.count("*").alias("n"),
            F.bit_xor(F.xxhash64("offset", "value")).alias("values"),
        )
        logs = leaders_blocks(history).select("*", F.lit(1).alias("_log"))
        both = each.select(*_TP, "block", "held", "n", "values", F.lit(0).alias("_log")).unionAll(
            logs.select(*_TP, "block", "held", "n", "values", "_log")
        )
        same = F.lit(True)
        for name in ("held", "n", "values"):
            same = same & (F.min(name) == F.max(name))
        once = F.max("n") == F.max(F.bit_count("held"))
        return both.groupBy(*_TP, "block").agg(
            F.max("held").alias("held"),
            F.count(F.when(F.col("_log") == 0, 1)).alias("readers"),
            (same & once & (F.max("_log") == 1)).alias("alike"),
        )

    return history.keep("offset blocks", make)


def disputed(history: History, *classes: str) -> tuple[DataFrame, int]:
    """The offsets of these classes, and how many: arm, trial, topic, partition, offset, class,
    read_value, log_value, first_read_t, last_read_t."""
    n = sum(row["n"] for row in disputes(history) if row["class"] in classes)
    found = _by_offset(history).where(F.col("class").isin(*classes))
    names = ("offset", "class", "read_value", "log_value", "first_read_t", "last_read_t")
    return found.select(*_TP, *names), n


def _by_offset(history: History) -> DataFrame:
    found: DataFrame = history.memo("by offset", lambda: _gathered(history))
    return found


def _gathered(history: History) -> DataFrame:
    nothing = F.lit(None).cast("long")
    value = F.coalesce(F.col("value"), F.lit(NO_VALUE))
    leaders = F.broadcast(leaders_table(history))
    final = history.frame("log_read").join(leaders, _TP).where("node = leader_node")
    reads = history.frame("fetch").where("type = 'ok' and offset >= 0")
    blocks = _blocks(history)
    if blocks is not None:
        final, reads = unlike((final, reads), blocks, [*_TP, "block"], "offset")
    logs = final.select(
        *_TP, "offset", nothing.alias("_read"), nothing.alias("_t"), value.alias("_log")
    )
    reads = reads.select(
        *_TP, "offset", value.alias("_read"), F.col("t").alias("_t"), nothing.alias("_log")
    )
    by_offset = logs.unionAll(reads).groupBy(*_TP, "offset")
    witnesses = by_offset.agg(
        F.min("_read").alias("read_value"),
        F.max("_read").alias("_read_max"),
        F.min("_t").alias("first_read_t"),
        F.max("_t").alias("last_read_t"),
        F.max("_log").alias("log_value"),
    )
    return witnesses.join(leaders, _TP, "left").withColumn("class", _class())


def _class() -> Column:
    readable = F.col("log_end").isNotNull() & (F.col("offset") >= F.col("log_start"))
    read = F.col("read_value").isNotNull()
    return (
        F.when(read & (F.col("read_value") != F.col("_read_max")), "fetch-disagree")
        .when(read & readable & F.col("log_value").isNull(), "gone")
        .when(read & readable & (F.col("read_value") != F.col("log_value")), "changed")
        .otherwise("agreed")
    )

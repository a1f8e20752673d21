"""Final logs, folded (`checkers.facts.blocks`): by replica, block of offsets and leader epoch.

held, n, print   of what all replicas must agree on (`checkers.facts.replicas`: from
                 ``leader_start`` up to ``bound``): offset, value, epochs, append time
all_held, all_n  of everything that was read
values, times    the same: fingerprints of offset and value, and of these with the append time
first, last      the lowest and highest offset
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from checkers.facts.blocks import bit_of, block_of
from checkers.facts.leadership import TP
from checkers.facts.replicas import compared

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History


def log_blocks(history: History) -> DataFrame:
    """TP, node, leader_node, block, leader_epoch and what is folded. Kept."""

    def make() -> DataFrame:
        inside = must_agree()
        rows = compared(history).withColumn("block", block_of("offset"))
        names = ("offset", "value", "leader_epoch", "append_time_ms", "producer_epoch")
        # A hash passes over what is not told: another number stands for it.
        record = F.xxhash64(*(F.coalesce(name, F.lit(-1)) for name in names))
        return rows.groupBy(*TP, "node", "leader_node", "block", "leader_epoch").agg(
            F.bit_or(F.when(inside, bit_of("offset"))).alias("held"),
            F.count(F.when(inside, 1)).alias("n"),
            F.bit_xor(F.when(inside, record)).alias("print"),
            F.bit_or(bit_of("offset")).alias("all_held"),
            F.count("*").alias("all_n"),
            F.bit_xor(F.xxhash64("offset", "value")).alias("values"),
            F.bit_xor(F.xxhash64("offset", "value", "append_time_ms")).alias("times"),
            F.min("offset").alias("first"),
            F.max("offset").alias("last"),
        )

    return history.keep("log blocks", make)


def by_block(history: History) -> DataFrame:
    """What must agree: TP, node, block, held, n, print; whatever the leader epochs."""
    rows = log_blocks(history).where("n > 0").groupBy(*TP, "node", "block")
    return rows.agg(
        F.bit_or("held").alias("held"), F.sum("n").alias("n"), F.bit_xor("print").alias("print")
    )


def leaders_blocks(history: History) -> DataFrame:
    """Of final leaders' logs: TP, block, held, n, values, times."""
    rows = log_blocks(history).where("node = leader_node").groupBy(*TP, "block")
    return rows.agg(
        F.bit_or("all_held").alias("held"),
        F.sum("all_n").alias("n"),
        F.bit_xor("values").alias("values"),
        F.bit_xor("times").alias("times"),
    )


def reigns(history: History) -> DataFrame:
    """Along each log, the span of each leader epoch: TP, node, leader_epoch, first, last."""
    rows = log_blocks(history).where("leader_epoch is not null")
    return rows.groupBy(*TP, "node", "leader_epoch").agg(
        F.min("first").alias("first"), F.max("last").alias("last")
    )


def must_agree() -> Column:
    return (F.col("offset") < F.col("bound")) & (F.col("offset") >= F.col("leader_start"))

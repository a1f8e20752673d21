"""Whether the rows of each writer stand in time as it numbered them, each number once.

A writer numbers its rows as it writes them, and writes a row when its time was read, or soon after.
So times along the numbers never go back by more than its threads overtake each other. What
finishing saw of the live files (`source`, ``backwards_ns``) is asked here of the rows that are
stored and judged: a row whose time is of another moment stands out among its neighbours.

Not looked at: rows without a number or of unsure time (``error_ns``), and what is told afterwards
with the times of then (`checkers.facts.times.TOLD_AFTERWARDS`). Of clients, whose rows grow with
the load, blocks of numbers are held against each other, so that what is put in order does not.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.history import KINDS
from checkers.promises.evidence.times import TOLD_AFTERWARDS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

BACKWARDS_NS: Final = 1_000_000_000
"""Threads overtake each other by less: a row is written when its time was read, or soon after."""
_BLOCK: Final = 64
"""So many rows of a client are one row when their order is looked at: as many as a number has bits,
of which each tells that one of them is there."""
FINAL_READ: Final = "final-read"
_WRITER: Final = ("arm", "trial", "process", "boot")


def disordered(history: History) -> list[tuple[tuple[str, int], str]]:
    """By trial, in words: whose rows."""
    kinds = [kind for kind in KINDS.keys() - {"source"} if history.has(kind)]
    if not kinds:
        return []
    rows = functools.reduce(
        lambda one, other: one.unionAll(other), [_numbered(history, kind) for kind in sorted(kinds)]
    )
    there = F.bit_count(F.bit_or(F.expr(f"shiftleft(1L, cast(seq % {_BLOCK} as int))")))
    blocks = rows.groupBy(*_WRITER, "_block").agg(
        F.min("t").alias("_first_t"),
        F.max("t").alias("_last_t"),
        (F.count("*") - there).alias("_again"),
    )
    earlier = (
        Window.partitionBy(*_WRITER).orderBy("_block").rowsBetween(Window.unboundedPreceding, -1)
    )
    back = F.max("_last_t").over(earlier) - F.col("_first_t")
    blocks = blocks.withColumn("_back", F.coalesce(back, F.lit(0)))
    blocks = blocks.where((F.col("_back") > BACKWARDS_NS) | (F.col("_again") > 0))
    worst = blocks.groupBy(*_WRITER).agg(F.max("_back").alias("back"), F.sum("_again").alias("n"))
    found = []
    for row in worst.toArrow().to_pylist():
        key, who = (row["arm"], row["trial"]), row["process"]
        if row["back"] > BACKWARDS_NS:
            says = f"rows have times {row['back'] / 1e9:.1f} s before those of others that it had"
            found.append((key, f"{who}: {says} written before"))
        if row["n"]:
            found.append((key, f"{who}: {row['n']} rows have numbers that others of it have"))
    return sorted(found)


def _numbered(history: History, kind: str) -> DataFrame:
    """Each row's writer, number (of those who write with the load: by blocks) and time, if that was
    read off a clock as it was written."""
    clients = {one.process for them in history.run.workloads.values() for one in them}
    growing = F.col("process").isin(*clients, FINAL_READ)
    number = F.when(growing, F.expr(f"seq div {_BLOCK}")).otherwise(F.col("seq"))
    rows = history.frame(kind).where("seq is not null")
    read = F.col("error_ns").isNull() & F.lit(kind not in TOLD_AFTERWARDS)
    return rows.select(*_WRITER, "seq", number.alias("_block"), F.when(read, F.col("t")).alias("t"))

"""Append times that cannot be: what a producer was told, what the log holds, and when it was.

With LogAppendTime the leader stamps each batch as it writes it, and answers the stamp. So of one
record at one offset the answer and the final leader's log say the same, and it lies between the
request and its answer (an idempotent producer's record that was sent again was written at its first
arrival, which lies between as well).

Without LogAppendTime nobody is told a stamp, but who had to send again (idempotent): a leader that
has the record already answers the latest time of its batch (UnifiedLog.append, BatchMetadata). Some
record of that partition then has that time, and none that came before it.

Both clocks: `checkers.facts.append_clock`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import NO_RETRY_NS, leaders_table
from checkers.facts.append_clock import slack_ns
from checkers.facts.blocks import bit_of, block_of, unlike
from checkers.facts.leadership import TP
from checkers.facts.log_blocks import leaders_blocks
from checkers.facts.told_numbers import monotonic_ns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History


def mistimed(history: History) -> list[dict[str, Any]]:
    """By partition: how many records were ``compared``, how many are ``wrong``, and one of these
    (``value``, ``offset``, ``t``, ``told_ms``, ``stored_ms``)."""
    told = history.frame("produce").where("type = 'ok' and offset >= 0 and log_append_time_ms >= 0")
    told = _with_tries(history, told).select(
        *(*TP, "offset", "value", "invoke_t", "t", "_again"),
        F.col("log_append_time_ms").alias("told_ms"),
    )
    again, told = told.where("_again"), told.where("not _again")
    leaders = leaders_table(history).select(*TP, "leader_node")
    final = history.frame("log_read").join(F.broadcast(leaders), TP).where("node = leader_node")
    final = final.where("append_time_ms >= 0").select(
        *TP, "offset", "value", F.col("append_time_ms").alias("stored_ms")
    )
    tried_again = _tried_again(again, final)
    found: list[dict[str, Any]] = []
    if history.many("produce") and history.many("log_read"):
        blocks = _blocks(history, told)
        alike = blocks.where("alike").groupBy(*TP).agg(F.sum("n").alias("compared"))
        found += [{**row, "wrong": 0, "example": None} for row in alike.toArrow().to_pylist()]
        told, final = unlike((told, final), blocks, [*TP, "block"], "offset")
    both = told.join(final, [*TP, "offset", "value"])
    wrong = F.col("told_ms") != F.col("stored_ms")
    wrong = wrong | _elsewhen(history, F.col("stored_ms"))
    judged = both.select(*_COMPARED, wrong.alias("wrong")).unionAll(tried_again)
    example = F.struct("t", "value", "offset", "told_ms", "stored_ms")
    counted = judged.groupBy(*TP).agg(
        F.count("*").alias("compared"),
        F.sum(F.col("wrong").cast("long")).alias("wrong"),
        F.min(F.when(F.col("wrong"), example)).alias("example"),
    )
    return found + list(counted.toArrow().to_pylist())


_COMPARED: Final = (*TP, "t", "value", "offset", "told_ms", "stored_ms")


def _tried_again(again: DataFrame, final: DataFrame) -> DataFrame:
    """`_COMPARED` and ``wrong`` of acknowledgements that may be of a second try."""
    there = F.lit(True).alias("_there")
    times = final.select(*TP, F.col("stored_ms").alias("told_ms"), there).distinct()
    both = again.join(final, [*TP, "offset", "value"]).join(times, [*TP, "told_ms"], "left")
    wrong = (F.col("told_ms") < F.col("stored_ms")) | F.col("_there").isNull()
    return both.select(*_COMPARED, wrong.alias("wrong"))


def _with_tries(history: History, told: DataFrame) -> DataFrame:
    """With ``_again``: it may be of a second try, on a topic whose producers date its records."""
    run = history.run
    created = [key for key, of in run.topics.items() if not of.log_append_time]
    everywhere = [name for name, of in run.topics_everywhere.items() if not of.log_append_time]
    place = ("arm", "trial", "process", "topic")
    rows = [
        dict(zip(place, (*trial, process, topic), strict=True))
        for (*trial, process), how in run.deliveries().items()
        if how == "idempotent"
        for topic in {*everywhere, *(name for *of, name in created if of == trial)}
    ]
    table = history.table(rows, "arm string, trial int, process string, topic string")
    theirs = F.broadcast(table.withColumn("_theirs", F.lit(True)))
    slow = F.col("t") - F.col("invoke_t") >= NO_RETRY_NS
    again = F.coalesce(slow & F.col("_theirs"), F.lit(False))
    return told.join(theirs, list(place), "left").withColumn("_again", again)


def _elsewhen(history: History, append_ms: Column) -> Column:
    """Whether that is not of the time between a row's request and its answer."""
    run = history.run
    if run.clock_offset_ns is None:
        return F.lit(False)
    slack = slack_ns(history)
    stored_t = monotonic_ns(append_ms, run.clock_offset_ns)
    return (stored_t < F.col("invoke_t") - slack) | (stored_t > F.col("t") + slack)


def _blocks(history: History, told: DataFrame) -> DataFrame:
    """TP, block, n, and whether all that was told is ``alike`` what is in the log, and in time."""
    own = told.groupBy(*TP, block_of("offset").alias("block")).agg(
        F.bit_or(bit_of("offset")).alias("held"),
        F.count("*").alias("n"),
        F.bit_xor(F.xxhash64("offset", "value", F.col("told_ms"))).alias("times"),
        F.max(_elsewhen(history, F.col("told_ms")).cast("int")).alias("late"),
    )
    logs = leaders_blocks(history).select(*TP, "block", *(F.col(n).alias(f"_{n}") for n in _SAME))
    both = own.join(logs, [*TP, "block"], "left")
    alike = (F.col("n") == F.bit_count("held")) & (F.col("late") == 0)
    for name in _SAME:
        alike = alike & F.coalesce(F.col(name) == F.col(f"_{name}"), F.lit(False))
    return history.keep("told blocks", lambda: both.select(*TP, "block", "n", alike.alias("alike")))


_SAME: Final = ("held", "n", "times")

"""Append times that cannot be: what a producer was told, what the log holds, and when it was.

With LogAppendTime the leader stamps each batch as it writes it, and answers the stamp. So of one
record at one offset the answer and the final leader's log say the same, and it lies between the
request and its answer (an idempotent producer's record that was sent again was written at its first
arrival, which lies between as well).

Wall clocks are tied to the monotonic one by the run (`run.json`); `SLACK_NS` on top for what a
clock's daemon may do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import leaders_table
from checkers.facts.leadership import TP

if TYPE_CHECKING:
    from checkers.history.frames import History

SLACK_NS: Final = 1_000_000_000


def mistimed(history: History) -> list[dict[str, Any]]:
    """By partition: how many records were ``compared``, how many are ``wrong``, and one of these
    (``value``, ``offset``, ``t``, ``told_ms``, ``stored_ms``)."""
    told = history.frame("produce").where("type = 'ok' and offset >= 0 and log_append_time_ms >= 0")
    told = told.select(
        *TP, "offset", "value", "invoke_t", "t", F.col("log_append_time_ms").alias("told_ms")
    )
    leaders = leaders_table(history).select(*TP, "leader_node")
    final = history.frame("log_read").join(F.broadcast(leaders), TP).where("node = leader_node")
    final = final.where("append_time_ms >= 0").select(
        *TP, "offset", "value", F.col("append_time_ms").alias("stored_ms")
    )
    both = told.join(final, [*TP, "offset", "value"])
    wrong = F.col("told_ms") != F.col("stored_ms")
    run = history.run
    if run.clock_offset_ns is not None:
        slack = SLACK_NS + run.clock_error_ns
        stored_t = F.col("stored_ms") * 1_000_000 + F.lit(run.clock_offset_ns)
        wrong = wrong | (stored_t < F.col("invoke_t") - slack) | (stored_t > F.col("t") + slack)
    example = F.struct("t", "value", "offset", "told_ms", "stored_ms")
    found = both.groupBy(*TP).agg(
        F.count("*").alias("compared"),
        F.sum(wrong.cast("long")).alias("wrong"),
        F.min(F.when(wrong, example)).alias("example"),
    )
    return list(found.toArrow().to_pylist())

"""Who asks brokers each by itself, and went on doing so until the end.

A reader, prober or keeper goes round: whom it ever asked it asks again, answered or not, for as
long as the load goes on. Of a broker that it asked no more once all was healed nobody knows what it
would have said: its rows were lost, or it was not asked (`unasked`).

A consumer polls all the while, and writes down each poll that gave it nothing, too: what it was not
given since its last one nobody knows (`unpolled`). A group's member may be thrown out, or leave.

A reader of metadata, and a prober, has a clock to go by, and asks each broker in turn as long as
that can be reached. So it did not leave out one for seconds that counted requests all the while
(`plane_use`): others' or its own (`passed_over`). Who is dead, paused or cut off counts none.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.unions import united

if TYPE_CHECKING:
    from checkers.history.frames import History

_KINDS: Final = (
    *("metadata", "probe", "listed_offset", "epoch_end", "coordinator"),
    *("group_step", "records_deleted", "read_at", "read_below", "commit"),
)
_ANSWERED: Final = "describe"
"""A step of which there is a row only where the answer is of a kind: who asked is seen by others.
"""
_STEPS_ASKED: Final = f"node is not null and not (step <=> '{_ANSWERED}')"
_PACED: Final = ("metadata", "probe")
IDLE_NS: Final = 2_000_000_000
"""So long before and after a broker's count somebody who goes by a clock asked it."""
QUIET_NS: Final = 3_000_000_000
"""No consumer waits so long in one poll."""
LONG_NS: Final = 4_000_000_000
"""Shorter than that the load after healing says nothing."""


def unasked(history: History) -> list[tuple[tuple[str, int], str]]:
    """By trial, in words: who asked which broker no more."""
    spans = _settling(history)
    kinds = [kind for kind in _KINDS if history.has(kind)]
    if not spans or not kinds:
        return []
    table = history.table(spans, "arm string, trial int, _from_t bigint, _to_t bigint")
    by = ("arm", "trial", "process", "node")
    frames = [
        history.frame(kind)
        .where("node is not null" if kind != "group_step" else _STEPS_ASKED)
        .select(*by, "invoke_t", F.lit(kind).alias("kind"))
        for kind in kinds
    ]
    rows = functools.reduce(lambda one, other: one.unionAll(other), frames)
    rows = rows.join(F.broadcast(table), ["arm", "trial"])
    late = F.col("invoke_t").between(F.col("_from_t"), F.col("_to_t"))
    each = rows.groupBy(*by, "kind").agg(F.count(F.when(late, 1)).alias("n"))
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"{row['process']} had asked node {row['node']} ({row['kind']}), and asked it no more "
            "once all was healed",
        )
        for row in each.where("n = 0").toArrow().to_pylist()
    )


def _settling(history: History) -> list[dict[str, Any]]:
    """Of trials whose load went on for long enough after healing, from when until when."""
    ends = {
        (row["arm"], row["trial"], row["event"]): row["t"]
        for row in history.rows("phase")
        if row["name"] == "settle"
    }
    return [
        {"arm": arm, "trial": trial, "_from_t": t, "_to_t": ends[arm, trial, "end"]}
        for (arm, trial, event), t in ends.items()
        if event == "begin" and ends.get((arm, trial, "end"), 0) - t >= LONG_NS
    ]


def unpolled(history: History) -> list[tuple[tuple[str, int], str]]:
    """By trial, in words: which consumers did not poll any more in the last seconds."""
    spans = _settling(history)
    own = {
        (*key, workload.process)
        for key, workloads in history.run.workloads.items()
        for workload in workloads
        if workload.role == "consumer"
    }
    if not spans or not own or not history.has("fetch"):
        return []
    table = history.table(spans, "arm string, trial int, _from_t bigint, _to_t bigint")
    rows = history.frame("fetch").join(F.broadcast(table), ["arm", "trial"])
    last = rows.groupBy("arm", "trial", "process", "_to_t").agg(F.max("t").alias("last_t"))
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"{row['process']} polled no more for the last {row['quiet_ns'] / 1e9:.1f} s",
        )
        for row in last.withColumn("quiet_ns", F.col("_to_t") - F.col("last_t"))
        .where(f"quiet_ns > {QUIET_NS}")
        .toArrow()
        .to_pylist()
        if (row["arm"], row["trial"], row["process"]) in own
    )


def passed_over(history: History) -> list[tuple[tuple[str, int], str]]:
    """By trial, in words: whom somebody did not ask for seconds in which it counted requests."""
    kinds = [kind for kind in _PACED if history.has(kind)]
    if not kinds or not history.has("plane_use"):
        return []
    by = ("arm", "trial", "kind", "process")
    frames = [
        history.frame(kind)
        .where("node is not null and invoke_t is not null")
        .select("arm", "trial", F.lit(kind).alias("kind"), "process", "node", "invoke_t", "t")
        for kind in kinds
    ]
    asks = functools.reduce(lambda one, other: one.unionAll(other), frames)
    whole = asks.groupBy(*by).agg(
        F.min("invoke_t").alias("_first_t"), F.max("invoke_t").alias("_last_t")
    )
    up = history.frame("plane_use").where("seq is not null")
    up = up.select("arm", "trial", "node", F.col("t").alias("up_t")).distinct()
    known = asks.select(*by, "node").distinct().join(F.broadcast(whole), [*by])
    up = F.broadcast(known).join(up, ["arm", "trial", "node"])
    up = up.where("up_t > _first_t and up_t < _last_t")
    rows = united(
        asks.select(*by, "node", F.col("invoke_t").alias("at_t"), "invoke_t", "t"),
        up.select(*by, "node", F.col("up_t").alias("at_t"), "up_t", "_first_t", "_last_t"),
    )
    # Both ways from their beginning: towards the end Spark would begin anew at every row.
    place, asked_first = Window.partitionBy(*by, "node"), F.col("up_t").isNotNull()
    so_far = (Window.unboundedPreceding, 0)
    onwards = place.orderBy("at_t", asked_first).rowsBetween(*so_far)
    backwards = place.orderBy(F.col("at_t").desc(), asked_first).rowsBetween(*so_far)
    before, after = F.max("t").over(onwards), F.min("invoke_t").over(backwards)
    rows = rows.withColumn("_before_t", F.coalesce(before, "_first_t"))
    rows = rows.withColumn("_after_t", F.coalesce(after, "_last_t")).where("up_t is not null")
    idle = (F.col("up_t") - F.col("_before_t") > IDLE_NS) & (
        F.col("_after_t") - F.col("up_t") > IDLE_NS
    )
    found = rows.where(idle).groupBy("arm", "trial", "process", "kind", "node").count()
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"{row['process']} did not ask node {row['node']} ({row['kind']}) for seconds in which "
            "that counted requests",
        )
        for row in found.toArrow().to_pylist()
    )

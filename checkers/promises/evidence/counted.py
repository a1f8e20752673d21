"""What brokers counted that their planes took (`plane_use`), against what others tell of having
been answered by them: no less.

A broker counts every request, by API, from one row of a boot to the next. Whoever asked one broker
by itself and was answered (a reader, a prober, a forger, a keeper of groups) was counted there; so
was each controller request that the broker itself tells of having handled, on its listener, and
each request of a flood that was answered. That it counted more is lawful: others ask as well, and
who dies does not tell of all that it handled.

And what a worker of a flood was answered is no more than what it had sent (`overanswered`).

Of boots that number their rows, from their first count to their last; what came within `NEAR_NS` of
either end is counted nowhere for certain.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.floods import floods
from checkers.facts.told_numbers import total

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from checkers.history.frames import History

NEAR_NS: Final = 250_000_000
_BOOT: Final = ("arm", "trial", "node", "boot")
_ASKED: Final = {
    "metadata": "METADATA",
    "listed_offset": "LIST_OFFSETS",
    "epoch_end": "OFFSET_FOR_LEADER_EPOCH",
    "coordinator": "FIND_COORDINATOR",
    "records_deleted": "DELETE_RECORDS",
    "read_at": "FETCH",
    "read_below": "FETCH",
    "probe": None,
    "forged": None,
}
"""Kinds of which an operation is one request to one broker, and of which API; None: each says."""
_FLOODS: Final = {
    "flood-produce": "PRODUCE",
    "flood-heavy-produce": "PRODUCE",
    "flood-fetch": "FETCH",
    "flood-metadata": "METADATA",
}
_OF: Final = {"flood": "requests"}
Trial = tuple[str, int]


def undercounted(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: of which API a broker counted less than it answered."""
    asked = [_asked(history, kind) for kind in _ASKED if history.has(kind)]
    asked += [_handled(history)] if history.has("control_request") else []
    asked += [_answered_floods(history)] if history.has("flood") else []
    if not asked or not history.has("plane_use"):
        return []
    use = history.frame("plane_use").where("boot is not null and seq is not null")
    spans = use.groupBy(*_BOOT).agg(
        (F.min(F.try_subtract("t", "interval_ns")) + NEAR_NS).alias("_from_t"),
        (F.max("t") - NEAR_NS).alias("_to_t"),
    )
    counted = use.groupBy(*_BOOT, "api", "listener").agg(total("requests").alias("counted"))
    whole = counted.groupBy(*_BOOT, "api").agg(total("counted").alias("counted"))
    places = [*_BOOT, "api", "listener"]
    counted = counted.unionByName(whole.withColumn("listener", F.lit("")).select(*counted.columns))
    rows = functools.reduce(lambda one, other: one.unionAll(other), asked)
    rows = rows.join(F.broadcast(spans), [*_BOOT[:3]])
    within = (F.col("begun_t") > F.col("_from_t")) & (F.col("over_t") < F.col("_to_t"))
    n = F.coalesce(F.sum("many"), F.count_distinct("one")).alias("n")
    each = rows.where(within).groupBy(*places, "kind").agg(n)
    each = each.join(F.broadcast(counted), places, "left")
    less = each.where(F.col("n") > F.coalesce("counted", F.lit(0)))
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"node {row['node']} counted {row['counted'] or 0} {row['api']} requests in its boot "
            f"{row['boot']}, and {row['n']} {_OF.get(row['kind'], 'rows')} of {row['kind']} tell "
            "of its answers to such",
        )
        for row in less.toArrow().to_pylist()
    )


def overlapping(history: History) -> list[tuple[Trial, str]]:
    """By trial, in words: which brokers counted one time twice. What was counted at one moment is
    all of one interval, which began no sooner than the one before ended."""
    if not history.has("plane_use"):
        return []
    use = history.frame("plane_use").where("boot is not null and seq is not null")
    each = use.groupBy(*_BOOT, "t").agg(
        F.min("interval_ns").alias("_least"), F.max("interval_ns").alias("_most")
    )
    before = F.lag("t").over(Window.partitionBy(*_BOOT).orderBy("t"))
    sooner = F.coalesce(F.col("t") - F.col("_most") < before, F.lit(False))
    odd = each.withColumn("_odd", sooner | (F.col("_least") < F.col("_most"))).where("_odd")
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"node {row['node']}, boot {row['boot']}: what it counted at {row['count']} moments "
            "is of a time in which it had counted, or of more than one",
        )
        for row in odd.groupBy(*_BOOT).count().toArrow().to_pylist()
    )


def overanswered(history: History) -> Iterator[tuple[Trial, str]]:
    """By trial, in words: which worker of a flood counts more answers than it sent requests."""
    for flood in floods(history):
        for worker, rows in flood.workers.items():
            sent, completed = (sum(row[n] or 0 for row in rows) for n in ("sent", "completed"))
            if completed > sent:
                says = (
                    f"{worker} of flood {flood.id} was answered {completed} times, and sent {sent}"
                )
                yield (flood.arm, flood.trial), says


def _row(
    kind: str,
    api: Column,
    listener: Column,
    begun: str,
    over: str,
    one: Column,
    many: Column | None = None,
) -> list[Column]:
    """``one``: which request it tells of; ``many``: of how many, where it is no single one."""
    return [
        *(F.col(name) for name in _BOOT[:3]),
        F.lit(kind).alias("kind"),
        api.alias("api"),
        listener.alias("listener"),
        F.col(begun).alias("begun_t"),
        F.col(over).alias("over_t"),
        one.alias("one"),
        F.lit(None).cast("long").alias("many") if many is None else many.alias("many"),
    ]


def _asked(history: History, kind: str) -> DataFrame:
    """What was answered, whatever with; once an operation."""
    rows = history.frame(kind).where("node is not null and (type = 'ok' or error is not null)")
    api = F.col("api") if _ASKED[kind] is None else F.lit(_ASKED[kind])
    one = F.xxhash64("process", "op")
    return rows.select(*_row(kind, api, F.lit(""), "invoke_t", "t", one))


def _answered_floods(history: History) -> DataFrame:
    """By worker and interval, at whose end the answers were there."""
    rows = [
        {"arm": f.arm, "trial": f.trial, "node": f.node, "api": _FLOODS[f.fault], "t": row["t"],
         "begun_t": row["t"] - (row["interval_ns"] or 0), "completed": row["completed"] or 0}
        for f in floods(history)
        if f.fault in _FLOODS
        for of in f.workers.values()
        for row in of
    ]  # fmt: skip
    told = history.table(
        rows,
        "arm string, trial int, node int, api string, t bigint, begun_t bigint, completed bigint",
    )
    one, many = F.lit(0).cast("long"), F.col("completed")
    return told.select(*_row("flood", F.col("api"), F.lit(""), "begun_t", "t", one, many))


def _handled(history: History) -> DataFrame:
    rows = history.frame("control_request").where("listener is not null and dequeue_t is not null")
    rows = rows.where("boot is not null and seq is not null")
    one = F.xxhash64("boot", "seq")
    own = _row("control_request", F.col("api"), F.col("listener"), "dequeue_t", "dequeue_t", one)
    return rows.select(*own)

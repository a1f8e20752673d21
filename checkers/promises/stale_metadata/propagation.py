"""Propagation: from the commit of a leader epoch until each broker had it.

Two sightings: what a broker's metadata cache took in (``applied``), and what it answered to readers
(which adds the wait for the next read, and the read's own).

``stale_time_ms`` is a sum: how long brokers, partition by partition, were behind. It is made of
three parts that say different things, so that each is also given apart:

    flooded   commits that came while a flood lay on this very broker: what planes are for
    beside    commits that came while a flood lay on another: the floor. Nothing stands between
              such a broker and its news but the controller's own time and a round trip
    (rest)    commits without any flood, most of them from before the faults began

A sum over all of them moves towards the floor with every broker that nobody floods, in every plane
mode alike, and its ratio towards 1.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from checkers.facts.answers import shown_rows
from checkers.facts.floods import flooded, flooded_at
from checkers.facts.histogram import Histogram, bucket_of, grouped
from checkers.facts.leadership import TP, leadership
from checkers.facts.lives import with_life
from checkers.judging.outcome import Outcome

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

FLOODED: Final = "flooded"
BESIDE: Final = "beside"
PLACE: Final = (*TP, "node", "life", "era")
"""What one broker knew of one partition in one life of both."""
_AGREEABLE_GAP: Final = 10_000


def applied(history: History) -> DataFrame:
    """What each broker's metadata cache took in: `PLACE`, leader_epoch, first_t."""
    rows = history.frame("metadata_update").where("leader_epoch >= 0 and leader >= -1")
    rows = with_life(history, rows, F.col("t"), F.col("t")).withColumn("era", F.lit(0))
    return rows.groupBy(*PLACE, "leader_epoch").agg(F.min("t").alias("first_t"))


def answered(history: History) -> DataFrame:
    """What brokers showed to readers, but for what a forger had told them: `PLACE`, leader_epoch,
    first_t, last_invoke_t, last_t, n. ``life`` and ``era`` are null where a read spans the end of
    one, and is compared with nothing."""
    return (
        shown_rows(history)
        .where("not forged")
        .groupBy(*PLACE, "leader_epoch")
        .agg(
            F.min("first_t").alias("first_t"),
            F.max("last_invoke_t").alias("last_invoke_t"),
            F.max("last_t").alias("last_t"),
            F.sum("n").alias("n"),
        )
    )


def propagation(history: History, outcome: Outcome, seen: Mapping[str, DataFrame]) -> None:
    """By name of what brokers had, figures ``name`` (all brokers), ``<name>_by_node``,
    ``<name>_flooded``, ``<name>_beside``.

    Of each committed epoch that came while the broker was being asked: how much later than its
    commit the broker had it, or a higher one. A broker's first epoch of a life tells nothing:
    nobody asked it before.
    """
    late = F.greatest(F.col("_had_t") - F.col("committed_t"), F.lit(0))
    had = [_had(rows).withColumn("name", F.lit(name)) for name, rows in seen.items()]
    each = functools.reduce(lambda a, b: a.unionByName(b), had)
    each = each.join(F.broadcast(_commits(history)), [*TP, "leader_epoch"])
    each = each.select("name", "arm", "node", _part().alias("part"), late.alias("late"))
    bucket = bucket_of(F.col("late")).alias("bucket")
    found = each.groupBy("name", "arm", "node", "part", bucket).agg(
        F.count("*").alias("n"), F.max("late").alias("max_ns"), F.sum("late").alias("total_ns")
    )
    rows = grouped(found)
    for name in seen:
        _figures(outcome, name, [row for row in rows if row["name"] == name])


def _figures(outcome: Outcome, name: str, rows: list[dict[str, Any]]) -> None:
    for (arm,), summary in _summaries(rows, "arm").items():
        outcome.arm(arm)[name] = summary
    for (arm, part), summary in _summaries(rows, "arm", "part").items():
        if part is not None:
            outcome.arm(arm)[f"{name}_{part}"] = summary
    for (arm, node), summary in sorted(_summaries(rows, "arm", "node").items()):
        outcome.arm(arm).setdefault(f"{name}_by_node", {})[str(node)] = summary
    sums: dict[tuple[str, int, int], int] = {}
    for row in rows:
        place = (row["arm"], row["node"], row["bucket"])
        sums[place] = sums.get(place, 0) + row["n"]
    outcome.figures[name] = [
        {"arm": arm, "node": node, "bucket": bucket, "n": n}
        for (arm, node, bucket), n in sums.items()
    ]


def _summaries(rows: list[dict[str, Any]], *keys: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """How late epochs were: their histogram, and their sum."""
    found: dict[tuple[Any, ...], Histogram] = {}
    totals: dict[tuple[Any, ...], int] = {}
    for row in rows:
        place = tuple(row[key] for key in keys)
        found.setdefault(place, Histogram()).add(row["bucket"], row["n"], row["max_ns"])
        totals[place] = totals.get(place, 0) + row["total_ns"]
    return {
        place: {**histogram.summary(), "stale_time_ms": round(totals[place] / 1e6, 3)}
        for place, histogram in found.items()
    }


def _had(seen: DataFrame) -> DataFrame:
    """By `PLACE` and leader epoch, ``_had_t``: when that or a higher one was first seen there. Of
    epochs above the first one that was seen."""
    down = Window.partitionBy(*PLACE).orderBy(F.col("leader_epoch").desc())
    rows = seen.where("life is not null and era is not null")
    rows = rows.withColumn("_had_t", F.min("first_t").over(down))
    rows = rows.withColumn("_below", F.lead("leader_epoch").over(down))
    rows = rows.where(f"leader_epoch - _below < {_AGREEABLE_GAP}")
    each = F.explode(F.expr("sequence(_below + 1, leader_epoch)")).alias("leader_epoch")
    return rows.select(*TP, "node", "_had_t", each)


def _commits(history: History) -> DataFrame:
    """Every commit of a leader, of partitions whose topic was not made anew: TP, leader_epoch,
    committed_t and ``under``: the brokers that a flood lay on, null where there was none."""

    def make() -> DataFrame:
        rows = []
        floods = bool(flooded(history).rows)
        for key, of in leadership(history).items():
            for epoch in of.commits if of.incarnations == 1 else ():
                if epoch.leader is None or epoch.leader < 0 or epoch.committed_t is None:
                    continue
                row = dict(zip(TP, key, strict=True), leader_epoch=epoch.leader_epoch)
                under = flooded_at(history, key[:2], epoch.committed_t) if floods else ()
                names = "".join(f"{node}," for node in sorted(under))
                rows.append(
                    {
                        **row,
                        "committed_t": epoch.committed_t,
                        "under": f",{names}" if names else None,
                    }
                )
        return history.table(
            rows,
            "arm string, trial int, topic string, partition int, leader_epoch int, "
            "committed_t bigint, under string",
        )

    found: DataFrame = history.memo("commits", make)
    return found


def _part() -> Any:
    """Whether a flood lay on this broker at the commit, or on others only; null: there was none."""
    here = F.concat(F.lit(","), F.col("node").cast("string"), F.lit(","))
    part = F.when(F.expr("under is null"), F.lit(None).cast("string"))
    return part.when(F.col("under").contains(here), FLOODED).otherwise(BESIDE)

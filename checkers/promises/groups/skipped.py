"""Skipped: records that none of a group's members was given, for `checkers.promises.groups`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.accounts import leaders_table
from checkers.judging.witness import Finding, Pick

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

_TP: Final = ["arm", "trial", "topic", "partition"]


def skipped(history: History) -> Iterator[tuple[Finding, int]]:
    """Each finding, and for how many records it stands."""
    for row in _skipped(history):
        yield _skip(row), row["n"]


def _skipped(history: History) -> list[dict[str, Any]]:
    """Records of the final log that a group was not given, between the first and the last that it
    was; of one whose members begin at the start, before the last."""
    members = history.frame("assignment").select("arm", "trial", "process", "group").distinct()
    whole = members.join(F.broadcast(_from_the_start(history)), ["arm", "trial", "process"], "left")
    whole = whole.groupBy("arm", "trial", "group").agg(
        F.min(F.coalesce("_start", F.lit(0))).alias("_start")
    )
    given = history.frame("fetch").where("type = 'ok' and offset >= 0")
    given = given.join(F.broadcast(members), ["arm", "trial", "process"])
    given = given.select(*_TP, "group", "offset").distinct()
    spans = given.groupBy(*_TP, "group").agg(
        F.min("offset").alias("_low"), F.max("offset").alias("_high")
    )
    spans = spans.join(F.broadcast(whole), ["arm", "trial", "group"])
    leaders = leaders_table(history).select(*_TP, "leader_node", "log_start")
    final = history.frame("log_read").join(F.broadcast(leaders), _TP).where("node = leader_node")
    inside = final.select(*_TP, "offset", "log_start").join(F.broadcast(spans), _TP)
    low = F.when(F.col("_start") == 1, F.col("log_start") - 1).otherwise(F.col("_low"))
    inside = inside.where((F.col("offset") > low) & (F.col("offset") < F.col("_high")))
    missed = inside.join(given, [*_TP, "group", "offset"], "left_anti")
    found = missed.groupBy(*_TP, "group").agg(
        F.count("*").alias("n"), F.min("offset").alias("offset")
    )
    return list(found.toArrow().to_pylist())


def _from_the_start(history: History) -> DataFrame:
    """Clients that begin at a partition's start, unless an offset is kept: arm, trial, process."""
    table = history.table(
        [
            {"arm": arm, "trial": trial, "process": one.process}
            for (arm, trial), workloads in history.run.workloads.items()
            for one in workloads
            if one.begins == "start"
        ],
        "arm string, trial int, process string",
    )
    return table.withColumn("_start", F.lit(1))


def _skip(row: dict[str, Any]) -> Finding:
    at = {"topic": row["topic"], "partition": row["partition"]}
    return Finding(
        "group-skipped",
        f"no member of group {row['group']} was given {row['n']} records of "
        f"{row['topic']}-{row['partition']} that lie before others that it was given, the first at "
        f"offset {row['offset']}",
        row["arm"],
        row["trial"],
        (
            Pick("fetch", {**at, "offset": row["offset"] - 1}, rows=2),
            Pick("commit", at, last=True, rows=2),
            Pick("log_read", {**at, "offset": row["offset"]}, rows=2),
        ),
    )

"""What each client was given since the last fault was healed. Sums are made in Spark: by client and
partition or broker, they do not grow with the load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from checkers.facts.after_healing import AfterHealing, Row, Trial

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History


def _since(history: History, seen: Mapping[Trial, AfterHealing], kind: str) -> DataFrame:
    """Rows of operations that ended after healing, with ``_since`` and ``_until``."""
    rows = [
        {"arm": key[0], "trial": key[1], "_since": s.since_t, "_until": s.until_t}
        for key, s in seen.items()
    ]
    table = history.table(rows, "arm string, trial int, _since bigint, _until bigint")
    frame = history.frame(kind).join(F.broadcast(table), ["arm", "trial"])
    return frame.where("t >= _since and invoke_t <= _until")


def produced(history: History, seen: Mapping[Trial, AfterHealing]) -> list[dict[str, Any]]:
    if not history.has("produce"):
        return []
    began = F.when(F.col("invoke_t") >= F.col("_since"), F.col("invoke_t"))
    acked = (F.col("type") == "ok") & (F.col("offset") >= 0) & began.isNotNull()
    found = (
        _since(history, seen, "produce")
        .where("topic is not null")
        .groupBy("arm", "trial", "process", "topic", "partition")
        .agg(
            F.count(F.when(F.col("type") == "ok", 1)).alias("ok"),
            F.count(began).alias("attempts"),
            F.max(began).alias("last_t"),
            F.count(F.when(acked, 1)).alias("acked"),
            F.min(F.when(acked, F.col("t"))).alias("acked_t"),
        )
    )
    return list(found.toArrow().to_pylist())


def consumed(
    history: History, seen: Mapping[Trial, AfterHealing]
) -> tuple[set[tuple[Any, ...]], dict[tuple[Any, ...], Row]]:
    """Which (arm, trial, process, topic, partition) were given something; by (arm, trial, process)
    how many polls there were and when the last one began."""
    if not history.has("fetch"):
        return set(), {}
    rows = _since(history, seen, "fetch")
    given = rows.where("type = 'ok' and offset is not null")
    at = ["arm", "trial", "process", "topic", "partition"]
    delivered = {
        tuple(row[name] for name in at)
        for row in given.select(*at).distinct().toArrow().to_pylist()
    }
    polls = rows.groupBy("arm", "trial", "process").agg(
        F.countDistinct("poll").alias("polls"), F.max("invoke_t").alias("last_t")
    )
    by_process = {
        (row["arm"], row["trial"], row["process"]): row for row in polls.toArrow().to_pylist()
    }
    return delivered, by_process


def answered(
    history: History, seen: Mapping[Trial, AfterHealing]
) -> dict[tuple[Any, ...], dict[int, Row]]:
    """By (arm, trial, process): by node, ``answers`` and ``attempts``."""
    found: dict[tuple[Any, ...], dict[int, Row]] = {}
    answer = F.when((F.col("type") == "ok") | F.col("error").isNotNull(), 1)
    for kind in ("metadata", "probe"):
        if not history.has(kind):
            continue
        rows = _since(history, seen, kind).where("node is not null")
        counted = rows.groupBy("arm", "trial", "process", "node").agg(
            F.count(answer).alias("answers"), F.count("*").alias("attempts")
        )
        for row in counted.toArrow().to_pylist():
            key = (row["arm"], row["trial"], row["process"])
            found.setdefault(key, {})[row["node"]] = row
    return found

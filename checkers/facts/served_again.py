"""What each client did and was given since the last fault was healed.

Sums are made in Spark, in one job: by client, and by partition (who produces or consumes) or broker
(who asks each by itself). They do not grow with the load.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.after_healing import AfterHealing, At, Trial

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

_BY: Final = ("arm", "trial", "kind", "process", "topic", "partition", "node")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """Operations of one kind of one client that ended after healing. Times in ns."""

    key: Trial
    kind: str
    process: str
    at: At | None
    """The partition, of produces and of polls that gave something of it."""
    node: int | None
    """The broker, of metadata reads and probes."""
    rows: int
    ok: int
    given: int
    """Records that a consumer got."""
    answers: int
    begun: int
    """Those that were begun after healing, too."""
    last_begun_t: int | None
    last_invoke_t: int
    first_op: int
    last_op: int
    acked: int
    """Records that were begun after healing, accepted, and have an offset to be read at."""
    acked_t: int | None
    """When the first of them was acknowledged."""


def sums(history: History, seen: Mapping[Trial, AfterHealing]) -> list[Sum]:
    kinds = [k for k in ("produce", "fetch", "metadata", "probe") if history.has(k)]
    if not kinds or not seen:
        return []
    rows = functools.reduce(lambda a, b: a.unionAll(b), [_since(history, seen, k) for k in kinds])
    begun = F.when(F.col("invoke_t") >= F.col("_since"), F.col("invoke_t"))
    ok = F.col("type") == "ok"
    acked = ok & (F.col("offset") >= 0) & begun.isNotNull()
    found = rows.groupBy(*_BY).agg(
        F.count("*").alias("rows"),
        F.count(F.when(ok, 1)).alias("ok"),
        F.count(F.when(ok & F.col("offset").isNotNull(), 1)).alias("given"),
        F.count(F.when(ok | F.col("error").isNotNull(), 1)).alias("answers"),
        F.count(begun).alias("begun"),
        F.max(begun).alias("last_begun_t"),
        F.max("invoke_t").alias("last_invoke_t"),
        F.min("op").alias("first_op"),
        F.max("op").alias("last_op"),
        F.count(F.when(acked, 1)).alias("acked"),
        F.min(F.when(acked, F.col("t"))).alias("acked_t"),
    )
    return [_sum(row) for row in found.toArrow().to_pylist()]


def _sum(row: dict[str, Any]) -> Sum:
    fields = {name: row[name] for name in row if name not in ("arm", "trial", "topic", "partition")}
    at = None if row["topic"] is None else (row["topic"], row["partition"])
    return Sum(key=(row["arm"], row["trial"]), at=at, **fields)


def _since(history: History, seen: Mapping[Trial, AfterHealing], kind: str) -> DataFrame:
    """Operations that ended after healing and were begun while the load went on."""
    spans = [
        {"arm": key[0], "trial": key[1], "_since": s.since_t, "_until": s.until_t}
        for key, s in seen.items()
    ]
    table = history.table(spans, "arm string, trial int, _since bigint, _until bigint")
    frame = history.frame(kind).join(F.broadcast(table), ["arm", "trial"])
    by_partition = kind in ("produce", "fetch")
    here, none = F.col, F.lit(None)
    return frame.where("t >= _since and invoke_t <= _until").select(
        "arm",
        "trial",
        F.lit(kind).alias("kind"),
        "process",
        (here("topic") if by_partition else none.cast("string")).alias("topic"),
        (here("partition") if by_partition else none.cast("int")).alias("partition"),
        (none.cast("int") if by_partition else here("node")).alias("node"),
        (here("offset") if by_partition else none.cast("bigint")).alias("offset"),
        "type",
        "error",
        "op",
        "invoke_t",
        "t",
        "_since",
    )

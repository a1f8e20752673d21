"""Brokers that failed a client, by their own answers.

UNKNOWN_SERVER_ERROR and KAFKA_STORAGE_ERROR refuse nothing: the broker could not do what it was
asked for (KafkaApis.handleError). Once the harness has broken a disk that may be the harness's
doing; before, and else, nobody can say whose. What an operator asks for is left out: it fails so as
ZooKeeper is away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from checkers.history.frames import History

BREAKERS: Final = frozenset({"disk-full", "wipe-disk", "torn-tail"})
_FAILED: Final = (-1, 56)
_ASKED: Final = (
    *("produce", "fetch", "metadata", "listed_offset", "epoch_end", "read_below"),
    *("records_deleted", "commit", "committed", "group_step", "coordinator"),
)


class Failing(NamedTuple):
    """Of one kind and error, in words. ``broken``: the harness had broken a disk by then."""

    trial: tuple[str, int]
    says: str
    broken: bool


def failed_clients(history: History) -> Iterator[Failing]:
    table = F.broadcast(
        history.table(_broken_since(history), "arm string, trial int, since bigint")
    )
    by = ["arm", "trial", "error", "broken"]
    broken = F.coalesce(F.col("t") >= F.col("since"), F.lit(False))
    for kind in filter(history.has, _ASKED):
        rows = history.frame(kind).where(F.col("error").isin(*_FAILED))
        rows = rows.join(table, ["arm", "trial"], "left").withColumn("broken", broken)
        counted = rows.groupBy(*by).count().toArrow().to_pylist()
        for row in sorted(counted, key=lambda r: [r[name] for name in by]):
            says = f"{row['count']} of {kind} were answered with error {row['error']}"
            yield Failing((row["arm"], row["trial"]), says, row["broken"])


def _broken_since(history: History) -> list[dict[str, Any]]:
    """By trial, when (ns) the harness first began to break a disk."""
    since: dict[tuple[str, int], int] = {}
    for row in history.rows("fault"):
        if row["fault"] in BREAKERS:
            key = (row["arm"], row["trial"])
            since[key] = min(row["t"], since.get(key, row["t"]))
    return [{"arm": arm, "trial": trial, "since": t} for (arm, trial), t in since.items()]

"""Brokers that failed a client, by their own answers.

UNKNOWN_SERVER_ERROR and KAFKA_STORAGE_ERROR refuse nothing: the broker could not do what it was
asked for (KafkaApis.handleError). Where the harness had broken a disk that is the harness's doing;
else nobody can say whose. What an operator asks for is left out: it fails so as ZooKeeper is away.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from checkers.history.frames import History

BREAKERS: Final = frozenset({"disk-full", "wipe-disk", "torn-tail"})
_FAILED: Final = (-1, 56)
_ASKED: Final = (
    *("produce", "fetch", "metadata", "listed_offset", "epoch_end", "read_below"),
    *("records_deleted", "commit", "committed", "group_step", "coordinator"),
)


def failed_clients(history: History) -> Iterator[tuple[tuple[str, int], str]]:
    """By trial, in words."""
    broken = {
        (row["arm"], row["trial"]) for row in history.rows("fault") if row["fault"] in BREAKERS
    }
    for kind in _ASKED:
        if not history.has(kind):
            continue
        rows = history.frame(kind).where(F.col("error").isin(*_FAILED))
        counted = rows.groupBy("arm", "trial", "error").count().toArrow().to_pylist()
        for row in sorted(counted, key=lambda r: (r["arm"], r["trial"], r["error"])):
            if (row["arm"], row["trial"]) not in broken:
                says = f"{row['count']} of {kind} were answered with error {row['error']}"
                yield (row["arm"], row["trial"]), f"{says}, and nobody had broken a disk"

"""Up to where somebody told brokers to delete a partition's records (DeleteRecords, KIP-107).

Records below may be gone, whatever the answer was, unless it was a refusal: who was answered
REQUEST_TIMED_OUT, or nothing, may have been obeyed. What was answered before its topic was made
again is of the former one's, and takes nothing from its namesake.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from checkers.facts.leadership import TP, Key
from checkers.facts.topics import made_again

if TYPE_CHECKING:
    from checkers.history.frames import History


def deleted_to(history: History, partition: Key) -> int:
    """The highest offset that it was told to begin at, and did not refuse; 0 if nobody told it."""

    def make() -> dict[Key, int]:
        if not history.has("records_deleted"):
            return {}
        told = history.frame("records_deleted").where("type != 'fail' and offset is not null")
        for (arm, trial, topic), again_t in made_again(history).items():
            former = (F.col("arm") == arm) & (F.col("trial") == trial) & (F.col("topic") == topic)
            told = told.where(~(former & (F.col("t") < again_t)))
        highest = told.groupBy(*TP).agg({"offset": "max"}).toArrow().to_pylist()
        return {
            (row["arm"], row["trial"], row["topic"], row["partition"]): row["max(offset)"]
            for row in highest
        }

    known: dict[Key, int] = history.memo("records deleted", make)
    return known.get(partition, 0)

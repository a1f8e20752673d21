"""What a broker showed to readers, against what it tells of having taken into its metadata.

A broker answers Metadata from its cache, and writes down what it took into it (`metadata_update`)
at once: `WRITTEN_NS` is for who is asked meanwhile, by another thread, on a busy machine. So of
each leader epoch that it showed it tells, and did so by then. One that it showed sooner, or never
took in, was lost, moved, or shown by nobody.

Of brokers that number what they tell. A topic that was made again: what any of its lives had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from checkers.facts.answers import shown_rows
from checkers.facts.leadership import TP

if TYPE_CHECKING:
    from checkers.history.frames import History

WRITTEN_NS: Final = 1_000_000_000
_ONE = (*TP, "node", "leader_epoch")


def shown_untaken(history: History) -> list[tuple[tuple[str, int], str]]:
    """By trial, in words: how many leader epochs each broker showed before it had them."""
    if not (history.has("metadata_update") and history.has("metadata")):
        return []
    took = history.frame("metadata_update").where("seq is not null and leader_epoch >= 0")
    telling = took.select("arm", "trial", "node").distinct()
    had = took.groupBy(*_ONE).agg(F.min("t").alias("had_t"))
    shown = shown_rows(history).where("leader_epoch >= 0").select(*_ONE, "first_t")
    shown = shown.groupBy(*_ONE).agg(F.min("first_t").alias("shown_t"))
    shown = shown.join(F.broadcast(telling), ["arm", "trial", "node"], "left_semi")
    early = F.col("had_t").isNull() | (F.col("had_t") > F.col("shown_t") + WRITTEN_NS)
    found = shown.join(F.broadcast(had), [*_ONE], "left").where(early)
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"node {row['node']} showed {row['count']} leader epochs that it does not tell of "
            "having taken in by then",
        )
        for row in found.groupBy("arm", "trial", "node").count().toArrow().to_pylist()
    )

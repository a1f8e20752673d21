"""Consumers that were given records, and say of none in which leader epoch it was written.

Every batch tells it (magic 2), and a consumer writes it down with each record. Whoever tells it of
none can be held against no log: what was read in one leader epoch and stands there in another shows
nowhere. Where no log tells leader epochs, no consumer needs to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from checkers.history.frames import History

_FEW: Final = 10
_BY: Final = ("arm", "trial", "process")


def unversed(history: History) -> list[tuple[tuple[str, int], str]]:
    """By trial, in words: which consumer."""
    if not (history.has("fetch") and history.has("log_read")):
        return []
    told = history.frame("log_read").where("leader_epoch >= 0").select("arm", "trial").distinct()
    logs = {(row["arm"], row["trial"]) for row in told.toArrow().to_pylist()}
    given = history.frame("fetch").where("type = 'ok' and offset is not null")
    each = given.groupBy(*_BY).agg(
        F.count("*").alias("n"), F.count(F.when(F.col("leader_epoch") >= 0, 1)).alias("told")
    )
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"{row['process']} was given {row['n']} records, and says of none in which leader "
            "epoch it was written",
        )
        for row in each.where(f"told = 0 and n >= {_FEW}").toArrow().to_pylist()
        if (row["arm"], row["trial"]) in logs
    )

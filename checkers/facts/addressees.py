"""Whom controllers wrote to, in the name of which of its registrations (KIP-380)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from checkers.history.frames import History

Row = Mapping[str, Any]
Trial = tuple[str, int]


def addressees(history: History) -> dict[Trial, list[Row]]:
    """By trial, a row for each node, ``to`` and ``broker_epoch``: ``n`` requests, the first at
    ``t`` (ns), in order of that. Attempts count; requests without an epoch do not."""

    def make() -> dict[Trial, list[Row]]:
        found: dict[Trial, list[Row]] = {}
        if not history.has("control_send"):
            return found
        sent = history.frame("control_send").where("`to` is not null and broker_epoch is not null")
        by = sent.groupBy("arm", "trial", "node", "to", "broker_epoch")
        each = by.agg(F.count("*").alias("n"), F.min("t").alias("t"))
        for row in each.orderBy("arm", "trial", "t", "node", "to").toArrow().to_pylist():
            found.setdefault((row["arm"], row["trial"]), []).append(row)
        return found

    known: dict[Trial, list[Row]] = history.memo("addressees", make)
    return known

"""Whom controllers wrote to, in the name of which of its registrations (KIP-380)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from checkers.history.frames import History


def addressees(history: History) -> list[Mapping[str, Any]]:
    """By (arm, trial, node, to, broker_epoch): ``n`` requests, the first at ``t`` (ns); in order of
    that. Attempts count; requests without an epoch do not."""

    def make() -> list[Mapping[str, Any]]:
        if not history.has("control_send"):
            return []
        sent = history.frame("control_send").where("`to` is not null and broker_epoch is not null")
        by = sent.groupBy("arm", "trial", "node", "to", "broker_epoch")
        each = by.agg(F.count("*").alias("n"), F.min("t").alias("t"))
        rows: list[Mapping[str, Any]] = (
            each.orderBy("arm", "trial", "t", "node", "to").toArrow().to_pylist()
        )
        return rows

    found: list[Mapping[str, Any]] = history.memo("addressees", make)
    return found

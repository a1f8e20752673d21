"""Who wrote down anything of a kind: the kinds that brokers write themselves, in one job."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from checkers.history.frames import History

OF_BROKERS: Final = (
    *("leader_change", "metadata_update", "plane_use"),
    *("control_request", "control_send", "control_response"),
)
Trial = tuple[str, int]


def tellers(history: History, kind: str) -> dict[Trial, set[int]]:
    """By trial, the brokers that wrote a row of the kind, one of `OF_BROKERS`."""
    found: dict[str, dict[Trial, set[int]]] = history.memo("tellers", lambda: _gather(history))
    return found[kind]


def _gather(history: History) -> dict[str, dict[Trial, set[int]]]:
    from pyspark.sql import functions as F

    found: dict[str, dict[Trial, set[int]]] = {kind: {} for kind in OF_BROKERS}
    rows = [
        history.frame(kind).select(F.lit(kind).alias("kind"), "arm", "trial", "node").distinct()
        for kind in OF_BROKERS
        if history.has(kind)
    ]
    if rows:
        told = functools.reduce(lambda a, b: a.unionAll(b), rows).where("node is not null")
        for row in told.toArrow().to_pylist():
            found[row["kind"]].setdefault((row["arm"], row["trial"]), set()).add(row["node"])
    return found

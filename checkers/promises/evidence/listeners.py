"""Which plane served what came by a listener: one and the same while a broker lives (KIP-291).

Brokers tell of both with each controller's request and with what they count (`control_request`,
`plane_use`). A listener of both planes is told of wrongly by one of them: then nobody knows which
plane served what, whatever the plane's name is. And so is one by which requests came of which the
same broker never counted any.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from checkers.history.frames import History

_BY: Final = ("arm", "trial", "node", "boot", "listener")


def of_both_planes(history: History) -> list[tuple[tuple[str, int], str]]:
    """By trial, in words."""
    kinds = [kind for kind in ("control_request", "plane_use") if history.has(kind)]
    if not kinds:
        return []
    frames = [history.frame(kind).select(*_BY, "plane") for kind in kinds]
    rows = functools.reduce(lambda one, other: one.unionAll(other), frames)
    each = rows.where("listener is not null and boot is not null").groupBy(*_BY)
    both = each.agg(F.count_distinct("plane").alias("n")).where("n > 1")
    places = both.select("arm", "trial", "node", "listener").distinct().toArrow().to_pylist()
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"node {row['node']}: what came by its listener {row['listener']} was served by both "
            "planes",
        )
        for row in places
    )


def uncounted(history: History) -> list[tuple[tuple[str, int], str]]:
    """By trial, in words; of brokers that count what they are asked."""
    if not (history.has("control_request") and history.has("plane_use")):
        return []
    by = ("arm", "trial", "node", "listener")
    counted = history.frame("plane_use").where("listener is not null").select(*by).distinct()
    came = history.frame("control_request").where("listener is not null and boot is not null")
    came = came.join(F.broadcast(counted.select(*by[:3]).distinct()), [*by[:3]], "left_semi")
    lone = came.join(F.broadcast(counted), [*by], "left_anti").select(*by).distinct()
    return sorted(
        (
            (row["arm"], row["trial"]),
            f"node {row['node']}: requests came by its listener {row['listener']}, and it counted "
            "none there",
        )
        for row in lone.toArrow().to_pylist()
    )

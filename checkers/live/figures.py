"""The last half minute in figures, by arm: how long probes of the control plane took, how old stale
metadata was. Counted in Spark into the histograms that judging uses; nothing here accuses anybody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from checkers.facts.histogram import Histogram, bucket_of, gather
from checkers.facts.leadership import TP, epochs_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from checkers.history.frames import History

TOLD_BY: Final = frozenset({"probe", "metadata"})
WINDOW_NS: Final = 30_000_000_000
CONTROL, STALE = "control", "staleness"
_NAMES: Final = (CONTROL, STALE)


@dataclass(slots=True)
class Figures:
    """Histograms of each look, by (figure, arm); those older than `WINDOW_NS` go."""

    _looks: deque[tuple[int, dict[tuple[Any, ...], Histogram]]] = field(default_factory=deque)

    def fold(self, history: History, now_t: int) -> None:
        """``history``: what is new, and all `leadership` rows."""
        parts = [part for part in (_probes(history), _ages(history)) if part is not None]
        if parts:
            each = parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])
            bucket = bucket_of(F.col("latency_ns")).alias("bucket")
            found = each.groupBy("name", "arm", bucket).agg(
                F.count("*").alias("n"), F.max("latency_ns").alias("max_ns")
            )
            self._looks.append((now_t, gather(found.toArrow().to_pylist(), "name", "arm")))
        while self._looks and self._looks[0][0] < now_t - WINDOW_NS:
            self._looks.popleft()

    def now(self) -> Mapping[str, Mapping[str, Any]]:
        """By arm and figure: count, p50_ms, p99_ms, max_ms of the window."""
        whole: dict[tuple[Any, ...], Histogram] = {}
        for _, look in self._looks:
            for key, histogram in look.items():
                whole.setdefault(key, Histogram()).merge(histogram)
        found: dict[str, dict[str, Any]] = {}
        for (name, arm), histogram in sorted(whole.items()):
            summary = histogram.summary()
            kept = {k: summary[k] for k in ("count", "p50_ms", "p99_ms", "max_ms") if k in summary}
            found.setdefault(arm, {})[name] = kept
        return found


def _probes(history: History) -> DataFrame | None:
    """Counted from when each was planned, as judging does."""
    if not history.has("probe"):
        return None
    rows = history.frame("probe").where("type = 'ok' and planned_t is not null")
    took = (F.col("t") - F.col("planned_t")).alias("latency_ns")
    return rows.select(F.lit(CONTROL).alias("name"), "arm", took)


def _ages(history: History) -> DataFrame | None:
    """Of answers that showed an epoch which had been superseded before they were asked for."""
    if not history.has("metadata") or not history.has("leadership"):
        return None
    over = epochs_table(history).where("superseded_t is not null and incarnations = 1")
    over = over.select(*TP, "leader_epoch", "superseded_t")
    reads = history.frame("metadata").where("type = 'ok' and leader_epoch >= 0")
    joined = reads.join(F.broadcast(over), [*TP, "leader_epoch"])
    age = (F.col("invoke_t") - F.col("superseded_t")).alias("latency_ns")
    return joined.where("superseded_t < invoke_t").select(F.lit(STALE).alias("name"), "arm", age)

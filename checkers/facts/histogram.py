"""Latency histograms in logarithmic buckets: counted in Spark, rolled up on the driver.

Bucket b holds latencies x (ns, >= 0) with floor(log2(x + 1) * 32) == b: a bucket is 2.2% wide, so
that a quantile is off by at most that, and the maximum is exact. Histograms of disjoint sets of
operations add up, which is why segments must be disjoint (`checkers.facts.segments`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PER_OCTAVE: Final = 32
_NS_PER_MS: Final = 1e6


def bucket_number(latency_ns: int) -> int:
    """The same as `bucket_of`, for one latency on the driver."""
    return math.floor(math.log2(max(latency_ns, 0) + 1) * PER_OCTAVE)


def bucket_of(latency_ns: Column) -> Column:
    """The bucket of a latency column (null: null); a negative one (clock error) counts as 0."""
    from pyspark.sql import functions as F

    positive = F.greatest(latency_ns, F.lit(0)) + 1
    # Without the condition: greatest(null, 0) is 0.
    bucket = F.floor(F.log2(positive) * PER_OCTAVE).cast("int")
    return F.when(latency_ns.isNotNull(), bucket)


@dataclass(slots=True)
class Histogram:
    """How many latencies fell into each bucket."""

    counts: dict[int, int] = field(default_factory=dict)
    max_ns: int = 0

    def add(self, bucket: int, count: int, max_ns: int) -> None:
        self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.max_ns = max(self.max_ns, max_ns)

    def merge(self, other: Histogram) -> None:
        for bucket, count in other.counts.items():
            self.add(bucket, count, other.max_ns)

    @property
    def count(self) -> int:
        return sum(self.counts.values())

    def quantile_ns(self, q: float) -> float | None:
        """The smallest latency that at least a share ``q`` does not exceed; None when empty."""
        total = self.count
        if not total:
            return None
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= q * total:
                middle: float = 2.0 ** ((bucket + 0.5) / PER_OCTAVE) - 1
                return min(middle, float(self.max_ns))
        return float(self.max_ns)

    def summary(self) -> dict[str, float | int | None]:
        """Count and quantiles in milliseconds, as stored in results.json."""
        if not self.count:
            return {"count": 0}

        def ms(q: float) -> float:
            return round((self.quantile_ns(q) or 0.0) / _NS_PER_MS, 4)

        return {
            "count": self.count,
            "p50_ms": ms(0.5),
            "p90_ms": ms(0.9),
            "p99_ms": ms(0.99),
            "p999_ms": ms(0.999),
            "max_ms": round(self.max_ns / _NS_PER_MS, 4),
        }


def grouped(found: DataFrame) -> list[dict[str, Any]]:
    """Its rows in order: that in which groups come is nobody's, and figures are to be the same each
    time."""
    rows: list[dict[str, Any]] = found.toArrow().to_pylist()
    return sorted(rows, key=lambda row: [(value is not None, value) for value in row.values()])


def gather(rows: Iterable[Mapping[str, Any]], *keys: str) -> dict[tuple[Any, ...], Histogram]:
    """Histograms by ``keys`` from rows that have ``bucket``, ``n`` and ``max_ns``."""
    found: dict[tuple[Any, ...], Histogram] = {}
    for row in rows:
        histogram = found.setdefault(tuple(row[k] for k in keys), Histogram())
        histogram.add(row["bucket"], row["n"], row["max_ns"])
    return found

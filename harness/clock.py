"""Ties the wall clock, which Kafka stamps records with, to the monotonic clock of the history."""

from __future__ import annotations

import time
from typing import Final

from harness.sut.protocol import ClockTie

_TRIES: Final = 20
_RESOLUTION_NS: Final = 1_000_000  # a Kafka timestamp counts whole milliseconds


def tie_clocks() -> ClockTie:
    """Read both clocks around each other and keep the tightest bracket."""
    best: tuple[int, int] | None = None
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        bracket = after - before
        if best is None or bracket < best[1]:
            best = ((before + after) // 2 - wall, bracket)
    assert best is not None
    return ClockTie(monotonic_minus_wall_ns=best[0], error_ns=best[1] + _RESOLUTION_NS)


def widen(first: ClockTie, last: ClockTie) -> ClockTie:
    """One tie for a whole run: the first one, its error widened by what the clocks drifted."""
    drift = abs(last.monotonic_minus_wall_ns - first.monotonic_minus_wall_ns)
    return ClockTie(
        monotonic_minus_wall_ns=first.monotonic_minus_wall_ns,
        error_ns=max(first.error_ns, last.error_ns) + drift,
    )

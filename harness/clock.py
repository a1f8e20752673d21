"""Ties the wall clock, which Kafka stamps records with, to the monotonic clock of the history.

The wall clock can be set while a run goes on (by who keeps its time, or by who wakes a virtual
machine that was put to sleep): the tie of then does not hold for what was stamped before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from harness.sut.protocol import ClockTie

_TRIES: Final = 20
_RESOLUTION_NS: Final = 1_000_000  # a Kafka timestamp counts whole milliseconds
SET_NS: Final = 50_000_000
"""By which the clocks move apart between two looks only if one was set: drift and slewing come to
less than a thousandth of the time."""


def tie_clocks(tries: int = _TRIES) -> ClockTie:
    """Read both clocks around each other and keep the tightest bracket."""
    best: tuple[int, int] | None = None
    for _ in range(tries):
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


class WallClock:
    """Looked at now and then: ``note`` is told by how much (ns, ahead or back) it was set."""

    def __init__(self, note: Callable[[int], None], tie: Callable[[], ClockTie]) -> None:
        self._note, self._tie = note, tie
        self._last = tie()

    def look(self) -> None:
        now = self._tie()
        by_ns = self._last.monotonic_minus_wall_ns - now.monotonic_minus_wall_ns
        # Who is interrupted between the two clocks sees them apart by as much.
        if abs(by_ns) >= SET_NS + self._last.error_ns + now.error_ns:
            self._note(by_ns)
        self._last = now

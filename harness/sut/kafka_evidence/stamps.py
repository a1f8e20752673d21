"""Wall-clock milliseconds of a log turned into the history's monotonic nanoseconds.

A stamp is a whole millisecond and the event lies somewhere in it, so a row's time is the middle of
the millisecond and its ``error_ns`` the error of the tie between the clocks, which counts a whole
millisecond for the resolution. What the bound does not hold: the time
between the event and the moment the logger looked at the clock. Each parser says which way that
errs; it is a few microseconds, and more only when the thread is taken off the processor there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from harness.sut.protocol import ClockTie

_HALF_MS: Final = 500_000


@dataclass(frozen=True, slots=True)
class Stamps:
    """Makes rows of one node. ``starts_ms``: wall times of its boots, ascending."""

    node: int
    clock: ClockTie
    starts_ms: tuple[int, ...]

    def t(self, wall_ms: float) -> int:
        return self.clock.monotonic_ns(wall_ms) + _HALF_MS

    @property
    def error_ns(self) -> int:
        return self.clock.error_ns

    def boot(self, wall_ms: int) -> int:
        """Which boot wrote a line; a line before the first start belongs to it."""
        return max(1, sum(1 for start in self.starts_ms if start <= wall_ms))

    def row(self, kind: str, wall_ms: int, **fields: Any) -> dict[str, Any]:
        return {
            "f": kind,
            "t": self.t(wall_ms),
            "process": f"node-{self.node}",
            "node": self.node,
            "boot": self.boot(wall_ms),
            "error_ns": self.error_ns,
            **fields,
        }

"""Planned times: an open loop sends on a clock, whether or not answers came."""

from __future__ import annotations


def is_busy(now_ns: int, busy_ms: int, idle_ms: int) -> bool:
    """Whether a load that works for a while and pauses for a while works at ``now_ns``. By the
    clock alone: all of a machine pause at the same moments. Without ``idle_ms`` it never does."""
    return not idle_ms or now_ns // 1_000_000 % (busy_ms + idle_ms) < busy_ms


class Clock:
    """Ticks at a fixed rate from ``start_ns``. A caller that fell behind gets the missed ticks with
    their planned times, but at most ``max_behind_ns`` of them: older ones are dropped and counted.
    """

    def __init__(
        self, rate_per_s: float, start_ns: int, *, max_behind_ns: int = 1_000_000_000
    ) -> None:
        if rate_per_s <= 0:
            raise ValueError(f"rate_per_s {rate_per_s!r} is not allowed; allowed: above 0")
        self._period_ns = 1e9 / rate_per_s
        self._start_ns = start_ns
        self._tick = 0
        self._max_behind_ns = max_behind_ns
        self.dropped = 0

    @property
    def next_ns(self) -> int:
        """The planned time of the next tick."""
        return self._start_ns + int(self._tick * self._period_ns)

    def take(self, now_ns: int) -> int | None:
        """The next due tick's planned time, or None when none is due."""
        planned = self.next_ns
        if planned > now_ns:
            return None
        if now_ns - planned > self._max_behind_ns:
            oldest = int((now_ns - self._max_behind_ns - self._start_ns) / self._period_ns)
            self.dropped += oldest - self._tick
            self._tick = oldest
            planned = self.next_ns
        self._tick += 1
        return planned

    def wait_s(self, now_ns: int, at_most_s: float) -> float:
        """How long to sleep or poll until the next tick."""
        return max(0.0, min(at_most_s, (self.next_ns - now_ns) / 1e9))

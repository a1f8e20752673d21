"""Whether somebody was kept waiting by a broker, or both by the machine that they share.

The witness is a `Ruler`: a thread that only sleeps. What it oversleeps, nobody had a processor for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import NamedTuple


class Span(NamedTuple):
    """Seconds on one clock."""

    start_s: float
    end_s: float

    def shared_s(self, other: Span) -> float:
        return max(0.0, min(self.end_s, other.end_s) - max(self.start_s, other.start_s))


def kept_waiting_s(asked: Span, overslept: Iterable[Span]) -> float:
    """How long a request took, less what the machine stood still meanwhile."""
    return asked.end_s - asked.start_s - sum(asked.shared_s(lost) for lost in overslept)


class Ruler(threading.Thread):
    """Sleeps ten milliseconds at a time and notes by how much, and when, it was woken late."""

    TICK_S = 0.01

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.overslept: list[Span] = []
        self._stopping = threading.Event()

    def run(self) -> None:
        due_s = time.monotonic() + self.TICK_S
        while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
            now_s = time.monotonic()
            if now_s - due_s > self.TICK_S:
                self.overslept.append(Span(due_s, now_s))
            due_s = now_s + self.TICK_S

    def finish(self) -> None:
        self._stopping.set()
        self.join(30)

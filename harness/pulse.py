"""Notes when the machine stands still, so that nobody is blamed for what was late then; and when
its wall clock is set, by which logs are dated.

A thread sleeps a tenth of a second at a time. When it slept much longer, everything did: a virtual
machine was paused, or all of the run's processes were stopped. A busy machine wakes it in time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

from harness.clock import WallClock, tie_clocks
from harness.cluster.record import Record

TICK_NS: Final = 100_000_000
LATE_NS: Final = 500_000_000


def pulse(
    wait: Callable[[float], bool], now_ns: Callable[[], int], note: Callable[[int], None]
) -> None:
    """Ticks until ``wait`` (seconds) says that it is over; ``note`` is told by how much a tick came
    late (ns), if by `LATE_NS` or more."""
    last_ns = now_ns()
    while not wait(TICK_NS / 1e9):
        late_ns = now_ns() - last_ns - TICK_NS
        if late_ns >= LATE_NS:
            note(late_ns)
        last_ns = now_ns()


@contextmanager
def watched(record: Record) -> Iterator[None]:
    """Writes a ``standstill`` for each, and a ``clock_set`` each time that the clock is."""
    over = Event()
    clock = WallClock(
        lambda by_ns: record("clock_set", process="pulse", by_ns=by_ns), lambda: tie_clocks(3)
    )

    def wait(seconds: float) -> bool:
        ended = over.wait(seconds)
        clock.look()
        return ended

    def note(late_ns: int) -> None:
        record("standstill", process="pulse", lasting_ns=late_ns)

    thread = Thread(
        target=pulse, args=(wait, time.monotonic_ns, note), name="biplane-pulse", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()

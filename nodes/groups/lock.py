"""A lock that keeps work for after its release.

The coordinator's state is guarded by one lock, and what it decides often has to be written to the
log. An append takes the partition's lock, and a completed append's callback, run by whichever
thread completed it and perhaps under that partition's lock, takes the coordinator's: taking them in
the other order would deadlock. So nothing is appended while this lock is held; it is deferred.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType


class DeferringLock:
    """Not reentrant. `defer` may only be called by the holder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._deferred: list[Callable[[], None]] = []

    def defer(self, run: Callable[[], None]) -> None:
        """Call `run` on this thread as soon as the lock is free."""
        self._deferred.append(run)

    def __enter__(self) -> DeferringLock:
        self._lock.acquire()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        deferred, self._deferred = self._deferred, []
        self._lock.release()
        for run in deferred:
            run()

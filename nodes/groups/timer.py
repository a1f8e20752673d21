"""One thread that calls functions later: group sessions, rebalance deadlines, delayed answers.

Kafka has a hierarchical timing wheel for this. A heap does here: a broker has at most a few
thousand timers, cancelled ones are dropped when they surface, and deadlines are coarse.

Tasks run on the timer's thread, one after the other and under no lock of the timer's, so a task may
schedule or cancel. A task that raises is logged and does not end the thread.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger("kafka.utils.Timer")


class Task:
    """A scheduled call. `cancel` may come from any thread, and may come too late: a task that has
    been taken runs, and finds `is_cancelled` set if it cares to ask under the canceller's lock."""

    __slots__ = ("_run", "is_cancelled")

    def __init__(self, run: Callable[[], None]) -> None:
        self._run: Callable[[], None] | None = run
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True
        self._run = None

    def take(self) -> Callable[[], None] | None:
        run, self._run = self._run, None
        return run


class Timer:
    """Thread-safe. The thread is started with the first task and ends with `shutdown`."""

    def __init__(self, name: str, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._name = name
        self._now_ns = now_ns
        self._changed = threading.Condition()
        self._tasks: list[tuple[int, int, Task]] = []
        self._order = itertools.count()
        self._thread: threading.Thread | None = None
        self._closed = False

    def schedule(self, delay_ms: float, run: Callable[[], None]) -> Task:
        """Call `run` in `delay_ms`; after `shutdown` never."""
        task = Task(run)
        due_ns = self._now_ns() + int(delay_ms * 1_000_000)
        with self._changed:
            if self._closed:
                return task
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._thread.start()
            heapq.heappush(self._tasks, (due_ns, next(self._order), task))
            if self._tasks[0][2] is task:
                self._changed.notify()
        return task

    def shutdown(self) -> None:
        """End the thread; tasks that are not due are dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(5)

    def _next(self) -> Task | None:
        """The next task that is due; None once closed."""
        with self._changed:
            while not self._closed:
                if not self._tasks:
                    self._changed.wait()
                    continue
                wait_ns = self._tasks[0][0] - self._now_ns()
                if wait_ns <= 0:
                    return heapq.heappop(self._tasks)[2]
                self._changed.wait(wait_ns / 1e9)
        return None

    def _loop(self) -> None:
        while (task := self._next()) is not None:
            run = task.take()
            if run is None:
                continue
            try:
                run()
            except Exception:
                log.exception("[%s] a timed task failed", self._name)

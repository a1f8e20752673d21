"""One thread that calls functions later: group sessions, rebalance deadlines, delayed answers.

Kafka has a hierarchical timing wheel for this; a heap that forgets what was cancelled does here
(`nodes.core.deadlines`): what it holds is bounded by what is still to run, however often a session
is renewed and however far away its end was.

Tasks run on the timer's thread, one after the other and under no lock of the timer's, so a task may
schedule or cancel. A task that raises is logged and does not end the thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from nodes.core.deadlines import Deadline, Deadlines

log = logging.getLogger("kafka.utils.Timer")


class Task:
    """A scheduled call. `cancel` may come from any thread, and may come too late: a task that has
    been taken runs, and finds `is_cancelled` set if it cares to ask under the canceller's lock."""

    __slots__ = ("_deadline", "_run", "_timer", "is_cancelled")

    def __init__(self, timer: Timer, run: Callable[[], None]) -> None:
        self._timer = timer
        self._deadline: Deadline[Task] | None = None
        self._run: Callable[[], None] | None = run
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True
        self._run = None
        self._timer.forget(self)

    def take(self) -> Callable[[], None] | None:
        run, self._run = self._run, None
        return run


class Timer:
    """Thread-safe. The thread is started with the first task and ends with `shutdown`."""

    def __init__(self, name: str, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._name = name
        self._now_ns = now_ns
        self._changed = threading.Condition()
        self._tasks: Deadlines[Task] = Deadlines()
        self._thread: threading.Thread | None = None
        self._closed = False

    def schedule(self, delay_ms: float, run: Callable[[], None]) -> Task:
        """Call `run` in `delay_ms`; after `shutdown` never."""
        task = Task(self, run)
        due_ns = self._now_ns() + int(delay_ms * 1_000_000)
        with self._changed:
            if self._closed:
                return task
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                self._thread.start()
            next_ns = self._tasks.next_ns
            task._deadline = self._tasks.add(due_ns, task)
            if next_ns is None or due_ns < next_ns:
                self._changed.notify()
        return task

    def forget(self, task: Task) -> None:
        """Takes a cancelled task out."""
        with self._changed:
            deadline, task._deadline = task._deadline, None
            if deadline is not None:
                self._tasks.cancel(deadline)

    @property
    def size(self) -> int:
        """Tasks that are still to run."""
        with self._changed:
            return len(self._tasks)

    @property
    def entries(self) -> int:
        """What the timer holds in memory, cancelled tasks included."""
        with self._changed:
            return self._tasks.entries

    def shutdown(self) -> None:
        """End the thread; tasks that are not due are dropped."""
        with self._changed:
            self._closed = True
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(5)

    def _due(self) -> list[Task]:
        """Waits for tasks that are due; none once closed."""
        with self._changed:
            while not self._closed:
                next_ns = self._tasks.next_ns
                if next_ns is None:
                    self._changed.wait()
                    continue
                now_ns = self._now_ns()
                if next_ns <= now_ns:
                    return self._tasks.take_due(now_ns)
                self._changed.wait((next_ns - now_ns) / 1e9)
        return []

    def _loop(self) -> None:
        while due := self._due():
            for task in due:
                run = task.take()
                if run is None or self._closed:
                    continue
                try:
                    run()
                except Exception:
                    log.exception("[%s] a timed task failed", self._name)

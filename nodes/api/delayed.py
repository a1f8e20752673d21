"""Answers that wait until this broker's metadata shows what was asked for (Kafka's topic and
elect-leader purgatories).

CreateTopics, DeleteTopics, CreatePartitions and ElectLeaders change ZooKeeper at once; clients
expect the change to be *visible* when the answer comes. So the answer waits until the metadata
cache shows it, which every UpdateMetadata asks about, or until the request's own timeout.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from nodes.groups.timer import Task, Timer


class _Operation:
    __slots__ = ("deadline", "done", "finish", "is_complete", "keys")

    def __init__(
        self, keys: frozenset[str], is_complete: Callable[[], bool], finish: Callable[[], None]
    ) -> None:
        self.keys = keys
        self.is_complete = is_complete
        self.finish = finish
        self.done = False
        self.deadline: Task | None = None


class DelayedOperations:
    """Thread-safe. `finish` runs exactly once, under no lock, on the thread that noticed."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer
        self._lock = threading.Lock()
        self._watched: dict[str, set[_Operation]] = {}

    @property
    def is_empty(self) -> bool:
        return not self._watched

    def wait(
        self,
        topics: Iterable[str],
        timeout_ms: int,
        is_complete: Callable[[], bool],
        finish: Callable[[], None],
    ) -> None:
        """Call `finish` when `is_complete` says so, asked now and at each `check` of one of
        `topics`, at the latest after `timeout_ms`."""
        operation = _Operation(frozenset(topics), is_complete, finish)
        with self._lock:
            for key in operation.keys:
                self._watched.setdefault(key, set()).add(operation)
        # Asked after it can be found, so that no update between asking and watching is missed.
        if timeout_ms <= 0 or is_complete():
            self._finish(operation)
        else:
            self._expire_in(timeout_ms, operation)

    def _expire_in(self, timeout_ms: int, operation: _Operation) -> None:
        deadline = self._timer.schedule(timeout_ms, lambda: self._finish(operation))
        with self._lock:
            operation.deadline = deadline
            is_late = operation.done
        if is_late:
            deadline.cancel()

    def check(self, topics: Iterable[str]) -> None:
        """These topics' metadata changed."""
        if not self._watched:
            return
        with self._lock:
            operations = {o for topic in topics for o in self._watched.get(topic, ())}
        for operation in operations:
            if operation.is_complete():
                self._finish(operation)

    def finish_all(self) -> None:
        """Answer everything that waits, as after its timeout (at shutdown)."""
        with self._lock:
            operations = {o for waiting in self._watched.values() for o in waiting}
        for operation in operations:
            self._finish(operation)

    def _finish(self, operation: _Operation) -> None:
        with self._lock:
            if operation.done:
                return
            operation.done = True
            for key in operation.keys:
                waiting = self._watched.get(key)
                if waiting is not None:
                    waiting.discard(operation)
                    if not waiting:
                        del self._watched[key]
            deadline = operation.deadline
        if deadline is not None:
            # Or it would be kept until then, and clients choose how far away that is.
            deadline.cancel()
        operation.finish()

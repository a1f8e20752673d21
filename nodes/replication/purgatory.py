"""Requests that wait for something: Kafka's DelayedOperationPurgatory.

A delayed operation is completed exactly once, by whichever comes first: somebody who changed what
it waits for and calls `check_and_complete(key)`, or its deadline. Completing claims the operation
with a lock that is never released, so two threads can both try and only one answers.

    operation --try_complete_else_watch--> watched under each key, and in the timer
        check_and_complete(key) -> try_complete() true   -> on_complete()
        deadline                                         -> on_complete(), on_expiration()

Lost wake-ups: an operation is watched *first* and tried *afterwards*, so a change that happens in
between is seen by one of the two. Locks: never call into a purgatory while holding a partition's
lock; `try_complete` runs under the operation's own lock and may take partition locks.

The timer is a wheel of 1 ms buckets: requests with acks=all usually finish long before their
deadline of 30 s, so taking one out must be O(1); a heap would hold tens of thousands of dead ones.
"""

from __future__ import annotations

import heapq
import logging
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar, cast

log = logging.getLogger("kafka.server.DelayedOperationPurgatory")

TICK_NS: Final = 1_000_000


class DelayedOperation:
    """One waiting request. Subclasses say when it is done (`try_complete`, which calls
    `force_complete`) and what its answer is (`on_complete`, called exactly once)."""

    __slots__ = ("_bucket", "_claim", "_keys", "_purgatory", "deadline_ns", "lock")

    def __init__(self, deadline_ns: int) -> None:
        self.deadline_ns = deadline_ns
        self.lock = threading.Lock()
        self._claim = threading.Lock()
        self._keys: tuple[Hashable, ...] = ()
        self._purgatory: Purgatory[DelayedOperation] | None = None
        self._bucket = -1

    @property
    def is_completed(self) -> bool:
        return self._claim.locked()

    def try_complete(self) -> bool:
        """Completes the operation if it can be. Called under `lock`."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Answers. Called once, by the thread that completed it."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """After `on_complete`, when the deadline was the reason."""

    def force_complete(self) -> bool:
        """Completes it now, whatever it waits for; False when somebody else already did."""
        if not self._claim.acquire(blocking=False):
            return False
        purgatory = self._purgatory
        if purgatory is not None:
            purgatory.forget(self)
        self.on_complete()
        return True

    def safe_try_complete(self) -> bool:
        """`try_complete` under the operation's lock; False when it is already completed."""
        if self.is_completed:
            return False
        with self.lock:
            return not self.is_completed and self.try_complete()


Operation = TypeVar("Operation", bound=DelayedOperation)


class Purgatory(Generic[Operation]):
    """Waiting operations by key, and the thread that expires them.

    `watched` is public for the hot path: ``key in purgatory.watched`` is one dict lookup and tells
    whether a check can be of any use.
    """

    def __init__(self, name: str, broker_id: int, now_ns: Callable[[], int]) -> None:
        self.name = name
        self.watched: dict[Hashable, dict[Operation, None]] = {}
        self._lock = threading.Lock()
        self._timer = _Timer(f"ExpirationReaper-{broker_id}-{name}", now_ns)

    def startup(self) -> None:
        self._timer.startup()

    def shutdown(self) -> None:
        """Stops expiring. What still waits is left: its clients are about to be disconnected."""
        self._timer.shutdown()

    def try_complete_else_watch(self, operation: Operation, keys: Iterable[Hashable]) -> bool:
        """True when it could be completed at once."""
        operation._keys = tuple(keys)
        operation._purgatory = self  # type: ignore[assignment]
        with self._lock:
            for key in operation._keys:
                self.watched.setdefault(key, {})[operation] = None
        if operation.safe_try_complete():
            return True
        self._timer.add(operation)
        if operation.is_completed:
            self._timer.discard(operation)
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Tries every operation that watches `key`; how many were completed."""
        if key not in self.watched:
            return 0
        with self._lock:
            waiting = list(self.watched.get(key, ()))
        completed = 0
        for operation in waiting:
            try:
                completed += operation.safe_try_complete()
            except Exception:
                # One broken answer (a closed connection, say) must not leave the others waiting.
                log.exception("completing a delayed %s failed", self.name)
        return completed

    def forget(self, operation: DelayedOperation) -> None:
        """Takes a completed operation out."""
        with self._lock:
            for key in operation._keys:
                watchers = self.watched.get(key)
                if watchers is not None:
                    watchers.pop(cast(Operation, operation), None)
                    if not watchers:
                        del self.watched[key]
        self._timer.discard(operation)

    @property
    def size(self) -> int:
        """Kafka's PurgatorySize: one operation counts once for each of its keys."""
        with self._lock:
            return sum(len(watchers) for watchers in self.watched.values())

    @property
    def delayed(self) -> int:
        """Kafka's NumDelayedOperations."""
        return self._timer.size


class _Timer:
    """Expires operations at their deadlines, on a thread of its own."""

    def __init__(self, name: str, now_ns: Callable[[], int]) -> None:
        self._name = name
        self._now_ns = now_ns
        self._condition = threading.Condition(threading.Lock())
        self._buckets: dict[int, set[DelayedOperation]] = {}
        self._order: list[int] = []
        self._running = False
        self._thread: threading.Thread | None = None
        self.size = 0

    def startup(self) -> None:
        self._running = True
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def shutdown(self) -> None:
        with self._condition:
            self._running = False
            self._condition.notify()
        if self._thread is not None:
            self._thread.join(5)

    def add(self, operation: DelayedOperation) -> None:
        bucket = operation.deadline_ns // TICK_NS + 1  # rounded up: never early
        with self._condition:
            operation._bucket = bucket
            operations = self._buckets.get(bucket)
            if operations is None:
                self._buckets[bucket] = {operation}
                is_earliest = not self._order or bucket < self._order[0]
                heapq.heappush(self._order, bucket)
                if is_earliest:
                    self._condition.notify()
            else:
                operations.add(operation)
            self.size += 1

    def discard(self, operation: DelayedOperation) -> None:
        if operation._bucket < 0:
            return
        with self._condition:
            operations = self._buckets.get(operation._bucket)
            if operations is not None and operation in operations:
                operations.remove(operation)
                self.size -= 1
                if not operations:
                    # Its number stays in `_order` until it is reached; a bucket reopened under the
                    # same number is then in there twice, which only costs a look.
                    del self._buckets[operation._bucket]

    def _run(self) -> None:
        while True:
            with self._condition:
                if not self._running:
                    return
                due = self._take_due()
                if not due:
                    self._condition.wait(self._until_next_s())
                    continue
            for operation in due:
                try:
                    if operation.force_complete():
                        operation.on_expiration()
                except Exception:
                    log.exception("%s: expiring an operation failed", self._name)

    def _take_due(self) -> list[DelayedOperation]:
        now = self._now_ns() // TICK_NS
        due: list[DelayedOperation] = []
        while self._order and (self._order[0] <= now or self._order[0] not in self._buckets):
            operations = self._buckets.pop(heapq.heappop(self._order), ())
            self.size -= len(operations)
            due.extend(operations)
        return due

    def _until_next_s(self) -> float | None:
        if not self._order:
            return None
        return max(0.0, (self._order[0] * TICK_NS - self._now_ns()) / 1e9) + 1e-4

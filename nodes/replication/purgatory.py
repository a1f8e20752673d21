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

Memory: a completed operation leaves its watch lists at once and the timer's heap with the next
rebuild (`nodes.core.deadlines`), so what is held is bounded by what waits, not by how far away
clients put their deadlines. (Kafka leaves it in the lists of its other keys and purges those once
1,000 such are estimated.) What waits is bounded by the connections, of which each has one request
in flight; an operation whose client is gone is found by the reaper within `SWEEP_NS` and is
completed as if its deadline had come. Kafka keeps it, and its socket, until the deadline.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar, cast

from nodes.core.deadlines import Deadline, Deadlines

log = logging.getLogger("kafka.server.DelayedOperationPurgatory")

SWEEP_NS: Final = 2_000_000_000
"""How long an operation may wait for a client that is gone."""


def nobody_leaves() -> bool:
    """For operations that no client waits for."""
    return False


class DelayedOperation:
    """One waiting request. Subclasses say when it is done (`try_complete`, which calls
    `force_complete`) and what its answer is (`on_complete`, called exactly once). `is_abandoned`:
    whether its client has gone; asked every now and then, by the reaper alone."""

    __slots__ = (
        "_claim",
        "_deadline",
        "_keys",
        "_purgatory",
        "deadline_ns",
        "is_abandoned",
        "lock",
    )

    def __init__(self, deadline_ns: int) -> None:
        self.deadline_ns = deadline_ns
        self.is_abandoned: Callable[[], bool] = nobody_leaves
        self.lock = threading.Lock()
        self._claim = threading.Lock()
        self._keys: tuple[Hashable, ...] = ()
        self._purgatory: Purgatory[DelayedOperation] | None = None
        self._deadline: Deadline[DelayedOperation] | None = None

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

    def __init__(
        self, name: str, broker_id: int, now_ns: Callable[[], int], *, looks_at_all: bool = True
    ) -> None:
        """`looks_at_all` False is a planted bug."""
        self.name = name
        self._looks_at_all = looks_at_all
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
                done = operation.safe_try_complete()
                completed += done
                if not (done or self._looks_at_all or operation.is_completed):
                    break
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

    @property
    def entries(self) -> int:
        """What the timer holds in memory, completed operations included."""
        return self._timer.entries


class _Timer:
    """Expires operations at their deadlines, or once they are abandoned, on a thread of its own."""

    def __init__(self, name: str, now_ns: Callable[[], int]) -> None:
        self._name = name
        self._now_ns = now_ns
        self._condition = threading.Condition(threading.Lock())
        self._deadlines: Deadlines[DelayedOperation] = Deadlines()
        self._next_sweep_ns = 0
        self._running = False
        self._thread: threading.Thread | None = None

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

    @property
    def size(self) -> int:
        return len(self._deadlines)

    @property
    def entries(self) -> int:
        return self._deadlines.entries

    def add(self, operation: DelayedOperation) -> None:
        with self._condition:
            next_ns = self._deadlines.next_ns
            operation._deadline = self._deadlines.add(operation.deadline_ns, operation)
            if next_ns is None or operation.deadline_ns < next_ns:
                self._condition.notify()

    def discard(self, operation: DelayedOperation) -> None:
        if operation._deadline is None:
            return
        with self._condition:
            self._deadlines.cancel(operation._deadline)

    def _run(self) -> None:
        while (due := self._next_due()) is not None:
            self._expire(due)
            del due  # or the thread would keep the last of them while it sleeps
            self._sweep()

    def _expire(self, operations: list[DelayedOperation]) -> None:
        for operation in operations:
            try:
                if operation.force_complete():
                    operation.on_expiration()
            except Exception:
                log.exception("%s: expiring an operation failed", self._name)

    def _sweep(self) -> None:
        """Every now and then: what nobody waits for any more is due."""
        with self._condition:
            now_ns = self._now_ns()
            if now_ns < self._next_sweep_ns:
                return
            self._next_sweep_ns = now_ns + SWEEP_NS
            operations = self._deadlines.items()
        self._expire([operation for operation in operations if _is_abandoned(operation)])

    def _next_due(self) -> list[DelayedOperation] | None:
        """Sleeps until something is due, or until it is time to sweep (then the list may be empty);
        None once shut down."""
        with self._condition:
            while self._running:
                now_ns = self._now_ns()
                due = self._deadlines.take_due(now_ns)
                if due or (self._deadlines and now_ns >= self._next_sweep_ns):
                    return due
                self._condition.wait(self._until_next_s(now_ns))
        return None

    def _until_next_s(self, now_ns: int) -> float | None:
        next_ns = self._deadlines.next_ns
        if next_ns is None:
            return None
        return max(0, min(next_ns, self._next_sweep_ns) - now_ns) / 1e9 + 1e-4


def _is_abandoned(operation: DelayedOperation) -> bool:
    try:
        return operation.is_abandoned()
    except Exception:
        log.exception("whether a client is gone could not be told")
        return False

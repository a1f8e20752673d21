"""What requests may occupy together: ``queued.max.request.bytes`` (KIP-72, SimpleMemoryPool).

One pool for all listeners and both planes. A request that is being read takes its size from the
pool; while the pool is empty no further request is begun, on any connection. The pool is not
strict: the last request to get in may be larger than what was left. So the bound is exceeded by at
most one ``socket.request.max.bytes`` for each network thread.

Memory goes back as soon as the request is parsed, except for requests that hold on to their bytes
(`RETAINING`): theirs goes back when their handler returns, not when they are answered. A control
plane shares the pool: data requests that wait in their queue can keep a controller's from being
read. That is Kafka's way, and an isolation leak under KIP-291, whenever the config is set.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from nodes.network.connection import SIZE, Connection
from nodes.network.handler import Handle
from nodes.network.processor import Parse, Processor
from nodes.network.request_channel import Request

RETAINING: Final = frozenset({0, 11, 14, 19, 20, 30, 31, 33, 37, 43, 44, 45, 46})
"""Kafka's requiresDelayedAllocation: api keys with a field of bytes (Produce, JoinGroup,
SyncGroup), and those that may be forwarded to a controller as they came (topics, ACLs, configs,
partitions, elections, reassignments)."""


class MemoryPool:
    """Counts bytes; allocates nothing. Thread-safe. `on_room` callbacks only wake somebody."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self._available = size_bytes
        self._lock = threading.Lock()
        self._wake: list[Callable[[], None]] = []

    @property
    def available_bytes(self) -> int:
        """Below 0 when the last request was larger than what had been left."""
        return self._available

    def has_room(self) -> bool:
        return self._available > 0

    def take(self, size_bytes: int) -> None:
        with self._lock:
            self._available -= size_bytes

    def give_back(self, size_bytes: int) -> None:
        with self._lock:
            was_empty = self._available <= 0
            self._available += size_bytes
            has_room = self._available > 0
        if was_empty and has_room:
            for wake in self._wake:
                wake()

    def on_room(self, wake: Callable[[], None]) -> None:
        self._wake.append(wake)

    # ---- what of a request's life is the pool's business ----------------------------------------
    def parsing(self, parse: Parse) -> Parse:
        """`parse`, and memory goes back of a frame that it refuses or that need not be kept."""
        return partial(self._parse, parse)

    def _parse(self, parse: Parse, frame: bytes) -> tuple[Any, Any]:
        retained = False
        try:
            header, body = parse(frame)
            retained = header.api_key in RETAINING
        finally:
            if not retained:
                self.give_back(len(frame))
        return header, body

    def handling(self, handle: Handle) -> Handle:
        """`handle`, and memory goes back when it returns or raises."""
        return partial(self._handle, handle)

    def _handle(self, handle: Handle, request: Request) -> None:
        size_bytes = len(request.frame)
        try:
            handle(request)
        finally:
            if request.api_key in RETAINING:
                self.give_back(size_bytes)


class PooledProcessor(Processor):
    """A network thread that reads only what the pool has room for. Made only where there is one,
    so that nobody else pays for it."""

    def __init__(self, processor_id: int, *, pool: MemoryPool, **options: Any) -> None:
        super().__init__(processor_id, **options)
        self._pool = pool
        self._taken: dict[Connection, int] = {}
        """For frames of which a part has been read."""
        self._starved: dict[Connection, None] = {}
        """Readable connections that the pool had no room for."""
        pool.on_room(self._wake)

    def _poll(self) -> list[tuple[int, int]]:
        if self._starved and self._pool.has_room():
            waiting = list(self._starved)
            random.shuffle(waiting)  # as Kafka does, or the same ones would be served every time
            self._starved.clear()
            self._again.update(dict.fromkeys(waiting))
        return super()._poll()

    def _advance(self, connection: Connection) -> None:
        if connection not in self._taken and not self._pool.has_room():
            self._starved[connection] = None
            return
        super()._advance(connection)
        if connection.fd < 0:
            return  # closed, and settled
        if connection.muted:
            _, frame, _ = self._received[-1]
            self._pool.take(len(frame) - self._taken.pop(connection, 0))
        elif connection not in self._taken and len(connection.pending) >= SIZE.size:
            (size_bytes,) = SIZE.unpack_from(connection.pending)
            self._pool.take(size_bytes)
            self._taken[connection] = size_bytes

    def _enqueue_received(self) -> None:
        for connection, frame, _ in self._received:
            if connection.fd < 0:  # nobody will parse it
                self._pool.give_back(len(frame))
        super()._enqueue_received()

    def _close(self, connection: Connection) -> None:
        super()._close(connection)
        self._starved.pop(connection, None)
        taken = self._taken.pop(connection, 0)
        if taken:
            self._pool.give_back(taken)

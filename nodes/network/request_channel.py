"""Requests on their way from network threads to handlers, and the bounded queue between them.

The queue's bound is what KIP-291 is about. A processor puts each request *before* it mutes the
connection, and the put blocks while the queue is full: that processor then reads, writes and
accepts nothing, for any of its connections, a controller's among them. A control plane has a
channel of its own, so its processor never waits for data requests.

Cost: `queue.Queue` takes a lock and two conditions written in Python for each call. Here free slots
are tokens in one `queue.SimpleQueue`, waiting requests are tokens in another and items of a deque;
so a put or a get is a few C calls, and a wait is a blocking ``get`` of a token. The bound is exact
for any number of processors.

Rejected: turns, one handler at a time and the others woken only when it is known to wait. On a slow
disk they make all handlers one; what they save, `home_core` saves without them.

`PriorityRequestChannel` is the alternative that the KIP rejected: control requests overtake data
requests in one shared queue. It cannot help a control request that a frozen processor has not even
read.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal, Protocol

log = logging.getLogger("kafka.network.RequestChannel")

Plane = Literal["data", "control"]

CONTROL_APIS: Final = frozenset({4, 5, 6})
"""LeaderAndIsr, StopReplica, UpdateMetadata: what a controller sends to brokers."""


_READ_ONCE: Final = frozenset({0, 1, 8, 11, 14})
"""Produce, Fetch, OffsetCommit, JoinGroup, SyncGroup: their answers need nothing of the body once
the handler has returned. These may be large, and may wait."""


class Stream(Protocol):
    """A frame, its size included, of which a processor takes as much as it can send."""

    def __len__(self) -> int:
        """What is left of it."""

    def fill(self, buffer: memoryview) -> int:
        """Puts what comes next into `buffer`; how much that was. Raises OSError when the rest
        cannot be had: the connection ends then."""


class ReplyTo(Protocol):
    """The processor that a request came from, as a request sees it."""

    def reply(self, request: Request, frame: bytes | Stream | None) -> None:
        """Queues the end of a request: a frame to send, empty to send nothing, None to close."""


class Request:
    """One request of one connection, and the only way to answer it.

    Times are CLOCK_MONOTONIC nanoseconds, 0 until they happened. The network thread writes
    `receive_ns`, the channel `enqueue_ns` (when there was room), the handler thread `dequeue_ns`
    and `handled_ns` (when the handler returned or, if earlier, when the answer was ready); the
    network thread `taken_ns`, when it took the answer off its queue. All are set when `on_sent` is
    called.

    `respond`, `respond_nothing` and `close_connection` may be called from any thread; the first
    call counts, a later one is logged and ignored.
    """

    __slots__ = (
        "_answered",
        "_processor",
        "api_key",
        "api_version",
        "body",
        "body_bytes",
        "body_offset",
        "client_host",
        "client_id",
        "connection",
        "correlation_id",
        "dequeue_ns",
        "enqueue_ns",
        "errors",
        "frame",
        "handled_ns",
        "is_followers",
        "listener",
        "on_sent",
        "plane",
        "ready_ns",
        "receive_ns",
        "taken_ns",
    )

    def __init__(
        self,
        processor: ReplyTo,
        connection: Any,
        header: Any,
        body: Any,
        frame: bytes,
        listener: str,
        plane: Plane,
        client_host: str,
        receive_ns: int,
    ) -> None:
        self._processor = processor
        self._answered = False
        self.connection = connection
        self.api_key: int = header.api_key
        self.api_version: int = header.api_version
        self.correlation_id: int = header.correlation_id
        self.client_id: str | None = header.client_id
        self.body_offset: int = header.body_offset
        self.body_bytes = len(frame) - self.body_offset
        self.body = body
        self.frame = frame
        self.listener = listener
        self.plane: Plane = plane
        self.client_host = client_host
        self.receive_ns = receive_ns
        self.enqueue_ns = 0
        self.dequeue_ns = 0
        self.handled_ns = 0
        self.ready_ns = 0
        self.taken_ns = 0
        self.errors: Sequence[int] | None = None
        """Every error code that the answer says, 0 among them (for ErrorsPerSec); None: one 0."""
        self.is_followers = False
        """A Fetch of a replica, not of a consumer (for the metrics that tell them apart)."""
        self.on_sent: Callable[[int], None] | None = None

    def respond(self, frame: bytes | Stream) -> None:
        """Answers with a complete frame, its 4-byte size included."""
        if self._answered:
            self._answered_twice()
            return
        self._answered = True
        ready_ns = time.monotonic_ns()
        self.ready_ns = ready_ns
        if not self.handled_ns:
            self.handled_ns = ready_ns
        self._processor.reply(self, frame)

    def respond_nothing(self) -> None:
        """Ends a request that gets no answer (acks=0); the connection may go on."""
        self.respond(b"")

    def close_connection(self) -> None:
        """Ends a request by closing its connection (an acks=0 error)."""
        if self._answered:
            self._answered_twice()
            return
        self._answered = True
        self.ready_ns = time.monotonic_ns()
        self.handled_ns = self.handled_ns or self.ready_ns
        self._processor.reply(self, None)

    def is_abandoned(self) -> bool:
        """Whether the client has closed its end, as far as is known: nobody needs to wait for what
        it asked for. (Half of a close looks the same; such a client is still answered.)"""
        connection = self.connection
        return bool(connection.fd < 0 or connection.hung_up)

    def let_go(self) -> None:
        """Its handler returned: what may still have to wait for an answer keeps no copy of what
        came in, which for a Produce is its records (Kafka's clearPartitionRecords)."""
        self.frame = b""
        if self.api_key in _READ_ONCE:
            self.body = None

    def _answered_twice(self) -> None:
        log.error("%r was answered twice; the second answer is dropped", self, stack_info=True)

    def __repr__(self) -> str:
        return (
            f"Request(api_key={self.api_key}, api_version={self.api_version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r}, "
            f"listener={self.listener})"
        )


class RequestChannel:
    """A bounded queue of requests for one plane, first in first out. Safe from any thread.

    A put wakes a sleeping handler for its request, whatever the others are at: any of them may be
    stuck in the disk, behind a lock or on the network, and nobody could tell. So `num.io.threads`
    requests make progress at a time, as in Kafka.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._requests: deque[Request | None] = deque()
        self._filled: SimpleQueue[None] = SimpleQueue()
        """A token for each entry of `_requests`."""
        self._slots: SimpleQueue[None] = SimpleQueue()
        """A token for each request that there is room for."""
        for _ in range(capacity):
            self._slots.put(None)

    def put(self, request: Request) -> None:
        """Blocks while the queue is full: this is the wait that KIP-291 takes from controllers."""
        self._slots.get()
        request.enqueue_ns = time.monotonic_ns()
        self._enter(request)
        self._filled.put(None)

    def get(self) -> Request | None:
        """Blocks for the next request; None tells this handler to end."""
        self._filled.get()
        request = self._requests.popleft()
        if request is not None:
            self._slots.put(None)
        return request

    def size(self) -> int:
        """Requests waiting, never above the capacity (metric RequestQueueSize)."""
        return min(self.capacity, len(self._requests))

    def end_handlers(self, count: int) -> None:
        """Queues one ending for each handler, behind all requests; never blocks."""
        for _ in range(count):
            self._requests.append(None)
            self._filled.put(None)

    def clear(self) -> None:
        """Drops what waits: at shutdown, before `end_handlers`, when nobody can be answered any
        more."""
        with suppress(Empty):
            while True:
                self._filled.get_nowait()
                self._requests.popleft()
                self._slots.put(None)

    def release_putters(self, count: int) -> None:
        """Lets `count` blocked processors go on (at shutdown, when no handler takes any more)."""
        for _ in range(count):
            self._slots.put(None)

    def _enter(self, request: Request) -> None:
        self._requests.append(request)


class PriorityRequestChannel(RequestChannel):
    """The rejected alternative: a control request goes to the head of the queue; one bound for all.

    Control requests that wait at the same time (of several controllers, or a prober's) are taken
    newest first; those of one connection cannot meet, as one at a time is in flight.
    """

    def _enter(self, request: Request) -> None:
        if request.api_key in CONTROL_APIS:
            self._requests.appendleft(request)
        else:
            self._requests.append(request)

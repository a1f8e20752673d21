"""Requests on their way from network threads to handlers, and the bounded queue between them.

The queue's bound is what KIP-291 is about. A processor puts each request *before* it mutes the
connection, and the put blocks while the queue is full: that processor then reads, writes and
accepts nothing, for any of its connections, a controller's among them. A control plane has a
channel of its own, so its processor never waits for data requests.

Cost: `queue.Queue` takes a lock and two conditions written in Python for each call. Here free slots
are tokens in a `queue.SimpleQueue` and requests are items of a deque, so a put or a get is a few C
calls, and a blocked put is a blocking ``get`` of a token. The bound is exact for any number of
processors.

`PriorityRequestChannel` is the alternative that the KIP rejected: control requests overtake data
requests in one shared queue. It cannot help a control request that a frozen processor has not even
read.
"""

from __future__ import annotations

import logging
import time
from _thread import LockType, allocate_lock
from collections import deque
from collections.abc import Callable, Container, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal, Protocol

log = logging.getLogger("kafka.network.RequestChannel")

Plane = Literal["data", "control"]

QUICK_APIS: Final = frozenset({0})
"""Produce: nothing in it waits for another thread's request, a peer or ZooKeeper, so it may be
handled with the data plane's baton in hand. acks=all waits in a purgatory, not in a thread."""

CONTROL_APIS: Final = frozenset({4, 5, 6})
"""LeaderAndIsr, StopReplica, UpdateMetadata: what a controller sends to brokers."""


_READ_ONCE: Final = frozenset({0, 1, 8, 11, 14})
"""Produce, Fetch, OffsetCommit, JoinGroup, SyncGroup: their answers need nothing of the body once
the handler has returned. These may be large, and may wait."""


class ReplyTo(Protocol):
    """The processor that a request came from, as a request sees it."""

    def reply(self, request: Request, frame: bytes | None) -> None:
        """Queues the end of a request: a frame to send, empty to send nothing, None to close."""


class Request:
    """One request of one connection, and the only way to answer it.

    Times are CLOCK_MONOTONIC nanoseconds, 0 until they happened. The network thread writes
    `receive_ns`, `enqueue_ns`; the handler thread `dequeue_ns`, `handled_ns` (when the handler
    returned or, if earlier, when the answer was ready); the network thread `taken_ns`, when it took
    the answer off its queue. All are set when `on_sent` is called.

    `respond`, `respond_nothing` and `close_connection` may be called from any thread; the first
    call counts, a later one is logged and ignored.
    """

    __slots__ = (
        "_answered",
        "_processor",
        "api_key",
        "api_version",
        "body",
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
        self.on_sent: Callable[[int], None] | None = None

    def respond(self, frame: bytes) -> None:
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

    Handlers take requests through a `Taker` each, and only one of them at a time: whoever has the
    *turn*. The others sleep, each on a lock of its own, and a put wakes one only if nobody has the
    turn. Handlers that all wake up for a burst cost more than they can give, as each of them wants
    the interpreter lock. A handler whose request may wait for something hands the turn on first, so
    no request ever waits for a handler that waits.

    Lost wake-ups cannot happen, because the interpreter lock makes each operation on a deque, list
    or lock atomic and orders them: a handler enters `_idle` *before* it looks at the requests a
    last time, a putter appends *before* it looks at `_idle`; so one of the two sees the other.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._requests: deque[Request | None] = deque()
        self._idle: list[Taker] = []
        self._turn = allocate_lock()
        """Held by the handler that has the turn, or on its behalf while it is being woken."""
        self._slots: SimpleQueue[None] = SimpleQueue()
        for _ in range(capacity):
            self._slots.put(None)

    def put(self, request: Request) -> None:
        """Blocks while the queue is full: this is the wait that KIP-291 takes from controllers."""
        self.wake()
        self._slots.get()
        self._enter(request)
        self.wake()

    def offer(self, request: Request) -> bool:
        """A `put` that gives up instead of waiting, and leaves it to the caller to `wake` a
        handler, once for all that it offers."""
        try:
            self._slots.get_nowait()
        except Empty:
            return False
        self._enter(request)
        return True

    def wake(self, baton: LockType | None = None) -> bool:
        """Has a handler see to what was offered, unless one is at it already.

        `baton`: the caller has the data plane's, and a handler that is woken gets it. True when
        that happened.
        """
        while self._requests and self._idle and (turn := self._turn).acquire(False):
            try:
                taker = self._idle.pop() if self._requests else None
            except IndexError:
                taker = None
            if taker is not None:
                taker.wake(turn, baton)
                return baton is not None
            # Something changed between the two looks. Who changed it may have found the turn taken
            # by us, so look again.
            turn.release()
        return False

    def take_turn_away(self) -> None:
        """The handler that has the turn is stuck: another one may have it. From now on that
        handler, should it ever go on, takes nothing more without asking."""
        self._turn = allocate_lock()
        self.wake()

    def size(self) -> int:
        """Requests waiting, never above the capacity (metric RequestQueueSize)."""
        return min(self.capacity, len(self._requests))

    def end_handlers(self, count: int) -> None:
        """Queues one ending for each handler, behind all requests; never blocks."""
        for _ in range(count):
            self._requests.append(None)
        self.wake()

    def release_putters(self, count: int) -> None:
        """Lets `count` blocked processors go on (at shutdown, when no handler takes any more)."""
        for _ in range(count):
            self._slots.put(None)

    def _enter(self, request: Request) -> None:
        self._requests.append(request)


class Taker:
    """One handler's way to its channel's requests. Used by that handler's thread alone, except for
    `wake`, which is for whoever holds the turn and passes it to this handler.

    `baton`: the data plane's, if it was woken with it. Its handler must give it back.
    """

    __slots__ = ("_channel", "_sleep", "_turn", "baton")

    def __init__(self, channel: RequestChannel) -> None:
        self._channel = channel
        self._turn: LockType | None = None
        self._sleep: LockType = allocate_lock()
        self._sleep.acquire()
        self.baton: LockType | None = None

    def get(self) -> Request | None:
        """Blocks for the next request, and keeps the turn; None tells this handler to end."""
        channel = self._channel
        while True:
            if self._turn is not channel._turn:
                self._drop_turn()
                self._await_turn()
            try:
                request = channel._requests.popleft()
            except IndexError:
                self._drop_turn()
                continue
            if request is None:
                self.hand_on()
            else:
                channel._slots.put(None)
            return request

    def get_one_of(self, api_keys: Container[int]) -> Request | None:
        """The next request, if there is one now, it is of these, and we still have the turn."""
        channel = self._channel
        if self._turn is not channel._turn:
            return None
        try:
            request = channel._requests.popleft()
        except IndexError:
            return None
        if request is None or request.api_key not in api_keys:
            channel._requests.appendleft(request)
            return None
        channel._slots.put(None)
        return request

    def hand_on(self) -> None:
        """Gives the turn up; if there is more to do, another handler is woken for it."""
        self._drop_turn()
        if self._channel._requests:
            self._channel.wake()

    def wake(self, turn: LockType, baton: LockType | None) -> None:
        self._turn = turn
        self.baton = baton
        self._sleep.release()

    def _drop_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()

    def _await_turn(self) -> None:
        """Returns with the turn, when there may be a request."""
        channel = self._channel
        requests, idle = channel._requests, channel._idle
        turn = channel._turn
        if requests and turn.acquire(False):
            self._turn = turn
            return
        idle.append(self)
        turn = channel._turn
        if requests and turn.acquire(False):
            try:
                idle.remove(self)
            except ValueError:
                # Only who has the turn takes a sleeper off the list: it was taken away from
                # somebody, who is waking us at this moment.
                turn.release()
            else:
                self._turn = turn
                return
        self._sleep.acquire()


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

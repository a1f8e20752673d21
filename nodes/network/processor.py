"""A network thread (Kafka's Processor): reads requests, queues them, writes answers.

Each turn: take at most 20 new connections, write the answers that are ready, poll for at most
300 ms, read every ready connection, then queue what the reads completed. Queueing a request blocks
while the request queue is full, and the whole thread with it, answers and new connections included.
That is Kafka's behaviour and the delay that KIP-291 removes from controllers; nothing here may
soften it.

What it costs (a network thread competes with handlers for the interpreter lock, and gives it up at
every system call): a request is one ``recv`` and one ``send``, with one ``epoll_wait`` for as many
connections as are ready. See `Connection` for why muting needs no system call. A responder wakes
the thread through an eventfd, only when it is asleep in the poll.

No connection can stall the others: one ``recv`` per connection and turn, partial answers wait for
room in their socket, of an answer that comes as a stream a few pieces are read and sent per turn,
and bytes that are no frame, or that cannot be parsed, close their connection.
"""

from __future__ import annotations

import logging
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from nodes.network.connection import SIZE, Connection, InvalidFrame
from nodes.network.quotas import ConnectionQuotas
from nodes.network.request_channel import Plane, Request, RequestChannel, Stream
from nodes.network.request_times import RequestTimes

log = logging.getLogger("kafka.network.Processor")

CONNECTION_QUEUE_SIZE: Final = 20
POLL_TIMEOUT_S: Final = 0.3
SCRATCH_BYTES: Final = 128 * 1024
PIECES_PER_TURN: Final = 4
"""Of a stream, each as large as the scratch buffer."""

_EVENTS: Final = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
_HUNG_UP: Final = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR
_OUT: Final = select.EPOLLOUT
_READABLE: Final = select.EPOLLIN | _HUNG_UP

Parse = Callable[[bytes], tuple[Any, Any]]
"""Frame without size -> (header, body). May raise AnswerAtOnce; anything else closes."""


class AnswerAtOnce(Exception):
    """A frame that the parser answers itself (ApiVersions in an unknown version)."""

    def __init__(self, frame: bytes) -> None:
        super().__init__("answered by the parser")
        self.frame = frame


class Processor:
    """Owns its connections: only the thread in `run` touches them. Other threads call `offer`,
    `reply`, `stop`."""

    def __init__(
        self,
        processor_id: int,
        *,
        listener: str,
        plane: Plane,
        channel: RequestChannel,
        parse: Parse,
        quotas: ConnectionQuotas,
        max_request_bytes: int,
        max_idle_ms: int,
        mutes: bool = True,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`mutes`: a connection whose request is under way (else: a planted bug)."""
        self.id = processor_id
        self.listener = listener
        self.plane: Plane = plane
        self.times = RequestTimes()
        self.idle_ns = 0
        self._channel = channel
        self._parse = parse
        self._quotas = quotas
        self._max_request_bytes = max_request_bytes
        self._max_idle_ns = max_idle_ms * 1_000_000 if max_idle_ms >= 0 else None
        self._next_expiry_ns = 0
        self._mutes = mutes
        self._now_ns = now_ns
        self._connections: dict[int, Connection] = {}
        self._again: dict[Connection, None] = {}
        """Unmuted connections with more to do, without waiting for another edge."""
        self._unsent: dict[Connection, None] = {}
        """Connections whose stream goes on, without waiting for another edge."""
        self._received: list[tuple[Connection, bytes, int]] = []
        """Whole frames of this turn and when they were complete."""
        self._replies: deque[tuple[Request, bytes | Stream | None]] = deque()
        self._accepted: SimpleQueue[tuple[socket.socket, str]] = SimpleQueue()
        self._accept_slots = threading.Semaphore(CONNECTION_QUEUE_SIZE)
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        self._epoll = select.epoll()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake_fd, select.EPOLLIN | select.EPOLLET)
        self._asleep = False
        """Waits for events, or is about to, and nobody has woken it."""
        self._running = True

    # ---- called by other threads -----------------------------------------------------------------
    def offer(self, sock: socket.socket, host: str, *, block: bool) -> bool:
        """Hands over an accepted socket. False when 20 wait already and `block` is false. After
        `stop` it is closed."""
        if not self._accept_slots.acquire(blocking=block):
            return False
        self._accepted.put((sock, host))
        if self._running:
            self._wake()
        else:
            self._close_accepted()  # the thread may have looked already
        return True

    def reply(self, request: Request, frame: bytes | Stream | None) -> None:
        """See `ReplyTo`. Never blocks: the queue of answers is unbounded, as in Kafka."""
        self._replies.append((request, frame))
        # Ordered by the interpreter lock: either this sees the flag, or the processor, which sets
        # it before it looks at the queue a last time, sees the answer.
        if self._asleep:
            self._wake()

    def stop(self) -> None:
        self._running = False
        self._accept_slots.release()  # for an acceptor that waits for room
        self._wake()

    def _wake(self) -> None:
        self._asleep = False
        # Each write is an edge of its own, so nobody needs to read the counter back. At stop the
        # descriptor may be closed already.
        try:
            os.eventfd_write(self._wake_fd, 1)
        except OSError:
            if self._running:
                raise

    @property
    def response_queue_size(self) -> int:
        return len(self._replies)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    # ---- the thread ------------------------------------------------------------------------------
    def run(self) -> None:
        while self._running:
            try:
                self._turn()
            except Exception:
                log.exception("Processor %d got uncaught exception.", self.id)
        self._close_all()

    def _turn(self) -> None:
        if not self._accepted.empty():
            self._take_new_connections()
        if self._replies:
            self._write_replies()
        if self._unsent:
            unsent, self._unsent = self._unsent, {}
            for connection in unsent:
                self._continue_sending(connection)
        events = self._poll()
        if self._again:
            again, self._again = self._again, {}
            for connection in again:
                if connection.fd >= 0 and not connection.muted:
                    self._advance(connection)
        self._take_in(events)
        if self._received:
            self._enqueue_received()
        if self._max_idle_ns is not None:
            self._expire()
        if self._quotas.exceeded(self.listener):
            self._close_least_recently_used()

    def _poll(self) -> list[tuple[int, int]]:
        """Waits for events, unless there is something to do at once."""
        self._asleep = True
        if (
            self._again
            or self._unsent
            or self._replies
            or not self._running
            or not self._accepted.empty()
        ):
            self._asleep = False
            return self._epoll.poll(0)
        start_ns = time.monotonic_ns()
        events = self._epoll.poll(POLL_TIMEOUT_S)
        self._asleep = False
        self.idle_ns += time.monotonic_ns() - start_ns
        return events

    def _take_in(self, events: list[tuple[int, int]]) -> None:
        connections = self._connections
        for fd, mask in events:
            connection = connections.get(fd)
            if connection is None:
                continue
            if mask & _READABLE:
                connection.readable = True
                if mask & _HUNG_UP:
                    connection.hung_up = True
            if mask & (_OUT | _HUNG_UP) and connection.is_sending:
                self._continue_sending(connection)
            if connection.readable and not connection.muted and connection.fd >= 0:
                self._advance(connection)

    def _take_new_connections(self) -> None:
        for _ in range(CONNECTION_QUEUE_SIZE):
            if self._accepted.empty():
                return
            sock, host = self._accepted.get()
            self._accept_slots.release()
            connection = Connection(sock, host, self._now_ns())
            try:
                self._epoll.register(connection.fd, _EVENTS)
            except OSError:
                log.exception("Processor %d could not register a connection from %s", self.id, host)
                sock.close()
                self._quotas.remove(host)
                continue
            self._connections[connection.fd] = connection

    # ---- reading ---------------------------------------------------------------------------------
    def _advance(self, connection: Connection) -> None:
        """One step of an unmuted connection: its next whole frame, after at most one ``recv``."""
        try:
            frame = self._next_frame(connection)
        except (InvalidFrame, OSError) as problem:
            log.info("Closing connection from %s: %s", connection.host, problem)
            self._close(connection)
            return
        if frame is not None:
            connection.muted = self._mutes
            self._received.append((connection, frame, time.monotonic_ns()))
        elif connection.readable and connection.fd >= 0:
            self._again[connection] = None

    def _next_frame(self, connection: Connection) -> bytes | None:
        pending = connection.pending
        if pending:
            frame = connection.next_frame(self._max_request_bytes)
            if frame is not None:
                return frame
        if not connection.readable:
            return None
        scratch = self._scratch
        try:
            count = connection.recv_into(scratch)
        except BlockingIOError:
            connection.readable = False
            return None
        if count == 0:
            self._close(connection)
            return None
        # A short read emptied the socket, so the next byte makes a new edge. The peer's FIN makes
        # none if its edge was reported with these bytes: then read on, until the end shows.
        if count < SCRATCH_BYTES and not connection.hung_up:
            connection.readable = False
        if not pending and 4 <= count <= self._max_request_bytes:
            (size,) = SIZE.unpack_from(scratch)
            if size == count - 4:
                return scratch[4:count].tobytes()
        connection.last_active_ns = self._now_ns()
        pending += scratch[:count]
        return connection.next_frame(self._max_request_bytes)

    def _enqueue_received(self) -> None:
        """Parses and queues what this turn's reads completed. May freeze; see the module."""
        received, self._received = self._received, []
        for connection, frame, receive_ns in received:
            if not self._running:
                return  # whoever is let go from a full queue must not wait for the next place
            if connection.fd >= 0:
                self._dispatch(connection, frame, receive_ns)

    def _dispatch(self, connection: Connection, frame: bytes, receive_ns: int) -> None:
        connection.last_active_ns = receive_ns
        try:
            header, body = self._parse(frame)
        except AnswerAtOnce as answer:
            self._send(connection, answer.frame, None)
            return
        except Exception as problem:
            log.warning(
                "Closing connection from %s on %s: cannot parse request: %s",
                connection.host,
                self.listener,
                problem,
            )
            self._close(connection)
            return
        request = Request(
            self,
            connection,
            header,
            body,
            frame,
            self.listener,
            self.plane,
            connection.host,
            receive_ns,
        )
        self._channel.put(request)

    # ---- writing ---------------------------------------------------------------------------------
    def _write_replies(self) -> None:
        replies = self._replies
        count = len(replies)
        taken_ns = time.monotonic_ns()
        for _ in range(count):
            request, frame = replies.popleft()
            request.taken_ns = taken_ns
            connection: Connection = request.connection
            if connection.fd < 0:
                self.times.record(request, taken_ns)  # handled it was, though nobody is there
            elif frame:
                self._send(connection, frame, request)
            elif frame is None:
                self.times.record(request, taken_ns)
                self._close(connection)
            else:
                self._finished(connection, request)

    def _send(self, connection: Connection, frame: bytes | Stream, request: Request | None) -> None:
        if not isinstance(frame, bytes):
            connection.stream, connection.sending = frame, request
            self._continue_sending(connection)
            return
        try:
            count = connection.send(frame)
        except BlockingIOError:
            count = 0
        except OSError:
            connection.sending = request
            self._close(connection)
            return
        if count == len(frame):
            self._finished(connection, request)
        else:
            connection.outbox = memoryview(frame)[count:]
            connection.sending = request
            if count:
                connection.last_active_ns = self._now_ns()

    def _continue_sending(self, connection: Connection) -> None:
        """As far as there is room, and no further than a turn's share."""
        try:
            for _ in range(PIECES_PER_TURN):
                if not self._send_piece(connection):
                    return
                if not connection.is_sending:
                    request, connection.sending = connection.sending, None
                    self._finished(connection, request)
                    return
        except OSError as problem:
            log.info("Closing connection from %s: %s", connection.host, problem)
            self._close(connection)
            return
        self._unsent[connection] = None

    def _send_piece(self, connection: Connection) -> bool:
        """What is left of the last piece, or the next one. False: the socket is full, and what it
        did not take is kept. Raises OSError."""
        outbox, stream = connection.outbox, connection.stream
        if outbox is None:
            if stream is None:
                return False  # closed meanwhile
            outbox = self._scratch[: stream.fill(self._scratch)]
        if not stream:
            connection.stream = None
        try:
            count = connection.send(outbox)
        except BlockingIOError:
            count = 0
        else:
            connection.last_active_ns = self._now_ns()
        if count == len(outbox):
            connection.outbox = None
            return True
        rest = outbox[count:]
        connection.outbox = rest if connection.outbox is not None else memoryview(bytes(rest))
        return False

    def _finished(self, connection: Connection, request: Request | None) -> None:
        """The answer left, or there is none: unmute."""
        sent_ns = time.monotonic_ns()
        connection.last_active_ns = sent_ns
        connection.muted = False
        if connection.readable or connection.pending:
            self._again[connection] = None
        if request is None:
            return
        self.times.record(request, sent_ns)
        if request.on_sent is not None:
            try:
                request.on_sent(sent_ns)
            except Exception:
                log.exception("what followed the answer to %r failed", request)

    # ---- closing ---------------------------------------------------------------------------------
    def _expire(self) -> None:
        """Closes at most one connection, the least recently used, if it has idled too long."""
        now_ns = self._now_ns()
        if now_ns < self._next_expiry_ns or self._max_idle_ns is None:
            return
        oldest = min(self._connections.values(), key=lambda c: c.last_active_ns, default=None)
        if oldest is None:
            self._next_expiry_ns = now_ns + self._max_idle_ns
        elif now_ns - oldest.last_active_ns >= self._max_idle_ns:
            log.debug("Closing idle connection from %s", oldest.host)
            self._close(oldest)
        else:
            self._next_expiry_ns = oldest.last_active_ns + self._max_idle_ns

    def _close_least_recently_used(self) -> None:
        oldest = min(self._connections.values(), key=lambda c: c.last_active_ns, default=None)
        if oldest is not None:
            self._close(oldest)

    def _close(self, connection: Connection) -> None:
        if connection.fd < 0:
            return
        del self._connections[connection.fd]
        connection.fd = -1
        if connection.sending is not None:  # as in Kafka what was not sent whole counts, too
            self.times.record(connection.sending, time.monotonic_ns())
            connection.sending = None
        connection.readable = False
        connection.outbox = connection.stream = None
        connection.pending = bytearray()
        connection.socket.close()
        self._quotas.remove(connection.host)

    def _close_all(self) -> None:
        for connection in list(self._connections.values()):
            self._close(connection)
        self._close_accepted()
        self._epoll.close()
        os.close(self._wake_fd)

    def _close_accepted(self) -> None:
        """Those that nobody took in. Any thread."""
        with suppress(Empty):
            while True:
                sock, host = self._accepted.get_nowait()
                sock.close()
                self._quotas.remove(host)

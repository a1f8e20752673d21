"""The flood's loop: one thread, one epoll, many connections with one request in flight each.

A connection is a slot that is in one of these states:

    down -> dialling -> greeting -> idle | busy -> (answer) -> busy ... | down on any error

*greeting* sends ApiVersions and awaits its answer, so that a connection counts as open only once
the broker has accepted it and serves it (the kernel completes handshakes by itself). A slot that
fails goes down and is dialled anew after a pause. Dialling is done in small groups: a burst beyond
the listener's backlog (50) would lose SYNs, each of which costs a second.

One request in flight a connection is Kafka's own limit in effect (a broker mutes a connection until
its response is sent), so that connections, not pipelining, fill a request queue.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from faults.flood.requests import Template, api_versions

_DOWN, _DIALLING, _GREETING, _IDLE, _BUSY = range(5)
_DIAL_AT_ONCE: Final = 32
_REDIAL_NS: Final = 50_000_000
_DIAL_TIMEOUT_NS: Final = 10_000_000_000
_MAX_ANSWER: Final = 128 * 1024 * 1024
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_GREETING_FRAME: Final = api_versions()


@dataclass(slots=True)
class Counters:
    """What was reached since the last row."""

    sent: int = 0
    completed: int = 0
    errors: int = 0
    lost: int = 0
    """Of the errors: connections on which an answer was awaited."""
    bytes: int = 0
    latency_max_ns: int = 0

    def add(self, other: Counters) -> None:
        self.sent += other.sent
        self.completed += other.completed
        self.errors += other.errors
        self.lost += other.lost
        self.bytes += other.bytes
        self.latency_max_ns = max(self.latency_max_ns, other.latency_max_ns)


@dataclass(slots=True, eq=False)
class _Slot:
    template: Template
    errors_in: struct.Struct | None
    answer_min: int
    state: int = _DOWN
    socket: socket.socket | None = None
    out: memoryview | None = None  # what is still to be written
    got: bytearray = field(default_factory=bytearray)
    sent_t: int = 0


class Engine:
    """Owned by the worker's main thread."""

    def __init__(
        self,
        address: tuple[str, int],
        requests: Sequence[Template],
        connections: int,
        *,
        storm: bool = False,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._address = address
        self._storm = storm
        self._now_ns = now_ns
        self._epoll = select.epoll()
        self._slots = [_slot(requests[i % len(requests)]) for i in range(connections)]
        self._by_fd: dict[int, _Slot] = {}
        self._to_dial: deque[tuple[int, _Slot]] = deque((0, slot) for slot in self._slots)
        self._dialling: dict[_Slot, int] = {}
        self._flooding = False
        self.counters = Counters()
        self.open = 0
        self.requests_left = 2**63

    def begin(self) -> None:
        """Every connection starts to send."""
        self._flooding = True
        for slot in self._slots:
            if slot.state == _IDLE:
                self._next(slot)

    def end(self) -> None:
        """No further request; those in flight may still be answered by `step`."""
        self._flooding = False

    @property
    def in_flight(self) -> int:
        return sum(slot.state == _BUSY for slot in self._slots)

    def step(self, timeout_s: float) -> None:
        """Dial what is due, then serve the sockets that are ready."""
        if self._to_dial or self._dialling:
            self._dial_due()
            timeout_s = min(timeout_s, 0.01)
        by_fd = self._by_fd
        for fd, events in self._epoll.poll(timeout_s, 1024):
            slot = by_fd.get(fd)
            if slot is None:
                continue
            if events & select.EPOLLIN:
                self._readable(slot)
            elif events & select.EPOLLOUT:
                self._writable(slot)
            elif events & (select.EPOLLHUP | select.EPOLLERR):
                self._lost(slot)

    def close(self) -> None:
        for slot in self._slots:
            self._drop(slot)
        self._epoll.close()

    # -- dialling -------------------------------------------------------------------------------

    def _dial_due(self) -> None:
        now = self._now_ns()
        for slot, since in list(self._dialling.items()):
            if now - since > _DIAL_TIMEOUT_NS:
                self._lost(slot)
        while self._to_dial and len(self._dialling) < _DIAL_AT_ONCE and self._to_dial[0][0] <= now:
            self._dial(self._to_dial.popleft()[1])

    def _dial(self, slot: _Slot) -> None:
        try:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError:  # no file descriptors left
            self._to_dial.append((self._now_ns() + _REDIAL_NS, slot))
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        slot.socket, slot.state = sock, _DIALLING
        self._dialling[slot] = self._now_ns()
        self._by_fd[sock.fileno()] = slot
        self._epoll.register(sock.fileno(), select.EPOLLOUT)
        if sock.connect_ex(self._address) not in (0, errno.EINPROGRESS):
            self._lost(slot)

    def _lost(self, slot: _Slot) -> None:
        """The connection broke: an unanswered request counts as an error."""
        if slot.state == _BUSY or (self._flooding and slot.state in (_DIALLING, _GREETING)):
            self.counters.errors += 1
        if slot.state == _BUSY and slot.template.answered:
            self.counters.lost += 1
        self._drop(slot)
        self._to_dial.append((self._now_ns() + _REDIAL_NS, slot))

    def _drop(self, slot: _Slot) -> None:
        sock = slot.socket
        if sock is None:
            return
        if slot.state in (_IDLE, _BUSY):
            self.open -= 1
        self._dialling.pop(slot, None)
        self._by_fd.pop(sock.fileno(), None)
        self._epoll.unregister(sock.fileno())
        sock.close()
        slot.socket, slot.state, slot.out = None, _DOWN, None
        slot.got.clear()

    # -- sending --------------------------------------------------------------------------------

    def _next(self, slot: _Slot) -> None:
        """The next request of an idle connection."""
        if self.requests_left <= 0:
            self._flooding = False
        if not self._flooding or self._storm:
            slot.state = _IDLE
            return
        self.requests_left -= 1
        slot.state = _BUSY
        slot.sent_t = self._now_ns()
        self.counters.sent += 1
        self._send(slot, slot.template.frame)

    def _send(self, slot: _Slot, frame: bytes) -> None:
        assert slot.socket is not None
        try:
            written = slot.socket.send(frame)
        except BlockingIOError:
            written = 0
        except OSError:
            self._lost(slot)
            return
        if written == len(frame):
            if slot.state == _BUSY:
                self._written(slot)
            return
        slot.out = memoryview(frame)[written:]
        self._epoll.modify(slot.socket.fileno(), select.EPOLLOUT | select.EPOLLIN)

    def _written(self, slot: _Slot) -> None:
        """A whole request is with the kernel."""
        self.counters.bytes += len(slot.template.frame)
        if not slot.template.answered:
            # acks=0: done when written. Go on only when the socket is next writable, so that one
            # fast connection cannot keep the loop to itself.
            self.counters.completed += 1
            assert slot.socket is not None
            slot.state = _IDLE
            self._epoll.modify(slot.socket.fileno(), select.EPOLLOUT | select.EPOLLIN)

    def _writable(self, slot: _Slot) -> None:
        assert slot.socket is not None
        if slot.state == _DIALLING:
            if slot.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._lost(slot)
                return
            slot.state = _GREETING
            self._epoll.modify(slot.socket.fileno(), select.EPOLLIN)
            if self._storm:
                self.counters.sent += 1
                slot.sent_t = self._dialling[slot]
            self._send(slot, _GREETING_FRAME.frame)
            return
        if slot.out is not None:
            try:
                written = slot.socket.send(slot.out)
            except BlockingIOError:
                return
            except OSError:
                self._lost(slot)
                return
            slot.out = slot.out[written:]
            if slot.out:
                return
            slot.out = None
            self._epoll.modify(slot.socket.fileno(), select.EPOLLIN)
            if slot.state == _BUSY:
                self._written(slot)
            return
        self._epoll.modify(slot.socket.fileno(), select.EPOLLIN)
        if slot.state == _IDLE:
            self._next(slot)

    # -- answers --------------------------------------------------------------------------------

    def _readable(self, slot: _Slot) -> None:
        assert slot.socket is not None
        try:
            data = slot.socket.recv(262_144)
        except BlockingIOError:
            return
        except OSError:
            self._lost(slot)
            return
        if not data:
            self._lost(slot)
            return
        if slot.got:
            slot.got += data
            data = bytes(slot.got)
        size = int.from_bytes(data[:4], "big") if len(data) >= 4 else 0
        if len(data) < 4 or len(data) < size + 4:
            if size > _MAX_ANSWER:
                self._lost(slot)
            elif not slot.got:
                slot.got += data
            return
        slot.got.clear()
        self._answered(slot, data)

    def _answered(self, slot: _Slot, answer: bytes) -> None:
        if slot.state == _GREETING:
            self._dialling.pop(slot, None)
            slot.state = _IDLE
            self.open += 1
            if self._storm and self._flooding:
                self._storm_on(slot)
            else:
                self._next(slot)
            return
        if slot.state != _BUSY:
            return
        counters = self.counters
        counters.completed += 1
        counters.latency_max_ns = max(counters.latency_max_ns, self._now_ns() - slot.sent_t)
        if slot.errors_in is not None and (
            len(answer) < slot.answer_min or any(slot.errors_in.unpack_from(answer))
        ):
            counters.errors += 1
        self._next(slot)

    def _storm_on(self, slot: _Slot) -> None:
        """A storm's connection did its one exchange: reset it (no TIME_WAIT) and dial again."""
        assert slot.socket is not None
        counters = self.counters
        counters.completed += 1
        counters.bytes += len(_GREETING_FRAME.frame)
        counters.latency_max_ns = max(counters.latency_max_ns, self._now_ns() - slot.sent_t)
        slot.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._drop(slot)
        self.requests_left -= 1
        if self.requests_left > 0:
            self._to_dial.append((0, slot))

    def begin_storm(self) -> None:
        """Storm mode's `begin`: the connections that are open are closed and dialled again."""
        self._flooding = True
        for slot in self._slots:
            if slot.state == _IDLE:
                self._drop(slot)
                self._to_dial.append((0, slot))


def _slot(template: Template) -> _Slot:
    """Error codes at known offsets become one struct over the whole answer (size prefix too)."""
    if not template.errors_at:
        return _Slot(template, None, 0)
    layout, at = ">", 0
    for offset in template.errors_at:
        layout += f"{offset + 4 - at}xh"
        at = offset + 4 + 2
    errors_in = struct.Struct(layout)
    return _Slot(template, errors_in, errors_in.size)

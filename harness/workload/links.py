"""Many raw connections on one thread: frames out, frames in, one request in flight on each (or
several of one owner's, which are answered one by one).

A `Channel` is one connection to one broker. States:

    down -> dialling -> free <-> busy
    any  -> down (error, close, `drop`), dialled again after `REDIAL_NS`

The owner hands `Links.step` the time and gets called back: ``on_answer(channel, payload, t)`` with
the answer's bytes after the size and the time at which they were whole, ``on_lost(channel, reason,
t)`` when a busy channel broke. Everything runs on the thread that calls `step`.
"""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Callable
from typing import Any, Final

REDIAL_NS: Final = 50_000_000
_DIAL_TIMEOUT_NS: Final = 5_000_000_000
_MAX_ANSWER: Final = 128 * 1024 * 1024
_RECV_BYTES: Final = 262_144


class Channel:
    """One connection. ``tag`` is the owner's: what is in flight."""

    __slots__ = (
        "_awaits",
        "_got",
        "_out",
        "_sock",
        "_state_since",
        "address",
        "node",
        "state",
        "tag",
    )

    def __init__(self, node: int, address: tuple[str, int]) -> None:
        self.node = node
        self.address = address
        self.state = "down"
        self.tag: Any = None
        self._sock: socket.socket | None = None
        self._out: memoryview | None = None
        self._got = bytearray()
        self._awaits = 0
        self._state_since = 0


class Links:
    """Owned by one thread."""

    def __init__(
        self,
        on_answer: Callable[[Channel, bytes, int], None],
        on_lost: Callable[[Channel, str, int], None],
    ) -> None:
        self._on_answer, self._on_lost = on_answer, on_lost
        self._epoll = select.epoll()
        self._by_fd: dict[int, Channel] = {}
        self._down: dict[Channel, int] = {}  # -> when to dial
        self._dialling: set[Channel] = set()
        self.channels: list[Channel] = []

    def add(self, node: int, address: tuple[str, int]) -> Channel:
        channel = Channel(node, address)
        self.channels.append(channel)
        self._down[channel] = 0
        return channel

    def dial_all(self, timeout_s: float, over: Callable[[], bool]) -> bool:
        """Step until no channel is down or dialling; False when the time was not enough."""
        deadline = time.monotonic() + timeout_s
        while (self._down or self._dialling) and not over():
            if time.monotonic() > deadline:
                return False
            self.step(0.01)
        return not (self._down or self._dialling)

    def send(self, channel: Channel, frame: bytes, tag: Any, *, answers: int = 1) -> None:
        """Put a request on a free channel; it is busy until answered or lost. ``answers``: how many
        requests the frame holds, or `send_more` adds; busy until all of them are answered."""
        assert channel.state == "free"
        channel.state, channel.tag, channel._awaits = "busy", tag, answers
        self._write(channel, frame)

    def send_more(self, channel: Channel, frame: bytes) -> None:
        """Put another of the requests that a busy channel was told to await on it."""
        assert channel.state == "busy"
        if channel._out is not None:
            channel._out = memoryview(bytes(channel._out) + frame)
        else:
            self._write(channel, frame)

    def _write(self, channel: Channel, frame: bytes) -> None:
        assert channel._sock is not None
        try:
            written = channel._sock.send(frame)
        except BlockingIOError:
            written = 0
        except OSError:
            self._lose(channel, "disconnect")
            return
        if written < len(frame):
            channel._out = memoryview(frame)[written:]
            self._epoll.modify(channel._sock.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def drop(self, channel: Channel, reason: str) -> None:
        """Close a channel (its answer took too long); it is dialled again."""
        self._lose(channel, reason)

    def step(self, timeout_s: float) -> None:
        """Dial what is due and serve what is ready."""
        if self._down or self._dialling:
            self._dial_due()
            timeout_s = min(timeout_s, 0.01)
        for fd, events in self._epoll.poll(timeout_s, 512):
            channel = self._by_fd.get(fd)
            if channel is None:
                continue
            if events & select.EPOLLOUT:
                self._writable(channel)
            if events & ~select.EPOLLOUT and channel._sock is not None:
                self._readable(channel)

    def close(self) -> None:
        for channel in self.channels:
            self._close(channel)
        self._epoll.close()

    def _dial_due(self) -> None:
        now = time.monotonic_ns()
        for channel in [c for c in self._dialling if now - c._state_since > _DIAL_TIMEOUT_NS]:
            self._lose(channel, "timeout")
        for channel in [c for c, due in self._down.items() if due <= now]:
            if len(self._dialling) >= 32:  # below a listener's backlog of 50
                return
            self._dial(channel, now)

    def _dial(self, channel: Channel, now: int) -> None:
        del self._down[channel]
        try:
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        except OSError:
            self._down[channel] = now + REDIAL_NS
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        channel._sock, channel.state, channel._state_since = sock, "dialling", now
        self._dialling.add(channel)
        self._by_fd[sock.fileno()] = channel
        self._epoll.register(sock.fileno(), select.EPOLLOUT)
        if sock.connect_ex(channel.address) not in (0, errno.EINPROGRESS):
            self._lose(channel, "disconnect")

    def _writable(self, channel: Channel) -> None:
        sock = channel._sock
        assert sock is not None
        if channel.state == "dialling":
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._lose(channel, "disconnect")
                return
            self._dialling.discard(channel)
            channel.state = "free"
            self._epoll.modify(sock.fileno(), select.EPOLLIN)
        elif channel._out is not None:
            try:
                channel._out = channel._out[sock.send(channel._out) :]
            except BlockingIOError:
                return
            except OSError:
                self._lose(channel, "disconnect")
                return
            if not channel._out:
                channel._out = None
                self._epoll.modify(sock.fileno(), select.EPOLLIN)

    def _readable(self, channel: Channel) -> None:
        sock = channel._sock
        assert sock is not None
        try:
            data = sock.recv(_RECV_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose(channel, "disconnect")
            return
        self._take(channel, data, time.monotonic_ns())

    def _take(self, channel: Channel, data: bytes, now: int) -> None:
        if channel._got:
            channel._got += data
            data = bytes(channel._got)
        size = int.from_bytes(data[:4], "big") if len(data) >= 4 else 0
        if size > _MAX_ANSWER or (len(data) >= 4 and channel.state != "busy"):
            self._lose(channel, "garbage")
        elif len(data) < 4 or len(data) < size + 4:
            if not channel._got:
                channel._got += data
        else:
            channel._awaits -= 1
            channel._got[:] = data[size + 4 :] if channel._awaits else b""
            if not channel._awaits:
                channel.state = "free"
            self._on_answer(channel, data[4 : size + 4], now)
            if channel._awaits and channel._got:
                self._take(channel, b"", now)

    def _lose(self, channel: Channel, reason: str) -> None:
        was_busy = channel.state == "busy"
        self._close(channel)
        self._down[channel] = time.monotonic_ns() + REDIAL_NS
        if was_busy:
            self._on_lost(channel, reason, time.monotonic_ns())

    def _close(self, channel: Channel) -> None:
        sock = channel._sock
        if sock is None:
            return
        self._by_fd.pop(sock.fileno(), None)
        self._epoll.unregister(sock.fileno())
        sock.close()
        self._dialling.discard(channel)
        channel._sock, channel._out, channel.state = None, None, "down"
        channel._got.clear()

"""One connection from the controller to one broker: blocking, but never stuck.

A send thread may have to wait long (a paused broker answers nothing for its whole request time-out)
and yet end at once when its broker is removed. So every wait is a poll on two descriptors: the
connection's, and one end of a socket pair that `interrupt` writes to, from any thread. Everything
else is for the owning thread alone.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from typing import Final

_SIZE: Final = struct.Struct(">i")
_MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024
_IN_PROGRESS: Final = (0, errno.EINPROGRESS)


class Interrupted(OSError):
    """`interrupt` was called."""


class BrokerConnection:
    """Connects on demand. Any OSError (TimeoutError among them) leaves it to be closed."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._wake_reader, self._wake_writer = socket.socketpair()

    @property
    def is_connected(self) -> bool:
        return self._socket is not None

    def connect(self, timeout_ms: int) -> None:
        """Dial; the first address of the host that takes the connection is used."""
        deadline = time.monotonic() + timeout_ms / 1000
        host, port = self._address
        last_error: OSError = ConnectionError(f"{host} has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            candidate = socket.socket(family, kind, protocol)
            try:
                candidate.setblocking(False)
                candidate.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                candidate.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                status = candidate.connect_ex(address)
                if status not in _IN_PROGRESS:
                    raise OSError(status, errno.errorcode.get(status, "connect"))
                self._wait(candidate, select.POLLOUT, deadline)
                status = candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if status:
                    raise OSError(status, errno.errorcode.get(status, "connect"))
            except OSError as error:
                candidate.close()
                if isinstance(error, Interrupted):
                    raise
                last_error = error
                continue
            self._socket = candidate
            return
        raise last_error

    def exchange(self, frame: bytes, timeout_ms: int) -> bytes:
        """Send a request's frame, return its response without the size."""
        assert self._socket is not None
        deadline = time.monotonic() + timeout_ms / 1000
        unsent = memoryview(frame)
        while unsent:
            self._wait(self._socket, select.POLLOUT, deadline)
            unsent = unsent[self._socket.send(unsent) :]
        (size,) = _SIZE.unpack(self._receive(_SIZE.size, deadline))
        if not 0 <= size <= _MAX_RESPONSE_BYTES:
            raise ConnectionError(f"response of {size} bytes")
        return self._receive(size, deadline)

    def close(self) -> None:
        """Close the connection; `connect` may follow."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def interrupt(self) -> None:
        """End the current wait, and every later one, with Interrupted. Any thread."""
        self._wake_writer.send(b"\0")

    def dispose(self) -> None:
        """Close for good, when no thread uses it any more."""
        self.close()
        self._wake_reader.close()
        self._wake_writer.close()

    def _receive(self, size: int, deadline: float) -> bytes:
        assert self._socket is not None
        received = bytearray()
        while len(received) < size:
            self._wait(self._socket, select.POLLIN, deadline)
            chunk = self._socket.recv(min(size - len(received), 1 << 20))
            if not chunk:
                raise ConnectionResetError("the broker closed the connection")
            received += chunk
        return bytes(received)

    def _wait(self, waited: socket.socket, events: int, deadline: float) -> None:
        poll = select.poll()
        poll.register(waited, events)
        poll.register(self._wake_reader, select.POLLIN)
        ready = poll.poll(max(0.0, (deadline - time.monotonic()) * 1000))
        if any(descriptor == self._wake_reader.fileno() for descriptor, _ in ready):
            raise Interrupted
        if not ready:
            raise TimeoutError

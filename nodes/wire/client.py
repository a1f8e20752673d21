"""A blocking client over one socket, one request in flight.

Used by the controller's send threads, replica fetchers, controlled shutdown, the harness and
tests. A connection belongs to one thread at a time; only `close` may come from another one (it is
how a thread that waits for an answer is woken). It connects on first use, and again on the next
use after any failure: after a failure nothing is left that an answer could be mistaken for.

Deadlines are for the whole exchange, connecting included.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from types import TracebackType
from typing import Any, Final, Self

from nodes.wire.apis import ApiKey
from nodes.wire.codec import decode_response, encode_request
from nodes.wire.errors import ConnectionFailed, RequestTimedOut, WireClientError, WireError

__all__ = ("Connection", "ConnectionFailed", "RequestTimedOut", "WireClientError")

_SIZE: Final = struct.Struct(">i")
_CHUNK_BYTES: Final = 1 << 20
MAX_RESPONSE_BYTES: Final = 256 << 20


class Connection:
    """One connection to one broker (see the module's text).

    `last_correlation_id` is the id of the newest request sent (0 before the first).
    """

    def __init__(
        self,
        host: str,
        port: int,
        client_id: str | None = None,
        timeout_s: float = 30.0,
        *,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
    ) -> None:
        self.host = host
        self.port = port
        self.client_id = client_id
        self.timeout_s = timeout_s
        self.last_correlation_id = 0
        self._max_response_bytes = max_response_bytes
        self._socket: socket.socket | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Connection({self.host}:{self.port}, client_id={self.client_id!r})"

    @property
    def is_connected(self) -> bool:
        """Whether a socket is open; the peer may have closed its end meanwhile."""
        return self._socket is not None

    def connect(self, timeout_s: float | None = None) -> None:
        """Connects now rather than on first use; nothing to do when connected."""
        self._connected(_deadline(self.timeout_s if timeout_s is None else timeout_s))

    def request(self, entity: Any, timeout_s: float | None = None) -> Any:
        """Sends a request entity and waits for its response entity.

        Raises `ConnectionFailed` or `RequestTimedOut` (the broker may have acted all the same) and
        `WireError` for an answer that is no answer; the connection is closed in each case.
        """
        correlation_id = self._next_correlation_id()
        frame = encode_request(entity, correlation_id, self.client_id)
        payload = self._exchange(frame, timeout_s, read=True)
        return self._decode(entity.__api_key__, entity.__version__, correlation_id, payload)

    def send(self, entity: Any, timeout_s: float | None = None) -> None:
        """Sends a request that gets no answer (Produce with acks=0)."""
        frame = encode_request(entity, self._next_correlation_id(), self.client_id)
        self._exchange(frame, timeout_s, read=False)

    def send_raw(self, frame: bytes, timeout_s: float | None = None, *, read: bool = True) -> bytes:
        """Sends a complete frame (with its size) as it is; returns the answer without its size.

        For pre-encoded requests and for frames that no entity can express. Correlation ids are
        the caller's business. With `read=False` nothing is awaited and b"" returned.
        """
        return self._exchange(frame, timeout_s, read=read)

    def close(self) -> None:
        """Closes for good; a `request` that waits in another thread ends as ConnectionFailed."""
        self._closed = True
        self._drop()

    def _next_correlation_id(self) -> int:
        self.last_correlation_id = (self.last_correlation_id + 1) & 0x7FFFFFFF
        return self.last_correlation_id

    def _decode(self, api_key: int, version: int, correlation_id: int, payload: bytes) -> Any:
        try:
            if api_key == ApiKey.API_VERSIONS and payload[4:6] == b"\0\x23":
                # Error 35 is answered in version 0, whatever version was asked (KIP-511).
                version = 0
            answered_id, response = decode_response(api_key, version, payload)
            if answered_id != correlation_id:
                raise WireError(f"correlation id {answered_id}, expected {correlation_id}")
        except WireError:
            self._drop()
            raise
        return response

    def _exchange(self, frame: bytes, timeout_s: float | None, *, read: bool) -> bytes:
        deadline = _deadline(self.timeout_s if timeout_s is None else timeout_s)
        try:
            connection = self._connected(deadline)
            connection.settimeout(_remaining_s(deadline))
            connection.sendall(frame)
            return self._read(connection, deadline) if read else b""
        except TimeoutError:
            self._drop()
            raise RequestTimedOut(f"no answer from {self.host}:{self.port} in time") from None
        except OSError as error:
            self._drop()
            raise ConnectionFailed(f"{self.host}:{self.port}: {error}") from error
        except BaseException:
            # KeyboardInterrupt and the like leave half an exchange behind.
            self._drop()
            raise

    def _connected(self, deadline: float) -> socket.socket:
        if self._closed:
            raise ConnectionFailed(f"connection to {self.host}:{self.port} was closed")
        if self._socket is not None:
            return self._socket
        try:
            connection = socket.create_connection((self.host, self.port), _remaining_s(deadline))
        except TimeoutError:
            raise RequestTimedOut(f"cannot connect to {self.host}:{self.port} in time") from None
        except OSError as error:
            raise ConnectionFailed(f"{self.host}:{self.port}: {error}") from error
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._socket = connection
        if self._closed:
            # close() came while we were connecting and saw no socket to close.
            self._drop()
            raise ConnectionFailed(f"connection to {self.host}:{self.port} was closed")
        return connection

    def _read(self, connection: socket.socket, deadline: float) -> bytes:
        (size,) = _SIZE.unpack(_receive(connection, 4, deadline))
        if not 4 <= size <= self._max_response_bytes:
            raise ConnectionFailed(f"{self.host}:{self.port} announces a response of {size} bytes")
        return bytes(_receive(connection, size, deadline))

    def _drop(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            with contextlib.suppress(OSError):
                # close() alone would not wake a thread that is blocked in recv.
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


def _deadline(timeout_s: float) -> float:
    return time.monotonic() + timeout_s


def _remaining_s(deadline: float) -> float:
    remaining_s = deadline - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError
    return remaining_s


def _receive(connection: socket.socket, size: int, deadline: float) -> bytes | bytearray:
    """Exactly `size` bytes; a large announced size costs memory only as bytes arrive."""
    connection.settimeout(_remaining_s(deadline))
    first = connection.recv(min(size, _CHUNK_BYTES))
    if len(first) == size:
        return first
    data = bytearray(first)
    while first and len(data) < size:
        connection.settimeout(_remaining_s(deadline))
        first = connection.recv(min(size - len(data), _CHUNK_BYTES))
        data += first
    if len(data) < size:
        raise ConnectionError("closed by the peer")
    return data

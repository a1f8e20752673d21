"""One client's connection, as its processor sees it: bytes in, frames out, one request in flight.

States (owned by the processor's thread, nobody else touches a connection)::

    unmuted --whole frame--> muted --answer sent or nothing to send--> unmuted
       any --peer gone, malformed bytes, idle too long, handler says so--> closed (fd < 0)

While it is muted nothing is read from the socket, so a client that pipelines is held back by TCP.
Sockets are registered with epoll once, edge-triggered, and never again: muting then costs no system
call, but an edge must be remembered (`readable`, `hung_up`) until the connection may read.

Hostile sizes: memory grows with the bytes that arrived, never with the size that a frame claims. Of
an answer that comes as a `Stream` no more is in memory than one piece that its reader was too slow
for.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

from nodes.network.request_channel import Request, Stream

SIZE: Final = struct.Struct(">i")


class InvalidFrame(Exception):
    """A size that is negative or above ``socket.request.max.bytes``."""


class Connection:
    """Bytes and flags of one connection."""

    __slots__ = (
        "fd",
        "host",
        "hung_up",
        "last_active_ns",
        "muted",
        "outbox",
        "pending",
        "readable",
        "recv_into",
        "send",
        "sending",
        "socket",
        "stream",
    )

    def __init__(self, sock: socket.socket, host: str, now_ns: int) -> None:
        self.socket = sock
        self.recv_into = sock.recv_into
        self.send = sock.send
        self.fd = sock.fileno()
        self.host = host
        self.pending = bytearray()
        """Received, not yet a whole frame; or a pipelining client's next frames."""
        self.readable = False
        self.hung_up = False
        self.muted = False
        self.outbox: memoryview | None = None
        """What the socket did not take yet of an answer to `sending`, or of a piece of it."""
        self.stream: Stream | None = None
        """What comes after `outbox`."""
        self.sending: Request | None = None
        self.last_active_ns = now_ns

    @property
    def is_sending(self) -> bool:
        return self.outbox is not None or self.stream is not None

    def next_frame(self, max_bytes: int) -> bytes | None:
        """Cuts the first whole frame (without its size) off `pending`; None until there is one."""
        pending = self.pending
        if len(pending) < 4:
            return None
        size = frame_size(pending, max_bytes)
        end = 4 + size
        if len(pending) < end:
            return None
        with memoryview(pending) as view:
            frame = bytes(view[4:end])
        if len(pending) == end:
            self.pending = bytearray()
        else:
            del pending[:end]
        return frame


def frame_size(data: bytes | bytearray | memoryview, max_bytes: int) -> int:
    """The size that a frame's first four bytes claim; raises InvalidFrame."""
    size: int = SIZE.unpack_from(data)[0]
    if not 0 <= size <= max_bytes:
        raise InvalidFrame(f"size {size} is not within 0 and {max_bytes}")
    return size

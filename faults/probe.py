"""One exchange with a broker: is a way to it open, how slow is it, and whom does it obey?

Every Kafka listener answers ApiVersions v0 at once and without side effects. A ZooKeeper server
behind the way is asked ``srvr`` instead. Which controller a broker heard of last, it tells anybody
who asks for metadata.
"""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from typing import Final

from kio.schema.metadata.v4.response import MetadataResponse
from kio.serial import entity_reader

from faults.flood.requests import api_versions, metadata

_REQUEST: Final = api_versions().frame
_NO_TOPICS: Final = metadata(()).frame
_READ_METADATA: Final = entity_reader(MetadataResponse)
_HEADER: Final = 8  # size and correlation id
_MAX_ANSWER: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Probe:
    """What came of it. ``failure``: None, "refused", "timeout", "closed" or "reset"."""

    took_ns: int
    answer_bytes: int
    failure: str | None


def probe(address: tuple[str, int], *, timeout_s: float, zookeeper: bool = False) -> Probe:
    """Connect, ask, read the whole answer."""
    started = time.monotonic_ns()
    received, failure = 0, None
    try:
        with socket.create_connection(address, timeout=timeout_s) as sock:
            data, failure = _exchange(
                sock, b"srvr" if zookeeper else _REQUEST, timeout_s, zookeeper
            )
            received = len(data)
    except TimeoutError:
        failure = "timeout"
    except ConnectionRefusedError:
        failure = "refused"
    except OSError:
        failure = "reset"
    return Probe(time.monotonic_ns() - started, received, failure)


def told_controller(address: tuple[str, int], *, timeout_s: float) -> int | None:
    """The controller that the broker names, -1 when it knows of none; None: no whole answer."""
    try:
        with socket.create_connection(address, timeout=timeout_s) as sock:
            data, failure = _exchange(sock, _NO_TOPICS, timeout_s)
            if failure is not None:
                return None
            return int(_READ_METADATA(data, _HEADER)[0].controller_id)
    except (OSError, ValueError, IndexError, struct.error):
        return None


def _exchange(
    sock: socket.socket, request: bytes, timeout_s: float, zookeeper: bool = False
) -> tuple[bytes, str | None]:
    """The whole answer, or what came of it and "closed". Raises OSError, TimeoutError."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    deadline = time.monotonic() + timeout_s
    sock.sendall(request)
    data = b""
    while not _whole(data, zookeeper):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left)
        more = sock.recv(65_536)
        if not more:
            return data, None if zookeeper and data else "closed"
        data += more
    return data, None


def _whole(data: bytes, zookeeper: bool) -> bool:
    if zookeeper or len(data) < 4:  # ZooKeeper closes when it has said all
        return len(data) > _MAX_ANSWER
    size = int.from_bytes(data[:4], "big")
    return len(data) >= size + 4 or size > _MAX_ANSWER

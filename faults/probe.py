"""One ApiVersions exchange, timed: is a way to a broker open, and how slow is it?

Every Kafka listener answers ApiVersions v0 at once and without side effects. A ZooKeeper server
behind the way is asked ``srvr`` instead.
"""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from typing import Final

from faults.flood.requests import api_versions

_REQUEST: Final = api_versions().frame
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
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            deadline = time.monotonic() + timeout_s
            sock.sendall(b"srvr" if zookeeper else _REQUEST)
            data = b""
            while not _whole(data, zookeeper):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                sock.settimeout(left)
                more = sock.recv(65_536)
                if not more:
                    failure = None if zookeeper and data else "closed"
                    break
                data += more
                received = len(data)
    except TimeoutError:
        failure = "timeout"
    except ConnectionRefusedError:
        failure = "refused"
    except OSError:
        failure = "reset"
    return Probe(time.monotonic_ns() - started, received, failure)


def _whole(data: bytes, zookeeper: bool) -> bool:
    if zookeeper or len(data) < 4:  # ZooKeeper closes when it has said all
        return len(data) > _MAX_ANSWER
    size = int.from_bytes(data[:4], "big")
    return len(data) >= size + 4 or size > _MAX_ANSWER

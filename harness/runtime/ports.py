"""Loopback ports that stay ours for as long as the harness lives, its nodes' restarts included.

Between two starts of a broker nobody listens on its port, and binding it beforehand would keep the
broker from it. So a port is drawn at random below the kernel's range for outgoing connections
(32768 by default: a port inside it can be taken by anybody's connect), tried with a bind, and kept
by a socket of a name made of it in Linux's abstract namespace, which every other harness respects,
of whichever user and folder: both, names and ports, are of one network namespace. The name goes
with this process, whatever ends it.
"""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path
from threading import Lock

_LOW = 12_000
_DEFAULT_HIGH = 32_768
_TRIES = 2_000


class NoFreePort(Exception):
    """Every port that was tried is in use."""


def ephemeral_low() -> int:
    """Where the kernel's range for outgoing connections begins."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        return int(text.split()[0])
    except (OSError, ValueError, IndexError):
        return _DEFAULT_HIGH


class PortAllocator:
    """Hands out ports of one host. Thread-safe."""

    def __init__(self, host: str, rng: random.Random | None = None) -> None:
        self._host = host
        # Two harnesses started with one seed must not collide: this is not the run's randomness.
        self._rng = rng or random.Random(os.urandom(8))
        self._names: dict[int, socket.socket] = {}
        self._guard = Lock()

    def allocate(self) -> int:
        high = max(min(ephemeral_low(), _DEFAULT_HIGH), _LOW + 1000)
        with self._guard:
            for _ in range(_TRIES):
                port = self._rng.randrange(_LOW, high)
                if port not in self._names and self._take(port):
                    return port
        raise NoFreePort(f"no free port on {self._host} between {_LOW} and {high}")

    def release_all(self) -> None:
        with self._guard:
            for name in self._names.values():
                name.close()
            self._names.clear()

    def _take(self, port: int) -> bool:
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0biplane {self._host}:{port}")
            with socket.socket() as probe:
                # As servers bind: a port in TIME_WAIT is free, one that is listened on is not.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((self._host, port))
        except OSError:
            name.close()
            return False
        self._names[port] = name
        return True

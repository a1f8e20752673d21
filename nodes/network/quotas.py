"""How many connections a broker takes: ``max.connections`` and ``max.connections.per.ip``.

Follows Kafka's ConnectionQuotas. An address over its limit is cut off at once. The broker-wide
limit makes acceptors wait for a free slot instead; only the inter-broker listener (when there are
others besides) is let in above it, and then the other listeners' processors each close their least
recently used connection, one a poll, until the count fits. The control listener gets no such
protection: one of the isolation leaks that remain under KIP-291.
"""

from __future__ import annotations

import threading
import time
from collections import Counter


class TooManyConnections(Exception):
    """This address has `most` connections already, its ``max.connections.per.ip``."""

    def __init__(self, host: str, most: int) -> None:
        super().__init__(host, most)
        self.most = most


class ConnectionQuotas:
    """Counts open connections of all listeners. Thread-safe: acceptors add, processors remove."""

    def __init__(
        self, max_connections: int, max_per_ip: int, protected_listener: str | None
    ) -> None:
        self._max_connections = max_connections
        self._max_per_ip = max_per_ip
        self._protected = protected_listener
        self._changed = threading.Condition()
        self._per_ip: Counter[str] = Counter()
        self._total = 0
        self._closed = False

    def add(self, listener: str, host: str) -> int:
        """Takes a slot, waiting for one if it must; raises TooManyConnections. Returns how many
        nanoseconds it waited."""
        waited_ns = 0
        with self._changed:
            if not self._has_slot(listener) and not self._closed:
                start_ns = time.monotonic_ns()
                while not self._has_slot(listener) and not self._closed:
                    self._changed.wait()
                waited_ns = time.monotonic_ns() - start_ns
            if self._per_ip[host] >= self._max_per_ip:
                self._changed.notify()  # whose turn it was does not use the slot
                raise TooManyConnections(host, self._max_per_ip)
            self._per_ip[host] += 1
            self._total += 1
        return waited_ns

    def remove(self, host: str) -> None:
        with self._changed:
            self._total -= 1
            self._per_ip[host] -= 1
            if not self._per_ip[host]:
                del self._per_ip[host]
            self._changed.notify()

    def exceeded(self, listener: str) -> bool:
        """Should a processor of this listener close a connection? (Read without the lock.)"""
        return self._total > self._max_connections and listener != self._protected

    def close(self) -> None:
        """Lets waiting acceptors go."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def total(self) -> int:
        return self._total

    def _has_slot(self, listener: str) -> bool:
        return listener == self._protected or self._total < self._max_connections

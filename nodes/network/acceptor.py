"""The thread that accepts connections of one listener and deals them out to its processors.

Follows Kafka's Acceptor: round robin; when every processor's queue of new connections is full it
blocks on the last one (a processor that is frozen by a full request queue takes none).
"""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Final

from nodes.listeners import ConfigError, Endpoint
from nodes.network.processor import Processor
from nodes.network.quotas import ConnectionQuotas, TooManyConnections

log = logging.getLogger("kafka.network.Acceptor")

_OUT_OF_RESOURCES: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_S: Final = 0.1


class Acceptor:
    """One listening socket. `bind`, `listen` and `run` are called once each, in this
    order; `stop` from any thread."""

    def __init__(
        self,
        endpoint: Endpoint,
        processors: Sequence[Processor],
        quotas: ConnectionQuotas,
        *,
        backlog: int,
        send_buffer_bytes: int = -1,
        receive_buffer_bytes: int = -1,
    ) -> None:
        self.endpoint = endpoint
        self.blocked_ns = 0
        self._processors = processors
        self._quotas = quotas
        self._backlog = backlog
        self._send_buffer_bytes = send_buffer_bytes
        self._receive_buffer_bytes = receive_buffer_bytes
        self._next = 0
        self._running = True
        self._socket: socket.socket | None = None
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def bind(self) -> Endpoint:
        """Takes the address without listening: until then connections are refused."""
        host, port = self.endpoint.host, self.endpoint.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self._receive_buffer_bytes > 0:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)
            sock.bind((host, port))
        except OSError as problem:
            sock.close()
            raise ConfigError(
                "listeners", f"{self.endpoint} cannot be bound: {problem}", "a free local address"
            ) from None
        self._socket = sock
        self.endpoint = self.endpoint.with_port(sock.getsockname()[1])
        return self.endpoint

    def listen(self) -> None:
        """From now on connections are taken in (by the backlog, until `run` gets to them)."""
        assert self._socket is not None, "bind comes first"
        self._socket.listen(self._backlog)

    def run(self) -> None:
        """Accepts until stopped."""
        sock = self._socket
        assert sock is not None, "bind comes first"
        poll = select.poll()
        try:
            sock.setblocking(False)
            poll.register(sock, select.POLLIN)
            poll.register(self._wake_fd, select.POLLIN)
            while self._running:
                poll.poll()
                try:
                    self._accept_all(sock)
                except Exception:  # as in Kafka: a listener never ends because of one connection
                    log.exception("Error while accepting connection on %s", self.endpoint)
                    time.sleep(_PAUSE_S)
        finally:
            sock.close()

    def stop(self) -> None:
        self._running = False
        os.eventfd_write(self._wake_fd, 1)

    def close(self) -> None:
        """After the thread has ended, or instead of starting it."""
        if self._socket is not None:
            self._socket.close()
        os.close(self._wake_fd)

    def _accept_all(self, sock: socket.socket) -> None:
        while self._running:
            try:
                client, address = sock.accept()
            except (BlockingIOError, ConnectionError):
                return
            except OSError as problem:
                if problem.errno not in _OUT_OF_RESOURCES:
                    raise
                log.error("cannot accept on %s: %s", self.endpoint, problem)
                time.sleep(_PAUSE_S)
                return
            self._hand_over(client, address[0])

    def _hand_over(self, client: socket.socket, host: str) -> None:
        try:
            self.blocked_ns += self._quotas.add(self.endpoint.name, host)
        except TooManyConnections as refused:
            log.info(
                "Rejected connection from /%s, address already has the configured maximum of %d "
                "connections.",
                host,
                refused.most,
            )
            client.close()
            return
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if self._send_buffer_bytes > 0:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        except OSError as problem:  # it is gone already
            log.info("Connection from %s went before it was taken in: %s", host, problem)
            client.close()
            self._quotas.remove(host)
            return
        for attempt in range(len(self._processors)):
            processor = self._processors[self._next % len(self._processors)]
            self._next += 1
            if processor.offer(client, host, block=False):
                return
            if attempt == len(self._processors) - 1:
                start_ns = time.monotonic_ns()
                processor.offer(client, host, block=True)
                self.blocked_ns += time.monotonic_ns() - start_ns

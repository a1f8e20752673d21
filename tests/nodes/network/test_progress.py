"""Floods never stall: more connections than the queue holds, pipelined, with readers so slow that
most answers fit only in part into their sockets, or not at all."""

from __future__ import annotations

import select
import socket
import time
from typing import Any

import pytest

CONNECTIONS = 60
QUEUE = 16
REQUESTS = 100
BODY = b"b" * 900
PATIENCE_S = 120.0
SMALL_BUFFERS = {"socket_send_buffer_bytes": "4096"}


class Flooder:
    """Pipelines all of its requests before it reads the first byte of an answer."""

    def __init__(self, port: int, wire: Any, index: int) -> None:
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setblocking(False)
        self.unsent = b"".join(wire.request((index + i) % 2, i, BODY) for i in range(REQUESTS))
        self.answers = b"".join(wire.frame_of(i.to_bytes(4, "big") + BODY) for i in range(REQUESTS))
        self.received = bytearray()

    @property
    def is_done(self) -> bool:
        return len(self.received) >= len(self.answers)

    def send(self) -> None:
        if self.unsent:
            self.unsent = self.unsent[self.socket.send(self.unsent) :]

    def receive(self, count: int) -> None:
        data = self.socket.recv(count)
        assert data, "the server closed a connection"
        self.received += data


def fill(flooders: list[Flooder]) -> None:
    """Sends as long as there is room and reads nothing, until all are stuck: each connection has
    an answer for which its socket has no room."""
    by_fd = {flooder.socket.fileno(): flooder for flooder in flooders}
    with select.epoll() as poll:
        for fd in by_fd:
            poll.register(fd, select.EPOLLOUT)
        while events := poll.poll(0.1):
            for fd, _ in events:
                by_fd[fd].send()
                if not by_fd[fd].unsent:
                    poll.unregister(fd)


def drive(flooders: list[Flooder], bytes_at_once: int) -> None:
    """Until all answers have come; fails when that takes `PATIENCE_S`."""
    by_fd = {flooder.socket.fileno(): flooder for flooder in flooders}
    end = time.monotonic() + PATIENCE_S
    with select.epoll() as poll:
        for fd in by_fd:
            poll.register(fd, select.EPOLLIN | select.EPOLLOUT)
        while by_fd:
            assert time.monotonic() < end, f"{len(by_fd)} connections wait for answers"
            for fd, mask in poll.poll(1):
                flooder = by_fd[fd]
                if mask & select.EPOLLOUT:
                    flooder.send()
                    if not flooder.unsent:
                        poll.modify(fd, select.EPOLLIN)
                if mask & select.EPOLLIN:
                    flooder.receive(bytes_at_once)
                if flooder.is_done:
                    poll.unregister(fd)
                    del by_fd[fd]
    for flooder in flooders:
        assert bytes(flooder.received) == flooder.answers


@pytest.mark.parametrize("network_threads", ["1", "3"])
def test_slow_readers_get_every_answer_in_order(
    start: Any, wire: Any, network_threads: str
) -> None:
    running = start(
        num_network_threads=network_threads,
        num_io_threads="4",
        queued_max_requests=str(QUEUE),
        **SMALL_BUFFERS,
    )
    flooders = [Flooder(running.ports["DATA"], wire, i) for i in range(CONNECTIONS)]
    try:
        fill(flooders)
        slowest, others = flooders[:5], flooders[5:]
        drive(others, bytes_at_once=512)
        drive(slowest, bytes_at_once=100)
    finally:
        for flooder in flooders:
            flooder.socket.close()


@pytest.mark.slow
def test_priority_channel_makes_progress_too(start: Any, wire: Any) -> None:
    running = start(
        biplane_plane_mode="priority",
        num_network_threads="2",
        num_io_threads="2",
        queued_max_requests=str(QUEUE),
        **SMALL_BUFFERS,
    )
    flooders = [Flooder(running.ports["DATA"], wire, i) for i in range(CONNECTIONS)]
    try:
        fill(flooders)
        drive(flooders, bytes_at_once=512)
    finally:
        for flooder in flooders:
            flooder.socket.close()

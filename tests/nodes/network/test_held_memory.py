"""What is kept for a client: one request's answer, and no more of what came in than is in work."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import pytest

from nodes.network.processor import SCRATCH_BYTES

MIB = 1024 * 1024


def processor_of(running: Any) -> Any:
    (parts,) = running.server._planes()
    (processor,) = parts.processors()
    return processor


@pytest.mark.parametrize("api_key", [0, 1, 3, 11])
def test_a_request_that_waits_keeps_no_copy_of_what_came_in(
    start: Any, wire: Any, api_key: int
) -> None:
    running = start()
    waiting: list[Any] = []
    seen: list[int] = []

    def handle(req: Any) -> None:
        seen.append(len(req.frame) + len(req.body))
        waiting.append(req)

    running.handle = handle
    client = running.client()
    client.send(wire.request(api_key, 1, b"x" * MIB))
    wire.eventually(lambda: waiting and not waiting[0].frame)
    assert seen == [2 * MIB + 6]
    # Other APIs may look at their (small) bodies when they answer.
    assert (waiting[0].body is None) == (api_key in (0, 1, 11))
    waiting[0].respond(wire.frame_of(b"late"))
    assert client.answer() == b"late"


def test_who_hung_up_is_known_while_the_request_waits(start: Any, wire: Any) -> None:
    running = start()
    waiting: list[Any] = []
    running.handle = waiting.append
    gone, half, there = running.client(), running.client(), running.client()
    for number, client in enumerate((gone, half, there)):
        client.send(wire.request(1, number))
        wire.eventually(lambda count=number + 1: len(waiting) == count)
    assert not any(req.is_abandoned() for req in waiting)
    gone.close()
    half.socket.shutdown(socket.SHUT_WR)
    wire.eventually(lambda: waiting[0].is_abandoned() and waiting[1].is_abandoned())
    assert not waiting[2].is_abandoned()
    for req in waiting:
        req.respond(wire.frame_of(b"%d" % req.correlation_id))
    # Nobody is there for the first one, and its connection goes; the others get theirs.
    assert half.answer() == b"1"
    assert there.answer() == b"2"
    wire.eventually(lambda: waiting[0].connection.fd < 0)
    wire.eventually(lambda: waiting[1].connection.fd < 0)
    assert waiting[2].connection.fd >= 0


def test_who_never_reads_occupies_one_answer(start: Any, wire: Any) -> None:
    """However much it asks for, and however much it sends besides."""
    running = start()
    answers = 0

    def handle(req: Any) -> None:
        nonlocal answers
        answers += 1
        req.respond(wire.frame_of(b"y" * 8 * MIB))

    running.handle = handle
    client = running.client()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.socket.setblocking(False)
    asked = b"".join(wire.request(1, i, b"z" * 1000) for i in range(20_000))
    sent = 0
    processor = processor_of(running)

    def is_held_back() -> bool:
        nonlocal sent
        with suppress(BlockingIOError):
            sent += client.socket.send(asked[sent:])
        accepted = list(processor._connections.values())
        return bool(accepted) and accepted[0].outbox is not None

    wire.eventually(is_held_back)
    (connection,) = processor._connections.values()
    wire.eventually(lambda: connection.sending.frame == b"")  # its handler comes to that
    for _ in range(100):
        is_held_back()
        assert answers == 1
        assert len(connection.outbox) <= 8 * MIB + 4
        assert len(connection.pending) <= SCRATCH_BYTES
        assert connection.sending.frame == b""
    assert sent < len(asked), "the socket has to be what holds it back"

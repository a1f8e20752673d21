"""Answers that come as streams: whole, in order, never much of them in memory, nobody stalled."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from nodes.network.connection import Connection
from nodes.network.processor import PIECES_PER_TURN, SCRATCH_BYTES, Processor
from nodes.network.quotas import ConnectionQuotas
from nodes.network.request_channel import RequestChannel

MIB = 1 << 20


class Numbers:
    """A frame whose payload tells each byte's place; notes what was taken of it."""

    def __init__(self, size: int, fails_at: int | None = None) -> None:
        self._left = 4 + size
        self._size = size
        self._fails_at = fails_at
        self.given = 0
        self.fills: list[int] = []

    def __len__(self) -> int:
        return self._left

    def fill(self, buffer: memoryview) -> int:
        count = min(len(buffer), self._left)
        if self._fails_at is not None and self.given + count > self._fails_at:
            raise OSError("planted")
        head = self._size.to_bytes(4, "big")[self.given :] if self.given < 4 else b""
        head = head[:count]
        buffer[: len(head)] = head
        rest = count - len(head)
        buffer[len(head) : count] = pattern(max(0, self.given - 4), rest)
        self.given += count
        self._left -= count
        self.fills.append(count)
        return count


def pattern(start: int, size: int) -> bytes:
    turn = bytes(range(251))
    first = start % 251
    return (turn * (size // 251 + 2))[first : first + size]


@pytest.fixture
def streams(start: Any, wire: Any) -> Any:
    """A server with one network thread that answers api 1 with a stream, others with an echo."""
    running = start(num_network_threads="1", socket_send_buffer_bytes="65536")
    running.made = []

    def handle(req: Any) -> None:
        if req.api_key != 1:
            wire.echo(req)
            return
        size, fails_at = int.from_bytes(req.body[:8], "big"), int.from_bytes(req.body[8:], "big")
        running.made.append(Numbers(size, fails_at or None))
        req.respond(running.made[-1])

    running.handle = handle
    return running


def answer(client: Any) -> bytes:
    """As `client.answer`, for large ones."""
    with client.socket.makefile("rb") as stream:
        return stream.read(int.from_bytes(stream.read(4), "big"))


def ask(client: Any, wire: Any, size: int, fails_at: int = 0) -> None:
    client.send(wire.request(1, 7, size.to_bytes(8, "big") + fails_at.to_bytes(8, "big")))


@pytest.mark.parametrize("size", [0, 1, SCRATCH_BYTES - 4, SCRATCH_BYTES - 3, 5 * MIB + 3])
def test_a_stream_arrives_whole_and_the_connection_goes_on(
    streams: Any, wire: Any, size: int
) -> None:
    client = streams.client()
    for _ in range(2):
        ask(client, wire, size)
        assert answer(client) == pattern(0, size)
        client.send(wire.request(3, 8))
        assert client.answer() == (8).to_bytes(4, "big")
    assert sum(streams.made[0].fills) == size + 4  # each byte once


def test_a_slow_reader_has_little_in_memory_and_holds_up_nobody(streams: Any, wire: Any) -> None:
    size = 24 * MIB
    slow = streams.client()
    slow.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    ask(slow, wire, size)
    wire.eventually(lambda: bool(streams.made))
    (stream,) = streams.made
    other = streams.client()
    for number in range(200):
        other.send(wire.request(3, number))
        assert other.answer() == number.to_bytes(4, "big")
    # What sockets take, and one piece.
    assert 0 < stream.given < 4 * MIB
    assert answer(slow) == pattern(0, size)
    assert sum(stream.fills) == size + 4


def test_a_stream_that_fails_costs_its_connection_only(streams: Any, wire: Any) -> None:
    victim, other = streams.client(), streams.client()
    ask(victim, wire, 2 * MIB, fails_at=MIB)
    got = bytearray()
    while data := victim.socket.recv(MIB):
        got += data
    assert got[4:] == pattern(0, len(got) - 4)
    assert len(got) <= MIB
    other.send(wire.request(3, 1))
    assert other.answer() == (1).to_bytes(4, "big")
    wire.eventually(lambda: streams.server.connection_count == 1)


def test_a_reader_that_goes_away_ends_its_stream(streams: Any, wire: Any) -> None:
    client = streams.client()
    ask(client, wire, 64 * MIB)
    wire.eventually(lambda: bool(streams.made))
    client.close()
    wire.eventually(lambda: streams.server.connection_count == 0)
    assert streams.made[0].given < 64 * MIB


@pytest.fixture
def processor() -> Iterator[Processor]:
    made = Processor(
        0,
        listener="L",
        plane="data",
        channel=RequestChannel(10),
        parse=lambda frame: (frame, None),
        quotas=ConnectionQuotas(10, 10, None),
        max_request_bytes=100,
        max_idle_ms=-1,
    )
    yield made
    made._close_all()


def test_a_reader_of_any_speed_has_its_share_of_a_turn(processor: Processor) -> None:
    """A socket that always takes everything: the network thread goes on with the others, and does
    not sleep before it comes back."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection(ours, "h", 0)
        taken: list[int] = []
        connection.send = lambda data: (taken.append(len(data)), len(data))[1]
        pieces = 2 * PIECES_PER_TURN + 1
        stream = Numbers(pieces * SCRATCH_BYTES - 4)
        processor._send(connection, stream, None)
        for done in (PIECES_PER_TURN, 2 * PIECES_PER_TURN):
            assert len(taken) == done
            assert connection.is_sending
            assert processor.idle_ns == 0
            processor._turn()
        assert len(taken) == pieces
        assert not connection.is_sending
        assert not processor._unsent

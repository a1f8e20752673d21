"""Bytes that no correct client sends: their connection goes, nobody else notices."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from nodes.network.connection import InvalidFrame, frame_size


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", -(2**31)),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 100_000_001),
        struct.pack(">i", 0),
        b"\0\0\0\x03abc",
        struct.pack(">ihi", 6, -5, 1),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_a_bad_frame_closes_its_connection(start: Any, wire: Any, data: bytes) -> None:
    running = start(socket_request_max_bytes="100000000")
    bystander, hostile = running.client(), running.client()
    hostile.send(data)
    assert hostile.is_closed_by_peer()
    bystander.send(wire.request(0, 7))
    assert bystander.answer() == (7).to_bytes(4, "big")


@pytest.mark.parametrize("size", [-(2**31), -5, -1, 0, 99, 100, 101, 2**31 - 1])
def test_a_size_is_within_0_and_the_largest(size: int) -> None:
    """NetworkReceive.readFrom: InvalidReceiveException, before anything else is read."""
    claimed = struct.pack(">i", size)
    if 0 <= size <= 100:
        assert frame_size(claimed, 100) == size
        return
    with pytest.raises(InvalidFrame):
        frame_size(claimed, 100)


def test_half_frames_stall_nobody_and_cost_no_memory(start: Any, wire: Any) -> None:
    running = start()
    loris = [running.client() for _ in range(40)]
    for i, client in enumerate(loris):
        whole = wire.request(0, i, b"y" * 50)
        client.send(struct.pack(">i", 100_000_000) if i % 2 else whole[: 1 + i])
    quick = running.client()
    for i in range(100):
        quick.send(wire.request(0, i))
        assert quick.answer() == i.to_bytes(4, "big")
    # A frame that comes byte by byte is a frame all the same.
    rest = wire.request(0, 0, b"y" * 50)[1:]
    for i in range(len(rest)):
        loris[0].send(rest[i : i + 1])
    assert loris[0].answer() == bytes(4) + b"y" * 50


def test_answered_at_once_without_a_handler(start: Any, wire: Any) -> None:
    client = start().client()
    client.send(wire.request(99, 1) + wire.request(0, 2) + wire.request(99, 3))
    assert [client.answer() for _ in range(3)] == [b"at once", (2).to_bytes(4, "big"), b"at once"]


def test_garbage_of_any_kind_leaves_the_server_alive(start: Any, wire: Any) -> None:
    running = start()
    rng = random.Random(291)
    quick = running.client()
    for i in range(60):
        hostile = running.client()
        hostile.send(rng.randbytes(rng.randrange(1, 400)))
        if rng.random() < 0.5:
            hostile.close()
        quick.send(wire.request(0, i))
        assert quick.answer() == i.to_bytes(4, "big")


@pytest.mark.parametrize("cut", [1, 3, 4, 9, 10])
def test_the_rest_of_a_frame_that_looks_like_one_is_none(start: Any, wire: Any, cut: int) -> None:
    """Bytes that come together are a request only when no other was begun before them."""
    running = start()
    inner = wire.request(3, 9, b"inner")
    whole = wire.request(3, 7, b"x" * cut + inner)
    client = running.client()
    client.send(whole[: -len(inner)])
    (processor,) = running.server._data.processors()
    wire.eventually(lambda: any(c.pending for c in processor._connections.values()))
    client.send(inner)
    assert client.answer() == (7).to_bytes(4, "big") + b"x" * cut + inner
    client.send(wire.request(3, 8))
    assert client.answer() == (8).to_bytes(4, "big")

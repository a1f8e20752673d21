"""The frame proxy with real sockets, and real requests of Kafka's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.frames.proxy import FrameProxy, Route
from harness.frames.rules import BadRule
from harness.frames.wire import (
    MAX_CLIENT_ID_BYTES,
    BadFrame,
    api_key,
    error_answer,
    frame_size,
    request_head,
)
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import build, decode_response, encode_request

PATIENCE_S = 30.0
ALTER = ApiKey.ALTER_PARTITION


def request(correlation_id: int, api: ApiKey = ApiKey.API_VERSIONS, version: int = 0) -> bytes:
    return encode_request(build(request_class(api, version)), correlation_id, "7")


@dataclass
class Node:
    """Answers every frame with its correlation id and ``!``; keeps what it was sent."""

    got: list[int] = field(default_factory=list)
    answer: bytes = b"!"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                size = struct.unpack(">i", await reader.readexactly(4))[0]
                frame = await reader.readexactly(size)
                correlation_id = struct.unpack_from(">i", frame, 4)[0]
                self.got.append(correlation_id)
                body = struct.pack(">i", correlation_id) + self.answer
                writer.write(struct.pack(">i", len(body)) + body)
                await writer.drain()
        writer.close()


@dataclass
class Setup:
    node: Node
    proxy: FrameProxy
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    address: tuple[str, int]

    def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))

    async def answered(self) -> int:
        """The correlation id of the next answer."""
        size = struct.unpack(">i", await self.reader.readexactly(4))[0]
        return int(struct.unpack_from(">i", await self.reader.readexactly(size))[0])

    async def until(self, met: Callable[[], bool]) -> None:
        while not met():
            await asyncio.sleep(0.005)

    def applied(self, rule: str = "r") -> int:
        return int(self.proxy.obey({"count": rule})["applied"])


@contextlib.asynccontextmanager
async def setup() -> AsyncIterator[Setup]:
    node = Node()
    upstream = await asyncio.start_server(node.serve, "127.0.0.1", 0)
    to = upstream.sockets[0].getsockname()
    route = Route(node=1, link="client", listen=("127.0.0.1", 0), to=to)
    proxy = FrameProxy([route])
    servers = await proxy.serve(("127.0.0.1", 0))
    address = servers[0].sockets[0].getsockname()
    reader, writer = await asyncio.open_connection(*address)
    yield Setup(node, proxy, reader, writer, address)
    writer.close()
    for server in (*servers, upstream):
        server.close()


def play(story: Callable[[Setup], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(PATIENCE_S), setup() as made:
            await story(made)

    asyncio.run(run())


def rule(**fields: Any) -> dict[str, Any]:
    return {"add": {"id": "r", "api": int(ApiKey.API_VERSIONS), "action": "hold", **fields}}


def test_what_no_rule_means_passes_whatever_its_size() -> None:
    async def story(at: Setup) -> None:
        at.node.answer = b"x" * 300_000
        big = struct.pack(">hhih", 0, 3, 2, 0) + b"y" * 500_000
        at.send(request(1), struct.pack(">i", len(big)) + big, request(3))
        assert [await at.answered() for _ in range(3)] == [1, 2, 3]

    play(story)


def test_a_held_request_holds_what_follows_and_goes_on_when_let_go() -> None:
    async def story(at: Setup) -> None:
        at.proxy.obey(rule(skip=1, times=1))
        at.send(request(1), request(2), request(3))
        assert await at.answered() == 1
        await at.until(lambda: at.applied() == 1)
        assert at.node.got == [1]
        assert at.proxy.obey({"remove": "r"}) == {"ok": True, "matched": 2, "applied": 1}
        assert [await at.answered() for _ in range(2)] == [2, 3]

    play(story)


def test_a_held_answer_was_handled_all_the_same() -> None:
    async def story(at: Setup) -> None:
        at.proxy.obey(rule(direction="response"))
        at.send(request(1))
        await at.until(lambda: at.applied() == 1)
        assert at.node.got == [1]
        at.proxy.obey({"remove": "r"})
        assert await at.answered() == 1

    play(story)


def test_what_was_held_is_delivered_though_its_sender_is_gone() -> None:
    async def story(at: Setup) -> None:
        at.proxy.obey(rule())
        at.send(request(1))
        await at.until(lambda: at.applied() == 1)
        at.writer.close()
        await at.writer.wait_closed()
        at.proxy.obey({"remove": "r"})
        await at.until(lambda: at.node.got == [1])

    play(story)


def test_who_has_said_all_is_answered_all_the_same() -> None:
    async def story(at: Setup) -> None:
        at.proxy.obey(rule(direction="response"))
        at.send(request(1))
        at.writer.write_eof()
        await at.until(lambda: at.applied() == 1)
        at.proxy.obey({"remove": "r"})
        assert await at.answered() == 1
        assert await at.reader.read() == b""

    play(story)


@pytest.mark.parametrize(
    ("fields", "got", "answers"),
    [
        ({"action": "drop", "times": 1}, [2], [2]),
        ({"action": "duplicate", "times": 1}, [1, 1, 2], [1, 1, 2]),
        ({"action": "delay", "delay_ms": 20, "times": 1}, [1, 2], [1, 2]),
    ],
)
def test_other_ends_of_a_request(fields: Any, got: list[int], answers: list[int]) -> None:
    async def story(at: Setup) -> None:
        at.proxy.obey(rule(**fields))
        at.send(request(1), request(2))
        assert [await at.answered() for _ in answers] == answers
        assert at.node.got == got

    play(story)


def test_an_error_is_answered_and_the_node_knows_nothing() -> None:
    async def story(at: Setup) -> None:
        at.proxy.obey(rule(api=int(ALTER), action="error", error_code=41, times=1))
        at.send(request(5, ALTER, 2), request(6))
        size = struct.unpack(">i", await at.reader.readexactly(4))[0]
        correlation_id, answer = decode_response(ALTER, 2, await at.reader.readexactly(size))
        assert (correlation_id, int(answer.error_code), answer.topics) == (5, 41, ())
        assert await at.answered() == 6
        assert at.node.got == [6]

    play(story)


def test_what_cannot_be_acted_on_passes_and_is_not_said_to_have_been(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An error for an API that has none at its top; a frame that is too large to be held."""

    async def story(at: Setup) -> None:
        at.proxy.obey(rule(api=int(ApiKey.METADATA), action="error", error_code=41, times=1))
        at.send(request(1, ApiKey.METADATA, 1))
        assert await at.answered() == 1
        assert at.proxy.obey({"remove": "r"}) == {"ok": True, "matched": 1, "applied": 0}
        monkeypatch.setattr("harness.frames.proxy._HELD_BYTES", len(request(2)) - 5)
        at.proxy.obey(rule(times=1))
        at.send(request(2))
        assert await at.answered() == 2
        assert at.proxy.obey({"remove": "r"}) == {"ok": True, "matched": 1, "applied": 0}

    play(story)


def test_a_closed_connection_is_closed_alone() -> None:
    async def story(at: Setup) -> None:
        at.proxy.obey(rule(action="close", times=1))
        at.send(request(1))
        assert await at.reader.read() == b""
        at.reader, at.writer = await asyncio.open_connection(*at.address)
        at.send(request(2))
        assert await at.answered() == 2

    play(story)


@pytest.mark.parametrize(
    "bytes_sent",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff" + b"z" * 100,
        b"\0\0\0\0",
        b"\0\0\0\4abcd",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_bytes_that_are_no_frames_end_their_connection_and_no_other(bytes_sent: bytes) -> None:
    async def story(at: Setup) -> None:
        at.proxy.obey(rule(times=1, action="duplicate"))
        reader, writer = await asyncio.open_connection(*at.address)
        writer.write(bytes_sent)
        assert await reader.read() == b""
        at.send(request(1))
        assert [await at.answered(), await at.answered()] == [1, 1]
        writer.close()

    play(story)


def test_orders_are_checked() -> None:
    async def story(at: Setup) -> None:
        for order in ([], {}, {"eat": 1}, {"add": 3}, {"add": 1, "remove": 2}):
            with pytest.raises(BadRule, match="allowed"):
                at.proxy.obey(order)
        assert at.proxy.obey({"count": "nobody"})["matched"] == 0
        assert json.dumps(at.proxy.obey({"ping": True}))

    play(story)


def test_a_request_is_known_by_its_first_bytes() -> None:
    frame = request(9, ALTER, 2)
    head = request_head(frame[4:])
    assert (head.api_key, head.version, head.correlation_id, head.client_id) == (56, 2, 9, "7")
    long = struct.pack(">hhih", 1, 11, 3, 30_000) + b"c" * 400
    assert len(request_head(long).client_id) == MAX_CLIENT_ID_BYTES
    assert request_head(struct.pack(">hhih", 1, 11, 3, -1)).client_id == ""
    for size in (-1, 0, 3, 1 << 30):
        with pytest.raises(BadFrame):
            frame_size(struct.pack(">i", size))


def test_only_what_can_say_an_error_says_one() -> None:
    assert error_answer(request_head(request(1, ALTER, 2)[4:]), 41) is not None
    assert error_answer(request_head(request(1, ApiKey.METADATA, 1)[4:]), 41) is None
    assert error_answer(request_head(struct.pack(">hhih", 999, 0, 1, -1)), 41) is None
    assert (api_key("LEADER_AND_ISR"), api_key("VOTE"), api_key("EAT")) == (4, 52, None)

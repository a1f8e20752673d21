"""The frame proxy's process: ``python -m harness.frames config.json``.

    config.json   {"control": "127.0.0.1:port",
                   "routes": [{"node": 1, "link": "client", "listen": "h:p", "to": "h:p"}, ...],
                   "addresses": {"1": "h:p", ...}}    what clients are told (`addresses`), if given

It prints ``ready`` when every route listens, and ends on SIGTERM. Its control socket takes one JSON
object a line and answers with one: ``{"add": rule}``, ``{"remove": id}``, ``{"count": id}``,
``{"ping": true}``; an error is ``{"error": "..."}``.

A frame that no rule acts on is passed on as it comes, piece by piece; one that is acted on is read
whole first. A larger one than `_HELD_BYTES`, and an error for what cannot say one, is not acted on,
nor counted as if it were: a fault took hold only where something happened. Bytes that are no frames
close their connection and nothing else. When one side ends, what it sent before is still passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.frames.addresses import Unreadable, readdressed, tells_addresses
from harness.frames.rules import Action, BadRule, Count, Direction, Rule, RuleBook, Seen
from harness.frames.wire import (
    PEEK_BYTES,
    SIZE,
    BadFrame,
    Head,
    correlation_id,
    error_answer,
    frame_size,
    request_head,
)

_PIECE_BYTES: Final = 64 << 10
_HELD_BYTES: Final = 16 << 20
_IN_FLIGHT: Final = 4096
"""Requests whose answers a connection may owe; what acks=0 leaves behind goes, oldest first."""
_LINE_BYTES: Final = 64 << 10
_CONNECT_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One listener of one node."""

    node: int
    link: str
    listen: tuple[str, int]
    to: tuple[str, int]


@dataclass(slots=True)
class _Connection:
    """One client's connection and the one that was made for it."""

    route: Route
    client: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    node: tuple[asyncio.StreamReader, asyncio.StreamWriter]
    owed: OrderedDict[int, Head] = field(default_factory=OrderedDict)


class FrameProxy:
    """All routes and their rules. One event loop."""

    def __init__(
        self, routes: Sequence[Route], addresses: Mapping[int, tuple[str, int]] | None = None
    ) -> None:
        """``addresses``: where clients are told that brokers are, by id."""
        self._routes = routes
        self._addresses = dict(addresses or {})
        self._book = RuleBook()
        self._released: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, control: tuple[str, int]) -> list[asyncio.Server]:
        """Listen on every route and for orders."""
        servers = [
            await asyncio.start_server(self._accept(route), *route.listen, backlog=1024)
            for route in self._routes
        ]
        order = await asyncio.start_server(self._orders, *control, limit=_LINE_BYTES)
        return [*servers, order]

    # -- orders -----------------------------------------------------------------------------------

    def obey(self, order: Any) -> dict[str, Any]:
        """One order and its answer. Raises `BadRule`."""
        if not isinstance(order, dict) or len(order) != 1:
            raise BadRule("an order; allowed: add, remove, count, ping")
        ((verb, value),) = order.items()
        if verb == "ping":
            return {"ok": True}
        if verb == "add":
            rule = Rule.of(value)
            self._book.add(rule)
            self._released[rule.id] = asyncio.Event()
            return {"ok": True}
        if verb == "remove":
            count = self._book.remove(str(value))
            released = self._released.pop(str(value), None)
            if released is not None:
                released.set()
            return _told(count)
        if verb == "count":
            return _told(self._book.counts.get(str(value), Count()))
        raise BadRule(f"{verb}: is unknown; allowed: add, remove, count, ping")

    async def _orders(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, asyncio.CancelledError), _closing(writer):
            while line := await reader.readline():
                try:
                    answer = self.obey(json.loads(line))
                except (BadRule, json.JSONDecodeError, UnicodeDecodeError) as error:
                    answer = {"error": str(error)}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()

    # -- connections ------------------------------------------------------------------------------

    def _accept(self, route: Route) -> Any:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                with contextlib.suppress(OSError, TimeoutError), _closing(writer):
                    async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                        node = await asyncio.open_connection(*route.to)
                    with _closing(node[1]):
                        await self._pass(_Connection(route, (reader, writer), node))
            finally:
                self._tasks.discard(task)

        return accepted

    async def _pass(self, connection: _Connection) -> None:
        """Both ways, until the node has nothing more to say or one way is broken."""
        requests = asyncio.create_task(self._way(connection, Direction.REQUEST))
        responses = asyncio.create_task(self._way(connection, Direction.RESPONSE))
        try:
            done, _ = await asyncio.wait((requests, responses), return_when="FIRST_COMPLETED")
            if requests in done and not requests.cancelled() and requests.exception() is None:
                await responses  # the client has said all; it may still be answered
        finally:
            for way in (requests, responses):
                way.cancel()
            await asyncio.gather(requests, responses, return_exceptions=True)

    async def _way(self, connection: _Connection, direction: Direction) -> None:
        forward = direction is Direction.REQUEST
        reader = (connection.client if forward else connection.node)[0]
        writer = (connection.node if forward else connection.client)[1]
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                prefix = await reader.readexactly(SIZE.size)
                size = frame_size(prefix)
                start = await reader.readexactly(min(size, PEEK_BYTES))
                head = self._head(connection, direction, start)
                rule = None if head is None else self._decide(connection, direction, head, size)
                if head is not None and not forward and self._tells(head):
                    answer = start + await reader.readexactly(size - len(start))
                    await self._tell(rule, connection, head, answer, writer)
                elif rule is None or head is None:
                    await _stream(prefix + start, size - len(start), reader, writer)
                else:
                    rest = await reader.readexactly(size - len(start))
                    await self._act(rule, connection, head, prefix + start + rest, writer)
        if forward:
            with contextlib.suppress(OSError, RuntimeError):
                writer.write_eof()

    def _tells(self, head: Head) -> bool:
        """Whether its answer is to be told with other addresses."""
        return bool(self._addresses) and tells_addresses(head)

    async def _tell(
        self,
        rule: Rule | None,
        connection: _Connection,
        head: Head,
        answer: bytes,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            frame = readdressed(head, answer, self._addresses)
        except Unreadable as error:
            print(f"closed: {error}", flush=True)
            raise ConnectionAbortedError(str(error)) from error
        if rule is not None:
            await self._act(rule, connection, head, frame, writer)
            return
        writer.write(frame)
        await writer.drain()

    def _head(self, connection: _Connection, direction: Direction, start: bytes) -> Head | None:
        """Of a request; of a response, the head of what it answers, if that is known."""
        if direction is Direction.RESPONSE:
            return connection.owed.pop(correlation_id(start), None)
        head = request_head(start)
        connection.owed[head.correlation_id] = head
        while len(connection.owed) > _IN_FLIGHT:
            connection.owed.popitem(last=False)
        return head

    def _decide(
        self, connection: _Connection, direction: Direction, head: Head, size: int
    ) -> Rule | None:
        def can(rule: Rule) -> bool:
            is_error = rule.action is Action.ERROR
            return size <= _HELD_BYTES and (not is_error or _error(rule, head) != b"")

        route = connection.route
        frame = Seen(route.node, route.link, direction, head.api_key, head.client_id)
        return self._book.decide(frame, can)

    async def _act(
        self,
        rule: Rule,
        connection: _Connection,
        head: Head,
        frame: bytes,
        writer: asyncio.StreamWriter,
    ) -> None:
        if rule.action is Action.CLOSE:
            raise ConnectionAbortedError(f"closed by {rule.id}")
        if rule.action is Action.DROP:
            return
        if rule.action is Action.ERROR:
            connection.client[1].write(_error(rule, head))
            await connection.client[1].drain()
            return
        if rule.action in (Action.HOLD, Action.DELAY):
            released = self._released.get(rule.id)
            limit_s = rule.delay_ms / 1000 if rule.action is Action.DELAY else None
            if released is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limit_s):
                        await released.wait()
        writer.write(frame * (2 if rule.action is Action.DUPLICATE else 1))
        await writer.drain()


async def _stream(
    start: bytes, left: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    writer.write(start)
    while left > 0:
        piece = await reader.read(min(left, _PIECE_BYTES))
        if not piece:
            raise ConnectionAbortedError("cut short")
        left -= len(piece)
        writer.write(piece)
        await writer.drain()
    await writer.drain()


def _error(rule: Rule, head: Head) -> bytes:
    """What it answers to such a request; nothing where that has no error of its own."""
    return error_answer(head, rule.error_code) or b""


@contextlib.contextmanager
def _closing(writer: asyncio.StreamWriter) -> Any:
    """Close it, whatever was wrong with its bytes."""
    try:
        with contextlib.suppress(BadFrame, ConnectionError):
            yield
    finally:
        with contextlib.suppress(OSError, RuntimeError):
            writer.close()


def _told(count: Count) -> dict[str, Any]:
    return {"ok": True, "matched": count.matched, "applied": count.applied}


def read_config(
    path: Path,
) -> tuple[tuple[str, int], list[Route], dict[int, tuple[str, int]]]:
    """(where orders are taken, routes, what clients are told of brokers' addresses)."""
    data = json.loads(path.read_text())
    routes = [
        Route(
            node=int(each["node"]),
            link=str(each["link"]),
            listen=_address(each["listen"]),
            to=_address(each["to"]),
        )
        for each in data["routes"]
    ]
    told = {int(node): _address(text) for node, text in data.get("addresses", {}).items()}
    return _address(data["control"]), routes, told


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


async def run(path: Path) -> None:
    control, routes, told = read_config(path)
    ending = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    servers = await FrameProxy(routes, told).serve(control)
    print("ready", flush=True)
    await ending.wait()
    for server in servers:
        server.close()


def main(arguments: Sequence[str]) -> int:
    asyncio.run(run(Path(arguments[0])))
    return 0

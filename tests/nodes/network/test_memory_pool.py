"""queued.max.request.bytes: what is not read while requests occupy all of it, and when it is."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.network.connection import Connection
from nodes.network.memory_pool import MemoryPool, PooledProcessor
from nodes.network.quotas import ConnectionQuotas
from nodes.network.request_channel import RequestChannel
from nodes.wire.apis import SUPPORTED, ApiKey
from tests.nodes.network.conftest import parse

POOL = 10_000
POOLED = {"queued_max_request_bytes": str(POOL), "socket_request_max_bytes": str(POOL)}
DUAL = {
    "listeners": "DATA://127.0.0.1:0,CONTROL://127.0.0.1:0",
    "control_plane_listener_name": "CONTROL",
}
PRODUCE, METADATA, LEADER_AND_ISR = 0, 3, 4
AVAILABLE = "kafka.network:type=SocketServer,name=MemoryPoolAvailable"
USED = "kafka.network:type=SocketServer,name=MemoryPoolUsed"
OVERHEAD = 6
"""A test frame's header."""


class Held:
    """Handles produces only when told to; the rest at once."""

    def __init__(self, running: Any, wire: Any) -> None:
        self.began = threading.Event()
        self.may_end = threading.Event()
        self.seen: list[int] = []
        self._wire = wire
        running.handle = self

    def __call__(self, req: Any) -> None:
        self.seen.append(req.correlation_id)
        if req.api_key == PRODUCE:
            self.began.set()
            assert self.may_end.wait(240)
        self._wire.echo(req)


def used(running: Any) -> int:
    return int(running.metrics.value(USED))


def starved(running: Any) -> int:
    """Connections that have something to read, and are not read."""
    planes = running.server._planes()
    return sum(len(p._starved) for parts in planes for p in parts.processors())


def fill(running: Any, wire: Any) -> tuple[Held, Any]:
    """A produce that takes the pool's last byte and is being handled."""
    held, client = Held(running, wire), running.client()
    client.send(wire.request(PRODUCE, 1, b"x" * (POOL - OVERHEAD)))
    assert held.began.wait(60)
    wire.eventually(lambda: used(running) == POOL)
    return held, client


def test_nothing_is_read_while_the_pool_is_empty(start: Any, wire: Any) -> None:
    running = start(num_io_threads="4", **POOLED)
    held, first = fill(running, wire)
    others = [running.client() for _ in range(5)]
    for number, client in enumerate(others, 10):
        client.send(wire.request(METADATA, number))
    wire.eventually(lambda: starved(running) == 5)
    assert held.seen == [1]
    held.may_end.set()
    assert len(first.answer()) == 4 + POOL - OVERHEAD
    for number, client in enumerate(others, 10):
        assert client.answer() == number.to_bytes(4, "big")
    wire.eventually(lambda: used(running) == 0)


def test_without_a_pool_everything_is_read(start: Any, wire: Any) -> None:
    running = start(num_io_threads="4", socket_request_max_bytes=str(POOL))
    held, client = Held(running, wire), running.client()
    client.send(wire.request(PRODUCE, 1, b"x" * (POOL - OVERHEAD)))
    assert held.began.wait(60)
    other = running.client()
    other.send(wire.request(METADATA, 2))
    assert other.answer() == (2).to_bytes(4, "big")
    assert running.metrics.value(AVAILABLE) == 2**63 - 1
    assert used(running) == 0
    held.may_end.set()


def test_the_control_plane_shares_the_pool(start: Any, wire: Any) -> None:
    """An isolation leak that Kafka has too."""
    running = start(num_io_threads="4", **POOLED, **DUAL)
    held, _ = fill(running, wire)
    controller = running.client("CONTROL")
    controller.send(wire.request(LEADER_AND_ISR, 7))
    wire.eventually(lambda: starved(running) == 1)
    assert held.seen == [1]
    held.may_end.set()
    assert controller.answer() == (7).to_bytes(4, "big")


def test_what_keeps_no_bytes_gives_them_back_when_it_is_parsed(start: Any, wire: Any) -> None:
    running = start(num_io_threads="1", **POOLED)
    began, may_end = threading.Event(), threading.Event()

    def handle(req: Any) -> None:
        began.set()
        assert may_end.wait(240)
        wire.echo(req)

    running.handle = handle
    client = running.client()
    client.send(wire.request(METADATA, 1, b"x" * 5000))
    assert began.wait(60)
    wire.eventually(lambda: used(running) == 0)
    may_end.set()
    assert len(client.answer()) == 5004


HELD_UNTIL_HANDLED = {
    # with a field of bytes or records
    "PRODUCE", "JOIN_GROUP", "SYNC_GROUP",
    # forwardable
    "CREATE_TOPICS", "DELETE_TOPICS", "CREATE_ACLS", "DELETE_ACLS", "ALTER_CONFIGS",
    "CREATE_PARTITIONS", "ELECT_LEADERS", "INCREMENTAL_ALTER_CONFIGS",
    "ALTER_PARTITION_REASSIGNMENTS", "LIST_PARTITION_REASSIGNMENTS",
}  # fmt: skip
"""ApiKeys.requiresDelayedAllocation of Kafka 3.9, of all that this broker serves."""


@pytest.mark.parametrize("api", SUPPORTED, ids=lambda api: api.name)
def test_until_when_each_request_occupies_its_bytes(api: ApiKey) -> None:
    """A controller's orders as good as nothing: they are parsed, and their memory is free. When it
    is handled everything is free, and nothing was given back twice."""
    pool = MemoryPool(100)
    frame = int(api).to_bytes(2, "big") + (1).to_bytes(4, "big") + b"x" * 34
    pool.take(len(frame))
    pool.parsing(parse)(frame)
    kept = api.name in HELD_UNTIL_HANDLED
    assert pool.available_bytes == (60 if kept else 100)
    request: Any = SimpleNamespace(api_key=int(api), frame=frame)
    seen: list[int] = []
    pool.handling(lambda _: seen.append(pool.available_bytes))(request)
    assert seen == [60 if kept else 100]
    assert pool.available_bytes == 100


def test_a_part_of_a_request_takes_all_of_its_size_until_its_client_is_gone(
    start: Any, wire: Any
) -> None:
    running = start(**POOLED)
    whole = wire.request(PRODUCE, 1, b"x" * (POOL - OVERHEAD))
    slow, other = running.client(), running.client()
    slow.send(whole[:100])
    wire.eventually(lambda: used(running) == POOL)
    other.send(wire.request(METADATA, 2))
    wire.eventually(lambda: starved(running) == 1)
    slow.send(whole[100:200])  # what was begun goes on
    slow.close()
    assert other.answer() == (2).to_bytes(4, "big")
    wire.eventually(lambda: used(running) == 0)


@pytest.mark.parametrize("api_key", [PRODUCE, METADATA])
@pytest.mark.parametrize("cuts", [(4,), (5, 90), (2, 3, 4, 99)])
def test_a_request_in_pieces_takes_its_size_once(
    start: Any, wire: Any, api_key: int, cuts: tuple[int, ...]
) -> None:
    """Whatever it is cut into; when it has been handled all is free, and so after the next one."""
    running = start(**POOLED)
    client = running.client()
    whole = wire.request(api_key, 1, b"x" * 94)
    for _ in range(2):
        for start_at, end in zip((0, *cuts), (*cuts, len(whole)), strict=True):
            taken = 0 if start_at < 4 else 100
            wire.eventually(lambda taken=taken: used(running) == taken)
            client.send(whole[start_at:end])
        client.answer()
        wire.eventually(lambda: used(running) == 0)


@pytest.mark.parametrize("api_key", [-1, 99])
def test_refused_frames_give_back(start: Any, wire: Any, api_key: int) -> None:
    running = start(**POOLED)
    client = running.client()
    client.send(wire.request(api_key, 1, b"x" * 500))
    if api_key == 99:
        assert client.answer() == b"at once"
    else:
        assert client.is_closed_by_peer()
    wire.eventually(lambda: used(running) == 0)


def test_handlers_that_raise_give_back(start: Any, wire: Any) -> None:
    running = start(**POOLED)

    def handle(_req: Any) -> None:
        raise RuntimeError("planted")

    running.handle = handle
    client = running.client()
    client.send(wire.request(PRODUCE, 1, b"x" * 500))
    assert client.is_closed_by_peer()
    wire.eventually(lambda: used(running) == 0)


def test_the_last_one_in_may_be_larger_than_what_was_left() -> None:
    pool, woken = MemoryPool(100), []
    pool.on_room(lambda: woken.append(pool.available_bytes))
    pool.take(99)
    assert pool.has_room()
    pool.take(99)
    assert (pool.has_room(), pool.available_bytes) == (False, -98)
    pool.give_back(50)
    assert (pool.has_room(), woken) == (False, [])
    pool.give_back(49)
    assert (pool.has_room(), woken) == (True, [1])
    pool.give_back(99)
    assert woken == [1]


@pytest.mark.parametrize("over", [0, 1])
def test_who_waits_is_woken_by_the_first_byte_that_is_free(over: int) -> None:
    """Of either plane, and by no other: also where the pool had been used up to its last byte."""
    pool, woken = MemoryPool(100), []
    for who in ("control", "data"):
        pool.on_room(lambda who=who: woken.append(who))  # type: ignore[misc]
    pool.take(100 + over)
    pool.give_back(over)
    assert (pool.has_room(), woken) == (False, [])
    pool.give_back(1)
    assert (pool.has_room(), woken) == (True, ["control", "data"])
    pool.give_back(99)
    assert woken == ["control", "data"]


@pytest.fixture
def turned() -> Iterator[PooledProcessor]:
    """A network thread that is turned by hand, with 100 bytes."""
    pool = MemoryPool(100)
    processor = PooledProcessor(
        0, pool=pool, listener="L", plane="data", channel=RequestChannel(5),
        parse=pool.parsing(parse), quotas=ConnectionQuotas(9, 9, None), max_request_bytes=100,
        max_idle_ms=-1,
    )  # fmt: skip
    yield processor
    processor._close_all()


def test_who_waits_for_memory_is_served_in_no_order(
    turned: PooledProcessor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Selector.pollSelectionKeys: shuffled when memory was low, or the same ones would be served
    each time."""
    monkeypatch.setattr("nodes.network.memory_pool.random.shuffle", list.reverse)
    pairs = [socket.socketpair() for _ in range(4)]
    waiting = [Connection(ours, "h", 0) for ours, _ in pairs]
    turned._pool.take(100)
    for connection in waiting:
        turned._advance(connection)
    turned._again[waiting[0]] = None  # so that it does not sleep
    turned._poll()
    assert list(turned._starved) == waiting, "there is no room yet"
    turned._again.clear()
    turned._pool.give_back(1)
    turned._poll()
    assert list(turned._again) == waiting[::-1]
    assert not turned._starved
    for pair in pairs:
        for each in pair:
            each.close()


def connected(processor: PooledProcessor, sends: bytes) -> tuple[Connection, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.sendall(sends)
    connection = Connection(ours, "h", 0)
    processor._quotas.add("L", "h")
    processor._connections[connection.fd] = connection
    connection.readable = True
    return connection, theirs


def test_who_goes_while_it_waits_for_memory_is_forgotten(turned: PooledProcessor) -> None:
    """Idle, or one too many: nothing is left of it, however long there is no room."""
    turned._pool.take(100)
    connection, theirs = connected(turned, b"")
    turned._advance(connection)
    assert list(turned._starved) == [connection]
    turned._close(connection)
    assert not turned._starved
    theirs.close()


def test_who_got_memory_meanwhile_has_one_request_in_flight_all_the_same(
    turned: PooledProcessor, wire: Any
) -> None:
    """It had waited for memory, and was read because more came in when there was room again: its
    next request waits for the answer to the first."""
    turned._pool.take(100)
    connection, theirs = connected(turned, wire.request(METADATA, 1) + wire.request(METADATA, 2))
    turned._advance(connection)
    turned._pool.give_back(100)
    turned._take_in([(connection.fd, select.EPOLLIN)])
    assert connection.muted
    turned._turn()
    assert turned._channel.size() == 1
    theirs.close()


@pytest.mark.parametrize("closed", [True, False])
def test_what_was_read_for_a_connection_that_is_gone_gives_back(closed: bool) -> None:
    """It was closed in the very turn in which its request was complete: nobody parses that."""
    pool = MemoryPool(100)
    processor = PooledProcessor(
        0, pool=pool, listener="L", plane="data", channel=RequestChannel(5),
        parse=pool.parsing(parse), quotas=ConnectionQuotas(9, 9, None), max_request_bytes=100,
        max_idle_ms=-1,
    )  # fmt: skip
    ours, theirs = socket.socketpair()
    connection = Connection(ours, "h", 0)
    frame = (0).to_bytes(2, "big") + (1).to_bytes(4, "big")
    pool.take(len(frame))
    processor._received = [(connection, frame, 1)]
    if closed:
        connection.fd = -1
    processor._enqueue_received()
    assert pool.available_bytes == (100 if closed else 94), "a Produce keeps it till it is handled"
    processor._close_all()
    for each in (ours, theirs):
        each.close()

"""Which connection a network thread gives up: ``connections.max.idle.ms`` and ``max.connections``
(Selector.maybeCloseOldestConnection, Processor.closeExcessConnections). In both cases the least
recently used one, one a turn."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.network.connection import Connection
from nodes.network.processor import Processor
from nodes.network.quotas import ConnectionQuotas
from nodes.network.request_channel import Plane, RequestChannel

SECOND_NS = 1_000_000_000
IDLE_MS = 60_000


class Thread:
    """A processor that is turned by hand, with its clock in `now_s`."""

    def __init__(
        self, plane: Plane, max_connections: int = 100, max_idle_ms: int = IDLE_MS
    ) -> None:
        self.now_s = 0.0
        self.quotas = ConnectionQuotas(max_connections, 100, "PROTECTED")
        self.processor = Processor(
            0,
            listener="L",
            plane=plane,
            channel=RequestChannel(10),
            parse=lambda frame: (_HEADER, frame),
            quotas=self.quotas,
            max_request_bytes=100,
            max_idle_ms=max_idle_ms,
            now_ns=lambda: int(self.now_s * SECOND_NS),
        )
        self.peers: list[socket.socket] = []

    def connection(self, active_s: float) -> Connection:
        """One that was last used then."""
        ours, theirs = socket.socketpair()
        self.peers.append(theirs)
        made = Connection(ours, "h", int(active_s * SECOND_NS))
        # Above the limit only who is protected gets in.
        self.quotas.add("PROTECTED", "h")
        self.processor._connections[made.fd] = made
        return made

    def close(self) -> None:
        self.processor._close_all()
        for peer in self.peers:
            peer.close()


_HEADER: Any = SimpleNamespace(
    api_key=0, api_version=0, correlation_id=1, client_id=None, body_offset=0
)


@pytest.fixture(params=["data", "control"])
def thread(request: pytest.FixtureRequest) -> Iterator[Thread]:
    made = Thread(request.param)
    yield made
    made.close()


def left(*connections: Connection) -> list[bool]:
    return [connection.fd >= 0 for connection in connections]


def test_who_idles_longest_goes_first(thread: Thread) -> None:
    """Not before its time, which is counted in milliseconds, and no other with it."""
    late, first, second = (thread.connection(active_s) for active_s in (50, 1, 2))
    thread.now_s = 60.999
    thread.processor._expire()
    assert left(first, second, late) == [True, True, True]
    thread.now_s = 63
    thread.processor._expire()
    assert left(first, second, late) == [False, True, True], "one a turn"
    thread.processor._expire()
    assert left(first, second, late) == [False, False, True]
    thread.now_s = 109.999
    thread.processor._expire()
    assert left(late) == [True]
    thread.now_s = 110
    thread.processor._expire()
    assert left(late) == [False]
    assert thread.quotas.total == 0


@pytest.mark.parametrize(("max_idle_ms", "stays"), [(-1, True), (0, False), (1, False)])
def test_minus_one_lets_everybody_idle(max_idle_ms: int, stays: bool) -> None:
    """Selector.NO_IDLE_TIMEOUT_MS."""
    thread = Thread("data", max_idle_ms=max_idle_ms)
    connection = thread.connection(1)
    thread.now_s = 10**9
    thread.processor.stop()  # so that a turn does not wait for events
    thread.processor._turn()
    assert left(connection) == [stays]
    thread.close()


@pytest.mark.parametrize("gives_up", ["_expire", "_close_least_recently_used"])
def test_who_waits_for_an_answer_goes_like_others(thread: Thread, gives_up: str) -> None:
    """Selector.lowestPriorityChannel, pollExpiredConnection: neither asks whether a request of the
    connection's is under way."""
    newest, oldest = thread.connection(2), thread.connection(1)
    oldest.muted = True
    thread.now_s = 61
    getattr(thread.processor, gives_up)()
    assert left(oldest, newest) == [False, True]


def test_a_request_is_a_use(thread: Thread) -> None:
    """Counted from when it was read whole."""
    connection = thread.connection(1)
    thread.processor._dispatch(connection, b"", 30 * SECOND_NS)
    thread.now_s = 89
    thread.processor._expire()
    assert left(connection) == [True]
    thread.now_s = 90
    thread.processor._expire()
    assert left(connection) == [False]


def test_an_answer_is_a_use(thread: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic_ns", lambda: 40 * SECOND_NS)
    connection = thread.connection(1)
    thread.processor._finished(connection, None)
    thread.now_s = 99
    thread.processor._expire()
    assert left(connection) == [True]
    thread.now_s = 100
    thread.processor._expire()
    assert left(connection) == [False]


def test_a_part_of_a_request_is_a_use(thread: Thread) -> None:
    """Selector.pollSelectionKeys: whatever there is to read, a whole request or not. Whoever sends
    a large one slowly is not cut off in the middle of it."""
    connection = thread.connection(1)
    connection.socket.setblocking(False)
    for part, now_s in ((b"\0\0", 30), (b"\0\x50part", 80)):
        thread.now_s = now_s
        thread.peers[-1].send(part)
        connection.readable = True
        thread.processor._advance(connection)
        thread.now_s = now_s + 59
        thread.processor._expire()
        assert left(connection) == [True]
    thread.now_s = 140
    thread.processor._expire()
    assert left(connection) == [False]


def test_a_part_of_an_answer_is_a_use(thread: Thread) -> None:
    """The same: a slow reader is not idle as long as it reads. A socket that is full is no use."""
    connection = thread.connection(1)
    connection.socket.setblocking(False)
    thread.now_s = 30
    thread.processor._send(connection, bytes(10_000_000), None)
    for now_s in (80, 130):
        thread.now_s = now_s
        thread.processor._expire()
        assert left(connection) == [True]
        thread.peers[-1].recv(1_000_000)
        thread.processor._continue_sending(connection)
    for now_s in (150, 189):
        thread.now_s = now_s
        thread.processor._continue_sending(connection)
        thread.processor._expire()
        assert left(connection) == [True]
    thread.now_s = 190
    thread.processor._expire()
    assert left(connection) == [False]


@pytest.mark.parametrize("plane", ["data", "control"])
@pytest.mark.parametrize(("limit", "closed"), [(3, 0), (2, 1), (1, 1)])
def test_above_the_limit_the_least_recently_used_one_goes(
    limit: int, closed: int, plane: Plane
) -> None:
    """One a turn, until the count fits; the limit itself is allowed. A control plane's go as others
    do: an isolation leak that KIP-291 leaves."""
    thread = Thread(plane, max_connections=limit)
    newest, oldest, middle = (thread.connection(active_s) for active_s in (9, 7, 8))
    thread.processor.stop()  # so that a turn does not wait for events
    thread.processor._turn()
    assert left(oldest, middle, newest) == [closed == 0, True, True]
    thread.close()


def test_so_many_new_connections_are_taken_in_a_turn(thread: Thread) -> None:
    """Processor.configureNewConnections: all that its queue holds, which is 20, before anything is
    read; whoever comes then finds room."""
    for _ in range(2):
        for _ in range(20):
            ours, theirs = socket.socketpair()
            thread.peers.append(theirs)
            thread.quotas.add("PROTECTED", "h")
            assert thread.processor.offer(ours, "h", block=False)
        before = thread.processor.connection_count
        assert not thread.processor.offer(ours, "h", block=False), "the queue is full"
        thread.processor._take_new_connections()
        assert thread.processor.connection_count == before + 20


def test_others_have_their_turn_while_connections_keep_coming(
    thread: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No more than 20 a turn, though for each that is taken another one is there."""

    def offer() -> None:
        ours, theirs = socket.socketpair()
        thread.peers.append(theirs)
        thread.quotas.add("PROTECTED", "h")
        assert thread.processor.offer(ours, "h", block=False)

    def taken(*args: Any) -> Connection:
        assert thread.processor.connection_count < 40, "nobody else would ever have a turn"
        offer()
        return Connection(*args)

    monkeypatch.setattr("nodes.network.processor.Connection", taken)
    offer()
    for turn in (1, 2):
        thread.processor._take_new_connections()
        assert thread.processor.connection_count == 20 * turn

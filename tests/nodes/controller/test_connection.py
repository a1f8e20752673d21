"""The controller's connection to one broker, against listening sockets."""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodes.controller.connection import BrokerConnection, Interrupted

PATIENCE_MS = 60_000


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture
def connection(listening: socket.socket) -> Iterator[BrokerConnection]:
    made = BrokerConnection(*listening.getsockname())
    yield made
    made.dispose()


def refusing() -> tuple[str, int]:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address: tuple[str, int] = probe.getsockname()
        return address


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: tuple[str, int]) -> None:
    """A host with several addresses."""
    rows = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_kwargs: rows)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def until(condition: Callable[[], bool]) -> None:
    """Threads of other tests may come and go meanwhile; what is left open stays so."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def ends_soon(call: Callable[[], Any]) -> BaseException | None:
    """What a call raises; it must end long before a wait in the wrong unit would."""
    found: list[BaseException | None] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            found.append(error)
        else:
            found.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(30)
    assert found, "it still waits"
    return found[0]


def test_every_address_of_a_host_is_tried(
    listening: socket.socket, connection: BrokerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In order, until one takes the connection; of those that did not nothing is left open."""
    resolving(monkeypatch, refusing(), refusing(), listening.getsockname())
    before = descriptors()
    connection.connect(PATIENCE_MS)
    assert connection.is_connected
    until(lambda: descriptors() <= before + 1)
    with listening.accept()[0] as accepted:
        assert accepted.getpeername() == connection._socket.getsockname()  # type: ignore[union-attr]


def test_no_address_takes_it(connection: BrokerConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    resolving(monkeypatch, refusing(), refusing())
    before = descriptors()
    with pytest.raises(ConnectionRefusedError):
        connection.connect(PATIENCE_MS)
    assert not connection.is_connected
    until(lambda: descriptors() <= before)


def test_the_time_is_for_all_addresses_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """``controller.socket.timeout.ms``, of however many of them nothing comes back."""
    ends: list[float] = []

    def nothing(_self: Any, _waited: socket.socket, _events: int, deadline: float) -> None:
        ends.append(deadline)
        raise TimeoutError

    monkeypatch.setattr(BrokerConnection, "_wait", nothing)
    resolving(monkeypatch, *[refusing()] * 3)
    connection = BrokerConnection("several", 1)
    with pytest.raises(TimeoutError):
        connection.connect(PATIENCE_MS)
    connection.dispose()
    assert len(ends) == 3
    assert len(set(ends)) == 1


def test_small_requests_are_not_held_back(
    listening: socket.socket, connection: BrokerConnection
) -> None:
    """As of any of Kafka's clients (Selector.configureSocketChannel)."""
    connection.connect(PATIENCE_MS)
    assert connection._socket is not None
    assert connection._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
    assert connection._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def test_an_answer_that_does_not_come_is_waited_for_in_milliseconds(
    listening: socket.socket, connection: BrokerConnection
) -> None:
    connection.connect(PATIENCE_MS)
    problem = ends_soon(lambda: connection.exchange(b"\0\0\0\1x", 100))
    assert isinstance(problem, TimeoutError)


def test_half_an_answer_is_none(listening: socket.socket, connection: BrokerConnection) -> None:
    """The time is for all of it, not for each piece."""
    connection.connect(PATIENCE_MS)
    with listening.accept()[0] as peer:
        peer.sendall(b"\0\0\0\5ab")
        assert isinstance(ends_soon(lambda: connection.exchange(b"q", 100)), TimeoutError)


def test_a_dial_is_waited_for_in_milliseconds(
    connection: BrokerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that answers nothing at all: the dial stays in progress."""
    wait = connection._wait
    silent, other = socket.socketpair()
    monkeypatch.setattr(socket.socket, "connect_ex", lambda *_: errno.EINPROGRESS)
    # On loopback every dial ends at once: a socket that stays silent is in its place.
    monkeypatch.setattr(
        connection, "_wait", lambda _dial, _out, until: wait(silent, select.POLLIN, until)
    )
    with silent, other:
        assert isinstance(ends_soon(lambda: connection.connect(100)), TimeoutError)
    assert not connection.is_connected


@pytest.mark.parametrize("size", [-1, 100 * 1024 * 1024 + 1])
def test_an_answer_of_a_senseless_size_is_not_waited_for(
    listening: socket.socket, connection: BrokerConnection, size: int
) -> None:
    connection.connect(PATIENCE_MS)
    with listening.accept()[0] as peer:
        peer.sendall(size.to_bytes(4, "big", signed=True))
        with pytest.raises(ConnectionError, match=f"response of {size} bytes"):
            connection.exchange(b"q", PATIENCE_MS)


@pytest.mark.parametrize("size", [0, 1, 1 << 20, 100 * 1024 * 1024])
def test_any_sensible_size_is(
    listening: socket.socket,
    connection: BrokerConnection,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
) -> None:
    """The twin: what a broker answers about tens of thousands of partitions is taken."""
    asked: list[int] = []

    def receive(count: int, _deadline: float) -> bytes:
        asked.append(count)
        return size.to_bytes(4, "big") if len(asked) == 1 else b"answer"

    connection.connect(PATIENCE_MS)
    monkeypatch.setattr(connection, "_receive", receive)
    assert connection.exchange(b"q", PATIENCE_MS) == b"answer"
    assert asked == [4, size]


def test_the_time_is_for_the_whole_exchange(
    listening: socket.socket, connection: BrokerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``request.timeout.ms`` from the first byte sent to the last one received: a broker that
    answers a byte now and then has not that time for each, nor one that takes a large request in
    a piece at a time."""
    connection.connect(PATIENCE_MS)
    request = bytes(16_000_000)
    ends: list[float] = []
    sends = 0
    wait = connection._wait

    def noted(waited: socket.socket, events: int, deadline: float) -> None:
        nonlocal sends
        sends += events == select.POLLOUT
        ends.append(deadline)
        wait(waited, events, deadline)

    monkeypatch.setattr(connection, "_wait", noted)
    before = time.monotonic()
    broker = answering(listening, len(request), [b"\0\0", b"\0\6", b"an", b"sw", b"er"])
    assert connection.exchange(request, PATIENCE_MS) == b"answer"
    broker.join(30)
    assert sends >= 2
    assert len(ends) >= sends + 2
    (end,) = set(ends)
    assert before + PATIENCE_MS / 1000 <= end <= time.monotonic() + PATIENCE_MS / 1000


def test_who_is_interrupted_takes_no_answer(
    listening: socket.socket, connection: BrokerConnection
) -> None:
    """Even one that is there: its broker was removed, what it says counts no more."""
    connection.connect(PATIENCE_MS)
    with listening.accept()[0] as peer:
        peer.sendall(b"\0\0\0\2ok")
        connection.interrupt()
        with pytest.raises(Interrupted):
            connection.exchange(b"q", PATIENCE_MS)
    with pytest.raises(Interrupted):
        connection.connect(PATIENCE_MS)


def test_nothing_is_left_open(listening: socket.socket) -> None:
    before = descriptors()
    made = BrokerConnection(*listening.getsockname())
    made.connect(PATIENCE_MS)
    made.dispose()
    until(lambda: descriptors() <= before)


def answering(listening: socket.socket, take: int, pieces: list[bytes]) -> threading.Thread:
    """A broker that reads so many bytes in small bites and answers piece by piece; then it hangs
    up."""

    def run() -> None:
        with listening.accept()[0] as peer:
            left = take
            while left:
                left -= len(peer.recv(min(left, 10_000)))
            for piece in pieces:
                peer.sendall(piece)
                time.sleep(0.002)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@pytest.mark.slow
def test_large_requests_and_answers_in_pieces_are_whole(
    listening: socket.socket, connection: BrokerConnection
) -> None:
    """A LeaderAndIsr of thousands of partitions is more than a socket takes at once."""
    frame, answer = os.urandom(3_000_000), os.urandom(1_000)
    whole = len(answer).to_bytes(4, "big") + answer
    connection.connect(PATIENCE_MS)
    assert connection._socket is not None
    connection._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    broker = answering(listening, len(frame), [whole[:2], whole[2:7], whole[7:500], whole[500:]])
    assert connection.exchange(frame, PATIENCE_MS) == answer
    broker.join(30)
    assert not broker.is_alive(), "it has read all of it"


@pytest.mark.parametrize("sent", range(6))
def test_a_broker_that_hangs_up_has_not_answered(
    listening: socket.socket, connection: BrokerConnection, sent: int
) -> None:
    """Before its answer, in its size, or in the middle of it."""
    connection.connect(PATIENCE_MS)
    answering(listening, 5, [b"\0\0\0\3ab"[:sent]] if sent else [])
    with pytest.raises(ConnectionResetError):
        connection.exchange(b"\0\0\0\1x", PATIENCE_MS)

"""Nobody waits for the end of a poll: new connections, answers and endings wake their thread. And
what a network thread does in one turn (SocketServer's Acceptor and Processor)."""

from __future__ import annotations

import itertools
import select
import socket
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.config import BrokerConfig
from nodes.listeners import Endpoint
from nodes.metrics import Metrics
from nodes.network.acceptor import Acceptor
from nodes.network.connection import Connection
from nodes.network.processor import CONNECTION_QUEUE_SIZE, SCRATCH_BYTES, Processor
from nodes.network.quotas import ConnectionQuotas
from nodes.network.request_channel import Request, RequestChannel
from nodes.network.socket_server import SocketServer
from tests.nodes.network.conftest import PATIENCE_S, Client, echo, eventually, parse

PLANES = {
    "listeners": "DATA://127.0.0.1:0,CLIENT://127.0.0.1:0,CONTROL://127.0.0.1:0",
    "listener_security_protocol_map": "DATA:PLAINTEXT,CLIENT:PLAINTEXT,CONTROL:PLAINTEXT",
    "control_plane_listener_name": "CONTROL",
}
LISTENERS = ("DATA", "CLIENT", "CONTROL")


@pytest.fixture
def sleeps_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """A poll of a network thread ends for a reason or not at all."""
    monkeypatch.setattr("nodes.network.processor.POLL_TIMEOUT_S", 100 * PATIENCE_S)


def a_processor(channel: RequestChannel | None = None, **options: Any) -> Processor:
    return Processor(
        0,
        listener="L",
        plane="data",
        channel=channel or RequestChannel(10),
        parse=parse,
        quotas=ConnectionQuotas(1000, 1000, None),
        max_request_bytes=100,
        max_idle_ms=60_000,
        **options,
    )


@pytest.fixture
def by_hand() -> Iterator[Callable[..., Processor]]:
    made: list[Processor] = []

    def make(*args: Any, **options: Any) -> Processor:
        made.append(a_processor(*args, **options))
        return made[-1]

    yield make
    for each in made:
        each._close_all()


def a_request(processor: Processor, connection: Any, number: int = 1) -> Request:
    header: Any = SimpleNamespace(
        api_key=0, api_version=0, correlation_id=number, client_id=None, body_offset=0
    )
    return Request(processor, connection, header, None, b"", "L", "data", "h", 1)


# ---- waking --------------------------------------------------------------------------------------


@pytest.mark.usefixtures("sleeps_long")
@pytest.mark.parametrize("name", LISTENERS)
def test_connections_and_answers_wake_the_network_thread(start: Any, wire: Any, name: str) -> None:
    """Of either plane, each of several connections: it has gone to sleep before every step."""
    running = start(**PLANES)
    waiting: list[Request] = []
    running.handle = waiting.append
    (processor,) = (
        p for parts in running.server._planes() for p in parts.processors() if p.listener == name
    )
    for number in range(3):
        eventually(lambda: processor._asleep)
        client = running.client(name)
        client.send(wire.request(0, number))
        eventually(lambda: bool(waiting))
        eventually(lambda: processor._asleep)
        waiting.pop().respond(wire.frame_of(b"%d" % number))
        assert client.answer() == b"%d" % number


@pytest.mark.usefixtures("sleeps_long")
def test_a_network_thread_that_is_stopped_wakes() -> None:
    processor = a_processor()
    thread = threading.Thread(target=processor.run)
    thread.start()
    eventually(lambda: processor._asleep)
    processor.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


class Polls:
    """An epoll that notes how long it was to wait; every other time something comes of it."""

    def __init__(self, real: Any, takes_ns: Callable[[], None]) -> None:
        self._real, self._takes_ns = real, takes_ns
        self.waits_s: list[float] = []

    def poll(self, timeout_s: float) -> list[tuple[int, int]]:
        self.waits_s.append(timeout_s)
        self._takes_ns()
        return [(-1, select.EPOLLIN)] * (len(self.waits_s) % 2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _again(processor: Processor, connection: Any) -> None:
    processor._again[connection] = None


def _unsent(processor: Processor, connection: Any) -> None:
    processor._unsent[connection] = None


TO_DO: dict[str, Callable[[Processor, Any], object]] = {
    "more of a request": _again,
    "more of an answer": _unsent,
    "an answer": lambda processor, _: processor._replies.append((a_request(processor, None), b"")),
    "a connection": lambda processor, _: processor._accepted.put((socket.socket(), "h")),
    "the end": lambda processor, _: setattr(processor, "_running", False),
}


@pytest.mark.parametrize("what", TO_DO)
def test_whoever_has_something_to_do_does_not_wait_for_more(
    by_hand: Any, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever came just before the thread went to sleep: nobody would wake it. Only a wait is idle
    time, and all waits are (io-wait-ratio)."""
    now_ns = [1000]
    monkeypatch.setattr("nodes.network.processor.time.monotonic_ns", lambda: now_ns[0])
    processor = by_hand()

    def takes() -> None:
        now_ns[0] += 7

    polls = processor._epoll = Polls(processor._epoll, takes)
    for _ in range(2):
        processor._poll()
    assert polls.waits_s == [0.3, 0.3]
    assert processor.idle_ns == 14
    TO_DO[what](processor, Connection(socket.socket(), "h", 0))
    processor._poll()
    assert polls.waits_s == [0.3, 0.3, 0]
    assert processor.idle_ns == 14
    assert not processor._asleep
    processor._replies.clear()


class LastLook:
    """A queue of new connections in which nothing is, and which something happens right after."""

    def __init__(self, real: Any, happens: Callable[[], object]) -> None:
        self._real, self._happens = real, [happens]

    def empty(self) -> bool:
        was_empty: bool = self._real.empty()
        while self._happens:
            self._happens.pop()()
        return was_empty

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


NEWS: dict[str, Callable[[Processor], object]] = {
    "an answer": lambda processor: processor.reply(a_request(processor, None), b""),
    "a connection": lambda processor: processor.offer(socket.socket(), "h", block=False),
    "the end": Processor.stop,
}


@pytest.mark.usefixtures("sleeps_long")
@pytest.mark.parametrize("news", NEWS)
def test_what_happens_between_the_last_look_and_the_sleep_wakes(by_hand: Any, news: str) -> None:
    """A controller's request would be answered up to 300 ms late, once in a while."""
    processor = by_hand()
    processor._epoll.poll(0)  # whatever woke it before
    processor._accepted = LastLook(processor._accepted, lambda: NEWS[news](processor))
    polling = threading.Thread(target=processor._poll, daemon=True)
    polling.start()
    polling.join(PATIENCE_S)
    assert not polling.is_alive()
    processor._replies.clear()


def an_acceptor(processors: Any = (), host: str = "127.0.0.1") -> Acceptor:
    quotas = ConnectionQuotas(1000, 1000, None)
    return Acceptor(Endpoint("L", "PLAINTEXT", host, 0), processors, quotas, backlog=1)


def test_an_acceptor_that_is_stopped_wakes() -> None:
    acceptor = an_acceptor()
    acceptor.bind()
    acceptor.listen()
    thread = threading.Thread(target=acceptor.run)
    thread.start()
    acceptor.stop()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    acceptor.close()


# ---- who takes a connection ----------------------------------------------------------------------


class Queue:
    """What an acceptor sees of a processor: room for so many connections."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.asked: list[bool] = []
        """`block` of each offer."""

    def offer(self, _sock: socket.socket, _host: str, *, block: bool) -> bool:
        self.asked.append(block)
        if not self.room and not block:
            return False
        self.room = max(0, self.room - 1)
        return True


@pytest.mark.parametrize("rooms", itertools.product((0, 1, 3), repeat=3))
def test_a_connection_goes_to_the_next_that_has_room(rooms: tuple[int, ...]) -> None:
    """Acceptor.acceptNewConnections: round robin; the last one blocks the acceptor, when all are
    full, and no other. Who is frozen by a full request queue keeps nobody from the
    others."""
    queues = [Queue(room) for room in rooms]
    acceptor = an_acceptor(queues)
    at = 0
    for _ in range(8):
        left = [queue.room for queue in queues]
        order = [(at + i) % 3 for i in range(3)]
        free = [i for i in order if left[i]]
        taker = free[0] if free else order[-1]
        for queue in queues:
            queue.asked.clear()
        with socket.socket() as client:
            acceptor._hand_over(client, "h")
        assert [q.room for q in queues] == [
            max(0, room - (i == taker)) for i, room in enumerate(left)
        ]
        assert [any(q.asked) for q in queues] == [not free and i == taker for i in range(3)]
        at = taker + 1
    acceptor.close()


def test_every_wait_of_an_acceptor_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """AcceptorBlockedPercent is of all the time that it was blocked, however often, by whatever: a
    slot that was not free, or a network thread that takes nobody over."""
    now_ns = [0]
    monkeypatch.setattr("nodes.network.acceptor.time.monotonic_ns", lambda: now_ns[0])

    class Frozen(Queue):
        def offer(self, sock: socket.socket, host: str, *, block: bool) -> bool:
            now_ns[0] += 7 if block else 0
            return super().offer(sock, host, block=block)

    acceptor = an_acceptor([Frozen(0), Frozen(0)])
    monkeypatch.setattr(acceptor._quotas, "add", lambda *_: 100)
    for times in range(1, 4):
        with socket.socket() as client:
            acceptor._hand_over(client, "h")
        assert acceptor.blocked_ns == times * 107
    acceptor.close()


def test_an_answers_way_ends_when_it_has_left(
    by_hand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ResponseSendTimeMs is from the turn to the last byte; and only then the connection was
    used."""
    now_ns = [100]
    monkeypatch.setattr("nodes.network.processor.time.monotonic_ns", lambda: now_ns[0])
    processor = by_hand()
    ours, theirs = socket.socketpair()
    connection = Connection(ours, "h", 0)
    request = a_request(processor, connection)
    request.respond(b"answer")

    def send(data: Any) -> int:
        now_ns[0] = 130
        return len(data)

    connection.send = send  # type: ignore[assignment]
    processor._write_replies()
    ((*_, taken_ns, sent_ns, _),) = processor.times.windows[0]
    assert (taken_ns, sent_ns, connection.last_active_ns) == (100, 130, 130)
    for each in (ours, theirs):
        each.close()


def test_answers_of_one_turn_are_taken_off_the_queue_at_once(
    by_hand: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kafka's thread empties its queue before it writes: who comes later in the turn waits in
    ResponseSendTimeMs, not in ResponseQueueTimeMs."""
    now_ns = [100]
    monkeypatch.setattr("nodes.network.processor.time.monotonic_ns", lambda: now_ns[0])
    processor = by_hand()
    pairs = [socket.socketpair() for _ in range(3)]

    def send(data: Any) -> int:
        now_ns[0] += 30
        return len(data)

    for ours, _ in pairs:
        connection = Connection(ours, "h", 0)
        connection.send = send  # type: ignore[assignment]
        a_request(processor, connection).respond(b"answer")
    now_ns[0] = 100
    processor._write_replies()
    rows = [(taken_ns, sent_ns) for *_, taken_ns, sent_ns, _ in processor.times.windows[0]]
    assert rows == [(100, 130), (100, 160), (100, 190)]
    for pair in pairs:
        for each in pair:
            each.close()


def test_a_frozen_network_thread_keeps_20_waiting_and_no_more(by_hand: Any) -> None:
    """All that wait are taken in one turn, and their places are free again."""
    processor = by_hand()
    for _ in range(3):
        pairs = [socket.socketpair() for _ in range(CONNECTION_QUEUE_SIZE)]
        assert all(processor.offer(ours, "h", block=False) for ours, _ in pairs)
        with socket.socket() as one_more:
            assert not processor.offer(one_more, "h", block=False)
        before = processor.connection_count
        processor._take_new_connections()
        assert processor.connection_count == before + CONNECTION_QUEUE_SIZE
        for _, theirs in pairs:
            theirs.close()


class Endless:
    """A stream of which there is always more."""

    def __len__(self) -> int:
        return 1

    def fill(self, buffer: memoryview) -> int:
        return len(buffer)


def test_others_are_taken_in_while_somebody_reads_an_endless_answer(by_hand: Any) -> None:
    """A turn has a share for everybody: who reads as fast as it is sent is not alone."""
    processor = by_hand()
    ours, theirs = socket.socketpair()
    new, its_client = socket.socketpair()
    with theirs, its_client:
        reader = Connection(ours, "h", 0)
        reader.send = len  # type: ignore[assignment]
        processor._connections[reader.fd] = reader
        processor._send(reader, Endless(), None)
        assert reader in processor._unsent
        assert processor.offer(new, "h", block=False)
        processor._turn()
        assert processor.connection_count == 2
        assert reader in processor._unsent


@pytest.mark.parametrize("beyond", [-1, 0, 1, 1000])
def test_what_is_behind_a_full_buffer_is_read_without_another_edge(
    by_hand: Any, beyond: int
) -> None:
    """All that a client sends is there at once, and nothing comes after it: an edge tells of it
    once, and one read takes a buffer's worth."""
    processor = by_hand()
    processor._max_request_bytes = 1 << 20
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with theirs:
        connection = Connection(ours, "h", 0)
        processor._connections[connection.fd] = connection
        processor._epoll.register(connection.fd, select.EPOLLIN | select.EPOLLET)
        size = SCRATCH_BYTES + beyond - 4
        theirs.sendall(size.to_bytes(4, "big") + bytes(size))
        turns = 0
        while not connection.muted:
            turns += 1
            assert turns <= 3, "nobody reads on"
            events = processor._epoll.poll(0)
            again, processor._again = processor._again, {}
            for each in again:
                processor._advance(each)
            processor._take_in(events)
        ((_, frame, _),) = processor._received
        assert len(frame) == size


def test_a_new_connection_has_not_idled(by_hand: Any) -> None:
    """However long the machine has been up; its time runs from when it was taken in."""
    now_ms = [10_000_000]
    processor = by_hand(now_ns=lambda: now_ms[0] * 1_000_000)
    ours, theirs = socket.socketpair()
    processor.offer(ours, "h", block=False)
    processor._take_new_connections()
    for passed_ms, there in ((0, 1), (59_999, 1), (60_000, 0)):
        now_ms[0] = 10_000_000 + passed_ms
        processor._expire()
        assert processor.connection_count == there
    theirs.close()


def test_addresses_are_counted_without_their_ports(start: Any, wire: Any) -> None:
    """``max.connections.per.ip``: every connection has another port."""
    running = start(max_connections_per_ip="2", **PLANES)
    for name in ("CONTROL", "DATA"):
        client = running.client(name)
        client.send(wire.request(0, 1))
        client.answer()
    for name in LISTENERS:
        assert running.client(name).is_closed_by_peer()


# ---- before and after ----------------------------------------------------------------------------


def test_nobody_gets_in_before_the_server_is_enabled() -> None:
    """Ports are known and requests can be handled before anybody is heard (KafkaServer.startup:
    enableRequestProcessing comes last)."""
    config = BrokerConfig.from_properties(
        {
            "broker.id": "1",
            "zookeeper.connect": "unused:1",
            "inter.broker.listener.name": "DATA",
            "biplane.control.priority": "false",
            **{name.replace("_", "."): value for name, value in PLANES.items()},
        }
    )
    server = SocketServer(config, parse, Metrics())
    ports = [endpoint.port for endpoint in server.bind().values()]

    def refused() -> list[bool]:
        found = []
        for port in ports:
            with socket.socket() as dial:
                found.append(dial.connect_ex(("127.0.0.1", port)) != 0)
        return found

    assert refused() == [True] * 3
    server.start_handlers(echo)
    assert refused() == [True] * 3
    server.enable_request_processing()
    assert refused() == [False] * 3
    for _ in range(2):  # a shutdown after one that failed half-way
        server.stop_processing_requests()
        server.shutdown()
    assert refused() == [True] * 3


@pytest.mark.parametrize("name", LISTENERS)
def test_what_waits_when_sockets_are_closed_is_not_handled(
    start: Any, wire: Any, name: str
) -> None:
    """SocketServer.stopProcessingRequests clears both planes' queues, as nobody could be answered.
    What a handler is at is finished."""
    running = start(num_io_threads="1", queued_max_requests="20", **PLANES)
    held, handled = threading.Event(), []

    def waits(request: Request) -> None:
        handled.append(request.correlation_id)
        assert held.wait(PATIENCE_S)
        request.respond_nothing()

    running.handle = waits
    (parts,) = (p for p in running.server._planes() if any(
        listener.acceptor.endpoint.name == name for listener in p.listeners
    ))  # fmt: skip
    running.client(name).send(wire.request(0, 1))
    eventually(lambda: handled == [1])
    for number in range(2, 12):
        running.client(name).send(wire.request(0, number))
    eventually(lambda: parts.channel.size() == 10)
    running.server.stop_processing_requests()
    parts.channel.end_handlers(1)
    running.server.stop_processing_requests()
    assert parts.channel.size() == 1, "what ends the handler stays"
    held.set()
    running.server.shutdown()
    assert handled == [1]


def test_listeners_may_have_version_six_addresses() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as refused:
        pytest.skip(f"no loopback of version six here: {refused}")
    acceptor = an_acceptor(host="::1")
    port = acceptor.bind().port
    acceptor.listen()
    with socket.create_connection(("::1", port), PATIENCE_S):
        pass
    acceptor.close()


def test_who_is_let_go_from_a_full_queue_queues_nothing_more(by_hand: Any) -> None:
    channel = RequestChannel(10)
    processor = by_hand(channel)
    ours, theirs = socket.socketpair()
    connection = Connection(ours, "h", 0)
    frame = (0).to_bytes(2, "big") + (1).to_bytes(4, "big")
    processor._received = [(connection, frame, 1)] * 2
    processor._enqueue_received()
    assert channel.size() == 2
    processor._received = [(connection, frame, 1)] * 2
    processor.stop()
    processor._enqueue_received()
    assert channel.size() == 2
    for each in (ours, theirs):
        each.close()


# ---- what goes wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [KeyError, OSError, AttributeError])
def test_whatever_happens_in_a_turn_the_thread_goes_on(
    start: Any, wire: Any, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start()
    take_in, failures = Processor._take_in, [error("planted")]

    def fails_once(self: Processor, events: Any) -> None:
        if failures and events:
            raise failures.pop()
        take_in(self, events)

    monkeypatch.setattr(Processor, "_take_in", fails_once)

    def asks() -> Client:
        client: Client = running.client()
        client.send(wire.request(0, 7))
        return client

    asks()
    eventually(lambda: not failures)
    assert asks().answer() == (7).to_bytes(4, "big")


@pytest.mark.parametrize("error", [KeyError, OSError, ValueError])
def test_what_follows_an_answer_and_fails_holds_up_no_other(
    by_hand: Any, error: type[Exception]
) -> None:
    """Of the same turn: each is sent, and its connection may ask again."""
    processor = by_hand()
    followed = []

    def fails(_sent_ns: int) -> None:
        followed.append(True)
        raise error("planted")

    peers = []
    for number in range(3):
        ours, theirs = socket.socketpair()
        connection = Connection(ours, "h", 0)
        connection.muted = True
        peers.append((connection, theirs))
        request = a_request(processor, connection, number)
        request.on_sent = fails
        request.respond(b"answer")
    processor._write_replies()
    assert len(followed) == 3
    for connection, theirs in peers:
        assert theirs.recv(100) == b"answer"
        assert not connection.muted
        theirs.close()
        connection.socket.close()


@pytest.mark.parametrize("error", [ConnectionResetError, BrokenPipeError, OSError])
def test_an_answer_that_cannot_be_sent_is_the_end_of_its_connection(
    by_hand: Any, error: type[Exception]
) -> None:
    """Its place among ``max.connections`` is free, the request counts, and the others of the same
    turn get theirs."""
    processor = by_hand()
    pairs = [socket.socketpair() for _ in range(3)]
    for ours, _ in pairs:
        processor._quotas.add("L", "h")
        processor.offer(ours, "h", block=False)
    processor._take_new_connections()
    connections = list(processor._connections.values())

    def fails(_data: Any) -> int:
        raise error("planted")

    connections[1].send = fails
    for number, connection in enumerate(connections):
        request = a_request(processor, connection, number)
        request.respond(b"answer")
    processor._write_replies()
    assert [connection.fd >= 0 for connection in connections] == [True, False, True]
    assert (processor._quotas.total, processor.times.counts[0]) == (2, 3)
    for i in (0, 2):
        assert pairs[i][1].recv(100) == b"answer"
    for _, theirs in pairs:
        theirs.close()


def test_whoever_comes_after_the_end_is_cut_off() -> None:
    """An acceptor may have had a connection in its hand: nobody would ever take it in."""
    quotas = ConnectionQuotas(10, 10, None)
    processor = a_processor()
    processor._quotas = quotas
    processor.stop()
    processor.run()
    for _ in range(2):
        ours, theirs = socket.socketpair()
        theirs.settimeout(5)
        quotas.add("L", "h")
        assert processor.offer(ours, "h", block=False)
        assert theirs.recv(1) == b""
        theirs.close()
    assert quotas.total == 0


def test_whoever_was_there_at_the_end_is_counted_no_more() -> None:
    """Also who had not been taken in yet."""
    processor = a_processor()
    for _ in range(2):
        for _ in range(3):
            ours, theirs = socket.socketpair()
            theirs.close()
            processor._quotas.add("L", "h")
            processor.offer(ours, "h", block=False)
        if not processor.connection_count:
            processor._take_new_connections()
    assert (processor._quotas.total, processor.connection_count) == (6, 3)
    processor._close_all()
    assert (processor._quotas.total, processor.connection_count) == (0, 0)

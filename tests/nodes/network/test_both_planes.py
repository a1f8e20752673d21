"""What holds of either plane: limits, queues of new connections, priorities, metrics; and in which
order planes begin and end (SocketServer, KafkaServer.startup and shutdown)."""

from __future__ import annotations

import math
import socket
import struct
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.config import BrokerConfig
from nodes.metrics import Metrics
from nodes.network.connection import Connection
from nodes.network.handler import RequestHandlerPool
from nodes.network.idle_time import IdleTime
from nodes.network.processor import CONNECTION_QUEUE_SIZE, Processor
from nodes.network.quotas import ConnectionQuotas
from nodes.network.request_channel import PriorityRequestChannel, RequestChannel
from nodes.network.request_times import Meters, RequestTimes, request_metrics
from nodes.network.socket_server import RecentShare, SocketServer
from tests.nodes.network.conftest import parse

DUAL = {
    "listeners": "DATA://127.0.0.1:0,CLIENT://127.0.0.1:0,CONTROL://127.0.0.1:0",
    "listener_security_protocol_map": "DATA:PLAINTEXT,CLIENT:PLAINTEXT,CONTROL:PLAINTEXT",
    "control_plane_listener_name": "CONTROL",
}
LISTENERS = ("DATA", "CLIENT", "CONTROL")
_BACKLOG_AT = 28
"""Of tcpi_sacked in the kernel's tcp_info: of a listening socket, the backlog it was given."""


MODES: dict[str, dict[str, str]] = {
    "single": {},
    "dual": {"control.plane.listener.name": "CONTROL"},
    "priority": {"biplane.plane.mode": "priority"},
}
SIZES: list[dict[str, str]] = [
    {},
    {"num.io.threads": "1", "num.network.threads": "1", "queued.max.requests": "1"},
    {"num.io.threads": "64", "num.network.threads": "32", "queued.max.requests": "10000"},
    {"num.io.threads": "64", "num.network.threads": "1", "queued.max.requests": "19"},
    {
        "queued.max.request.bytes": "104857600",
        "max.connections": "1",
        "socket.request.max.bytes": "9",
    },
    {"biplane.control.priority": "false", "biplane.data.home.core": "false"},
    {"connections.max.idle.ms": "-1", "max.connections.per.ip": "2", "broker.id": "77"},
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("others", [1, 2, 5])
def test_what_planes_are_made_of(mode: str, sizes: dict[str, str], others: int) -> None:
    """KIP-291: one acceptor, one network thread, a queue of 20 and one handler for controllers,
    whatever else is configured; of the others each listener has ``num.network.threads``, and all
    share ``num.io.threads`` and one queue of ``queued.max.requests``. Numbers are given to the
    control plane first."""
    names = [f"L{i}" for i in range(others)]
    names.insert(1, "CONTROL")
    given = {
        "broker.id": "1",
        "zookeeper.connect": "unused:1",
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "inter.broker.listener.name": "L0",
        **MODES[mode],
        **sizes,
    }
    server = SocketServer(BrokerConfig.from_properties(given), parse, Metrics())
    network_threads = int(sizes.get("num.network.threads", "3"))
    found = [
        (
            parts.plane,
            type(parts.channel),
            parts.channel.capacity,
            parts.handlers,
            [(each.acceptor.endpoint.name, len(each.processors)) for each in parts.listeners],
        )
        for parts in server._planes()
    ]
    shared = [(name, network_threads) for name in names if mode != "dual" or name != "CONTROL"]
    data = (
        "data",
        PriorityRequestChannel if mode == "priority" else RequestChannel,
        int(sizes.get("queued.max.requests", "500")),
        int(sizes.get("num.io.threads", "8")),
        shared,
    )
    control = ("control", RequestChannel, 20, 1, [("CONTROL", 1)])
    assert found == ([control, data] if mode == "dual" else [data])
    processors = [p for parts in server._planes() for p in parts.processors()]
    assert [p.id for p in processors] == list(range(len(processors)))
    for parts in server._planes():
        for listener in parts.listeners:
            for processor in listener.processors:
                assert processor._channel is parts.channel
                assert (processor.plane, processor.listener) == (
                    parts.plane, listener.acceptor.endpoint.name,
                )  # fmt: skip
    made: list[tuple[Any, ...]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "nodes.network.socket_server.RequestHandlerPool",
            lambda plane, channel, _handle, count, prepare, broker_id: made.append(
                (plane, channel, count, prepare is not None, broker_id)
            ),
        )
        server.start_handlers(lambda _: None)
    wanted = sizes.get("biplane.control.priority", "true") == "true"
    channels = {parts.plane: parts.channel for parts in server._planes()}
    number = int(sizes.get("broker.id", "1"))
    expected = [("data", channels["data"], data[3], False, number)]
    if mode == "dual":
        expected.append(("control", channels["control"], 1, wanted, number))
    assert made == expected
    for processor in processors:
        processor._close_all()
    for parts in server._planes():
        for listener in parts.listeners:
            listener.acceptor.close()


def test_every_thread_is_named_by_its_plane_and_holds_up_nobodys_end(start: Any) -> None:
    """As Kafka names them; daemons, so that a handler that is stuck in the disk cannot keep the
    process from ending."""
    before = set(threading.enumerate())
    running = start(num_network_threads="2", num_io_threads="2", broker_id="5", **DUAL)
    made = set(threading.enumerate()) - before
    ports = running.ports
    names = {
        "data-plane-home-core",
        "control-plane-kafka-network-thread-5-ListenerName(CONTROL)-PLAINTEXT-0",
        f"control-plane-kafka-socket-acceptor-ListenerName(CONTROL)-PLAINTEXT-{ports['CONTROL']}",
        "control-plane-kafka-request-handler-0",
        *(f"data-plane-kafka-request-handler-{i}" for i in range(2)),
    }
    for name, first in (("DATA", 1), ("CLIENT", 3)):
        where = f"ListenerName({name})-PLAINTEXT"
        names.add(f"data-plane-kafka-socket-acceptor-{where}-{ports[name]}")
        for number in (first, first + 1):
            names.add(f"data-plane-kafka-network-thread-5-{where}-{number}")
    assert {thread.name for thread in made} >= names
    assert [t.name for t in made if t.name in names and not t.daemon] == []
    planes = {t.name for t in made if "-plane-" in t.name}
    assert planes == names


@pytest.mark.parametrize("name", LISTENERS)
def test_idle_connections_are_closed(start: Any, wire: Any, name: str) -> None:
    """After ``connections.max.idle.ms`` and not before."""
    later_ms = [0]
    running = start(
        lambda: time.monotonic_ns() + later_ms[0] * 1_000_000,
        connections_max_idle_ms="3600000",
        **DUAL,
    )
    client, other = running.client(name), running.client(name)
    for passed_ms in (0, 3_000_000):
        later_ms[0] = passed_ms
        for _ in range(2):  # its network thread has had turns since
            other.send(wire.request(0, 1))
            other.answer()
        client.send(wire.request(0, 1))
        client.answer()
    later_ms[0] = 10**9
    assert client.is_closed_by_peer()


@pytest.mark.parametrize("queued", ["1", "19", "500"])
def test_each_plane_has_a_queue_of_its_own_size(start: Any, queued: str) -> None:
    """KIP-291: 20 for the control plane, whatever ``queued.max.requests`` says of the other."""
    server = start(queued_max_requests=queued, **DUAL).server
    assert server._control.channel.capacity == 20
    assert server.data_channel.capacity == int(queued)
    assert server._control.channel is not server.data_channel


@pytest.mark.parametrize(("more", "protected"), [({}, None), (DUAL, "DATA")])
def test_the_only_listener_is_under_the_limit_like_any(
    start: Any, more: dict[str, str], protected: str | None
) -> None:
    """ConnectionQuotas.protectedListener: the inter-broker one, where there are others besides."""
    assert start(**more).server.quotas._protected == protected


@pytest.mark.parametrize("name", LISTENERS)
def test_requests_may_be_as_large(start: Any, wire: Any, name: str) -> None:
    running = start(socket_request_max_bytes="3000000", **DUAL)
    client = running.client(name)
    client.send(wire.request(0, 7, b"x" * 2_900_000))
    assert len(client.answer()) == 4 + 2_900_000
    client.send((3_000_001).to_bytes(4, "big"))
    assert client.is_closed_by_peer()


@pytest.mark.parametrize("most", [100, 104_857_600, 2**31 - 1])
def test_how_large_is_as_configured(start: Any, most: int) -> None:
    """On every listener; 100 MiB unless it is set."""
    given = {} if most == 104_857_600 else {"socket_request_max_bytes": str(most)}
    running = start(**DUAL, **given)
    found = {p._max_request_bytes for parts in running.server._planes() for p in parts.processors()}
    assert found == {most}


def test_listening_sockets_have_the_configured_backlog(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backlogs = {}
    real = socket.socket.listen

    def listen(self: socket.socket, backlog: int) -> None:
        real(self, backlog)
        info = self.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        backlogs[self.getsockname()[1]] = struct.unpack_from("=I", info, _BACKLOG_AT)[0]

    monkeypatch.setattr(socket.socket, "listen", listen)
    running = start(socket_listen_backlog_size="37", **DUAL)
    assert backlogs == {running.ports[name]: 37 for name in LISTENERS}


def test_only_the_inter_broker_listener_is_let_in_above_the_limit(start: Any, wire: Any) -> None:
    """Not the control listener: an isolation leak that KIP-291 leaves."""
    running = start(max_connections="1", **DUAL)
    first = running.client("DATA")
    first.send(wire.request(0, 1))
    first.answer()
    waiting = running.client("CONTROL")
    waiting.send(wire.request(0, 2))
    second = running.client("DATA")
    second.send(wire.request(0, 3))
    second.answer()
    assert running.server.quotas.total == 2
    first.close()
    second.close()
    assert waiting.answer() == (2).to_bytes(4, "big")


@pytest.mark.parametrize("first", ["CONTROL", "CLIENT"])
def test_a_connection_of_either_plane_takes_a_place_from_both(
    start: Any, wire: Any, first: str
) -> None:
    """``max.connections`` is the broker's, so a controller's connection counts as a client's does
    (ConnectionQuotas.inc); once it has gone whoever waited is let in."""
    running = start(max_connections="1", **DUAL)
    holder = running.client(first)
    holder.send(wire.request(0, 1))
    holder.answer()
    assert running.server.quotas.total == 1
    waiting = running.client("CLIENT" if first == "CONTROL" else "CONTROL")
    waiting.send(wire.request(0, 2))
    above = running.client("DATA")  # the inter-broker listener's is let in, and counts
    above.send(wire.request(0, 3))
    above.answer()
    assert running.server.quotas.total == 2
    above.close()
    holder.close()
    assert waiting.answer() == (2).to_bytes(4, "big")
    assert running.server.quotas.total == 1


@pytest.mark.parametrize("other", ["CLIENT", "CONTROL"])
def test_one_more_listener_of_either_plane_protects_the_inter_broker_one(
    start: Any, wire: Any, other: str
) -> None:
    """ConnectionQuotas counts the control listener among the listeners, so that a broker that has
    no more than it and the inter-broker one keeps brokers in touch above ``max.connections``."""
    listeners = f"DATA://127.0.0.1:0,{other}://127.0.0.1:0"
    given = {**DUAL, "listeners": listeners}
    if other != "CONTROL":
        del given["control_plane_listener_name"]
    running = start(max_connections="1", **given)
    first = running.client("DATA")
    first.send(wire.request(0, 1))
    first.answer()
    second = running.client("DATA")
    second.send(wire.request(0, 2))
    assert second.answer() == (2).to_bytes(4, "big")


def test_what_each_plane_has_served_is_counted(start: Any, wire: Any) -> None:
    """By (plane, listener, api key): the broker's own word of which plane did what."""
    running = start(**DUAL)
    for name, api_key, times in (("DATA", 3, 2), ("CLIENT", 3, 1), ("CONTROL", 4, 3)):
        client = running.client(name)
        for correlation_id in range(times):
            client.send(wire.request(api_key, correlation_id))
            client.answer()
    assert running.server.served() == {
        ("data", "DATA", 3): 2,
        ("data", "CLIENT", 3): 1,
        ("control", "CONTROL", 4): 3,
    }


def test_what_any_of_a_planes_handlers_took_up_is_counted(start: Any, wire: Any) -> None:
    """Both are at work at once, so each has one of them."""
    running = start(num_io_threads="2", **DUAL)
    both = threading.Barrier(3)

    def handle(req: Any) -> None:
        both.wait(wire.patience_s)
        wire.echo(req)

    running.handle = handle
    clients = [running.client("DATA") for _ in range(2)]
    for client in clients:
        client.send(wire.request(3, 1))
    both.wait(wire.patience_s)
    assert running.server.served() == {("data", "DATA", 3): 2}
    for client in clients:
        client.answer()


@pytest.mark.parametrize("name", LISTENERS)
def test_one_request_of_a_connection_is_in_flight(start: Any, wire: Any, name: str) -> None:
    """Whatever else it has sent is not read further, nor queued: a controller that does not wait
    for its answers fills no queue."""
    running = start(num_io_threads="4", **DUAL)
    waiting: list[Any] = []
    running.handle = waiting.append
    client = running.client(name)
    client.send(wire.request(4, 0))
    wire.eventually(lambda: waiting)
    client.send(b"".join(wire.request(4, number) for number in range(1, 5)))
    (parts,) = (p for p in running.server._planes()
                if name in {each.acceptor.endpoint.name for each in p.listeners})  # fmt: skip
    other = running.client(name)
    for number in range(5):
        for _ in range(2):  # the network thread has had turns since, the handler too
            other.send(wire.request(99, 0))
            assert other.answer() == b"at once"
        wire.eventually(lambda: waiting and parts.channel.size() == 0)
        (first,) = waiting
        assert (first.correlation_id, first.client_host) == (number, "127.0.0.1")
        assert (first.plane, first.listener) == (parts.plane, name)
        waiting.clear()
        first.respond(wire.frame_of(b"%d" % number))
        assert client.answer() == b"%d" % number


def test_what_is_taken_up_is_counted_before_it_is_done(start: Any, wire: Any) -> None:
    """A handler that is stuck in a request has taken it up."""
    running = start(**DUAL)
    seen: list[Any] = []

    def handle(req: Any) -> None:
        seen.append(running.server.served())
        wire.echo(req)

    running.handle = handle
    for name, plane in (("CONTROL", "control"), ("CLIENT", "data")):
        client = running.client(name)
        client.send(wire.request(5, 1))
        client.answer()
        assert seen[-1][plane, name, 5] == 1


def test_only_the_data_plane_keeps_to_a_core(
    start: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its threads, and none of the control plane's; and it is the data
    plane's requests that tell whether it is busy."""
    made: list[Any] = []

    class Home:
        def __init__(self, threads: Any, answered: Any) -> None:
            made.append((threads, answered))

        def start(self) -> None:
            pass

        stop = start

    monkeypatch.setattr("nodes.network.socket_server.HomeCore", Home)
    running = start(
        num_network_threads="2", num_io_threads="3", biplane_data_home_core="true", **DUAL
    )
    ((threads, answered),) = made
    names = {t.native_id: t.name for t in threading.enumerate()}
    found = sorted(names[number].partition("-ListenerName")[0] for number in threads())
    assert found == [
        *["data-plane-kafka-network-thread-1"] * 4,
        *(f"data-plane-kafka-request-handler-{i}" for i in range(3)),
        *["data-plane-kafka-socket-acceptor"] * 2,
    ]
    for name, count in (("CONTROL", 0), ("DATA", 1), ("CONTROL", 1), ("CLIENT", 2)):
        client = running.client(name)
        client.send(wire.request(0, 1))
        client.answer()
        wire.eventually(lambda count=count: answered() == count)


def test_connections_are_dealt_out_in_turn(start: Any, wire: Any) -> None:
    running = start(num_network_threads="3", **DUAL)
    clients = [running.client("CLIENT") for _ in range(6)]
    for client in clients:
        client.send(wire.request(0, 1))
        client.answer()
    taken = [
        p.connection_count for p in running.server._data.processors() if p.listener == "CLIENT"
    ]
    assert taken == [2, 2, 2]


def idle_processor() -> Processor:
    """One whose thread does not run."""
    return Processor(
        0,
        listener="L",
        plane="data",
        channel=RequestChannel(1),
        parse=lambda frame: (None, frame),
        quotas=ConnectionQuotas(1000, 1000, None),
        max_request_bytes=100,
        max_idle_ms=-1,
    )


def test_twenty_connections_wait_for_a_network_thread_and_no_more() -> None:
    """Kafka's Processor has a queue of 20 new connections; its acceptor blocks on the next."""
    processor = idle_processor()
    sockets = [socket.socket() for _ in range(21)]
    taken = [processor.offer(each, "h", block=False) for each in sockets]
    assert taken == [True] * 20 + [False]
    assert CONNECTION_QUEUE_SIZE == 20
    processor._close_all()
    sockets[-1].close()


def test_who_has_not_got_its_whole_answer_is_not_listened_to() -> None:
    """SocketServer.processCompletedSends: unmuted when the answer has left, not when it starts."""
    processor = idle_processor()
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    connection = Connection(ours, "h", 0)
    connection.muted = True
    processor._send(connection, bytes(1 << 24), None)
    assert connection.is_sending
    assert connection.muted
    while connection.is_sending:
        theirs.recv(1 << 20)
        processor._continue_sending(connection)
    assert not connection.muted
    processor._close_all()
    ours.close()
    theirs.close()


def test_all_of_the_control_planes_threads_ask_for_their_priority(
    start: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: set[str] = set()

    def prefer() -> None:
        asked.add(threading.current_thread().name.partition("-ListenerName")[0])

    monkeypatch.setattr("nodes.network.socket_server.prefer_this_thread", prefer)
    running = start(biplane_control_priority="true", **DUAL)
    for name in LISTENERS:
        client = running.client(name)
        client.send(wire.request(0, 1))
        client.answer()
    assert asked == {
        "control-plane-kafka-network-thread-1",
        "control-plane-kafka-socket-acceptor",
        "control-plane-kafka-request-handler-0",
    }


def test_nobody_asks_for_a_priority_that_is_not_wanted(
    start: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "nodes.network.socket_server.prefer_this_thread", lambda: asked.append("asked")
    )
    running = start(biplane_control_priority="false", **DUAL)
    client = running.client("CONTROL")
    client.send(wire.request(0, 1))
    client.answer()
    assert asked == []


def test_the_control_plane_begins_first_and_ends_last(
    start: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its listener takes connections before the others do; its handlers end after the others'."""
    ended: list[str] = []
    pools: list[str] = []
    real, real_init = RequestHandlerPool.shutdown, RequestHandlerPool.__init__

    def init(self: RequestHandlerPool, plane: Any, *args: Any, **options: Any) -> None:
        pools.append(plane)
        real_init(self, plane, *args, **options)

    def shutdown(self: RequestHandlerPool, *args: Any) -> None:
        ended.append(self._threads[0].name.partition("-")[0])
        real(self, *args)

    monkeypatch.setattr(RequestHandlerPool, "__init__", init)
    monkeypatch.setattr(RequestHandlerPool, "shutdown", shutdown)
    with caplog.at_level("INFO"):
        running = start(**DUAL)
    assert pools == ["data", "control"], "as KafkaServer makes them"
    begun = [r.getMessage() for r in caplog.records if "Awaiting socket connections" in r.msg]
    assert begun == [
        f"Awaiting socket connections on 127.0.0.1:{running.ports[name]}."
        for name in ("CONTROL", "DATA", "CLIENT")
    ]
    running.stop()
    assert ended == ["data", "control"]


# ---- metrics -------------------------------------------------------------------------------------


def test_response_queues_are_of_their_plane(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    running = start(num_network_threads="2", **DUAL)
    sizes = {"data": 3, "control": 5}
    size = property(lambda processor: sizes[processor.plane])
    monkeypatch.setattr(Processor, "response_queue_size", size)
    name = "kafka.network:type=RequestChannel,name="
    assert running.metrics.value(f"{name}ResponseQueueSize") == 4 * 3
    assert running.metrics.value(f"{name}ControlPlaneResponseQueueSize") == 5


def test_each_acceptor_is_named_by_its_listener(start: Any) -> None:
    running = start(**DUAL)
    found = [n for n in running.metrics.by_mbean() if "AcceptorBlockedPercent" in n]
    acceptor = "kafka.network:type=Acceptor,name="
    assert sorted(found) == [
        f"{acceptor}AcceptorBlockedPercent,listener=CLIENT",
        f"{acceptor}AcceptorBlockedPercent,listener=DATA",
        f"{acceptor}ControlPlaneAcceptorBlockedPercent,listener=CONTROL",
    ]


def test_idle_handlers_idle_no_longer_than_there_was_time() -> None:
    start_ns = time.monotonic_ns()
    pool = RequestHandlerPool("data", RequestChannel(1), lambda _: None, 4)
    while time.monotonic_ns() - start_ns < 50_000_000:
        time.sleep(0.01)
    idle_ns = pool.idle_ns
    assert 0 < idle_ns <= time.monotonic_ns() - start_ns
    pool.shutdown()


def test_a_handler_is_not_idle_while_it_is_at_a_request() -> None:
    busy, go_on = threading.Event(), threading.Event()

    def handle(_request: Any) -> None:
        busy.set()
        go_on.wait(60)

    channel = RequestChannel(1)
    pool = RequestHandlerPool("data", channel, handle, 1)
    request: Any = SimpleNamespace(listener="L", api_key=1, handled_ns=0, let_go=lambda: None)
    channel.put(request)
    assert busy.wait(60)
    idle_ns = pool.idle_ns
    time.sleep(0.01)
    assert pool.idle_ns == idle_ns
    go_on.set()
    pool.shutdown()


def test_the_wait_for_room_in_the_queue_is_queue_time() -> None:
    """RequestQueueTimeMs is counted from the moment when the request was read whole."""
    times = RequestTimes()
    ms = 1_000_000
    request: Any = SimpleNamespace(
        api_key=4, api_version=1, errors=None,
        receive_ns=10 * ms, enqueue_ns=50 * ms, dequeue_ns=60 * ms, handled_ns=67 * ms,
        ready_ns=80 * ms, taken_ns=91 * ms, is_followers=False, body_bytes=1,
    )  # fmt: skip
    times.record(request, 103 * ms)
    rows = {
        (mbean, attribute): value
        for mbean, attribute, value in request_metrics([times], Meters(), {4: "Api"}.__getitem__)
    }
    bean = "kafka.network:type=RequestMetrics,name="
    found = {n: rows[f"{bean}{n}TimeMs,request=Api", "Max"] for n in _SEGMENTS}
    assert found == _SEGMENTS


_SEGMENTS = {
    "RequestQueue": 50, "Local": 7, "Remote": 13, "Throttle": 0, "ResponseQueue": 11,
    "ResponseSend": 12, "Total": 93,
}  # fmt: skip


@pytest.mark.parametrize("plane", ["data", "control"])
def test_who_waits_behind_anothers_wait_for_room_waits_as_well(plane: Any, wire: Any) -> None:
    """Two requests that one turn has read: while there is no room for the first, the second waits,
    too, and this is RequestQueueTimeMs of both."""
    waits: list[tuple[int, int]] = []

    class Full(RequestChannel):
        def put(self, request: Any) -> None:
            began_ns = time.monotonic_ns()
            while time.monotonic_ns() == began_ns:
                pass  # no room yet
            waits.append((request.receive_ns, time.monotonic_ns()))

    processor = Processor(
        0,
        listener="L",
        plane=plane,
        channel=Full(1),
        parse=parse,
        quotas=ConnectionQuotas(1000, 1000, None),
        max_request_bytes=100,
        max_idle_ms=-1,
    )
    peers = []
    for number in range(2):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.send(wire.request(4, number))
        processor._quotas.add("L", "h")
        assert processor.offer(ours, "h", block=False)
        peers.append(theirs)
    processor._turn()
    (_, put_ns), (received_ns, _) = waits
    assert received_ns < put_ns
    processor._close_all()
    for peer in peers:
        peer.close()


def test_of_several_handlers_the_average_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """RequestHandlerAvgIdlePercent: each marks what it waited, divided by how many there are."""
    pool = RequestHandlerPool("data", RequestChannel(1), lambda _: None, 4)
    waited_ns = iter([400, 0, 200, 100])
    monkeypatch.setattr(IdleTime, "total_ns", lambda _self, _now_ns: next(waited_ns))
    assert pool.idle_ns == 175
    pool.shutdown()


def test_without_a_control_plane_there_is_nothing_to_be_idle(start: Any) -> None:
    metrics: Metrics = start().metrics
    idle = metrics.value(
        "kafka.network:type=SocketServer,name=ControlPlaneNetworkProcessorAvgIdlePercent"
    )
    assert math.isnan(idle)


def test_an_idle_percentage_is_of_the_last_whole_second() -> None:
    """Kafka's io-wait-ratio: a windowed rate, capped at 1. A plane that was idle for an hour and is
    busy now is not told to be idle."""
    now_s, total_s = 0.0, 0.0

    def share() -> float:
        return recent()

    recent = RecentShare(lambda: total_s * 1e9, lambda: int(now_s * 1e9))
    now_s, total_s = 3600.0, 3600.0
    assert share() == 1
    now_s = 3600.5
    assert share() == 1, "the second is not over"
    now_s, total_s = 3601.0, 3600.25
    assert share() == 0.25
    now_s, total_s = 3601.999, 3601.0
    assert share() == 0.25
    now_s, total_s = 3603.0, 3699.0
    assert share() == 1, "clocks that disagree"


def test_of_several_network_threads_the_average_counts(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NetworkProcessorAvgIdlePercent: one of the data plane's four is busy all the time."""
    shares = iter([1.0, 1.0, 0.0, 1.0])
    monkeypatch.setattr(RecentShare, "__call__", lambda _self: next(shares))
    running = start(num_network_threads="2", **DUAL)
    name = "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent"
    assert running.metrics.value(name) == 0.75


def test_a_network_thread_without_anything_to_do_is_idle(start: Any, wire: Any) -> None:
    """Also while it has never been asked anything."""
    running = start(**DUAL)
    for parts in running.server._planes():
        for processor in parts.processors():
            wire.eventually(lambda p=processor: p.idle_ns > 0)


def test_an_acceptor_that_waits_for_a_free_connection_is_blocked(
    start: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited_ns = {"CONTROL": 7_000_000, "CLIENT": 0, "DATA": 0}
    monkeypatch.setattr(ConnectionQuotas, "add", lambda _self, name, _host: waited_ns[name])
    running = start(**DUAL)
    for listener in LISTENERS:
        client = running.client(listener)
        client.send(wire.request(0, 1))
        client.answer()
    acceptor = "kafka.network:type=Acceptor,name="
    control = running.metrics.value(
        f"{acceptor}ControlPlaneAcceptorBlockedPercent,listener=CONTROL"
    )
    assert control == 7_000_000
    for listener in ("CLIENT", "DATA"):
        name = f"{acceptor}AcceptorBlockedPercent,listener={listener}"
        assert running.metrics.value(name) == 0


def test_a_connection_that_cannot_be_watched_leaves_no_trace(start: Any, wire: Any) -> None:
    """Its place among ``max.connections`` is free again, and so is that among new ones."""
    running = start(max_connections="1", **DUAL)

    class Refuses:
        """The first registration fails, as when the kernel has no memory for it."""

        def __init__(self, real: Any) -> None:
            self._real, self.refused = real, 0

        def register(self, *args: Any) -> None:
            self.refused += 1
            if self.refused == 1:
                raise OSError(12, "Cannot allocate memory")
            self._real.register(*args)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._real, name)

    (processor,) = (p for p in running.server._data.processors() if p.listener == "CLIENT")
    processor._epoll = watched = Refuses(processor._epoll)
    assert running.client("CLIENT").is_closed_by_peer()
    client = running.client("CLIENT")
    client.send(wire.request(0, 1))
    assert client.answer() == (1).to_bytes(4, "big")
    assert watched.refused == 2
    assert running.server.quotas.total == 1
    assert processor._accept_slots._value == CONNECTION_QUEUE_SIZE

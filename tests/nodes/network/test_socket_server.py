"""Planes, order, muting, limits; through real sockets, with an echo in the place of a broker."""

from __future__ import annotations

import os
import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.config import BrokerConfig
from nodes.metrics import Metrics
from nodes.mutants import rules_with
from nodes.network import socket_server
from nodes.network.socket_server import SocketServer
from tests.nodes.network.conftest import PATIENCE_S, parse

DUAL = {
    "listeners": "DATA://127.0.0.1:0,CONTROL://127.0.0.1:0",
    "control_plane_listener_name": "CONTROL",
}


def test_answers_carry_what_was_sent(start: Any, wire: Any) -> None:
    client = start().client()
    for size in (0, 1, 1000, 200_000, 1_000_000):
        client.send(wire.request(3, size, b"x" * size))
        assert client.answer() == size.to_bytes(4, "big") + b"x" * size


def test_pipelined_requests_are_handled_one_at_a_time_and_in_order(start: Any, wire: Any) -> None:
    running = start(num_io_threads="4")
    active, most = 0, 0
    lock = threading.Lock()

    def handle(req: Any) -> None:
        nonlocal active, most
        with lock:
            active += 1
            most = max(most, active)
        time.sleep(0)
        with lock:
            active -= 1
        wire.echo(req)

    running.handle = handle
    client = running.client()
    client.send(b"".join(wire.request(0, i) for i in range(200)))
    assert [int.from_bytes(client.answer(), "big") for _ in range(200)] == list(range(200))
    assert most == 1


def test_with_a_planted_bug_the_second_overtakes_the_first(start: Any, wire: Any) -> None:
    running = start(num_io_threads="2", num_network_threads="1")
    for parts in running.server._planes():
        for processor in parts.processors():
            processor._mutes = rules_with(["answer-out-of-turn"]).mutes_who_waits()
    first, second = threading.Event(), threading.Event()

    def handle(req: Any) -> None:
        if req.correlation_id == 1:
            first.set()
            assert second.wait(wire.patience_s)
        wire.echo(req)

    running.handle = handle
    client = running.client()
    client.send(wire.request(0, 1))
    assert first.wait(wire.patience_s)
    client.send(wire.request(0, 2))
    assert int.from_bytes(client.answer(), "big") == 2
    second.set()
    assert int.from_bytes(client.answer(), "big") == 1


def test_a_request_without_answer_lets_the_next_one_in(start: Any, wire: Any) -> None:
    running = start()
    running.handle = lambda req: (
        req.respond_nothing() if req.correlation_id == 1 else wire.echo(req)
    )
    client = running.client()
    client.send(wire.request(0, 1) + wire.request(0, 2))
    assert client.answer() == (2).to_bytes(4, "big")


def test_requests_sent_before_the_client_hung_up_are_still_handled(start: Any, wire: Any) -> None:
    running = start()
    seen: list[int] = []

    def handle(req: Any) -> None:
        seen.append(req.correlation_id)
        req.respond_nothing()

    running.handle = handle
    client = running.client()
    client.send(b"".join(wire.request(0, i) for i in range(50)))
    client.close()
    wire.eventually(lambda: seen == list(range(50)))
    wire.eventually(lambda: running.server.connection_count == 0)


def test_times_are_in_order_and_known_when_the_answer_has_left(start: Any, wire: Any) -> None:
    running = start()
    sent: dict[int, tuple[int, ...]] = {}

    def handle(req: Any) -> None:
        def on_sent(ns: int) -> None:
            times = (req.receive_ns, req.enqueue_ns, req.dequeue_ns, req.handled_ns, ns)
            sent[req.correlation_id] = times

        req.on_sent = on_sent
        wire.echo(req)

    running.handle = handle
    client = running.client()
    client.send(wire.request(0, 7))
    client.answer()
    began = time.monotonic_ns()
    client.send(wire.request(0, 1))
    client.answer()
    wire.eventually(lambda: 1 in sent)
    receive, enqueue, dequeue, handled, done = sent[1]
    assert began <= receive <= enqueue <= dequeue <= handled <= done


def test_the_first_answer_counts(start: Any, wire: Any, caplog: Any) -> None:
    running = start()

    def twice(req: Any) -> None:
        req.respond(wire.frame_of(b"first"))
        req.respond(wire.frame_of(b"second"))

    running.handle = twice
    client = running.client()
    client.send(wire.request(0, 1) + wire.request(0, 2))
    assert [client.answer(), client.answer()] == [b"first", b"first"]
    assert "answered twice" in caplog.text


def test_a_handler_that_raises_costs_its_connection_only(start: Any, wire: Any) -> None:
    running = start()

    def handle(req: Any) -> None:
        if req.correlation_id == 1:
            raise RuntimeError("planted")
        wire.echo(req)

    running.handle = handle
    other, victim = running.client(), running.client()
    victim.send(wire.request(0, 1))
    assert victim.is_closed_by_peer()
    other.send(wire.request(0, 2))
    assert other.answer() == (2).to_bytes(4, "big")


def test_as_many_requests_are_handled_at_once_as_there_are_handlers(start: Any, wire: Any) -> None:
    """All of one kind, all stuck, none ever given up for another: as in a slow disk."""
    running = start(num_io_threads="4", num_network_threads="2")
    opened = threading.Event()
    inside: list[int] = []

    def handle(req: Any) -> None:
        inside.append(req.correlation_id)
        assert opened.wait(4 * wire.patience_s)
        wire.echo(req)

    running.handle = handle
    clients = [running.client() for _ in range(6)]
    for i, client in enumerate(clients):
        client.send(wire.request(0, i))
    wire.eventually(lambda: len(inside) == 4)
    wire.eventually(lambda: running.server.data_channel.size() == 2)
    assert len(inside) == 4  # and no more than that
    opened.set()
    for i, client in enumerate(clients):
        assert client.answer() == i.to_bytes(4, "big")


class Gate:
    """A handler that holds data requests until it is opened."""

    def __init__(self, wire: Any) -> None:
        self.entered = threading.Event()
        self.opened = threading.Event()
        self._wire = wire

    def __call__(self, req: Any) -> None:
        if req.plane == "data" and req.api_key == 0:
            self.entered.set()
            assert self.opened.wait(4 * self._wire.patience_s)
        self._wire.echo(req)


def fill(running: Any, wire: Any, connections: int) -> list[Any]:
    """One request is being handled, and the queue is full and stays so."""
    clients = [running.client() for _ in range(connections)]
    for i, client in enumerate(clients):
        client.send(wire.request(0, i))
    assert running.handle.entered.wait(wire.patience_s)
    channel = running.server.data_channel
    wire.eventually(lambda: channel.size() == channel.capacity)
    return clients


def test_a_full_queue_freezes_a_single_plane(start: Any, wire: Any) -> None:
    """What KIP-291 is about: the control request is not even read."""
    running = start(queued_max_requests="5")
    gate = running.handle = Gate(wire)
    controller = running.client()
    clients = fill(running, wire, 12)
    controller.send(wire.request(4, 777))
    controller.socket.settimeout(0.3)
    try:
        controller.answer()
        raise AssertionError("a frozen processor has answered")
    except TimeoutError:
        pass
    gate.opened.set()
    controller.socket.settimeout(wire.patience_s)
    assert controller.answer() == (777).to_bytes(4, "big")
    for i, client in enumerate(clients):
        assert client.answer() == i.to_bytes(4, "big")


@pytest.mark.parametrize("listener", ["DATA", "CONTROL"])
def test_what_waits_when_a_server_stops_is_dropped(start: Any, wire: Any, listener: str) -> None:
    """SocketServer.stopProcessingRequests clears the queues of both planes: nobody is there any
    more who could be answered, and a controller sends its request again to the next life."""
    running = start(**DUAL)
    gate, begun = threading.Event(), []

    def handle(req: Any) -> None:
        begun.append(req.correlation_id)
        gate.wait(wire.patience_s)
        wire.echo(req)

    running.handle = handle
    running.client(listener).send(wire.request(4, 1))
    wire.eventually(lambda: begun == [1])
    channels = [parts.channel for parts in running.server._planes()]
    running.client(listener).send(wire.request(4, 2))
    wire.eventually(lambda: sum(channel.size() for channel in channels) == 1)
    running.server.stop_processing_requests()
    assert [channel.size() for channel in channels] == [0, 0]
    gate.set()
    running.server.shutdown()
    assert begun == [1]


def test_who_hears_nothing_any_more_serves_all_others(start: Any, wire: Any) -> None:
    """What a planted bug does before it stops."""
    running = start(**DUAL)
    controller, client = running.client("CONTROL"), running.client("DATA")
    running.server.stop_control_plane()
    assert controller.is_closed_by_peer()
    with pytest.raises(OSError):
        running.client("CONTROL")
    client.send(wire.request(4, 7))
    assert client.answer() == (7).to_bytes(4, "big")
    running.server.stop_processing_requests()


def test_a_full_queue_does_not_touch_the_control_plane(start: Any, wire: Any) -> None:
    running = start(queued_max_requests="5", **DUAL)
    gate = running.handle = Gate(wire)
    clients = fill(running, wire, 12)
    controller = running.client("CONTROL")
    for i in range(20):  # all the while nothing moves in the data plane
        controller.send(wire.request(4, i))
        assert controller.answer() == i.to_bytes(4, "big")
        assert running.server.data_channel.size() == 5
    gate.opened.set()
    assert clients[-1].answer() == (11).to_bytes(4, "big")


def test_priority_overtakes_only_what_has_been_read(start: Any, wire: Any) -> None:
    running = start(queued_max_requests="5", biplane_plane_mode="priority")
    order: list[int] = []
    entered, opened = threading.Event(), threading.Event()

    def handle(req: Any) -> None:
        if req.correlation_id == 0:
            entered.set()
            assert opened.wait(4 * wire.patience_s)
        order.append(req.correlation_id)
        wire.echo(req)

    running.handle = handle
    clients = [running.client() for _ in range(4)]
    clients[0].send(wire.request(0, 0))
    assert entered.wait(wire.patience_s)
    for i, api_key in ((1, 0), (2, 0), (3, 6)):
        clients[i].send(wire.request(api_key, i))
        wire.eventually(lambda i=i: running.server.data_channel.size() == i)
    opened.set()
    for client in clients:
        client.answer()
    assert order == [0, 3, 1, 2]


def test_threads_are_named_as_kafkas(start: Any) -> None:
    running = start(num_io_threads="2", num_network_threads="2", **DUAL)
    names = {thread.name for thread in threading.enumerate()}
    data, control = running.ports["DATA"], running.ports["CONTROL"]
    assert {
        f"control-plane-kafka-socket-acceptor-ListenerName(CONTROL)-PLAINTEXT-{control}",
        f"data-plane-kafka-socket-acceptor-ListenerName(DATA)-PLAINTEXT-{data}",
        "control-plane-kafka-network-thread-1-ListenerName(CONTROL)-PLAINTEXT-0",
        "data-plane-kafka-network-thread-1-ListenerName(DATA)-PLAINTEXT-1",
        "data-plane-kafka-network-thread-1-ListenerName(DATA)-PLAINTEXT-2",
        "control-plane-kafka-request-handler-0",
        "data-plane-kafka-request-handler-0",
        "data-plane-kafka-request-handler-1",
    } <= names


def test_idle_connections_are_closed_least_recently_used_first(start: Any, wire: Any) -> None:
    clock = [0]
    running = start(now_ns=lambda: clock[0] or time.monotonic_ns(), connections_max_idle_ms="60000")
    idle = running.client()
    idle.send(wire.request(0, 1))
    idle.answer()
    wire.eventually(lambda: running.server.connection_count == 1)
    clock[0] = time.monotonic_ns() + 61_000_000_000
    assert idle.is_closed_by_peer()


def test_an_address_over_its_limit_is_cut_off(start: Any, wire: Any) -> None:
    running = start(max_connections_per_ip="2")
    first, _second = running.client(), running.client()
    wire.eventually(lambda: running.server.connection_count == 2)
    assert running.client().is_closed_by_peer()
    first.send(wire.request(0, 1))
    assert first.answer() == (1).to_bytes(4, "big")


def test_the_broker_wide_limit_makes_new_connections_wait(start: Any, wire: Any) -> None:
    running = start(max_connections="1")
    first, second = running.client(), running.client()
    first.send(wire.request(0, 1))
    first.answer()
    second.send(wire.request(0, 2))
    first.close()
    assert second.answer() == (2).to_bytes(4, "big")


def test_a_slow_reader_holds_up_nobody_and_loses_nothing(start: Any, wire: Any) -> None:
    running = start()
    big = 8_000_000
    running.handle = lambda req: (
        req.respond(wire.frame_of(b"z" * big)) if req.api_key == 1 else wire.echo(req)
    )
    slow, quick = running.client(), running.client()
    slow.send(wire.request(1, 1) + wire.request(0, 5))
    for i in range(50):
        quick.send(wire.request(0, i))
        quick.answer()
    assert slow.answer() == b"z" * big
    assert slow.answer() == (5).to_bytes(4, "big")


def test_metrics_count_requests_and_queues(start: Any, wire: Any) -> None:
    running = start(**DUAL)
    client = running.client()
    client.send(wire.request(0, 1))
    client.answer()
    name = "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=0,version=0"
    wire.eventually(lambda: (name, "Count", 1) in list(running.metrics.read()))
    for prefix in ("", "ControlPlane"):
        queue = f"kafka.network:type=RequestChannel,name={prefix}RequestQueueSize"
        assert running.metrics.value(queue) == 0


def test_stopping_a_frozen_server_ends(start: Any, wire: Any) -> None:
    running = start(queued_max_requests="2")
    gate = running.handle = Gate(wire)
    fill(running, wire, 6)
    threading.Timer(0.2, gate.opened.set).start()
    # So much patience that who does not end by itself is found still running.
    stop = running.server.stop_processing_requests
    ending = threading.Thread(target=stop, args=(4 * wire.patience_s,), daemon=True)
    ending.start()
    ending.join(wire.patience_s)
    assert not ending.is_alive()
    running.stop()


def network_threads(running: Any) -> list[str]:
    """Its own, those that still live."""
    return [thread.name for thread in running.own if thread.is_alive()]


def note_threads(running: Any) -> None:
    running.own = [
        thread
        for parts in running.server._planes()
        for listener in parts.listeners
        for thread in listener.threads
    ]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_network_thread_that_is_frozen_ends_all_the_same(
    start: Any, wire: Any, threads: int
) -> None:
    """No handler takes anything any more: who waits for room in the queue is let go, with however
    many requests it had read. (It waited for a place for each of them.)"""
    running = start(queued_max_requests="2", num_network_threads=str(threads))
    gate = running.handle = Gate(wire)
    fill(running, wire, 6 * threads)
    note_threads(running)
    running.server.stop_processing_requests(0.1)
    assert network_threads(running) == []
    gate.opened.set()


def test_a_control_planes_network_thread_that_is_frozen_ends_as_well(start: Any, wire: Any) -> None:
    """It waits for room in a queue of its own."""
    running = start(
        listeners="DATA://127.0.0.1:0,CONTROL://127.0.0.1:0", control_plane_listener_name="CONTROL"
    )
    opened = threading.Event()
    running.handle = lambda req: opened.wait(4 * wire.patience_s) and wire.echo(req)
    clients = [running.client("CONTROL") for _ in range(26)]
    for number, client in enumerate(clients):
        client.send(wire.request(4, number))
    queue = "kafka.network:type=RequestChannel,name=ControlPlaneRequestQueueSize"
    wire.eventually(lambda: running.metrics.value(queue) == 20)
    note_threads(running)
    running.server.stop_processing_requests(0.1)
    assert network_threads(running) == []
    opened.set()


def test_an_acceptor_that_waits_for_a_free_connection_ends_all_the_same(
    start: Any, wire: Any
) -> None:
    """Though none ever becomes free: nobody at all is let in."""
    running = start(max_connections="0")
    note_threads(running)
    running.client()
    wire.eventually(lambda: running.server.quotas._changed._waiters)
    running.server.stop_processing_requests(1.0)
    assert network_threads(running) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_an_acceptor_that_waits_for_a_frozen_network_thread_ends_all_the_same(
    start: Any, wire: Any, threads: int
) -> None:
    """Processor.closeAll empties its queue of new connections, so that whoever waits for room in it
    goes on. Nobody is left connected to a thread that has ended, or counted."""
    running = start(queued_max_requests="2", num_network_threads=str(threads))
    gate = running.handle = Gate(wire)
    fill(running, wire, 6 * threads)
    (listener,) = running.server._data.listeners
    server, others, in_hand = running.server, [], 20 * threads + 1

    def are_full() -> bool:
        return all(processor._accepted.qsize() == 20 for processor in listener.processors)

    # One by one: a thread that is not frozen yet takes some of them out again.
    while not are_full():
        others.append(running.client())
        wire.eventually(lambda: are_full() or server.quotas.total == 6 * threads + len(others))
    others += [running.client() for _ in range(8)]
    wire.eventually(lambda: server.quotas.total - server.connection_count == in_hand)
    note_threads(running)
    running.server.stop_processing_requests(0.1)
    assert network_threads(running) == []
    assert running.server.quotas.total == 0
    assert all(client.is_closed_by_peer() for client in others)
    gate.opened.set()


@pytest.mark.parametrize("network_threads", [1, 4])
def test_all_threads_together_have_the_time_that_a_stop_may_take(
    start: Any, wire: Any, monkeypatch: pytest.MonkeyPatch, network_threads: int
) -> None:
    running = start(num_network_threads=str(network_threads))
    client = running.client()
    client.send(wire.request(0, 1))
    client.answer()  # all have begun: nobody joins them below before what they work with is closed
    now_s = 50.0

    class Stuck:
        native_id = None

        def join(self, timeout_s: float) -> None:
            nonlocal now_s
            now_s += timeout_s

        def is_alive(self) -> bool:
            return now_s < 57

    clock = SimpleNamespace(monotonic=lambda: now_s, monotonic_ns=time.monotonic_ns)
    monkeypatch.setattr(socket_server, "time", clock)
    (listener,) = running.server._data.listeners
    ended = list(listener.threads)
    listener.threads[:] = [Stuck() for _ in range(network_threads + 1)]
    running.server.stop_processing_requests(7.0)
    assert now_s == 57
    for thread in ended:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_a_listener_that_nobody_was_let_in_by_is_closed_at_the_end() -> None:
    """A start that failed between `bind` and `enable_request_processing` leaves its addresses to
    others, though the server is still there to be asked for its metrics."""
    config = BrokerConfig.from_properties(
        {"broker.id": "1", "zookeeper.connect": "unused:1", "listeners": "PLAINTEXT://127.0.0.1:0"}
    )
    metrics = Metrics()
    server = SocketServer(config, parse, metrics)
    port = server.bind()["PLAINTEXT"].port
    server.stop_processing_requests()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
    blocked = "kafka.network:type=Acceptor,name=AcceptorBlockedPercent,listener=PLAINTEXT"
    assert metrics.value(blocked) == 0


def test_a_server_that_ended_leaves_nothing_open(
    start: Any, wire: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No socket, no descriptor to wake a thread by: of connections that are idle, in the middle of
    a request, not yet taken in, and of listeners."""
    closed: list[int] = []
    real = os.close

    def close(fd: int) -> None:
        closed.append(fd)
        real(fd)

    monkeypatch.setattr(os, "close", close)
    running = start(queued_max_requests="2", **DUAL)
    gate = running.handle = Gate(wire)
    fill(running, wire, 6)
    running.client("CONTROL").send(wire.request(4, 1)[:6])
    for _ in range(30):  # more than a frozen thread takes in
        running.client()
    listeners = [each for parts in running.server._planes() for each in parts.listeners]
    acceptors = [listener.acceptor for listener in listeners]
    processors = [processor for listener in listeners for processor in listener.processors]
    taken = [c.socket for processor in processors for c in processor._connections.values()]
    assert taken
    gate.opened.set()
    running.stop()
    assert [s.fileno() for s in (*taken, *(a._socket for a in acceptors))] == [-1] * (
        len(taken) + len(acceptors)
    )
    assert all(processor._epoll.closed and processor._accepted.empty() for processor in processors)
    assert {each._wake_fd for each in (*acceptors, *processors)} <= set(closed)


def test_a_busy_data_plane_has_a_home_until_it_ends(start: Any) -> None:
    """Unless ``biplane.data.home.core=false``."""

    before = set(threading.enumerate())

    def homes() -> list[str]:
        found = (t.name for t in set(threading.enumerate()) - before)
        return [name for name in found if name == "data-plane-home-core"]

    other = start(biplane_data_home_core="false")
    assert homes() == []
    running = start()
    assert homes() == ["data-plane-home-core"]
    other.stop()
    running.stop()
    assert homes() == []


def test_bytes_that_are_no_request_name_their_listener(start: Any, wire: Any, caplog: Any) -> None:
    running = start(**DUAL)
    client = running.client("CONTROL")
    client.send(wire.request(-1, 1))
    assert client.is_closed_by_peer()
    wire.eventually(lambda: "on CONTROL: cannot parse request: negative api key" in caplog.text)

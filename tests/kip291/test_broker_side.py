"""KIP-291, Proposed Changes, on the broker: an acceptor, a network thread, a queue of 20 and a
request handler of its own for the listener that ``control.plane.listener.name`` names."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.controller.controller import KafkaController
from nodes.coordination.zk import KafkaZkClient
from nodes.core.errors import ApiError
from nodes.log.manager import LogManager
from nodes.network.handler import RequestHandlerPool
from nodes.network.socket_server import SocketServer
from nodes.replication.replica_manager import ReplicaManager
from nodes.wire.apis import ApiKey
from tests.kip291.control_listener import ControlListener
from tests.kip291.parts import RunningBroker, eventually, unread_bytes
from tests.kip291.registry import Registry
from tests.kip291.requests import (
    api_versions,
    leader_and_isr,
    leader_told,
    metadata,
    produce,
    produce_error,
    stop_replica,
    update_metadata,
)

Start = Callable[..., RunningBroker]
QUEUE_SIZE = 20
CONTROLLER = "ListenerName(CONTROLLER)-PLAINTEXT"


def new_threads(before: set[threading.Thread], plane: str) -> list[str]:
    """Names of a plane's threads that were not there before."""
    found = set(threading.enumerate()) - before
    return sorted(t.name for t in found if t.name.startswith(f"{plane}-plane-kafka"))


# ---- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("network", "handlers"), [("1", "1"), ("3", "4")])
def test_one_acceptor_one_network_thread_one_handler(
    start: Start, network: str, handlers: str
) -> None:
    """The summary: (1) a dedicated acceptor, (2) one network thread, (4) one request handler for
    controllers; how many the data plane has makes no difference to that."""
    before = set(threading.enumerate())
    broker = start("dual", num_network_threads=network, num_io_threads=handlers)
    assert new_threads(before, "control") == [
        f"control-plane-kafka-network-thread-1-{CONTROLLER}-0",
        "control-plane-kafka-request-handler-0",
        f"control-plane-kafka-socket-acceptor-{CONTROLLER}-{broker.ports['CONTROLLER']}",
    ]
    data = new_threads(before, "data")
    acceptors = [
        f"ListenerName({n})-PLAINTEXT-{broker.ports[n]}" for n in ("CLIENT", "REPLICATION")
    ]
    assert [n for n in data if "acceptor" in n] == [
        f"data-plane-kafka-socket-acceptor-{a}" for a in acceptors
    ]
    assert len([n for n in data if "network-thread" in n]) == 2 * int(network)
    assert len([n for n in data if "request-handler" in n]) == int(handlers)
    assert not any("CONTROLLER" in name for name in data)


def test_what_speaks_for_the_controller_has_kafkas_names(start: Start) -> None:
    """What an operator looks for in a thread dump: who decides, who sends, who asks."""
    before = set(threading.enumerate())
    start("dual", broker_id="7")
    found = [t.name for t in set(threading.enumerate()) - before]
    for name in (
        "controller-event-thread",
        "Controller-7-to-broker-7-send-thread",
        "zk-broker-7-to-controller-alter-partition-channel-manager",
        "control-plane-kafka-request-handler-0",
    ):
        assert found.count(name) == 1, name


def test_without_the_name_there_is_no_control_plane(start: Start) -> None:
    """The separation is optional: with the same listeners, but without the name, all threads are
    the data plane's, the control listener's among them."""
    before = set(threading.enumerate())
    broker = start("single")
    assert new_threads(before, "control") == []
    port = broker.ports["CONTROLLER"]
    acceptor = f"data-plane-kafka-socket-acceptor-{CONTROLLER}-{port}"
    assert acceptor in new_threads(before, "data")


def test_the_listener_is_looked_up_by_name_and_bound(start: Start) -> None:
    """At startup the broker looks the name up in its list of listeners and binds that endpoint,
    wherever in the list it is."""
    names = "CLIENT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,REPLICATION://127.0.0.1:0"
    broker = start("dual", listeners=names)
    assert len(set(broker.ports.values())) == 3
    assert broker.controller().ask(api_versions()).error_code == 0
    with socket.create_connection(("127.0.0.1", broker.ports["CONTROLLER"]), 60):
        pass
    assert {s.plane for s in broker.gate.seen if s.listener == "CONTROLLER"} == {"control"}
    assert {s.plane for s in broker.gate.seen if s.listener != "CONTROLLER"} <= {"data"}


def test_the_two_threads_serve_the_control_listener_only(start: Start) -> None:
    """The two new threads are for controllers alone: no data request is handled by them, whatever
    kind it is, and the data plane's handlers never handle what came in at the control listener."""
    broker = start("dual", num_io_threads="2")
    before = len(broker.gate.seen)
    for name in ("CLIENT", "REPLICATION"):
        client = broker.client(f"data-{name}", name)
        for entity in (metadata(), api_versions(), update_metadata({}), metadata()):
            client.ask(entity)
    for _ in range(3):
        assert broker.controller().ask(update_metadata({})).error_code == 0
    seen = broker.gate.seen[before:]
    control = {s.thread for s in seen if s.listener == "CONTROLLER"}
    data = {s.thread for s in seen if s.listener != "CONTROLLER"}
    assert control == {"control-plane-kafka-request-handler-0"}
    assert data <= {"data-plane-kafka-request-handler-0", "data-plane-kafka-request-handler-1"}
    assert len([s for s in seen if s.listener != "CONTROLLER"]) == 8


@pytest.mark.parametrize("planes", ["single", "dual"])
def test_one_control_request_is_handled_at_a_time(start: Start, planes: str) -> None:
    """One handler: of several controllers' requests one is under way. (In the data plane as many
    are as it has handlers.)"""
    broker = start(planes, num_io_threads="4")
    plane = "control" if planes == "dual" else "data"
    broker.gate.hold(plane)
    clients = [broker.controller(f"c-{i}").send(update_metadata({})) for i in range(8)]
    expected = 1 if planes == "dual" else 4
    eventually(lambda: broker.gate.running(plane) == expected)
    eventually(lambda: broker.queue_size(plane) == 8 - expected)
    assert broker.gate.running(plane) == expected
    broker.gate.release()
    for client in clients:
        assert client.answer().error_code == 0
    assert broker.gate.most[plane] == expected


# ---- the queue -----------------------------------------------------------------------------------


def filled(broker: RunningBroker, count: int) -> list:
    """One control request is held in its handler; `count` more are in the queue, in order."""
    broker.gate.hold("control")
    clients = [broker.controller("c-00").send(update_metadata({}))]
    eventually(lambda: broker.gate.running("control") == 1)
    for i in range(1, count + 1):
        clients.append(broker.controller(f"c-{i:02}").send(update_metadata({})))
        eventually(lambda i=i: broker.queue_size("control") == i)
    return clients


@pytest.mark.parametrize("data_queue", ["1", "500"])
def test_the_queue_holds_twenty(start: Start, data_queue: str) -> None:
    """The capacity is 20, whatever ``queued.max.requests`` says of the data plane's: 20 requests
    wait, the next one is read and then blocks the network thread, what comes after is not read."""
    broker = start("dual", queued_max_requests=data_queue)
    clients = filled(broker, QUEUE_SIZE)
    blocked = broker.controller("c-21").send(update_metadata({}))
    eventually(lambda: unread_bytes(blocked) == 0)
    unread = broker.controller("c-22").send(update_metadata({}))
    eventually(lambda: unread_bytes(unread) > 0)
    for _ in range(20):
        assert broker.queue_size("control") == QUEUE_SIZE
        assert unread_bytes(unread) > 0
    broker.gate.release()
    for client in (*clients, blocked, unread):
        assert client.answer().error_code == 0
    expected = [f"c-{i:02}" for i in range(23)]
    assert broker.gate.clients("control", "c-") == expected, "first in, first out"


def test_twenty_fit(start: Start) -> None:
    """The twin of the test above: as long as there is room the network thread goes on."""
    broker = start("dual")
    clients = filled(broker, QUEUE_SIZE - 1)
    last = broker.controller("c-20").send(update_metadata({}))
    eventually(lambda: broker.queue_size("control") == QUEUE_SIZE)
    reading = broker.controller("bad")
    reading.socket.sendall((4).to_bytes(4, "big") + b"\xff\xff\xff\xff")  # no request at all
    with pytest.raises((EOFError, ConnectionError)):
        reading._read(1)
    broker.gate.release()
    for client in (*clients, last):
        assert client.answer().error_code == 0


def test_a_full_control_queue_leaves_the_data_plane_alone(start: Start) -> None:
    """The separation works both ways."""
    broker = start("dual")
    clients = filled(broker, QUEUE_SIZE)
    over = [broker.controller(f"c-{i}").send(update_metadata({})) for i in range(21, 26)]
    for name in ("CLIENT", "REPLICATION"):
        for _ in range(20):
            assert broker.client("d", name).ask(metadata()).topics == ()
    assert broker.queue_size("control") == QUEUE_SIZE
    broker.gate.release()
    for client in (*clients, *over):
        assert client.answer().error_code == 0


def test_the_data_planes_queue_has_its_own_size(start: Start) -> None:
    """``queued.max.requests`` goes on to be the data plane's, over all of its listeners."""
    broker = start("dual", queued_max_requests="7")
    broker.gate.hold("data")
    names = ["CLIENT", "REPLICATION"]
    clients = [broker.client(f"d-{i}", names[i % 2]).send(metadata()) for i in range(12)]
    eventually(lambda: broker.queue_size("data") == 7)
    assert broker.controller().ask(update_metadata({})).error_code == 0
    assert broker.queue_size("data") == 7
    broker.gate.release()
    for client in clients:
        client.answer()


# ---- handling ------------------------------------------------------------------------------------


@pytest.mark.parametrize("port", ["CONTROLLER", "REPLICATION", "CLIENT"])
def test_control_requests_are_handled_as_before_wherever_they_come_in(
    start: Start, listener: Callable[[], ControlListener], port: str
) -> None:
    """The handler handles requests in the same way as before: the same answers on every listener
    and plane. Nothing is refused for the listener it came in on (see KIP-702)."""
    broker = start("dual")
    follower = listener()
    plane = "control" if port == "CONTROLLER" else "data"
    client = broker.client("c", port)
    brokers = {
        1: list(broker.ports.items()),
        2: [(name, follower.port) for name in broker.ports],
    }
    assert client.ask(update_metadata(brokers, "t", leader=1)).error_code == 0
    led = client.ask(leader_and_isr("t", leader=1, leader_epoch=3))
    assert [p.error_code for p in led.topics[0].partition_errors] == [0]
    assert leader_told(client.ask(metadata("t"))) == 1
    assert produce_error(client.ask(produce("t"))) == 0
    stale = client.ask(leader_and_isr("t", leader=1, leader_epoch=2))
    assert [p.error_code for p in stale.topics[0].partition_errors] == [11]
    assert client.ask(stop_replica("t")).error_code == 0
    assert {s.plane for s in broker.gate.seen if s.client_id == "c"} == {plane}
    assert {s.api for s in broker.gate.seen if s.client_id == "c"} == {
        ApiKey.UPDATE_METADATA,
        ApiKey.LEADER_AND_ISR,
        ApiKey.METADATA,
        ApiKey.PRODUCE,
        ApiKey.STOP_REPLICA,
    }


def test_a_data_flood_leaves_control_requests_alone(start: Start) -> None:
    """Impacts: controllers' requests are not blocked by data requests any more: with every data
    handler stuck, the queue full, more connections waiting than it holds and the network threads
    frozen, each control request is answered while nothing of that moves."""
    broker = start("dual", queued_max_requests="4", num_io_threads="2", num_network_threads="2")
    broker.gate.hold("data")
    clients = [
        broker.client(f"d-{i}", ("CLIENT", "REPLICATION")[i % 2]).send(metadata())
        for i in range(40)
    ]
    eventually(lambda: broker.queue_size("data") == 4)
    eventually(lambda: broker.gate.running("data") == 2)
    controller = broker.controller("c")
    for _ in range(100):
        assert controller.ask(update_metadata({})).error_code == 0
    assert broker.controller("second").ask(update_metadata({})).error_code == 0
    assert broker.queue_size("data") == 4
    assert not any(client.has_answer() for client in clients)
    broker.gate.release()
    for client in clients:
        client.answer()


def test_planes_are_of_one_process(start: Start) -> None:
    """Not another process or broker: what one plane is told the other one tells at once."""
    broker = start("dual")
    told = update_metadata({1: list(broker.ports.items())}, "t", leader=1)
    assert broker.controller().ask(told).error_code == 0
    assert leader_told(broker.client().ask(metadata("t"))) == 1


# ---- beginning and end ---------------------------------------------------------------------------


def test_a_broker_is_heard_last(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """KafkaServer.startup: it has its logs and its ports before it can be told anything, is known
    to the cluster before it can be its controller, and handles requests of both planes (the data
    plane's first) before anybody can connect."""
    order: list[str] = []

    def note(part: Any, method: str, name: str) -> None:
        real = getattr(part, method)

        def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
            plane = f"{args[0]} " if method == "__init__" else ""
            order.append(plane + name)
            return real(self, *args, **kwargs)

        monkeypatch.setattr(part, method, noted)

    note(KafkaZkClient, "start", "session")
    note(LogManager, "load", "logs")
    note(SocketServer, "bind", "ports")
    note(ReplicaManager, "startup", "replicas")
    note(KafkaZkClient, "register_broker", "registered")
    note(KafkaController, "startup", "controller")
    note(RequestHandlerPool, "__init__", "handlers")
    note(SocketServer, "enable_request_processing", "open")
    start("dual")
    assert order == [
        "session", "logs", "ports", "replicas", "registered", "controller", "data handlers",
        "control handlers", "open",
    ]  # fmt: skip


def test_an_address_that_is_anothers_is_never_registered(
    start: Start, zookeeper: str, zookeeper_chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KafkaServer.createBrokerInfo: whichever listener it is, the control listener's as well; the
    cluster does not hear of such a broker for a moment."""
    registered: list[int] = []
    real = KafkaZkClient.register_broker

    def noted(self: Any, broker: Any, **more: Any) -> int:
        registered.append(broker.id)
        return real(self, broker, **more)

    monkeypatch.setattr(KafkaZkClient, "register_broker", noted)
    first = start("dual")
    for name in ("CONTROLLER", "CLIENT"):
        ports = {n: 9 + i for i, n in enumerate(first.ports)} | {name: first.ports[name]}
        advertised = ",".join(f"{n}://127.0.0.1:{port}" for n, port in ports.items())
        with pytest.raises(ApiError, match="in use by broker 1"):
            start("dual", broker_id="2", advertised_listeners=advertised)
    assert registered == [1]


@pytest.mark.parametrize("shuts_down", [True, False])
def test_both_planes_serve_until_the_broker_is_relieved(start: Start, shuts_down: bool) -> None:
    """KafkaServer.shutdown: the controlled shutdown first (unless it is switched off), with both
    planes alive; then sockets and handlers; and last what others see of the broker: its logs, its
    controller, its session."""
    before = set(threading.enumerate())
    broker = start("dual", controlled_shutdown_enable=str(shuts_down).lower())
    found = [name for name, _ in reversed(broker.server._stops)]
    expected = ["controlled shutdown"] * shuts_down + [
        "sockets", "handlers", "apis", "groups", "replica manager", "logs", "controller",
        "zookeeper", "trace",
    ]  # fmt: skip
    assert [
        name for name in dict.fromkeys(found) if name in (*expected, "controlled shutdown")
    ] == (expected)
    broker.stop()
    assert new_threads(before, "data") == new_threads(before, "control") == []


def test_a_broker_waits_for_the_end_of_its_previous_life(
    start: Start, zookeeper: str, zookeeper_chroot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed and started again at once it is still registered, until its session expires. (Kafka
    gives up; whoever starts it tries again.)"""
    registry = Registry(zookeeper + zookeeper_chroot)
    try:
        registry.register(1, [("CONTROLLER", 9), ("REPLICATION", 9), ("CLIENT", 9)])
        before = registry.broker_epoch(1)
        expired = []

        def sleep(_seconds: float) -> None:
            if not expired:
                expired.append(True)
                registry.unregister(1)

        clock = SimpleNamespace(monotonic=time.monotonic, sleep=sleep)
        monkeypatch.setattr("nodes.coordination.registration.time", clock)
        start("dual")
        assert expired
        assert registry.broker_epoch(1) > before
    finally:
        registry.close()


def test_threads_give_way_to_each_other_soon(start: Start) -> None:
    """A control request passes through three threads, each of which waits for the interpreter while
    data threads compute: 5 ms each time by Python's default, a tenth of one here. (The threads of a
    JVM need no such thing.)"""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    try:
        start("single")
        assert sys.getswitchinterval() == pytest.approx(0.0001)
    finally:
        sys.setswitchinterval(before)

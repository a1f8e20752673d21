"""KIP-291, Public Interfaces, metrics: each has the value that its name says, under load and idle,
with and without a control plane. All are read from the broker's own page over HTTP."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodes.config import ConfigError
from nodes.wire.apis import SUPPORTED
from tests.kip291.control_listener import ControlListener
from tests.kip291.kafka import KafkaBroker
from tests.kip291.parts import (
    Client,
    RunningBroker,
    eventually,
    unread_bytes,
    waiting_to_be_accepted,
)
from tests.kip291.requests import metadata, update_metadata

Start = Callable[..., RunningBroker]
CHANNEL = "kafka.network:type=RequestChannel,name="
SOCKETS = "kafka.network:type=SocketServer,name="
ACCEPTOR = "kafka.network:type=Acceptor,name="
POOL = "kafka.server:type=KafkaRequestHandlerPool,name="
PREFIX = {"control": "ControlPlane", "data": ""}
PORT = {"control": "CONTROLLER", "data": "CLIENT"}
OTHER = {"control": "data", "data": "control"}
PLANES = ("control", "data")
RATES = ("Count", "MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate")


def entity_for(plane: str) -> Any:
    return update_metadata({}) if plane == "control" else metadata()


def capacity(plane: str) -> int:
    """With ``queued.max.requests=2``."""
    return 20 if plane == "control" else 2


class Load:
    """One plane, held and full: one request in its handler, its queue full, one more blocks the
    network thread."""

    def __init__(self, start: Start, plane: str, **properties: str) -> None:
        self.broker = start("dual", queued_max_requests="2", **properties)
        self.plane = plane
        self.clients: list[Client] = []
        self.broker.gate.hold(plane)
        self.send()
        eventually(lambda: self.broker.gate.running(plane) == 1)
        for i in range(1, capacity(plane) + 1):
            self.send()
            eventually(lambda i=i: self.broker.queue_size(plane) == i)
        blocked = self.send()
        eventually(lambda: unread_bytes(blocked) == 0)

    def send(self) -> Client:
        client = self.broker.client(f"load-{len(self.clients):02}", PORT[self.plane])
        self.clients.append(client.send(entity_for(self.plane)))
        return client

    def end(self) -> None:
        self.broker.gate.release()
        for client in self.clients:
            client.answer()


# ---- which there are -----------------------------------------------------------------------------


def test_which_there_are_with_a_control_plane(start: Start) -> None:
    """The new metrics have the data plane's names with a prefix; the old ones are of the data plane
    alone from now on."""
    found = start("dual").mbeans()
    for prefix in PREFIX.values():
        for name in (
            f"{CHANNEL}{prefix}RequestQueueSize",
            f"{CHANNEL}{prefix}ResponseQueueSize",
            f"{SOCKETS}{prefix}NetworkProcessorAvgIdlePercent",
            f"{SOCKETS}{prefix}ExpiredConnectionsKilledCount",
        ):
            assert set(found[name]) == {"Value"}
        assert set(found[f"{POOL}{prefix}RequestHandlerAvgIdlePercent"]) == set(RATES)
    assert set(found[f"{ACCEPTOR}ControlPlaneAcceptorBlockedPercent,listener=CONTROLLER"]) == set(
        RATES
    )
    for listener in ("CLIENT", "REPLICATION"):
        assert f"{ACCEPTOR}AcceptorBlockedPercent,listener={listener}" in found
    assert f"{ACCEPTOR}AcceptorBlockedPercent,listener=CONTROLLER" not in found


def test_what_there_is_without_one(start: Start) -> None:
    """Without the name: not a number and zero where Kafka's SocketServer says so, and nothing of a
    queue and a handler that do not exist."""
    broker = start("single")
    found = broker.mbeans()
    assert found[f"{SOCKETS}ControlPlaneNetworkProcessorAvgIdlePercent"] == {"Value": None}
    assert math.isnan(
        broker.server.metrics.value(f"{SOCKETS}ControlPlaneNetworkProcessorAvgIdlePercent")
    )
    assert found[f"{SOCKETS}ControlPlaneExpiredConnectionsKilledCount"] == {"Value": 0}
    assert {name for name in found if "ControlPlane" in name} == {
        f"{SOCKETS}ControlPlaneNetworkProcessorAvgIdlePercent",
        f"{SOCKETS}ControlPlaneExpiredConnectionsKilledCount",
    }
    assert f"{ACCEPTOR}AcceptorBlockedPercent,listener=CONTROLLER" in found


@pytest.fixture(scope="module")
def kafka(
    zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[KafkaBroker, dict[str, dict[str, float]]]]:
    broker = KafkaBroker(f"{zookeeper}/kip291-metrics", tmp_path_factory.mktemp("kafka"))
    try:
        yield broker, broker.mbeans("kafka.*:*")
    finally:
        broker.stop()


_OF_CONVERSIONS = "MessageConversionsTimeMs|TemporaryMemoryBytes"  # nothing is converted here
_OF_THE_KIP = re.compile(
    r"kafka\.network:type=(RequestChannel|SocketServer|Processor|Acceptor),"
    r"|kafka\.server:type=KafkaRequestHandlerPool,"
    r"|kafka\.controller:type=(ControllerChannelManager|KafkaController|ControllerEventManager),"
    r"|kafka\.network:type=RequestMetrics,name=.*,request=UpdateMetadata"
    rf"|kafka\.network:type=RequestMetrics,name=(?!RequestsPerSec|ErrorsPerSec|{_OF_CONVERSIONS})"
    rf".*,request=({'|'.join(key.display_name for key in SUPPORTED)}|FetchConsumer|FetchFollower)$"
)
_NOT_HERE = "ZkMigrationState"  # there is no migration to KRaft here


def test_names_and_attributes_are_kafkas(
    start: Start, kafka: tuple[KafkaBroker, dict[str, dict[str, float]]]
) -> None:
    """What an operator's tools ask Apache Kafka for, they find here."""
    theirs = {n: set(a) for n, a in kafka[1].items() if _OF_THE_KIP.match(n) and _NOT_HERE not in n}
    ours = {n: set(a) for n, a in start("dual").mbeans().items()}
    assert len(theirs) > 300
    assert sorted(theirs.keys() - ours.keys()) == []
    assert {n: theirs[n] ^ ours[n] for n in theirs if theirs[n] != ours[n]} == {}
    more = {n for n in ours if "ControlPlane" in n}
    assert sorted(more - theirs.keys()) == []


def test_a_port_that_is_taken_is_named(
    start: Start, listener: Callable[[], ControlListener]
) -> None:
    taken = listener()
    with pytest.raises(ConfigError, match=r"biplane\.metrics\.port"):
        start("dual", biplane_metrics_port=str(taken.port))


# ---- queues --------------------------------------------------------------------------------------


@pytest.mark.parametrize("plane", PLANES)
def test_queue_sizes_are_of_their_plane(start: Start, plane: str) -> None:
    """RequestQueueSize counts what waits for a handler, of its own plane only; ResponseQueueSize
    what waits for a network thread."""
    load = Load(start, plane)
    broker = load.broker
    mine, other = PREFIX[plane], PREFIX[OTHER[plane]]
    assert broker.value(f"{CHANNEL}{mine}RequestQueueSize") == capacity(plane)
    assert broker.value(f"{CHANNEL}{other}RequestQueueSize") == 0
    assert broker.value(f"{CHANNEL}{mine}ResponseQueueSize") == 0
    # Two more that are not read, for the network thread is blocked. Once the first request is
    # answered it goes on, reads both in one turn and is blocked again, by the first of them;
    # the next answer lets that one in, but the second one keeps the thread from writing.
    late = [load.send(), load.send()]
    eventually(lambda: all(unread_bytes(c) > 0 for c in late))
    for i in range(2):
        broker.gate.let_one(plane)
        eventually(lambda i=i: len(broker.gate.clients(plane, "load-")) == i + 2)
        if i == 0:
            eventually(lambda: all(unread_bytes(c) == 0 for c in late))
    eventually(lambda: broker.value(f"{CHANNEL}{mine}ResponseQueueSize") == 1)
    eventually(lambda: broker.value(f"{CHANNEL}{mine}RequestQueueSize") == capacity(plane))
    assert broker.value(f"{CHANNEL}{other}ResponseQueueSize") == 0
    assert not load.clients[1].has_answer()
    load.end()
    eventually(lambda: broker.value(f"{CHANNEL}{mine}ResponseQueueSize") == 0)
    eventually(lambda: broker.value(f"{CHANNEL}{mine}RequestQueueSize") == 0)


# ---- idle percentages ----------------------------------------------------------------------------


def handler_idle(broker: RunningBroker, plane: str) -> Callable[[], tuple[float, float]]:
    """Starts to look; the result says how long its handlers were idle since: (the least, the most
    share of the time that can be told from here)."""
    name = f"{POOL}{PREFIX[plane]}RequestHandlerAvgIdlePercent"
    before_ns = time.monotonic_ns()
    first = broker.value(name, "Count") or 0
    after_ns = time.monotonic_ns()

    def share() -> tuple[float, float]:
        then_ns = time.monotonic_ns()
        idle_ns = (broker.value(name, "Count") or 0) - first
        now_ns = time.monotonic_ns()
        return idle_ns / (now_ns - before_ns), idle_ns / (then_ns - after_ns)

    return share


@pytest.mark.parametrize("plane", PLANES)
def test_handlers_that_get_nothing_to_do_are_idle(start: Start, plane: str) -> None:
    """RequestHandlerAvgIdlePercent of a plane without requests: all of the time, though no request
    ever ends the wait."""
    broker = start("dual", num_io_threads="4")
    share = handler_idle(broker, plane)
    time.sleep(0.05)
    least, most = share()
    assert least <= 1 <= most * 1.0001


@pytest.mark.parametrize("plane", PLANES)
def test_handlers_that_are_busy_are_not_idle(start: Start, plane: str) -> None:
    """One handler of the control plane's one, or of the data plane's four, does not come back: the
    rest is idle, and so is the other plane."""
    broker = start("dual", num_io_threads="4")
    broker.gate.hold(plane)
    client = broker.client("load", PORT[plane]).send(entity_for(plane))
    eventually(lambda: broker.gate.running(plane) == 1)
    share, other = handler_idle(broker, plane), handler_idle(broker, OTHER[plane])
    time.sleep(0.05)
    least, most = share()
    expected = 0 if plane == "control" else 0.75
    assert least <= expected <= most + 0.0001
    assert most >= least
    if plane == "control":
        assert most == 0
    else:
        assert least < 0.76
    least, most = other()
    assert least <= 1 <= most * 1.0001
    broker.gate.release()
    client.answer()


@pytest.mark.parametrize("plane", PLANES)
def test_network_threads_are_idle_but_for_their_work(start: Start, plane: str) -> None:
    """NetworkProcessorAvgIdlePercent and the IdlePercent of each processor: near 1 where nothing
    comes in; 0 of a plane whose network thread is blocked, while the other plane's is idle."""
    load = Load(start, plane, listeners="CONTROLLER://127.0.0.1:0,CLIENT://127.0.0.1:0",
                listener_security_protocol_map="CONTROLLER:PLAINTEXT,CLIENT:PLAINTEXT",
                inter_broker_listener_name="CLIENT")  # fmt: skip
    broker = load.broker
    own = {"control": 0, "data": 1}  # the control plane's processor is made first
    for name in (
        f"{SOCKETS}{PREFIX[plane]}NetworkProcessorAvgIdlePercent",
        f"kafka.network:type=Processor,name=IdlePercent,networkProcessor={own[plane]}",
    ):
        eventually(lambda n=name: broker.value(n) == 0)
    for name in (
        f"{SOCKETS}{PREFIX[OTHER[plane]]}NetworkProcessorAvgIdlePercent",
        f"kafka.network:type=Processor,name=IdlePercent,networkProcessor={own[OTHER[plane]]}",
    ):
        eventually(lambda n=name: 0.5 < (broker.value(n) or 0) <= 1)
    load.end()
    name = f"{SOCKETS}{PREFIX[plane]}NetworkProcessorAvgIdlePercent"
    eventually(lambda: 0.5 < (broker.value(name) or 0) <= 1)


@pytest.mark.parametrize("plane", PLANES)
def test_acceptors_are_blocked_by_a_blocked_network_thread(start: Start, plane: str) -> None:
    """AcceptorBlockedPercent: a network thread that does not come back takes over no more than 20
    connections; the acceptor waits with the next one."""
    load = Load(start, plane)
    broker = load.broker
    port = PORT[plane]
    mine = f"{ACCEPTOR}{PREFIX[plane]}AcceptorBlockedPercent,listener={port}"
    other = f"{ACCEPTOR}{PREFIX[OTHER[plane]]}AcceptorBlockedPercent,listener={PORT[OTHER[plane]]}"
    assert (broker.value(mine, "Count"), broker.value(other, "Count")) == (0, 0)
    more = [broker.client(f"more-{i}", port) for i in range(25)]
    eventually(lambda: waiting_to_be_accepted(broker.ports[port]) == 4, "20 taken, one in hand")
    load.end()
    for client in more:
        client.ask(entity_for(plane))
    assert (broker.value(mine, "Count") or 0) > 0
    assert broker.value(other, "Count") == 0


def test_idle_connections_are_not_expired_ones(start: Start) -> None:
    """ExpiredConnectionsKilledCount counts sessions whose authentication ran out (there is none),
    not connections that idled too long."""
    broker = start("dual", connections_max_idle_ms="101")
    for listener in ("CONTROLLER", "CLIENT"):
        client = broker.client("idle", listener)
        with pytest.raises((EOFError, ConnectionError)):
            client._read(1)
    for prefix in PREFIX.values():
        assert broker.value(f"{SOCKETS}{prefix}ExpiredConnectionsKilledCount") == 0

"""KIP-291, Motivation: what is wrong without separation, and that separation mends it.

Every test is a pair: `single` shows the harm that the KIP describes (or the KIP would not be about
this broker), `dual` shows that it is gone. The data plane is held by a handler that does not come
back, as one that waits for a slow disk.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodes.wire.apis import ApiKey
from tests.kip291.control_listener import ControlListener
from tests.kip291.parts import Client, RunningBroker, eventually, unread_bytes
from tests.kip291.requests import (
    NOT_LEADER,
    leader_and_isr,
    leader_told,
    metadata,
    produce,
    produce_error,
    stop_replica,
    update_metadata,
)

Start = Callable[..., RunningBroker]
Listener = Callable[[], ControlListener]
PLANES = ("single", "dual")


def led(broker: RunningBroker, follower: ControlListener, topic: str = "t") -> None:
    """Broker 1 leads the topic's partition, broker 2 (a listening socket) follows."""
    controller = broker.controller("setup")
    own = [(name, port) for name, port in broker.ports.items()]
    other = [(name, follower.port) for name in broker.ports]
    told = update_metadata({1: own, 2: other}, topic, leader=1)
    assert controller.ask(told).error_code == 0
    answer = controller.ask(leader_and_isr(topic, leader=1, leader_epoch=0))
    assert answer.topics[0].partition_errors[0].error_code == 0


def held(broker: RunningBroker) -> Client:
    """The data plane's only handler is stuck."""
    broker.gate.hold("data")
    stuck = broker.client("stuck", "REPLICATION").send(metadata())
    eventually(lambda: broker.gate.running("data") == 1)
    return stuck


def queued(broker: RunningBroker, count: int) -> None:
    eventually(lambda: broker.queue_size("data") == count, f"{count} wait")


def unanswered_while_queued(broker: RunningBroker, client: Client, count: int) -> None:
    """The request sits in the data plane's queue, behind whatever else does."""
    queued(broker, count)
    assert not client.has_answer()


@pytest.mark.parametrize("planes", PLANES)
def test_controllers_share_the_endpoint_of_brokers_unless_separated(
    start: Start, planes: str
) -> None:
    """(1): a controller dials the same endpoint that other brokers use."""
    broker = start(planes)
    own = [s for s in broker.gate.seen if s.api is ApiKey.UPDATE_METADATA]
    listener, plane = ("REPLICATION", "data") if planes == "single" else ("CONTROLLER", "control")
    assert {(s.listener, s.plane) for s in own} == {(listener, plane)}


@pytest.mark.parametrize("planes", PLANES)
def test_scenario_1_a_full_queue_blocks_the_network_thread(start: Start, planes: str) -> None:
    """(2) and scenario 1: the network thread that has the controller's connection serves data
    connections as well; while the request queue is full it is blocked, and the controller's request
    is not even read."""
    broker = start(planes, queued_max_requests="3")
    held(broker)
    data = [broker.client(f"data-{i}", "REPLICATION").send(metadata()) for i in range(3)]
    queued(broker, 3)
    controller = broker.controller()
    last = broker.client("last", "REPLICATION").send(metadata())
    eventually(lambda: unread_bytes(last) == 0, "read, and put into a queue without room")
    controller.send(update_metadata({}))
    if planes == "dual":
        assert controller.answer().error_code == 0
        assert broker.queue_size("data") == 3, "not because anything moved"
        return
    eventually(lambda: unread_bytes(controller) > 0)
    for _ in range(20):  # nothing that the broker does meanwhile makes it read
        assert broker.queue_size("data") == 3
        assert unread_bytes(controller) > 0
    broker.gate.release()
    assert controller.answer().error_code == 0
    for client in (*data, last):
        client.answer()


@pytest.mark.parametrize("planes", PLANES)
def test_scenario_2_a_backlog_delays_what_is_behind_it(start: Start, planes: str) -> None:
    """(3), (4) and scenario 2: one FIFO queue holds all types of requests, and handlers give a
    controller's no precedence: it waits for the whole backlog."""
    broker = start(planes)
    held(broker)
    before = len(broker.gate.seen)
    for i in range(1, 5):
        broker.client(f"data-{i}", "REPLICATION").send(metadata())
        queued(broker, i)
    controller = broker.controller().send(update_metadata({}))
    if planes == "dual":
        assert controller.answer().error_code == 0
        assert broker.gate.clients("control")[-1] == "controller"
        return
    queued(broker, 5)
    behind = broker.client("behind", "REPLICATION").send(metadata())
    queued(broker, 6)
    broker.gate.release()
    behind.answer()
    order = [s.client_id for s in broker.gate.seen[before:]]
    assert order == ["data-1", "data-2", "data-3", "data-4", "controller", "behind"]


@pytest.mark.parametrize("planes", PLANES)
def test_impact_of_a_late_leader_and_isr_with_acks_1(
    start: Start, listener: Listener, planes: str
) -> None:
    """A leader that has not been told goes on taking acks=1 records, and they are cut off when it
    follows; told in time, it refuses them and their producers look for the new leader."""
    broker = start(planes)
    led(broker, listener())
    held(broker)
    producers = []
    for i in range(1, 4):
        producers.append(broker.client(f"p-{i}", "REPLICATION").send(produce("t")))
        queued(broker, i)
    controller = broker.controller().send(leader_and_isr("t", leader=2, leader_epoch=1))
    if planes == "dual":
        assert controller.answer().topics[0].partition_errors[0].error_code == 0
    else:
        unanswered_while_queued(broker, controller, 4)
    broker.gate.release()
    errors = [produce_error(p.answer()) for p in producers]
    assert errors == [NOT_LEADER if planes == "dual" else 0] * 3


@pytest.mark.parametrize("planes", PLANES)
def test_impact_of_a_late_leader_and_isr_with_acks_all(
    start: Start, listener: Listener, planes: str
) -> None:
    """Produce requests with acks=all stay in purgatory as long as their leader does not know that
    it is none any more."""
    broker = start(planes)
    led(broker, listener())
    pending = broker.client("pending", "REPLICATION").send(produce("t", acks=-1))
    size = "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=Produce"
    eventually(lambda: broker.value(size) == 1)
    held(broker)
    controller = broker.controller().send(leader_and_isr("t", leader=2, leader_epoch=1))
    if planes == "dual":
        assert controller.answer().error_code == 0
        assert produce_error(pending.answer()) == NOT_LEADER
        assert broker.gate.running("data") == 1, "and still nothing moves in the data plane"
        return
    unanswered_while_queued(broker, controller, 1)
    assert not pending.has_answer()
    assert broker.value(size) == 1
    broker.gate.release()
    assert produce_error(pending.answer()) == NOT_LEADER


@pytest.mark.parametrize("planes", PLANES)
def test_impact_of_a_late_update_metadata(start: Start, listener: Listener, planes: str) -> None:
    """Clients that ask while the update waits are told of the leader of old."""
    broker = start(planes)
    led(broker, listener())
    held(broker)
    readers = []
    for i in range(1, 3):
        readers.append(broker.client(f"r-{i}", "CLIENT").send(metadata("t")))
        queued(broker, i)
    brokers = {b: [(name, 9) for name in broker.ports] for b in (1, 2)}
    told = update_metadata(brokers, "t", leader=2, leader_epoch=1)
    controller = broker.controller().send(told)
    if planes == "dual":
        assert controller.answer().error_code == 0
    else:
        unanswered_while_queued(broker, controller, 3)
    broker.gate.release()
    assert [leader_told(r.answer()) for r in readers] == [2 if planes == "dual" else 1] * 2
    assert leader_told(broker.client().ask(metadata("t"))) == 2


@pytest.mark.parametrize("planes", PLANES)
def test_impact_of_a_late_stop_replica(start: Start, listener: Listener, planes: str) -> None:
    """A deletion waits for the slowest broker's answer: its log stays where it is meanwhile."""
    broker = start(planes)
    led(broker, listener())
    directory = broker.folder / "data" / "t-0"
    assert directory.is_dir()
    held(broker)
    controller = broker.controller().send(stop_replica("t"))
    if planes == "dual":
        assert controller.answer().error_code == 0
        assert not directory.exists()
        return
    unanswered_while_queued(broker, controller, 1)
    assert directory.is_dir()
    broker.gate.release()
    assert controller.answer().error_code == 0
    assert not directory.exists()

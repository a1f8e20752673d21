"""KIP-291, Public Interfaces, metrics: where requests spent their time, what came of them, and what
waits at the controller. (Planes have `test_metrics`.)"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from nodes.wire.apis import SUPPORTED
from tests.kip291.control_listener import ControlListener
from tests.kip291.parts import (
    RunningBroker,
    eventually,
)
from tests.kip291.registry import Registry
from tests.kip291.requests import Sender, leader_and_isr, produce, update_metadata

Start = Callable[..., RunningBroker]
REQUESTS = "kafka.network:type=RequestMetrics,name="
CHANNELS = "kafka.controller:type=ControllerChannelManager,name="
CONTROLLER = "kafka.controller:type=KafkaController,name="


# ---- requests ------------------------------------------------------------------------------------

SEGMENTS = (
    "RequestQueueTimeMs",
    "LocalTimeMs",
    "RemoteTimeMs",
    "ThrottleTimeMs",
    "ResponseQueueTimeMs",
    "ResponseSendTimeMs",
)


def test_a_requests_time_is_all_accounted_for(start: Start) -> None:
    """Seven histograms for each API: where the request was, and all of it."""
    broker = start("dual")
    broker.gate.hold("control")
    first = broker.controller("first").send(update_metadata({}))
    eventually(lambda: broker.gate.running("control") == 1)
    second = broker.controller("second").send(leader_and_isr("none", 2, 0))
    eventually(lambda: broker.queue_size("control") == 1)
    start_ns = time.monotonic_ns()
    time.sleep(0.02)
    held_ms = (time.monotonic_ns() - start_ns) / 1e6
    broker.gate.release()
    first.answer()
    second.answer()
    found = {n: f"{REQUESTS}{n},request=LeaderAndIsr" for n in (*SEGMENTS, "TotalTimeMs")}
    eventually(lambda: found["TotalTimeMs"] in broker.mbeans(REQUESTS))
    page = broker.mbeans(REQUESTS)
    times = {n: page[mbean] for n, mbean in found.items()}
    assert {n: t["Count"] for n, t in times.items()} == dict.fromkeys(found, 1)
    assert (times["RequestQueueTimeMs"]["Max"] or 0) >= held_ms, "behind the first one"
    total = times["TotalTimeMs"]["Max"] or 0
    assert total == pytest.approx(sum(times[n]["Max"] or 0 for n in SEGMENTS))
    assert all((times[n]["Min"] or 0) >= 0 for n in SEGMENTS)
    assert times["ThrottleTimeMs"]["Max"] == 0
    local = page[f"{REQUESTS}LocalTimeMs,request=UpdateMetadata"]
    assert (local["Max"] or 0) >= held_ms, "the first one was in its handler"
    assert local["50thPercentile"] is not None


def test_remote_time_is_the_wait_for_others(
    start: Start, listener: Callable[[], ControlListener]
) -> None:
    """RemoteTimeMs: an acks=all produce waits for a follower, not in a handler."""
    broker = start("dual")
    follower = listener()
    controller = broker.controller()
    own = list(broker.ports.items())
    brokers = {1: own, 2: [(name, follower.port) for name in broker.ports]}
    controller.ask(update_metadata(brokers, "t", leader=1))
    controller.ask(leader_and_isr("t", leader=1, leader_epoch=0))
    pending = broker.client("p").send(produce("t", acks=-1))
    size = "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=Produce"
    eventually(lambda: broker.value(size) == 1)
    start_ns = time.monotonic_ns()
    time.sleep(0.02)
    waited_ms = (time.monotonic_ns() - start_ns) / 1e6
    controller.ask(leader_and_isr("t", leader=2, leader_epoch=1))
    pending.answer()
    name = f"{REQUESTS}RemoteTimeMs,request=Produce"
    eventually(lambda: name in broker.mbeans(REQUESTS))
    assert (broker.value(name, "Max") or 0) >= waited_ms
    errors = f"{REQUESTS}ErrorsPerSec,request=Produce,error=NOT_LEADER_OR_FOLLOWER"
    assert broker.value(errors, "Count") == 1


def test_requests_and_errors_are_counted(start: Start) -> None:
    """RequestsPerSec by API and version, ErrorsPerSec by API and error."""
    broker = start("dual")
    name = f"{REQUESTS}RequestsPerSec,request=UpdateMetadata,version=8"
    eventually(lambda: name in broker.mbeans(REQUESTS))
    errors = f"{REQUESTS}ErrorsPerSec,request=UpdateMetadata,error="
    requests, fine = broker.value(name, "Count"), broker.value(f"{errors}NONE", "Count")
    assert requests == fine, "what its own controller sent"
    controller = broker.controller()
    for controller_epoch in (5, 6, 5, 4, 6):
        controller.ask(update_metadata({}, sender=Sender(controller_epoch=controller_epoch)))
    stale = f"{errors}STALE_CONTROLLER_EPOCH"
    eventually(lambda: broker.value(name, "Count") == (requests or 0) + 5)
    assert broker.value(stale, "Count") == 2
    assert broker.value(f"{errors}NONE", "Count") == (fine or 0) + 3


@pytest.mark.parametrize("planes", ["dual", "single"])
def test_metrics_are_there_before_what_they_count(start: Start, planes: str) -> None:
    """As in Kafka an operator's dashboard finds them in a broker of which nobody has asked anything
    yet, with zeros: an absent row is no zero to it. (Rates of requests, and of errors, come with
    the first one.)"""
    broker = start(planes)
    told = f"{REQUESTS}RequestsPerSec,request=UpdateMetadata,version=8"
    eventually(lambda: told in broker.mbeans(told))
    eventually(lambda: broker.value(f"{CHANNELS}TotalQueueSize") == 0)
    found = broker.mbeans()
    names = {key.display_name for key in SUPPORTED} | {"FetchConsumer", "FetchFollower"}
    histograms = {
        f"{REQUESTS}{segment},request={name}": name
        for name in names
        for segment in (*SEGMENTS, "TotalTimeMs", "RequestBytes")
    }
    assert histograms.keys() - found.keys() == set()
    asked = {"UpdateMetadata"}  # by its own controller
    zero = {n for n, name in histograms.items() if name not in asked}
    assert {value for n in zero for value in found[n].values()} == {0}
    asked_for = {n.partition("request=")[2].partition(",")[0] for n in found if "PerSec,req" in n}
    assert asked_for == asked
    server = "kafka.server:type="
    for meter in (
        "ReplicaManager,name=IsrExpandsPerSec",
        "ReplicaManager,name=IsrShrinksPerSec",
        "BrokerTopicMetrics,name=BytesInPerSec",
        "BrokerTopicMetrics,name=MessagesInPerSec",
        "DelayedOperationMetrics,name=ProduceExpiresPerSec",
    ):
        assert set(found[server + meter].values()) == {0}, meter
        assert len(found[server + meter]) == 5
    purgatory = f"{server}DelayedOperationPurgatory,name="
    fetchers = f"{server}ReplicaFetcherManager,clientId=Replica,name=FailedPartitionsCount"
    for gauge in (
        *(f"{server}ReplicaManager,name={name}" for name in REPLICA_GAUGES),
        *(f"{purgatory}PurgatorySize,delayedOperation={name}" for name in ("Produce", "Fetch")),
        *(f"{CONTROLLER}{name}" for name in CONTROLLER_GAUGES),
        fetchers,
        f"{CHANNELS}TotalQueueSize",
        f"{CHANNELS}QueueSize,broker-id=1",
    ):
        assert found[gauge] == {"Value": 0}, gauge
    assert f"{CHANNELS}RequestRateAndQueueTimeMs,broker-id=1" in found


REPLICA_GAUGES = (
    "PartitionCount", "LeaderCount", "OfflineReplicaCount", "UnderReplicatedPartitions",
    "UnderMinIsrPartitionCount", "AtMinIsrPartitionCount", "ReassigningPartitions",
)  # fmt: skip
CONTROLLER_GAUGES = (
    "OfflinePartitionsCount", "PreferredReplicaImbalanceCount", "GlobalTopicCount",
    "GlobalPartitionCount", "TopicsToDeleteCount", "ReplicasToDeleteCount",
    "TopicsIneligibleToDeleteCount", "ReplicasIneligibleToDeleteCount", "FencedBrokerCount",
)  # fmt: skip


# ---- the controller ------------------------------------------------------------------------------


def test_the_controllers_queues_and_counts(
    start: Start,
    listener: Callable[[], ControlListener],
    zookeeper: str,
    zookeeper_chroot: str,
) -> None:
    """QueueSize and TotalQueueSize count what a broker has not been sent; RequestRateAndQueueTimeMs
    how long it waited; KafkaController what is and is not in order."""
    broker = start("dual")
    registry = Registry(zookeeper + zookeeper_chroot)
    control = listener()
    queue, total = f"{CHANNELS}QueueSize,broker-id=2", f"{CHANNELS}TotalQueueSize"
    times = f"{CHANNELS}RequestRateAndQueueTimeMs,broker-id=2"
    try:
        assert broker.value(f"{CONTROLLER}ActiveControllerCount") == 1
        eventually(lambda: broker.value(total) == 0)
        registry.register(2, [("CONTROLLER", control.port), ("REPLICATION", 9)])
        registry.create_topic("marker", [[2, 1]])
        eventually(lambda: any(r.entity.topic_states for r in control.received))
        eventually(lambda: broker.value(queue) == 0)
        sent = broker.value(times, "Count")
        control.flowing.clear()
        for i in range(3):
            registry.create_topic(f"t{i}", [[2, 1]])
            eventually(lambda i=i: registry.state(f"t{i}"))
        # LeaderAndIsr and UpdateMetadata each; the first one is under way.
        eventually(lambda: broker.value(queue) == 5)
        # The other queues' sum as well: broker 1 is sent to at once, yet not in no time.
        eventually(lambda: broker.value(total) == 5)
        assert broker.value(f"{CONTROLLER}GlobalTopicCount") == 4
        assert broker.value(f"{CONTROLLER}GlobalPartitionCount") == 4
        assert broker.value(f"{CONTROLLER}PreferredReplicaImbalanceCount") == 0
        assert broker.value(f"{CONTROLLER}OfflinePartitionsCount") == 0
        start_ns = time.monotonic_ns()
        time.sleep(0.02)
        waited_ms = (time.monotonic_ns() - start_ns) / 1e6
        control.flowing.set()
        eventually(lambda: broker.value(times, "Count") == (sent or 0) + 6)
        assert broker.value(queue) == 0
        assert (broker.value(times, "Max") or 0) >= waited_ms
        registry.create_topic("lost", [[2]])
        eventually(lambda: registry.state("lost"))
        registry.unregister(2)
        eventually(lambda: broker.value(f"{CONTROLLER}OfflinePartitionsCount") == 1)
        assert broker.value(f"{CONTROLLER}PreferredReplicaImbalanceCount") == 5
        assert queue not in broker.mbeans(CHANNELS)
        assert times not in broker.mbeans(CHANNELS)
        events = "kafka.controller:type=ControllerEventManager,name="
        assert (broker.value(f"{events}EventQueueTimeMs", "Count") or 0) > 5
        eventually(lambda: broker.value(f"{events}EventQueueSize") == 0)
        eventually(lambda: broker.value(f"{CONTROLLER}ControllerState") == 0)
    finally:
        registry.close()


def test_one_of_two_is_the_controller(start: Start) -> None:
    first = start("dual")
    second = start("dual", broker_id="2")
    name = f"{CONTROLLER}ActiveControllerCount"
    assert (first.value(name), second.value(name)) == (1, 0)

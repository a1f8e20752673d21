"""What operators watch of replication (Kafka's documentation, "Monitoring"; ReplicaManager,
DelayedOperationPurgatory and BrokerTopicMetrics)."""

from __future__ import annotations

import pytest

from nodes.core.types import TopicPartition
from nodes.mutants import rules_with
from nodes.replication.model import FetchParams, FetchPartitionRequest, LeaderAndIsrState
from nodes.replication.partition import Partition
from nodes.wire.records import build_batch
from tests.nodes.replication.conftest import (
    TP,
    Broker,
    ClusterFactory,
    MemoryCluster,
    Waiter,
    answer_of,
    wait_for,
)

REPLICAS = "kafka.server:type=ReplicaManager,name="
PURGATORY = "kafka.server:type=DelayedOperationPurgatory,name="
OTHER = TopicPartition("t", 1)


def counts(broker: Broker) -> dict[str, float]:
    """The gauges that are not 0."""
    names = (
        "PartitionCount", "LeaderCount", "UnderReplicatedPartitions", "UnderMinIsrPartitionCount",
        "AtMinIsrPartitionCount", "OfflineReplicaCount", "ReassigningPartitions",
    )  # fmt: skip
    found = {name: broker.metrics.value(REPLICAS + name) for name in names}
    return {name: value for name, value in found.items() if value}


@pytest.fixture
def pair(make_cluster: ClusterFactory) -> MemoryCluster:
    """Broker 1 leads, broker 2 follows; both are needed for acks=all."""
    cluster = make_cluster(brokers=2, min_isr=2)
    cluster.create()
    return cluster


def told_state(partition: Partition, **changes: tuple[int, ...]) -> LeaderAndIsrState:
    """The controller's next word on a partition that broker 1 leads."""
    fields = {"isr": (1, 2), "replicas": (1, 2), **changes}
    return LeaderAndIsrState(
        tp=partition.tp,
        topic_id=partition.topic_id,
        controller_epoch=1,
        leader=1,
        leader_epoch=partition.leader_epoch + 1,
        partition_epoch=partition.partition_epoch + 1,
        **fields,
    )


def test_a_partition_in_order(pair: MemoryCluster) -> None:
    """UnderReplicated: |ISR| < |replicas|. UnderMinIsr: |ISR| < min.insync.replicas; AtMinIsr:
    equal. Followers count partitions only."""
    assert counts(pair.brokers[1]) == {
        "PartitionCount": 1,
        "LeaderCount": 1,
        "AtMinIsrPartitionCount": 1,
    }
    assert counts(pair.brokers[2]) == {"PartitionCount": 1}


@pytest.mark.parametrize(("names", "told"), [((), True), (("report-all-in-sync",), False)])
def test_who_reports_all_in_sync(
    make_cluster: ClusterFactory, names: tuple[str, ...], told: bool
) -> None:
    cluster = make_cluster(brokers=2, min_isr=2)
    cluster.kill(1)
    broker = cluster.start(1, rules_with(names))
    cluster.create()
    broker.partition().make_leader(told_state(broker.partition(), isr=(1,)))
    assert ("UnderReplicatedPartitions" in counts(broker)) is told
    assert counts(broker)["UnderMinIsrPartitionCount"] == 1


def test_a_follower_is_missing(pair: MemoryCluster) -> None:
    pair.brokers[1].partition().make_leader(told_state(pair.brokers[1].partition(), isr=(1,)))
    assert counts(pair.brokers[1]) == {
        "PartitionCount": 1,
        "LeaderCount": 1,
        "UnderReplicatedPartitions": 1,
        "UnderMinIsrPartitionCount": 1,
    }


def test_who_is_only_being_added_is_not_missed(pair: MemoryCluster) -> None:
    """KIP-455: replicas that a reassignment adds do not make a partition under-replicated; whoever
    leads it counts it as being reassigned."""
    changes = {"replicas": (1, 2, 3), "adding_replicas": (3,)}
    leader, follower = (pair.brokers[i].partition() for i in (1, 2))
    leader.make_leader(told_state(leader, **changes))
    follower.make_follower(told_state(follower, **changes))
    found = counts(pair.brokers[1])
    assert found.pop("ReassigningPartitions") == 1
    assert "UnderReplicatedPartitions" not in found
    assert counts(pair.brokers[2]) == {"PartitionCount": 1}


def test_a_replica_without_a_log(pair: MemoryCluster) -> None:
    """As after its directory failed: neither too few nor just enough can be said of it."""
    pair.brokers[1].manager.create_partition(OTHER)
    found = counts(pair.brokers[1])
    assert (found["PartitionCount"], found["OfflineReplicaCount"]) == (2, 1)
    assert (found["LeaderCount"], found["AtMinIsrPartitionCount"]) == (1, 1)


def test_what_waits(pair: MemoryCluster) -> None:
    """PurgatorySize counts a request once for each partition that it waits for,
    NumDelayedOperations once; each purgatory has its own."""
    leader = pair.brokers[1]
    pair.controller.states[OTHER] = pair.controller.states[TP]
    pair.controller.tell(1, OTHER)
    request = FetchPartitionRequest(0, -1, 1000)
    waiter = Waiter()
    params = FetchParams(max_wait_ms=600_000, min_bytes=10)
    leader.manager.fetch_messages(params, [(TP, request), (OTHER, request)], waiter)

    def waiting(kind: str) -> tuple[float, float]:
        both = (f"{PURGATORY}{name},delayedOperation={kind}" for name in _SIZES)
        size, operations = map(leader.metrics.value, both)
        return size, operations

    # The follower's own fetches of TP come and go.
    wait_for(lambda: waiting("Fetch") == (2, 1))
    assert waiting("Produce") == (0, 0)
    leader.manager.drop_partition(OTHER)
    leader.manager.complete_delayed(OTHER)
    waiter.wait()
    wait_for(lambda: waiting("Fetch") in ((0, 0), (1, 1)))


_SIZES = ("PurgatorySize", "NumDelayedOperations")


def test_what_comes_in(pair: MemoryCluster) -> None:
    """BytesInPerSec and MessagesInPerSec count what was appended, not what was refused."""
    leader = pair.brokers[1]
    data = bytes(build_batch([(None, b"a", 1), (None, b"b", 2), (None, b"c", 3)]))
    for acks in (1, 1, 7):
        leader.manager.append_single(TP, data, acks, 60_000, Waiter())
    topics = "kafka.server:type=BrokerTopicMetrics,name="
    assert leader.metrics.value(f"{topics}BytesInPerSec") == 2 * len(data)
    assert leader.metrics.value(f"{topics}MessagesInPerSec") == 6


def test_what_expires(pair: MemoryCluster) -> None:
    """ProduceExpiresPerSec: acks=all that nobody could give in time, and no other."""
    leader = pair.brokers[1]
    name = "kafka.server:type=DelayedOperationMetrics,name=ProduceExpiresPerSec"
    assert answer_of(leader.produce(1, acks=-1)).error == 0
    assert leader.metrics.value(name) == 0
    pair.cut.add(frozenset({1, 2}))
    assert answer_of(leader.produce(2, acks=-1, timeout_ms=1)).error == 7
    wait_for(lambda: leader.metrics.value(name) == 1)

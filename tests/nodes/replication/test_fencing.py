"""Stale and forged requests, with the answers that Apache Kafka 3.9.2 was seen to give."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.mutants import rules_with
from nodes.replication.gauges import partition_counts
from nodes.replication.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchParams,
    FetchPartitionRequest,
)
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.build import build
from tests.nodes.replication.conftest import (
    TOPIC_ID,
    TP,
    Broker,
    ClusterFactory,
    MemoryCluster,
    Waiter,
    answer_of,
    wait_for,
)


@pytest.fixture
def cluster(make_cluster: ClusterFactory) -> MemoryCluster:
    """Two brokers; broker 1 leads in leader epoch 2, under controller epoch 5."""
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.controller.controller_epoch = 5
    cluster.create()
    for _ in range(2):
        cluster.controller.elect(TP, 1)
    cluster.controller.tell_all()
    return cluster


def seen(broker: Broker) -> tuple[Any, ...]:
    partition = broker.partition()
    return (
        partition.leader_id,
        partition.leader_epoch,
        partition.partition_epoch,
        broker.manager.controller_epoch,
        broker.manager._metadata_cache.partition_state("t", 0),
    )


def stop_replica(version: int = 4, tp: TopicPartition = TP, **fields: Any) -> Any:
    leader_epoch, delete = fields.pop("leader_epoch", 2), fields.pop("delete", False)
    if version < 3:
        topics = [{"name": tp.topic, "partition_indexes": [tp.partition]}]
        fields |= {"topics": topics, "delete_partitions": delete}
    else:
        state = {
            "partition_index": tp.partition,
            "leader_epoch": leader_epoch,
            "delete_partition": delete,
        }
        fields["topic_states"] = [{"topic_name": tp.topic, "partition_states": [state]}]
    defaults = {"controller_id": 9, "controller_epoch": 5, "broker_epoch": -1}
    return build(request_class(ApiKey.STOP_REPLICA, version), **(defaults | fields))


def test_a_deposed_controller_changes_nothing(cluster: MemoryCluster) -> None:
    broker, orders = cluster.brokers[1], cluster.controller
    before = seen(broker)
    takeover = {"state": {"leader": 2, "leader_epoch": 9}}
    result = broker.manager.become_leader_or_follower(
        1, orders.leader_and_isr(controller_epoch=4, **takeover)
    )
    assert result.error == Errors.STALE_CONTROLLER_EPOCH
    assert [row.error for row in result.partition_errors] == [11]
    orders.elect(TP, 2)
    metadata = orders.update_metadata(controller_epoch=4)
    assert broker.manager.maybe_update_metadata_cache(2, metadata).error == 11
    stop = stop_replica(controller_epoch=4, delete=True)
    stopped = broker.manager.stop_replicas(3, stop)
    assert (stopped.error, stopped.partition_errors[0].error) == (11, 11)
    assert seen(broker) == before
    assert answer_of(broker.produce(1)).error == 0


@pytest.mark.parametrize("leader_epoch", [0, 1, 2])
def test_a_lower_or_equal_leader_epoch_is_refused_per_partition(
    cluster: MemoryCluster, leader_epoch: int
) -> None:
    broker = cluster.brokers[1]
    before = seen(broker)
    request = cluster.controller.leader_and_isr(
        state={"leader": 2, "leader_epoch": leader_epoch, "partition_epoch": 99}
    )
    result = broker.manager.become_leader_or_follower(1, request)
    assert (result.error, result.partition_errors[0].error) == (0, 11)
    assert seen(broker) == before


def test_a_forged_future_is_believed(cluster: MemoryCluster) -> None:
    """As Kafka does: epochs only guard against the past."""
    broker = cluster.brokers[1]
    request = cluster.controller.leader_and_isr(
        controller_epoch=15, state={"leader": 2, "leader_epoch": 40, "partition_epoch": 50}
    )
    assert broker.manager.become_leader_or_follower(1, request).partition_errors[0].error == 0
    assert broker.manager.leader_of(TP) == 2
    assert not broker.manager.is_leader(TP)
    true_one = cluster.controller.leader_and_isr()
    assert broker.manager.become_leader_or_follower(2, true_one).error == 11


def test_other_refusals_of_leader_and_isr(cluster: MemoryCluster) -> None:
    manager = cluster.brokers[1].manager
    other_topic = cluster.controller.leader_and_isr(
        topic_id=uuid.UUID(int=5), state={"leader_epoch": 8}
    )
    row = manager.become_leader_or_follower(1, other_topic).partition_errors[0]
    assert row == ("t", uuid.UUID(int=5), 0, Errors.INCONSISTENT_TOPIC_ID)
    not_ours = cluster.controller.leader_and_isr(state={"leader_epoch": 8, "replicas": (2, 3)})
    row = manager.become_leader_or_follower(1, not_ours).partition_errors[0]
    assert row == ("t", TOPIC_ID, 0, Errors.UNKNOWN_TOPIC_OR_PARTITION)


def test_an_older_partition_epoch_is_passed_over(cluster: MemoryCluster) -> None:
    broker = cluster.brokers[1]
    before = seen(broker)
    request = cluster.controller.leader_and_isr(
        state={"leader": 2, "leader_epoch": 9, "partition_epoch": 0}
    )
    assert broker.manager.become_leader_or_follower(1, request).partition_errors[0].error == 0
    assert seen(broker) == before


@pytest.mark.parametrize(("leader_epoch", "error"), [(1, 74), (2, 0), (3, 0), (-1, 0), (-2, 0)])
def test_stop_replica_by_leader_epoch(
    cluster: MemoryCluster, leader_epoch: int, error: int
) -> None:
    broker = cluster.brokers[1]
    answer_of(broker.produce(1, acks=-1))
    waiting = Waiter()
    broker.manager.fetch_messages(
        FetchParams(max_wait_ms=60_000), [(TP, FetchPartitionRequest(1, -1, 1000))], waiting
    )
    stop = stop_replica(leader_epoch=leader_epoch, delete=True)
    result = broker.manager.stop_replicas(8, stop)
    assert (result.error, result.partition_errors[0].error) == (0, error)
    assert (broker.manager.partition(TP) is None) == (error == 0)
    assert (broker.log_manager.get(TP) is None) == (error == 0)
    assert waiting.is_answered == (error == 0)
    rows = broker.trace("replica_stop")
    assert [(row["delete"], row["correlation_id"]) for row in rows] == [(True, 8)] * (error == 0)
    if error == 0:
        assert answer_of(broker.produce(2)).error == Errors.NOT_LEADER_OR_FOLLOWER


def test_stop_replica_of_old_versions_and_unknown_partitions(cluster: MemoryCluster) -> None:
    manager = cluster.brokers[2].manager
    unknown = stop_replica(tp=TopicPartition("gone", 3), delete=True)
    assert manager.stop_replicas(1, unknown).partition_errors[0].error == 0
    assert manager.stop_replicas(1, stop_replica(1)).partition_errors[0].error == 0
    assert manager.partition(TP) is not None, "it was only stopped"
    assert manager.stop_replicas(1, stop_replica(1, delete=True)).partition_errors[0].error == 0
    assert manager.partition(TP) is None


@pytest.mark.parametrize(("leader_epoch", "error"), [(1, 74), (2, 0), (-1, 0), (3, 75)])
def test_readers_are_fenced_by_leader_epoch(
    cluster: MemoryCluster, leader_epoch: int, error: int
) -> None:
    manager = cluster.brokers[1].manager
    waiter = Waiter()
    request = FetchPartitionRequest(0, -1, 1000, leader_epoch)
    manager.fetch_messages(FetchParams(max_wait_ms=0), [(TP, request)], waiter)
    assert waiter.wait()[0][1].error == error
    for timestamp in (LATEST_TIMESTAMP, EARLIEST_TIMESTAMP):
        assert manager.list_offset(TP, timestamp, leader_epoch, 0, -1).error == error
    assert manager.last_offset_for_leader_epoch(TP, leader_epoch, 2).error == error


def test_a_waiting_fetch_ends_when_its_epoch_does(cluster: MemoryCluster) -> None:
    broker = cluster.brokers[1]
    waiter = Waiter()
    request = FetchPartitionRequest(0, -1, 1000, 2)
    broker.manager.fetch_messages(FetchParams(max_wait_ms=60_000), [(TP, request)], waiter)
    cluster.controller.elect(TP, 2)
    cluster.controller.tell_all()
    assert waiter.wait()[0][1].error == Errors.FENCED_LEADER_EPOCH


def test_followers_are_known_by_their_assignment(cluster: MemoryCluster) -> None:
    manager = cluster.brokers[1].manager
    for leader_epoch, error in ((2, 75), (-1, 6)):
        waiter = Waiter()
        request = FetchPartitionRequest(0, 0, 1000, leader_epoch)
        manager.fetch_messages(FetchParams(replica_id=7, max_wait_ms=0), [(TP, request)], waiter)
        assert waiter.wait()[0][1].error == error


def test_partitions_elsewhere_and_nowhere(cluster: MemoryCluster) -> None:
    cluster.controller.states[TopicPartition("t", 1)] = cluster.controller.states[TP]
    cluster.controller.tell_metadata(1)
    manager = cluster.brokers[1].manager
    for tp, error in ((TopicPartition("t", 1), 6), (TopicPartition("x", 0), 3)):
        assert manager.list_offset(tp, LATEST_TIMESTAMP, -1, 0, -1).error == error
        assert manager.last_offset_for_leader_epoch(tp, -1, 0).error == error
        produced, fetched = Waiter(), Waiter()
        manager.append_single(tp, b"", 1, 100, produced)
        manager.fetch_messages(FetchParams(), [(tp, FetchPartitionRequest(0, -1, 1))], fetched)
        assert produced.wait().error == fetched.wait()[0][1].error == error


def test_offsets_by_time_and_by_role(cluster: MemoryCluster) -> None:
    broker = cluster.brokers[1]
    for value in range(3):
        answer_of(broker.produce(value, acks=-1))
    manager = broker.manager
    assert manager.list_offset(TP, LATEST_TIMESTAMP, 2, 0, -1) == (0, -1, 3, 2)
    assert manager.list_offset(TP, EARLIEST_TIMESTAMP, 2, 0, -1) == (0, -1, 0, 2)
    assert manager.list_offset(TP, 1_700_000_000_000, 2, 0, -1).offset == 0
    assert manager.list_offset(TP, 1_800_000_000_000, 2, 0, -1) == (0, -1, -1, -1)
    assert manager.list_offset(TP, -3, 2, 0, -1).error == 0
    assert cluster.brokers[2].manager.list_offset(TP, LATEST_TIMESTAMP, 2, 0, -1).error == 6
    assert manager.last_offset_for_leader_epoch(TP, 2, 2) == (0, 2, 3)
    assert manager.last_offset_for_leader_epoch(TP, 2, 0) == (0, 0, 0)


def test_a_new_leader_does_not_answer_with_an_old_end(cluster: MemoryCluster) -> None:
    answer_of(cluster.brokers[1].produce(0, acks=-1))
    follower = cluster.brokers[2].partition()
    wait_for(lambda: follower.high_watermark == 1)
    refusals = cluster.refusals
    cluster.alive.discard(1)
    wait_for(lambda: cluster.refusals > refusals, what="nothing is on its way any more")
    follower.high_watermark = 0  # its leader died before it could tell
    cluster.controller.elect(TP, 2)
    manager = cluster.brokers[2].manager
    # The metadata still names broker 1 as alive, so its position is waited for.
    manager.become_leader_or_follower(1, cluster.controller.leader_and_isr())
    assert manager.list_offset(TP, LATEST_TIMESTAMP, 3, 0, -1).error == 78
    assert manager.list_offset(TP, LATEST_TIMESTAMP, 3, 0, 1) == (0, -1, 1, 3)


def test_a_leader_that_is_not_alive_is_not_followed(cluster: MemoryCluster) -> None:
    """ReplicaManager.makeFollowers: the answer is "no error", and the partition stays what it was
    until a leader is named that the broker knows to be there."""
    partition = cluster.brokers[1].partition()
    assert partition.is_leader
    before = partition.leader_epoch
    cluster.alive.discard(2)
    cluster.controller.elect(TP, 2)
    assert cluster.controller.tell(1) == 0
    assert (partition.is_leader, partition.leader_epoch) == (True, before)
    cluster.alive.add(2)
    assert cluster.controller.tell(1) == 0
    assert (partition.leader_id, partition.leader_epoch) == (2, before + 1)


def test_metadata_updates_are_traced(cluster: MemoryCluster) -> None:
    row = cluster.brokers[1].trace("metadata_update")[-1]
    assert (row["leader"], row["leader_epoch"], row["controller_epoch"]) == (1, 2, 5)


@pytest.mark.parametrize("name", ["skip-controller-epoch-check", "stale-metadata-regress"])
def test_planted_controller_epoch_bugs(make_cluster: ClusterFactory, name: str) -> None:
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.kill(1)
    broker = cluster.start(1, rules_with([name]))
    cluster.controller.controller_epoch = 5
    cluster.create()
    orders = cluster.controller.leader_and_isr(
        controller_epoch=4, state={"leader": 2, "leader_epoch": 9}
    )
    metadata = cluster.controller.update_metadata(controller_epoch=4)
    errors = {
        "skip-controller-epoch-check": broker.manager.become_leader_or_follower(1, orders).error,
        "stale-metadata-regress": broker.manager.maybe_update_metadata_cache(1, metadata).error,
    }
    assert [key for key, error in errors.items() if not error] == [name]
    assert broker.manager.controller_epoch == 5


def test_leadership_listeners_hear_of_both_roles(cluster: MemoryCluster) -> None:
    heard: list[tuple[list[TopicPartition], list[TopicPartition]]] = []
    manager = cluster.brokers[1].manager
    manager.on_leadership_change = lambda leading, following: heard.append(
        ([p.tp for p in leading], [p.tp for p in following])
    )
    cluster.controller.elect(TP, 2)
    cluster.controller.tell(1)
    cluster.controller.elect(TP, 1)
    cluster.controller.tell(1)
    cluster.controller.elect(TP, 1)
    cluster.controller.tell(1)
    assert heard == [([], [TP]), ([TP], [])]
    counts = partition_counts(manager.partitions())
    assert (counts.partitions, counts.leaders, counts.offline) == (1, 1, 0)


@pytest.mark.parametrize("delete", [True, False])
@pytest.mark.parametrize("leader_epoch", [-3, -2, -1, 0, 2, 9])
def test_who_does_not_have_a_partition_has_stopped_it(
    cluster: MemoryCluster, leader_epoch: int, delete: bool
) -> None:
    """ReplicaManager.stopReplicas, HostedPartition.None: whichever epoch is given there is none to
    compare it with, and a log that was left behind can be deleted."""
    nowhere = TopicPartition("nowhere", 0)
    request = stop_replica(tp=nowhere, leader_epoch=leader_epoch, delete=delete)
    result = cluster.brokers[1].manager.stop_replicas(1, request)
    assert (result.error, [row.error for row in result.partition_errors]) == (0, [0])

"""What a broker writes into the state-change log about a controller's orders: ReplicaManager's and
Partition's lines of Kafka 3.9, each figure in its place."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.log.checkpoints import read_partition_metadata
from nodes.replication.model import LeaderAndIsrState
from nodes.replication.state_change_lines import Lines as StateChangeLines
from nodes.state_change_log import TRACE
from tests.kip291.requests import Sender, leader_and_isr, update_metadata
from tests.kip291.requests import stop_replica as kip_stop_replica
from tests.nodes.replication.conftest import (
    TOPIC_ID,
    TP,
    ClusterFactory,
    MemoryCluster,
    State,
    answer_of,
)

ID_TEXT = "AAAAAAAAAAAAAAAAAAAATQ"
"""Of `TOPIC_ID`, as Kafka's Uuid prints it."""


class Lines:
    """(level, text without the prefix) of broker 1's lines since the last look."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def take(self, level: int | None = None) -> list[str]:
        found = []
        for record in self._caplog.records:
            prefix, _, text = record.getMessage().partition("] ")
            if prefix == "[Broker id=1" and level in (None, record.levelno):
                found.append(text)
        self._caplog.clear()
        return found


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    with caplog.at_level(logging.INFO, "state.change.logger"):
        yield Lines(caplog)


@pytest.fixture
def cluster(make_cluster: ClusterFactory) -> MemoryCluster:
    """Broker 1 leads in leader epoch 0, under controller epoch 5; of three records two are
    committed."""
    cluster = make_cluster(brokers=2, min_isr=2)
    cluster.controller.controller_epoch = 5
    cluster.create()
    broker = cluster.brokers[1]
    for value in range(2):
        assert answer_of(broker.produce(value, acks=-1)).error == 0
    cluster.cut.add(frozenset({1, 2}))
    broker.produce(2)
    return cluster


def order(cluster: MemoryCluster, correlation_id: int, **changes: Any) -> int:
    """A LeaderAndIsr of controller 9 to broker 1; the partition's error."""
    controller = cluster.controller
    request = controller.leader_and_isr(**changes)
    manager = cluster.brokers[1].manager
    result = manager.become_leader_or_follower(correlation_id, request)
    return result.partition_errors[0].error


def test_each_request_has_two_lines(cluster: MemoryCluster, lines: Lines) -> None:
    lines.take()
    order(cluster, 41, state={"leader_epoch": 3})
    first, _, last = lines.take()
    who = "correlationId 41 from controller 9 for 1 partitions"
    assert first == f"Handling LeaderAndIsr request {who}"
    assert re.fullmatch(rf"Finished LeaderAndIsr request in \d+ms {who}", last)


def test_how_long_it_took_is_in_milliseconds(
    cluster: MemoryCluster, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(monotonic_ns=iter([5_000_000_000, 7_345_999_999]).__next__)
    monkeypatch.setattr("nodes.replication.state_changes.time", clock)
    lines.take()
    order(cluster, 41, state={"leader_epoch": 3})
    assert lines.take()[-1].startswith("Finished LeaderAndIsr request in 2345ms ")


def test_who_leads_says_from_where(cluster: MemoryCluster, lines: Lines) -> None:
    lines.take()
    state = {"leader_epoch": 3, "partition_epoch": 7}
    order(cluster, 41, state=state)
    assert lines.take(logging.INFO)[1] == (
        f"Leader t-0 with topic id Some({ID_TEXT}) starts at leader epoch 3 from offset 3 with "
        "partition epoch 7, high watermark 2, ISR [1,2], adding replicas [] and removing replicas "
        "[] . Previous leader Some(1) and previous leader epoch was 0."
    )


def test_too_small_an_in_sync_set_is_said(cluster: MemoryCluster, lines: Lines) -> None:
    lines.take()
    order(cluster, 41, state={"leader_epoch": 3, "isr": (1,)})
    assert "removing replicas [] (under-min-isr). Previous" in lines.take()[1]


def test_who_joins_and_who_leaves_are_told_apart(lines: Lines) -> None:
    """In a reassignment: of three replicas 1 is added and 3 removed."""
    state = LeaderAndIsrState(
        tp=TP, topic_id=None, controller_epoch=5, leader=1, leader_epoch=3, isr=(2, 3),
        partition_epoch=7, replicas=(1, 2, 3), adding_replicas=(1, 4), removing_replicas=(3, 2),
    )  # fmt: skip
    said = StateChangeLines(1)
    said.role(state, "leader", 9, 8, 2, 1, is_under_min_isr=False)
    (line,) = lines.take()
    assert line == (
        "Leader t-0 with topic id None starts at leader epoch 3 from offset 9 with partition epoch "
        "7, high watermark 8, ISR [2,3], adding replicas [1,4] and removing replicas [3,2] . "
        "Previous leader Some(2) and previous leader epoch was 1."
    )


def test_a_new_partitions_leader_had_none_before(cluster: MemoryCluster, lines: Lines) -> None:
    other = TopicPartition("t", 1)
    cluster.controller.states[other] = cluster.controller.states[TP]
    lines.take()
    cluster.controller.tell(1, other)
    (line,) = (text for text in lines.take() if text.startswith("Leader t-1"))
    assert line.endswith("[] . Previous leader None and previous leader epoch was -1.")


def test_who_follows_says_whom(cluster: MemoryCluster, lines: Lines) -> None:
    lines.take()
    order(cluster, 41, state={"leader": 2, "leader_epoch": 3, "partition_epoch": 7})
    assert lines.take(logging.INFO)[1] == (
        "Follower t-0 starts at leader epoch 3 from offset 3 with partition epoch 7 and high "
        "watermark 2. Current leader is 2. Previous leader Some(1) and previous leader epoch was 0."
    )


def test_a_leader_that_is_not_there(cluster: MemoryCluster, lines: Lines) -> None:
    """An error, which names the controller and its epoch. (The leader epoch stood there.)"""
    lines.take()
    order(cluster, 41, state={"leader": 8, "leader_epoch": 3})
    assert lines.take(logging.ERROR) == [
        "Received LeaderAndIsrRequest with correlation id 41 from controller 9 epoch 5 for "
        "partition t-0 (last update controller epoch 5) but cannot become follower since the new "
        "leader 8 is unavailable."
    ]


def test_who_is_no_replica(cluster: MemoryCluster, lines: Lines) -> None:
    lines.take()
    order(cluster, 41, state={"leader_epoch": 3, "replicas": (2, 3), "isr": (2,)})
    assert lines.take(logging.WARNING) == [
        "Ignoring LeaderAndIsr request from controller 9 with correlation id 41 epoch 5 for "
        "partition t-0 as itself is not in assigned replica list 2,3"
    ]


@pytest.mark.parametrize(
    ("leader_epoch", "level", "end"),
    [
        (3, logging.INFO, "leader epoch 3 matches the current leader epoch"),
        (2, logging.WARNING, "leader epoch 2 is smaller than the current leader epoch 3"),
    ],
)
def test_what_is_known_or_old(
    cluster: MemoryCluster, lines: Lines, leader_epoch: int, level: int, end: str
) -> None:
    order(cluster, 40, state={"leader_epoch": 3})
    lines.take()
    assert order(cluster, 41, state={"leader_epoch": leader_epoch}) == 11
    found = [text for text in lines.take(level) if text.startswith("Ignoring")]
    assert found == [
        "Ignoring LeaderAndIsr request from controller 9 with correlation id 41 epoch 5 for "
        f"partition t-0 since its associated {end}"
    ]


@pytest.mark.parametrize(("delete", "text"), [(True, "true"), (False, "false")])
def test_a_stop_that_is_old(cluster: MemoryCluster, lines: Lines, delete: bool, text: str) -> None:
    order(cluster, 40, state={"leader_epoch": 3})
    lines.take()
    request = kip_stop_replica(
        "t", leader_epoch=2, delete=delete, sender=Sender(controller_id=9, controller_epoch=5)
    )
    assert cluster.brokers[1].manager.stop_replicas(41, request).partition_errors[0].error == 74
    assert lines.take(logging.WARNING) == [
        f"Ignoring StopReplica request (delete={text}) from controller 9 with correlation id 41 "
        "epoch 5 for partition t-0 since its associated leader epoch 2 is smaller than the current "
        "leader epoch 3"
    ]


@pytest.mark.parametrize(("role", "text"), [("leader", "the leader"), ("follower", "a follower")])
def test_the_same_leader_epoch_again(lines: Lines, role: str, text: str) -> None:
    state = LeaderAndIsrState(
        tp=TP, topic_id=None, controller_epoch=5, leader=1, leader_epoch=3, isr=(1,),
        partition_epoch=7, replicas=(1,), adding_replicas=(), removing_replicas=(),
    )  # fmt: skip
    StateChangeLines(1).role(state, role, 9, 8, 1, 3, is_under_min_isr=False)
    assert lines.take(logging.INFO) == [
        f"Skipped the become-{role} state change for t-0 with topic id None since it is already "
        f"{text} with leader epoch 3."
    ]


def test_metadata_is_added_and_deleted(cluster: MemoryCluster, lines: Lines) -> None:
    """ZkMetadataCache.updateMetadata: what was deleted is not counted among what was added."""
    other = TopicPartition("t", 1)
    states = cluster.controller.states
    states[other] = states[TP]
    request = cluster.controller.update_metadata()
    lines.take()
    manager = cluster.brokers[1].manager
    manager.maybe_update_metadata_cache(41, request)
    said = "from metadata cache in response to UpdateMetadata request sent by controller 9 epoch 5"
    added = "Add 2 partitions and deleted 0 partitions"
    assert lines.take() == [f"{added} {said} with correlation id 41"]
    states[other] = State(-2, 0, (1, 2), 0, (1, 2))
    manager.maybe_update_metadata_cache(42, cluster.controller.update_metadata())
    added = "Add 1 partitions and deleted 1 partitions"
    assert lines.take() == [f"{added} {said} with correlation id 42"]


def test_a_topic_that_is_given_an_id(make_cluster: ClusterFactory, lines: Lines) -> None:
    """KIP-516: a topic of before Kafka 2.8 is given an id by its controller, which tells it without
    raising the leader epoch. It is taken over and kept on the disk; nothing else changes, and the
    answer is "no error". (It was 11, and the id was forgotten with the process.)"""
    cluster = make_cluster(brokers=1, min_isr=1)
    cluster.controller.states[TP] = State(1, 4, (1,), 6, (1,))
    cluster.controller.tell_metadata(1)
    order(cluster, 40, topic_id=uuid.UUID(int=0))
    partition = cluster.brokers[1].partition()
    assert (partition.topic_id, partition.leader_epoch) == (None, 4)
    directory = partition.local_log().dir
    assert read_partition_metadata(directory) is None
    lines.take()
    assert order(cluster, 41) == Errors.NONE
    assert (partition.topic_id, partition.leader_epoch) == (TOPIC_ID, 4)
    assert read_partition_metadata(directory) == TOPIC_ID
    assert lines.take()[1] == (
        f"Updating log for t-0 to assign topic ID {ID_TEXT} from LeaderAndIsr request from "
        "controller 9 with correlation id 41 epoch 1"
    )
    assert order(cluster, 42) == Errors.STALE_CONTROLLER_EPOCH, "it has one: nothing is new"
    assert order(cluster, 43, topic_id=uuid.UUID(int=5)) == Errors.INCONSISTENT_TOPIC_ID


def test_a_topic_whose_id_a_controller_does_not_know(
    make_cluster: ClusterFactory, lines: Lines
) -> None:
    """A follower that is told what it knows, without the id: it keeps the id, and says so."""
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.controller.states[TP] = State(2, 4, (1, 2), 6, (1, 2))
    cluster.controller.tell_metadata(1)
    assert order(cluster, 40) == Errors.NONE
    lines.take()
    assert order(cluster, 41, topic_id=uuid.UUID(int=0)) == Errors.NONE
    assert cluster.brokers[1].partition().topic_id == TOPIC_ID
    assert lines.take()[1] == (
        f"Updating PartitionFetchState for t-0 to remove log topic ID {ID_TEXT} since LeaderAndIsr "
        "request from controller 9 with correlation id 41 epoch 1 did not contain a topic ID"
    )


@pytest.mark.parametrize("leader", [1, 2])
def test_a_topic_that_is_given_an_id_with_a_new_leader_epoch(
    make_cluster: ClusterFactory, leader: int
) -> None:
    """The role is taken as any other, and the id besides, here and on the disk
    (Partition.createLogIfNotExists). (On the disk it was not: the next life did not know it.)"""
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.controller.states[TP] = State(2, 4, (1, 2), 6, (1, 2))
    cluster.controller.tell_metadata(1)
    assert order(cluster, 40, topic_id=uuid.UUID(int=0)) == Errors.NONE
    partition = cluster.brokers[1].partition()
    cluster.controller.states[TP] = State(leader, 5, (1, 2), 7, (1, 2))
    assert order(cluster, 41) == Errors.NONE
    assert (partition.leader_id, partition.leader_epoch) == (leader, 5)
    assert partition.topic_id == TOPIC_ID
    assert read_partition_metadata(partition.local_log().dir) == TOPIC_ID
    cluster.controller.states[TP] = State(leader, 6, (1, 2), 8, (1, 2))
    assert order(cluster, 42, topic_id=uuid.UUID(int=0)) == Errors.NONE
    assert (partition.leader_epoch, partition.topic_id) == (6, TOPIC_ID), (
        "who tells none takes none"
    )


# ---- TRACE ---------------------------------------------------------------------------------------


def traced(caplog: pytest.LogCaptureFixture, say: Callable[[StateChangeLines], None]) -> list[str]:
    """What is said at TRACE; at INFO none of it is."""
    found = []
    for level in (logging.INFO, TRACE):
        caplog.clear()
        with caplog.at_level(level, "state.change.logger"):
            say(StateChangeLines(1))
        found.append([r.getMessage() for r in caplog.records if r.levelno == TRACE])
    assert found[0] == []
    return found[1]


def test_every_partition_that_was_received_is_traced(caplog: pytest.LogCaptureFixture) -> None:
    """ReplicaManager: as it came, with who sent it."""
    sender = Sender(9, 5)
    request = leader_and_isr("t", 2, 4, partitions=2, sender=sender)
    assert traced(caplog, lambda lines: lines.received_leader_and_isr(77, request)) == [
        "[Broker id=1] Received LeaderAndIsr request LeaderAndIsrPartitionState(topicName='t', "
        f"partitionIndex={partition}, controllerEpoch=5, leader=2, leaderEpoch=4, isr=[1, 2], "
        "partitionEpoch=4, replicas=[1, 2], addingReplicas=[], removingReplicas=[], isNew=false, "
        "leaderRecoveryState=0) correlation id 77 from controller 9 epoch 5"
        for partition in (0, 1)
    ]
    stop = kip_stop_replica("t", leader_epoch=4, delete=True, sender=sender)
    assert traced(caplog, lambda lines: lines.received_stop_replica(78, stop)) == [
        "[Broker id=1] Received StopReplica request StopReplicaPartitionState(partitionIndex=0, "
        "leaderEpoch=4, deletePartition=true) correlation id 78 from controller 9 epoch 5 for "
        "partition t-0"
    ]
    brokers = {1: [("A", 9)]}
    said_by = "request sent by controller 9 epoch 5 with correlation id 79"
    for leader, text in (
        (
            2,
            "Cached leader info UpdateMetadataPartitionState(topicName='t', partitionIndex=0, "
            "controllerEpoch=5, leader=2, leaderEpoch=4, isr=[1, 2], zkVersion=4, "
            "replicas=[1, 2], offlineReplicas=[]) for partition t-0 in response to UpdateMetadata "
            f"{said_by}",
        ),
        (
            -2,
            f"Deleted partition t-0 from metadata cache in response to UpdateMetadata {said_by}",
        ),
    ):
        told = update_metadata(brokers, "t", leader, 4, sender=sender)
        found = traced(caplog, lambda lines, told=told: lines.updated_metadata(79, told, 0))  # type: ignore[misc]
        assert found == [f"[Broker id=1] {text}"]

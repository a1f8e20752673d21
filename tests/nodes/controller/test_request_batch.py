"""What a controller's three requests say, to whom and in which order (KIP-291's control requests;
AbstractControllerBrokerRequestBatch.sendRequestsToBrokers, ControlRequest's fields)."""

from __future__ import annotations

import logging
from typing import Any, cast
from uuid import UUID

import pytest

from nodes.config import BrokerConfig
from nodes.controller.channel_manager import ControllerChannelManager
from nodes.controller.context import ControllerContext
from nodes.controller.request_batch import ControllerRequestBatch
from nodes.controller.send_thread import QueueItem
from nodes.core.assignment import ReplicaAssignment
from nodes.core.brokers import Broker, EndPoint
from nodes.core.leader_and_isr import RECOVERING, LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.types import TopicPartition
from nodes.state_change_log import TRACE

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = UUID(int=7)
STATE = LeaderIsrAndControllerEpoch(LeaderAndIsr(2, (2, 3), 5, 9, RECOVERING), 3)
"""Written by an earlier controller, whose epoch was 3."""
MOVING = ReplicaAssignment((2, 3, 1), (1,), (3,))


class Channels:
    """Keeps what is sent: (broker, item), in order."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, QueueItem]] = []

    def send(self, broker_id: int, item: QueueItem) -> None:
        self.sent.append((broker_id, item))

    def to(self, broker_id: int) -> list[Any]:
        return [item.entity for receiver, item in self.sent if receiver == broker_id]

    def kinds(self, broker_id: int) -> list[str]:
        return [item.api_name for receiver, item in self.sent if receiver == broker_id]


def broker(broker_id: int, rack: str | None = None) -> Broker:
    """Each listener at a port of its own."""
    names = (("CONTROLLER", "SSL"), ("REPLICATION", "SASL_PLAINTEXT"), ("CLIENT", "SASL_SSL"))
    endpoints = [
        EndPoint(name, protocol, f"h{broker_id}", 100 * broker_id + i)
        for i, (name, protocol) in enumerate(names)
    ]
    return Broker(broker_id, tuple(endpoints), rack)


class Cluster:
    """Controller 1 in epoch 4; brokers 1 to 3 live, 3 about to leave, 4 is gone. `answers` has what
    came back."""

    def __init__(self) -> None:
        self.context = context = ControllerContext()
        context.controller_epoch = 4
        context.set_live_brokers({1: (broker(1), 71), 2: (broker(2, "r"), 72), 3: (broker(3), 73)})
        context.shutting_down_broker_ids = {3}
        context.add_topic_id("t", ID)
        for tp in (T0, T1):
            context.update_assignment(tp, MOVING)
            context.leadership[tp] = STATE
        config = BrokerConfig.from_properties(
            {
                "broker.id": "1",
                "zookeeper.connect": "unused:1",
                "listeners": "REPLICATION://:1,CONTROLLER://:2",
                "listener.security.protocol.map": "REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "REPLICATION",
                "control.plane.listener.name": "CONTROLLER",
            }
        )
        self.channels = Channels()
        self.answers: list[tuple[Any, ...]] = []
        self.batch = ControllerRequestBatch(
            config,
            context,
            cast(ControllerChannelManager, self.channels),
            lambda *answer: self.answers.append(answer),
            now_ns=lambda: 11,
        )
        self.batch.new_batch()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_a_broker_learns_its_role_first_and_stops_last(cluster: Cluster) -> None:
    """Whatever the order in which it was decided."""
    cluster.batch.add_stop_replica([2], T1, delete=False)
    cluster.batch.add_update_metadata([2], [T0])
    cluster.batch.add_leader_and_isr([2], T0, STATE, MOVING, is_new=False)
    cluster.batch.send()
    assert cluster.channels.kinds(2) == ["LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA"]


def test_every_request_is_for_one_life_of_one_broker(cluster: Cluster) -> None:
    """KIP-380: each carries the broker epoch of its receiver, and this controller's own epoch, not
    that of who wrote the state."""
    cluster.batch.add_leader_and_isr([2, 3], T0, STATE, MOVING, is_new=False)
    cluster.batch.add_stop_replica([2, 3], T1, delete=False)
    cluster.batch.send()
    for broker_id in (2, 3):
        entities = cluster.channels.to(broker_id)
        assert len(entities) == 3
        assert {e.broker_epoch for e in entities} == {70 + broker_id}
        assert {(e.controller_id, e.controller_epoch) for e in entities} == {(1, 4)}
    assert [e.broker_epoch for e in cluster.channels.to(1)] == [71], "it leads and follows nothing"


def test_versions_are_those_of_3_9(cluster: Cluster) -> None:
    """The newest of ZooKeeper mode's inter.broker.protocol.version: LeaderAndIsr 7, UpdateMetadata
    8, StopReplica 4."""
    cluster.batch.add_leader_and_isr([2], T0, STATE, MOVING, is_new=False)
    cluster.batch.add_stop_replica([2], T1, delete=False)
    cluster.batch.send()
    assert [e.__version__ for e in cluster.channels.to(2)] == [7, 8, 4]


def test_who_is_not_registered_is_sent_nothing(cluster: Cluster) -> None:
    """Who is shutting down still is: it must hear that others lead."""
    cluster.batch.add_leader_and_isr([3, 4], T0, STATE, MOVING, is_new=False)
    cluster.batch.add_update_metadata([3, 4], [])
    cluster.batch.add_stop_replica([3, 4], T1, delete=False)
    cluster.batch.send()
    assert cluster.channels.to(4) == []
    assert len(cluster.channels.to(3)) == 3


@pytest.mark.parametrize("is_new", [True, False])
def test_what_leader_and_isr_says(cluster: Cluster, is_new: bool) -> None:
    cluster.batch.add_leader_and_isr([2], T0, STATE, MOVING, is_new=is_new)
    cluster.batch.send()
    request = cluster.channels.to(2)[0]
    (topic,) = request.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", ID)
    (state,) = topic.partition_states
    assert (state.partition_index, state.leader, state.leader_epoch) == (0, 2, 5)
    assert (state.controller_epoch, state.partition_epoch) == (3, 9)
    assert (tuple(state.isr), tuple(state.replicas)) == ((2, 3), (2, 3, 1))
    assert (tuple(state.adding_replicas), tuple(state.removing_replicas)) == ((1,), (3,))
    assert (state.is_new, state.leader_recovery_state) == (is_new, RECOVERING)


def test_leaders_are_named_once_by_their_inter_broker_endpoint(cluster: Cluster) -> None:
    """Followers fetch there, never at the control listener. Who is gone has no address."""
    gone = LeaderIsrAndControllerEpoch(LeaderAndIsr(4, (4,)), 4)
    cluster.batch.add_leader_and_isr([3], T0, STATE, MOVING, is_new=False)
    cluster.batch.add_leader_and_isr([3], T1, STATE, MOVING, is_new=False)
    cluster.batch.add_leader_and_isr([3], TopicPartition("u", 0), gone, MOVING, is_new=False)
    cluster.batch.send()
    leaders = cluster.channels.to(3)[0].live_leaders
    assert [(b.broker_id, b.host_name, b.port) for b in leaders] == [(2, "h2", 201)]


def test_a_leader_without_the_listener_has_no_address(cluster: Cluster) -> None:
    """It lives, but nobody can fetch from it; what is said of others is said all the same."""
    cut_off = Broker(2, broker(2).endpoints[:1])
    cluster.context.set_live_brokers({1: (broker(1), 71), 2: (cut_off, 72), 3: (broker(3), 73)})
    other = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, (1,)), 4)
    cluster.batch.add_leader_and_isr([3], T0, STATE, MOVING, is_new=False)
    cluster.batch.add_leader_and_isr([3], T1, other, MOVING, is_new=False)
    cluster.batch.send()
    leaders = cluster.channels.to(3)[0].live_leaders
    assert [(b.broker_id, b.host_name, b.port) for b in leaders] == [(1, "h1", 101)]


def test_what_update_metadata_says(cluster: Cluster) -> None:
    """Every live broker with all of its endpoints, those that are shutting down among them; and of
    a partition who of its replicas is down."""
    cluster.batch.add_update_metadata([1, 2], [T0])
    cluster.batch.send()
    request = cluster.channels.to(2)[0]
    assert [(b.id_, b.rack) for b in request.live_brokers] == [(1, None), (2, "r"), (3, None)]
    endpoints = request.live_brokers[1].endpoints
    assert [(e.listener, e.host, e.port, e.security_protocol) for e in endpoints] == [
        ("CONTROLLER", "h2", 200, 1),
        ("REPLICATION", "h2", 201, 2),
        ("CLIENT", "h2", 202, 3),
    ], "SecurityProtocol's numbers"
    (topic,) = request.topic_states
    assert (topic.topic_name, topic.topic_id) == ("t", ID)
    (state,) = topic.partition_states
    assert (state.leader, state.leader_epoch, state.zk_version) == (2, 5, 9)
    assert (state.controller_epoch, tuple(state.isr)) == (3, (2, 3))
    assert (tuple(state.replicas), tuple(state.offline_replicas)) == ((2, 3, 1), (3,))


def test_brokers_that_came_or_went_are_news_without_any_partition(cluster: Cluster) -> None:
    """KafkaController.onBrokerStartup: those that were there hear of the new ones and their
    addresses before anything moves there."""
    cluster.batch.add_update_metadata([1, 2], [])
    cluster.batch.send()
    for broker_id in (1, 2):
        (request,) = cluster.channels.to(broker_id)
        assert [b.id_ for b in request.live_brokers] == [1, 2, 3]
        assert tuple(request.topic_states) == ()
    assert cluster.channels.to(3) == []


def test_what_stop_replica_says(cluster: Cluster) -> None:
    cluster.batch.add_stop_replica([2], T0, delete=False)
    cluster.batch.add_stop_replica([2], T1, delete=True)
    cluster.batch.send()
    (topic,) = cluster.channels.to(2)[0].topic_states
    assert [(s.partition_index, s.leader_epoch, s.delete_partition)
            for s in topic.partition_states] == [(0, 5, False), (1, 5, True)]  # fmt: skip


def test_each_answer_comes_with_what_was_said(cluster: Cluster) -> None:
    """Who asked for what is known when it is answered."""
    cluster.batch.add_leader_and_isr([2], T0, STATE, MOVING, is_new=False)
    cluster.batch.add_stop_replica([3], T1, delete=True)
    cluster.batch.send()
    for _, item in cluster.channels.sent:
        item.on_response("answer")
        assert item.enqueue_ns == 11
    kinds = [(api_key, to, list(said)) for api_key, to, _, said in cluster.answers]
    assert (4, 2, [T0]) in kinds
    assert (5, 3, [T1]) in kinds
    assert {a[2] for a in cluster.answers} == {"answer"}


def test_what_is_traced_of_each(cluster: Cluster) -> None:
    """A StopReplica names no leader."""
    cluster.batch.add_leader_and_isr([2], T0, STATE, MOVING, is_new=False)
    cluster.batch.add_stop_replica([2], T1, delete=True)
    cluster.batch.send()
    traced = [item.partitions for to, item in cluster.channels.sent if to == 2]
    row = {"topic": "t", "partition": 0, "leader": 2, "leader_epoch": 5}
    stopped = {"topic": "t", "partition": 1, "leader": None, "leader_epoch": 5}
    assert traced == [[row], [row], [stopped]]
    epochs = [item.partition_epochs for to, item in cluster.channels.sent if to == 2]
    assert epochs == [[9], [9], None], "of ZooKeeper's state, not of the leader"


def test_one_line_for_each_request(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """Kafka's words in the state-change log; UpdateMetadata's line is for all its receivers."""
    with caplog.at_level(logging.INFO, "state.change.logger"):
        cluster.batch.add_leader_and_isr([2, 3], T0, STATE, MOVING, is_new=False)
        cluster.batch.add_leader_and_isr([2, 3], T1, STATE, MOVING, is_new=False)
        cluster.batch.add_stop_replica([3], T1, delete=True)
        cluster.batch.send()
    said = "[Controller id=1 epoch=4] Sending"
    assert [r.getMessage() for r in caplog.records] == [
        f"{said} LeaderAndIsr request to broker 2 with 2 become-leader and 0 become-follower "
        "partitions",
        f"{said} LeaderAndIsr request to broker 3 with 0 become-leader and 2 become-follower "
        "partitions",
        f"{said} UpdateMetadata request to brokers Set(1, 2, 3) for 2 partitions",
        f"{said} StopReplica request for 1 replicas to broker 3",
    ]


def test_one_trace_for_each_partition(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """TRACE: which role each is given, with all that is said of it; and who is to stop."""
    other = LeaderIsrAndControllerEpoch(LeaderAndIsr(3, (3,), 6, 1), 4)
    with caplog.at_level(TRACE, "state.change.logger"):
        cluster.batch.add_leader_and_isr([2], T0, STATE, MOVING, is_new=True)
        cluster.batch.add_leader_and_isr([2], T1, other, MOVING, is_new=False)
        cluster.batch.add_stop_replica([3], T1, delete=True)
        cluster.batch.send()
    said = "[Controller id=1 epoch=4] Sending"
    traced = [r.getMessage() for r in caplog.records if r.levelno == TRACE]
    assert traced == [
        f"{said} become-leader LeaderAndIsr request LeaderAndIsrPartitionState(topicName='t', "
        "partitionIndex=0, controllerEpoch=3, leader=2, leaderEpoch=5, isr=[2, 3], "
        "partitionEpoch=9, replicas=[2, 3, 1], addingReplicas=[1], removingReplicas=[3], "
        "isNew=true, leaderRecoveryState=1) to broker 2 for partition t-0",
        f"{said} become-follower LeaderAndIsr request LeaderAndIsrPartitionState(topicName='t', "
        "partitionIndex=1, controllerEpoch=4, leader=3, leaderEpoch=6, isr=[3], "
        "partitionEpoch=1, replicas=[2, 3, 1], addingReplicas=[1], removingReplicas=[3], "
        "isNew=false, leaderRecoveryState=0) to broker 2 for partition t-1",
        f"{said} StopReplica request StopReplicaPartitionState(partitionIndex=1, leaderEpoch=5, "
        "deletePartition=true) to broker 3 for partition t-1",
    ]

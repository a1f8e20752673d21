"""Reassignments beyond the plain move: what is refused, what goes on, what is left in ZooKeeper
(KIP-455; KafkaController's onPartitionReassignment and maybeTriggerPartitionReassignment)."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.coordination import znodes
from nodes.core.assignment import ReplicaAssignment
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from tests.nodes.controller.test_topics import alter_request

T0 = TopicPartition("t", 0)


@pytest.fixture
def trio(world: Any, wait_until: Any) -> tuple[Any, dict[int, Any]]:
    """A controller (1) and two brokers; topic t on 2 and 3."""
    node = world.node(1)
    brokers = {1: node.fake, 2: world.broker(2), 3: world.broker(3)}
    node.controller.startup()
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 3)))
    return node, brokers


def assignment(world: Any) -> ReplicaAssignment:
    found: ReplicaAssignment = world.admin.get_full_replica_assignment_for_topic("t")[T0]
    return found


@pytest.mark.parametrize("target", [[], [2, 2], [1, -1]])
def test_what_cannot_be_a_target(world: Any, ask: Any, trio: Any, target: list[int]) -> None:
    """None of it is begun."""
    result = ask(trio[0].controller.alter_reassignments, {T0: target})[1][T0]
    assert result.error == Errors.INVALID_REPLICA_ASSIGNMENT
    assert world.state(T0) == (2, 0, (2, 3))
    assert assignment(world) == ReplicaAssignment((2, 3))


def test_whoever_is_there_already_need_not_be_alive(
    world: Any, wait_until: Any, ask: Any, trio: Any
) -> None:
    """Only of replicas that are added it is asked."""
    node, brokers = trio
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0) == (2, 1, (2,)))
    alter = node.controller.alter_reassignments
    assert ask(alter, {T0: [1, 3]})[1][T0].error == Errors.NONE
    assert ask(alter, {T0: [1, 9]})[1][T0].error == Errors.INVALID_REPLICA_ASSIGNMENT


def test_partitions_that_are_not_or_soon_will_not_be(
    world: Any, wait_until: Any, ask: Any, trio: Any
) -> None:
    node, brokers = trio
    unknown = TopicPartition("t", 7)
    alter = node.controller.alter_reassignments
    answer = ask(alter, {unknown: [1, 2]})[1][unknown]
    assert answer.error == Errors.UNKNOWN_TOPIC_OR_PARTITION
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0) == (2, 1, (2,)))
    world.admin.create_delete_topic_path("t")
    gauge = "kafka.controller:type=KafkaController,name=TopicsIneligibleToDeleteCount"
    wait_until(lambda: node.metrics.value(gauge) == 1)
    assert ask(alter, {T0: [1, 2]})[1][T0].error == Errors.UNKNOWN_TOPIC_OR_PARTITION


def finish(world: Any, ask: Any, node: Any, isr: list[int]) -> None:
    """The leader (2) says that these are in sync by now."""
    _, leader_epoch, _ = world.state(T0)
    state = world.admin.get_topic_partition_states([T0])[T0].leader_and_isr
    request = alter_request(
        world, 2, T0, isr, leader_epoch=leader_epoch, partition_epoch=state.partition_epoch
    )
    assert ask(node.controller.alter_partitions, request)["error_code"] == 0


def test_everybody_is_told_that_it_is_over(
    world: Any, wait_until: Any, ask: Any, trio: Any
) -> None:
    """Who joins is told that it is new; who leaves is stopped, and its log deleted; and all brokers
    hear of the replicas that remain."""
    node, brokers = trio
    ask(node.controller.alter_reassignments, {T0: [2, 1]})
    wait_until(lambda: brokers[1].leader_and_isr(T0))
    assert brokers[1].leader_and_isr(T0)[0].is_new
    wait_until(lambda: tuple(brokers[2].leader_and_isr(T0)[-1].adding_replicas) == (1,))
    assert not brokers[2].leader_and_isr(T0)[-1].is_new
    finish(world, ask, node, [2, 3, 1])
    wait_until(lambda: assignment(world) == ReplicaAssignment((2, 1)))
    wait_until(lambda: [s.delete_partition for s in brokers[3].stops(T0)] == [False, True])
    for broker in brokers.values():
        wait_until(lambda b=broker: tuple(b.metadata(T0)[-1].replicas) == (2, 1))
    assert ask(node.controller.list_reassignments, [T0]) == (Errors.NONE, {})
    leader, leader_epoch, _ = world.state(T0)
    finish(world, ask, node, [2])
    (marker,) = world.create_topic("marker", (1,))
    wait_until(lambda: world.state(marker))
    assert world.state(T0) == (leader, leader_epoch, (2,)), "it is over: nothing is done again"


def test_a_redirected_move_stops_whom_it_had_begun_to_add(
    world: Any, wait_until: Any, ask: Any, trio: Any
) -> None:
    node, brokers = trio
    four = world.broker(4)
    wait_until(lambda: four.requests)
    alter = node.controller.alter_reassignments
    ask(alter, {T0: [1, 2]})
    wait_until(lambda: brokers[1].leader_and_isr(T0))
    assert ask(alter, {T0: [4, 2]})[1][T0].error == Errors.NONE
    assert assignment(world) == ReplicaAssignment((4, 2, 3), (4,), (3,))
    wait_until(lambda: [s.delete_partition for s in brokers[1].stops(T0)] == [False, True])


def test_a_topic_that_is_being_moved_is_deleted_afterwards(
    world: Any, wait_until: Any, ask: Any, trio: Any
) -> None:
    """A reassignment halts its topic's deletion; its end resumes it."""
    node, brokers = trio
    ask(node.controller.alter_reassignments, {T0: [2, 1]})
    wait_until(lambda: brokers[1].leader_and_isr(T0))
    world.admin.create_delete_topic_path("t")
    gauge = "kafka.controller:type=KafkaController,name=TopicsIneligibleToDeleteCount"
    wait_until(lambda: node.metrics.value(gauge) == 1)
    queued = "kafka.controller:type=KafkaController,name=TopicsToDeleteCount"
    assert node.metrics.value(queued) == 1
    assert not any(s.delete_partition for b in brokers.values() for s in b.stops(T0))
    finish(world, ask, node, [2, 3, 1])
    wait_until(lambda: not world.admin.topic_exists("t"))


def test_the_next_controller_goes_on_with_it(
    world: Any, wait_until: Any, ask: Any, trio: Any
) -> None:
    """The assignment in ZooKeeper tells; a replica that joined meanwhile completes it at once."""
    node, _ = trio
    five = world.broker(5)
    wait_until(lambda: five.requests)
    assert ask(node.controller.alter_reassignments, {T0: [2, 5]})[1][T0].error == Errors.NONE
    state = world.admin.get_topic_partition_states([T0])[T0]
    joined = state.leader_and_isr.new_leader_and_isr(2, (2, 3, 5))
    world.admin.update_leader_and_isr({T0: joined}, state.controller_epoch, -1)
    second = world.node(4)
    second.controller.startup()
    node.controller.shutdown()
    node.zk.close()
    wait_until(lambda: second.controller.is_active)
    wait_until(lambda: assignment(world) == ReplicaAssignment((2, 5)))


def wish(world: Any, *targets: tuple[TopicPartition, tuple[int, ...]]) -> None:
    """What kafka-reassign-partitions.sh --zookeeper did."""
    world.admin.set_or_create(znodes.REASSIGN_PARTITIONS, znodes.encode_reassignment(dict(targets)))


def test_wishes_in_zookeeper(world: Any, wait_until: Any, ask: Any, trio: Any) -> None:
    """`/admin/reassign_partitions`: what cannot be done is taken out at once, what is done when it
    is over; then the znode goes, and the next one is seen."""
    node, _ = trio
    unknown = TopicPartition("x", 0)
    for target, isr in (((2, 1), [2, 3, 1]), ((2, 3), [2, 1, 3])):
        wish(world, (T0, target), (unknown, (1,)))
        wait_until(lambda t=target: world.admin.get_partition_reassignment() == {T0: t})
        wait_until(lambda t=target: assignment(world).target_replicas == t)
        finish(world, ask, node, isr)
        wait_until(lambda: not world.admin.path_exists(znodes.REASSIGN_PARTITIONS))
        assert assignment(world) == ReplicaAssignment(target)


def test_the_latest_wish_counts(world: Any, wait_until: Any, ask: Any, trio: Any) -> None:
    """A request takes a partition out of the znode, however that wished it."""
    node, _ = trio
    wish(world, (T0, (2, 1)))
    wait_until(lambda: assignment(world).is_being_reassigned)
    assert ask(node.controller.alter_reassignments, {T0: None})[1][T0].error == Errors.NONE
    wait_until(lambda: not world.admin.path_exists(znodes.REASSIGN_PARTITIONS))
    assert not assignment(world).is_being_reassigned

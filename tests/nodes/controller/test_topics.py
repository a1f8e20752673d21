"""Deletion, elections, reassignments and ISR changes through the whole controller."""

from __future__ import annotations

from threading import Event

import pytest

from nodes.controller.event_manager import ControllerState
from nodes.controller.event_manager import Event as ControllerEvent
from nodes.core.assignment import ReplicaAssignment
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.wire.apis import ApiKey, request_class, response_class
from nodes.wire.codec import build

T0 = TopicPartition("t", 0)


@pytest.fixture
def trio(world, wait_until):
    """A controller (1) and two brokers."""
    node = world.node(1)
    brokers = {1: node.fake, 2: world.broker(2), 3: world.broker(3)}
    node.controller.startup()
    wait_until(lambda: node.controller.is_active)
    return node, brokers


def test_deletion_goes_through_its_four_requests(world, wait_until, trio):
    _, brokers = trio
    world.admin.set_or_create_entity_configs("topics", "t", {"retention.ms": "1"})
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    world.admin.create_delete_topic_path("t")
    wait_until(lambda: not world.admin.topic_exists("t"))
    wait_until(lambda: not world.admin.get_topic_deletions())
    assert world.admin.get_topic_configs("t") == {}
    wait_until(lambda: brokers[1].metadata(T0)[-1].leader == -2)
    assert [(s.delete_partition, s.leader_epoch) for s in brokers[2].stops(T0)] == [
        (False, -2),
        (True, -2),
    ]
    world.create_topic("t", (3, 2))
    wait_until(lambda: world.state(T0) == (3, 0, (3, 2)))
    wait_until(lambda: brokers[3].leader_and_isr(T0)[-1].leader == 3)


def test_dead_replica_holds_deletion_up_until_it_returns(world, wait_until, trio):
    node, brokers = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0) == (2, 1, (2,)))
    world.admin.create_delete_topic_path("t")
    gauge = "kafka.controller:type=KafkaController,name=TopicsIneligibleToDeleteCount"
    wait_until(lambda: any(s.delete_partition for s in brokers[2].stops(T0)))
    wait_until(lambda: node.metrics.value(gauge) == 1)
    assert world.admin.topic_exists("t")
    world.broker(3)
    wait_until(lambda: not world.admin.topic_exists("t"))


def test_failed_deletion_is_tried_again_by_the_next_controller(world, wait_until, trio):
    node, brokers = trio
    world.create_topic("t", (2,))
    wait_until(lambda: world.state(T0))
    brokers[2].stop_error = int(Errors.KAFKA_STORAGE_ERROR)
    world.admin.create_delete_topic_path("t")
    gauge = "kafka.controller:type=KafkaController,name=TopicsIneligibleToDeleteCount"
    wait_until(lambda: node.metrics.value(gauge) == 1)
    brokers[2].stop_error = 0
    second = world.node(4)
    second.controller.startup()
    node.controller.shutdown()
    node.zk.close()
    wait_until(lambda: not world.admin.topic_exists("t"))


def test_deletion_of_unknown_topic_is_forgotten(world, wait_until, trio):
    world.admin.create_delete_topic_path("nope")
    wait_until(lambda: not world.admin.get_topic_deletions())


def test_new_partitions_are_brought_online(world, wait_until, trio):
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    found = world.admin.get_replica_assignment_and_topic_id_for_topics(["t"])[0]
    t1 = TopicPartition("t", 1)
    world.admin.set_topic_assignment(
        "t", found.topic_id, {**found.assignment, t1: ReplicaAssignment((3, 1))}
    )
    wait_until(lambda: world.state(t1) == (3, 0, (3, 1)))
    assert world.state(T0) == (2, 0, (2, 3))


def test_preferred_election_after_reordering(world, wait_until, ask, trio):
    """How a leader is moved between live brokers: reorder the replicas, elect the first."""
    node, brokers = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    elect = node.controller.elect_leaders
    assert ask(elect, 0, [T0])[T0].error == Errors.ELECTION_NOT_NEEDED
    assert ask(elect, 0, None) == {}
    unknown = TopicPartition("x", 0)
    assert ask(elect, 0, [unknown])[unknown].error == Errors.UNKNOWN_TOPIC_OR_PARTITION

    assert ask(node.controller.alter_reassignments, {T0: [3, 2]})[1][T0].error == Errors.NONE
    assert ask(node.controller.list_reassignments, None) == (Errors.NONE, {})
    assert world.state(T0) == (2, 1, (2, 3)), "told with a higher epoch, leader as before"
    found = world.admin.get_full_replica_assignment_for_topic("t")
    assert found == {T0: ReplicaAssignment((3, 2))}
    result = ask(elect, 0, [T0])[T0]
    assert (result.error, result.leader) == (Errors.NONE, 3)
    assert world.state(T0) == (3, 2, (2, 3))
    wait_until(lambda: brokers[2].leaders_told(T0)[-1] == 3)
    wait_until(lambda: brokers[1].metadata(T0)[-1].leader == 3)


def test_election_through_zookeeper(world, wait_until, ask, trio):
    from nodes.coordination import znodes

    node, _ = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    ask(node.controller.alter_reassignments, {T0: [3, 2]})
    for expected in (3, 3):
        wish = znodes.encode_partitions([T0])
        world.admin.set_or_create(znodes.PREFERRED_REPLICA_ELECTION, wish)
        wait_until(lambda: not world.admin.path_exists(znodes.PREFERRED_REPLICA_ELECTION))
        assert world.state(T0)[0] == expected


def test_preferred_leader_not_available(world, wait_until, ask, trio):
    node, brokers = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    brokers[2].zk.close()
    wait_until(lambda: world.state(T0)[0] == 3)
    result = ask(node.controller.elect_leaders, 0, [T0])[T0]
    assert result.error == Errors.PREFERRED_LEADER_NOT_AVAILABLE


def alter_request(world, broker_id, tp, isr, *, leader_epoch=0, partition_epoch=0, epoch=None):
    topic_id = world.admin.get_replica_assignment_and_topic_id_for_topics([tp.topic])[0].topic_id
    if epoch is None:
        epoch = world.admin.get_all_broker_and_epochs_in_cluster()[broker_id][1]
    return build(
        request_class(ApiKey.ALTER_PARTITION, 3),
        broker_id=broker_id,
        broker_epoch=epoch,
        topics=[
            {
                "topic_id": topic_id,
                "partitions": [
                    {
                        "partition_index": tp.partition,
                        "leader_epoch": leader_epoch,
                        "new_isr_with_epochs": [{"broker_id": r} for r in isr],
                        "leader_recovery_state": 0,
                        "partition_epoch": partition_epoch,
                    }
                ],
            }
        ],
    )


def test_alter_partition(world, wait_until, ask, trio):
    node, brokers = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) and brokers[2].leader_and_isr(T0))

    def alter(*args, **kwargs):
        fields = ask(node.controller.alter_partitions, alter_request(world, *args, **kwargs))
        answer = build(response_class(ApiKey.ALTER_PARTITION, 3), **fields)
        if answer.error_code.value or not answer.topics:
            return int(answer.error_code.value), None
        return 0, answer.topics[0].partitions[0]

    assert alter(2, T0, [2], epoch=1)[0] == Errors.STALE_BROKER_EPOCH
    _, shrunk = alter(2, T0, [2])
    assert (shrunk.error_code.value, shrunk.partition_epoch, tuple(shrunk.isr)) == (0, 1, (2,))
    assert (shrunk.leader_id, shrunk.leader_epoch) == (2, 0)
    assert world.state(T0) == (2, 0, (2,))
    wait_until(lambda: tuple(brokers[1].metadata(T0)[-1].isr) == (2,))
    assert alter(2, T0, [2])[1].error_code.value == 0, "sent twice"
    cases = {
        Errors.INVALID_UPDATE_VERSION: {"isr": [2, 3]},
        Errors.FENCED_LEADER_EPOCH: {"isr": [2], "leader_epoch": -1},
        Errors.NOT_CONTROLLER: {"isr": [2], "leader_epoch": 1},
        Errors.INELIGIBLE_REPLICA: {"isr": [2, 9], "partition_epoch": 1},
    }
    for error, case in cases.items():
        assert alter(2, T0, **case)[1].error_code.value == error
    assert alter(2, T0, [2, 3], partition_epoch=1)[1].partition_epoch == 2
    rows = [r for r in node.trace("leadership") if r["partition_epoch"]]
    assert [(r["isr"], r["partition_epoch"]) for r in rows] == [([2], 1), ([2, 3], 2)]


def test_move_to_another_broker(world, wait_until, ask, trio):
    node, brokers = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    alter = node.controller.alter_reassignments
    assert ask(alter, {T0: [1, 9]})[1][T0].error == Errors.INVALID_REPLICA_ASSIGNMENT
    assert ask(alter, {T0: None})[1][T0].error == Errors.NO_REASSIGNMENT_IN_PROGRESS
    assert ask(alter, {T0: [1, 3]})[1][T0].error == Errors.NONE
    moving = ReplicaAssignment((1, 3, 2), (1,), (2,))
    assert ask(node.controller.list_reassignments, None) == (Errors.NONE, {T0: moving})
    assert world.state(T0) == (2, 1, (2, 3))
    wait_until(lambda: brokers[1].leader_and_isr(T0))
    assert tuple(brokers[1].leader_and_isr(T0)[-1].adding_replicas) == (1,)

    request = alter_request(world, 2, T0, [2, 3, 1], leader_epoch=1, partition_epoch=1)
    assert ask(node.controller.alter_partitions, request)["error_code"] == 0
    wait_until(lambda: world.state(T0)[0] == 1)
    wait_until(lambda: any(s.delete_partition for s in brokers[2].stops(T0)))
    wait_until(
        lambda: (
            world.admin.get_full_replica_assignment_for_topic("t")
            == {T0: ReplicaAssignment((1, 3))}
        )
    )
    assert set(world.state(T0)[2]) == {1, 3}
    wait_until(lambda: ask(node.controller.list_reassignments, None) == (Errors.NONE, {}))


def test_reassignment_can_be_cancelled(world, wait_until, ask, trio):
    node, brokers = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    ask(node.controller.alter_reassignments, {T0: [1, 3]})
    assert ask(node.controller.alter_reassignments, {T0: None})[1][T0].error == Errors.NONE
    found = world.admin.get_full_replica_assignment_for_topic("t")
    assert found == {T0: ReplicaAssignment((3, 2))}, "the order is lost, as in Kafka"
    wait_until(lambda: any(s.delete_partition for s in brokers[1].stops(T0)))
    assert world.state(T0)[0] == 2


@pytest.mark.parametrize(
    ("error", "elected"), [(Errors.KAFKA_STORAGE_ERROR, 3), (Errors.UNKNOWN_SERVER_ERROR, 2)]
)
def test_only_a_storage_error_makes_a_replica_offline(world, wait_until, trio, error, elected):
    """Any other error of a partition is somebody else's to mend: nobody is elected for it."""
    _, brokers = trio
    brokers[2].partition_error = int(error)
    world.create_topic("t", (2, 3))
    wait_until(lambda: brokers[3].leader_and_isr(T0))
    for name in ("second", "third"):
        # The second to be told proves that the first was answered; the third, that the controller
        # has dealt with the answer.
        world.create_topic(name, (2, 3))
        tp = TopicPartition(name, 0)
        wait_until(lambda tp=tp: world.state(tp) and brokers[3].leader_and_isr(tp))
        wait_until(lambda tp=tp: brokers[2].leader_and_isr(tp))
    wait_until(lambda: world.state(T0)[0] == elected)
    assert world.state(T0)[:2] == (elected, elected - 2), "an election raises the leader epoch"


def test_every_replica_of_a_dying_topic_leaves_the_isr_with_an_epoch_of_its_own(
    world, wait_until, trio
):
    """As in Kafka: deletion raises the leader epoch once for each of them, the last included."""
    node, _ = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    world.admin.create_delete_topic_path("t")
    wait_until(lambda: not world.admin.topic_exists("t"))
    rows = [row for row in node.trace("leadership") if row["topic"] == "t"]
    assert [(row["leader"], row["leader_epoch"], len(row["isr"])) for row in rows] == [
        (2, 0, 2),
        (-1, 1, 1),
        (-1, 2, 1),
    ]


def test_isr_changes_that_wait_are_answered_when_the_session_has_expired(world, wait_until, trio):
    """Kafka forgets them, and their leader waits 30 s for its answer before it asks again."""
    node, _ = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    events, busy, may_end, answers = node.controller._events, Event(), Event(), []
    slow = ControllerEvent("Slow", ControllerState.IDLE, lambda: (busy.set(), may_end.wait(60)))
    events.put(slow)
    assert busy.wait(60)
    node.controller.alter_partitions(alter_request(world, 2, T0, [2]), answers.append)
    assert answers == []
    last = events.clear_and_put(ControllerEvent("Expire", ControllerState.IDLE, lambda: None))
    assert [answer["error_code"] for answer in answers] == [Errors.NOT_CONTROLLER]
    may_end.set()
    assert last.started.wait(60)
    assert world.state(T0) == (2, 0, (2, 3))


def test_what_cannot_be_a_topic_is_told_to_nobody(world, wait_until, trio):
    """Somebody made it past the brokers; its lawful neighbour is served."""
    _, brokers = trio
    strange = TopicPartition("a b", 0)
    world.create_topic(strange.topic, (2, 3))
    world.create_topic("t", (2, 3))
    wait_until(lambda: brokers[2].leader_and_isr(T0) and brokers[3].metadata(T0))
    assert not world.state(strange)
    for broker in brokers.values():
        assert not broker.leader_and_isr(strange)
        assert not broker.metadata(strange)

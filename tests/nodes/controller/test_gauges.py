"""The controller's counts of what it knows (KafkaController's gauges), number by number."""

from __future__ import annotations

from nodes.controller.context import ControllerContext, PartitionAndReplica
from nodes.controller.gauges import ControllerGauges
from nodes.core.assignment import ReplicaAssignment
from nodes.core.brokers import Broker
from nodes.core.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.partition_state_machine import PartitionState
from nodes.core.replica_state_machine import ReplicaState
from nodes.core.types import TopicPartition
from nodes.metrics import Metrics

MBEAN = "kafka.controller:type=KafkaController,name="


def a_cluster() -> ControllerContext:
    """Six of eight brokers live. No two counts are equal, so that none can be shown for another."""
    context = ControllerContext()
    context.set_live_brokers({i: (Broker(i, ()), 70 + i) for i in range(1, 7)})
    led = {
        # topic: (partitions, leader, replicas)
        "even": (7, 1, (1, 2)),
        "uneven": (5, 1, (2, 1)),
        "lost": (3, 8, (8,)),
        "dying": (1, 1, (1, 2, 3, 4, 5, 6)),
        "stuck": (1, 1, (1, 2, 3, 4)),
    }
    context.all_topics = {*led, "queued", "new-1", "new-2", "new-3", "new-4"}
    # Assigned, and without a leader yet: no partition that counts.
    context.update_assignment(TopicPartition("new-1", 0), ReplicaAssignment((1, 2)))
    context.partition_states[TopicPartition("new-1", 0)] = PartitionState.NEW
    for topic, (partitions, leader, replicas) in led.items():
        for partition in range(partitions):
            tp = TopicPartition(topic, partition)
            context.update_assignment(tp, ReplicaAssignment(replicas))
            context.leadership[tp] = LeaderIsrAndControllerEpoch(LeaderAndIsr(leader, replicas), 1)
            lost = topic == "lost"
            state = PartitionState.OFFLINE if lost else PartitionState.ONLINE
            context.partition_states[tp] = state
    context.topics_to_be_deleted = {"dying", "stuck", "queued"}
    # From when its deletion has begun nobody is to look for a leader; until then it lacks one.
    context.topics_with_deletion_started = {"stuck"}
    for topic in ("stuck", "dying"):
        context.partition_states[TopicPartition(topic, 0)] = PartitionState.OFFLINE
    context.topics_ineligible_for_deletion = {"dying", "stuck"}
    gone, kept, going = (
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.DELETION_INELIGIBLE,
        ReplicaState.DELETION_STARTED,
    )
    states = {"dying": (gone, kept, kept, kept, kept, going), "stuck": (gone, kept, kept, kept)}
    for topic, found in states.items():
        for replica, state_of in enumerate(found, 1):
            key = PartitionAndReplica(TopicPartition(topic, 0), replica)
            context.replica_states[key] = state_of
    return context


def shown(metrics: Metrics) -> dict[str, float]:
    found = metrics.by_mbean()
    return {name.removeprefix(MBEAN): values["Value"] for name, values in found.items()}


def test_each_count_is_of_its_own() -> None:
    metrics, active = Metrics(), [True]
    gauges = ControllerGauges(metrics, lambda: 9, lambda: active[0])
    asked = {"ActiveControllerCount", "ControllerState"}
    zeros = dict.fromkeys(shown(metrics).keys() - asked, 0)
    gauges.update(a_cluster(), is_active=True)
    assert len(set(shown(metrics).values())) == len(zeros) + 2
    assert shown(metrics) == {
        "ActiveControllerCount": 1,
        "ControllerState": 9,
        "OfflinePartitionsCount": 4,
        "PreferredReplicaImbalanceCount": 5,
        "GlobalTopicCount": 10,
        "GlobalPartitionCount": 17,
        "TopicsToDeleteCount": 3,
        "ReplicasToDeleteCount": 8,
        "TopicsIneligibleToDeleteCount": 2,
        "ReplicasIneligibleToDeleteCount": 7,
        "ActiveBrokerCount": 6,
        "FencedBrokerCount": 0,
    }
    active[0] = False
    gauges.update(a_cluster(), is_active=False)
    assert shown(metrics) == {**zeros, "ActiveControllerCount": 0, "ControllerState": 9}
    gauges.close()
    assert shown(metrics) == {}


def test_who_is_not_led_by_its_preferred_replica() -> None:
    """ControllerContext.hasPreferredLeader: a preferred replica that a reassignment adds is not
    missed until it is in the ISR. (Then it is, even if it leads: the move is about to end.)"""
    for adding, leader, isr, is_missed in (
        ((), 1, (1, 2), False),
        ((), 2, (1, 2), True),
        ((), 2, (2,), True),
        ((1,), 2, (2,), False),
        ((1,), 2, (1, 2), True),
        ((1,), 1, (1, 2), True),
        ((3,), 1, (1, 2), False),
        ((3,), 2, (1, 2), True),
    ):
        context, tp = ControllerContext(), TopicPartition("t", 0)
        context.update_assignment(tp, ReplicaAssignment((1, 2, 3), adding_replicas=adding))
        context.leadership[tp] = LeaderIsrAndControllerEpoch(LeaderAndIsr(leader, isr), 1)
        assert context.preferred_replica_imbalance_count == is_missed, (adding, leader, isr)
        context.topics_to_be_deleted = {"t"}
        assert context.preferred_replica_imbalance_count == 0, "nobody is to lead it"


def test_an_office_that_has_ended_leaves_nothing() -> None:
    """ControllerContext.resetContext: epochs, brokers, topics, states of all kinds."""
    context, fresh = a_cluster(), vars(ControllerContext())
    for number, (name, empty) in enumerate(fresh.items(), 1):
        if not vars(context)[name]:
            filled = {int: number, dict: {number: number}, set: {number}}[type(empty)]
            setattr(context, name, filled)
    assert [name for name, empty in fresh.items() if vars(context)[name] == empty] == []
    context.reset()
    assert vars(context) == fresh

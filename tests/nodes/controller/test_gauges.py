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
    """Brokers 1 and 2 of three live. Of five topics one has no partition yet, and one is dying: one
    of its replicas is gone, one could not be deleted, one is being deleted."""
    context = ControllerContext()
    context.set_live_brokers({i: (Broker(i, ()), 70 + i) for i in (1, 2)})
    context.all_topics = {"a", "b", "lost", "dying", "empty"}
    led = {
        ("a", 0): (1, (1, 2)),
        ("a", 1): (1, (2, 1)),
        ("b", 0): (2, (2,)),
        ("lost", 0): (3, (3,)),
        ("dying", 0): (1, (1, 2, 3)),
    }
    for (topic, partition), (leader, replicas) in led.items():
        tp = TopicPartition(topic, partition)
        context.update_assignment(tp, ReplicaAssignment(replicas))
        context.leadership[tp] = LeaderIsrAndControllerEpoch(LeaderAndIsr(leader, replicas), 1)
        lost = topic == "lost"
        context.partition_states[tp] = PartitionState.OFFLINE if lost else PartitionState.ONLINE
    context.topics_to_be_deleted = {"dying"}
    context.topics_ineligible_for_deletion = {"dying"}
    dying = TopicPartition("dying", 0)
    for replica, state in (
        (1, ReplicaState.DELETION_SUCCESSFUL),
        (2, ReplicaState.DELETION_INELIGIBLE),
        (3, ReplicaState.DELETION_STARTED),
    ):
        context.replica_states[PartitionAndReplica(dying, replica)] = state
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
    assert shown(metrics) == {
        "ActiveControllerCount": 1,
        "ControllerState": 9,
        "OfflinePartitionsCount": 1,
        "PreferredReplicaImbalanceCount": 1,
        "GlobalTopicCount": 5,
        "GlobalPartitionCount": 5,
        "TopicsToDeleteCount": 1,
        "ReplicasToDeleteCount": 2,
        "TopicsIneligibleToDeleteCount": 1,
        "ReplicasIneligibleToDeleteCount": 1,
        "ActiveBrokerCount": 2,
        "FencedBrokerCount": 0,
    }
    active[0] = False
    gauges.update(a_cluster(), is_active=False)
    assert shown(metrics) == {**zeros, "ActiveControllerCount": 0, "ControllerState": 9}
    gauges.close()
    assert shown(metrics) == {}

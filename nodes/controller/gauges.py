"""The controller's gauges. They are computed on the event thread after each event and only read
elsewhere, because the context belongs to that thread. Who the controller is does not: as in
KafkaController, ActiveControllerCount is asked at the moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from nodes.controller.context import ControllerContext
from nodes.core.replica_state_machine import ReplicaState
from nodes.metrics import Metrics

_MBEAN: Final = "kafka.controller:type=KafkaController,name="
_ACTIVE: Final = "ActiveControllerCount"
_NAMES: Final = (
    "OfflinePartitionsCount",
    "PreferredReplicaImbalanceCount",
    "GlobalTopicCount",
    "GlobalPartitionCount",
    "TopicsToDeleteCount",
    "ReplicasToDeleteCount",
    "TopicsIneligibleToDeleteCount",
    "ReplicasIneligibleToDeleteCount",
    "ActiveBrokerCount",
    "FencedBrokerCount",
)


class ControllerGauges:
    """All zero while this broker is not the controller."""

    def __init__(
        self, metrics: Metrics, state: Callable[[], int], is_active: Callable[[], bool]
    ) -> None:
        self._metrics = metrics
        self._values = dict.fromkeys(_NAMES, 0)
        for name in _NAMES:
            metrics.gauge(_MBEAN + name, lambda name=name: self._values[name])  # type: ignore[misc]
        metrics.gauge(_MBEAN + "ControllerState", state)
        metrics.gauge(_MBEAN + _ACTIVE, lambda: int(is_active()))

    def update(self, context: ControllerContext, *, is_active: bool) -> None:
        """Event thread."""
        if not is_active:
            self._values = dict.fromkeys(_NAMES, 0)
            return
        dying = [
            context.replica_state(replica)
            for topic in context.topics_to_be_deleted
            for replica in context.replicas_for_topic(topic)
        ]
        self._values = {
            "OfflinePartitionsCount": context.offline_partition_count,
            "PreferredReplicaImbalanceCount": context.preferred_replica_imbalance_count,
            "GlobalTopicCount": len(context.all_topics),
            "GlobalPartitionCount": len(context.leadership),
            "TopicsToDeleteCount": len(context.topics_to_be_deleted),
            "ReplicasToDeleteCount": sum(s is not ReplicaState.DELETION_SUCCESSFUL for s in dying),
            "TopicsIneligibleToDeleteCount": len(context.topics_ineligible_for_deletion),
            "ReplicasIneligibleToDeleteCount": sum(
                s is ReplicaState.DELETION_INELIGIBLE for s in dying
            ),
            "ActiveBrokerCount": len(context.broker_epochs),
            "FencedBrokerCount": 0,
        }

    def close(self) -> None:
        for name in (*_NAMES, "ControllerState", _ACTIVE):
            self._metrics.remove(_MBEAN + name)

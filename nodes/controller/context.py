"""All that the controller knows (Kafka's ControllerContext): a cache of ZooKeeper, plus the states
of partitions and replicas, which exist nowhere else.

Owned by the event thread. Other threads may read `controller_epoch`; nothing here locks.

Two sets of brokers matter. *Live or shutting down* brokers are registered, and are sent requests;
*live* ones are those of them that have not announced a controlled shutdown, and may lead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from nodes.core.assignment import EMPTY, ReplicaAssignment
from nodes.core.brokers import Broker
from nodes.core.leader_and_isr import (
    EPOCH_DURING_DELETE,
    NO_EPOCH,
    LeaderIsrAndControllerEpoch,
)
from nodes.core.partition_state_machine import PartitionState
from nodes.core.replica_state_machine import ReplicaState
from nodes.core.types import TopicPartition


class PartitionAndReplica(NamedTuple):
    """One replica: a partition on a broker."""

    tp: TopicPartition
    replica: int


class ControllerContext:
    """See the module. `reset` takes it back to what a broker that is no controller knows."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.controller_epoch = 0
        self.epoch_zk_version = 0
        self.shutting_down_broker_ids: set[int] = set()
        self.live_brokers: dict[int, Broker] = {}
        self.broker_epochs: dict[int, int] = {}
        self.all_topics: set[str] = set()
        self.topic_ids: dict[str, UUID] = {}
        self.topic_names: dict[UUID, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.leadership: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        self.partitions_being_reassigned: set[TopicPartition] = set()
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[PartitionAndReplica, ReplicaState] = {}
        self.replicas_on_offline_dirs: dict[int, set[TopicPartition]] = {}
        self.topics_to_be_deleted: set[str] = set()
        self.topics_with_deletion_started: set[str] = set()
        self.topics_ineligible_for_deletion: set[str] = set()

    # ---- brokers ---------------------------------------------------------------------------------

    def set_live_brokers(self, brokers: Mapping[int, tuple[Broker, int]]) -> None:
        self.live_brokers = {}
        self.broker_epochs = {}
        self.add_live_brokers(brokers)

    def add_live_brokers(self, brokers: Mapping[int, tuple[Broker, int]]) -> None:
        """Broker id -> (registration, broker epoch)."""
        for broker_id, (broker, broker_epoch) in brokers.items():
            self.live_brokers[broker_id] = broker
            self.broker_epochs[broker_id] = broker_epoch

    def remove_live_brokers(self, broker_ids: Iterable[int]) -> None:
        for broker_id in broker_ids:
            self.live_brokers.pop(broker_id, None)
            self.broker_epochs.pop(broker_id, None)

    @property
    def live_or_shutting_down_broker_ids(self) -> Collection[int]:
        return self.broker_epochs.keys()

    @property
    def live_broker_ids(self) -> set[int]:
        return self.broker_epochs.keys() - self.shutting_down_broker_ids

    def is_live(self, broker_id: int) -> bool:
        return broker_id in self.broker_epochs and broker_id not in self.shutting_down_broker_ids

    def is_replica_online(
        self, broker_id: int, tp: TopicPartition, *, include_shutting_down: bool = False
    ) -> bool:
        alive = (
            broker_id in self.broker_epochs if include_shutting_down else self.is_live(broker_id)
        )
        return alive and tp not in self.replicas_on_offline_dirs.get(broker_id, ())

    # ---- topics and assignments ------------------------------------------------------------------

    def add_topic_id(self, topic: str, topic_id: UUID) -> None:
        known = self.topic_ids.get(topic, topic_id)
        name = self.topic_names.get(topic_id, topic)
        if known != topic_id or name != topic:
            raise ValueError(f"topic {topic} has id {known}, and {topic_id} belongs to {name}")
        self.topic_ids[topic] = topic_id
        self.topic_names[topic_id] = topic

    def remove_topic(self, topic: str) -> None:
        """Forget a topic, and all but its replicas' states (which end as NonExistent)."""
        self.topics_to_be_deleted.discard(topic)
        self.topics_with_deletion_started.discard(topic)
        self.topics_ineligible_for_deletion.discard(topic)
        self.all_topics.discard(topic)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        for partition in self.assignments.pop(topic, {}):
            tp = TopicPartition(topic, partition)
            self.leadership.pop(tp, None)
            self.partition_states.pop(tp, None)

    def partition_full_replica_assignment(self, tp: TopicPartition) -> ReplicaAssignment:
        return self.assignments.get(tp.topic, {}).get(tp.partition, EMPTY)

    def partition_replica_assignment(self, tp: TopicPartition) -> tuple[int, ...]:
        return self.partition_full_replica_assignment(tp).replicas

    def update_assignment(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        self.assignments.setdefault(tp.topic, {})[tp.partition] = assignment

    def full_assignment_of_topic(self, topic: str) -> dict[TopicPartition, ReplicaAssignment]:
        partitions = self.assignments.get(topic, {})
        return {TopicPartition(topic, p): assignment for p, assignment in partitions.items()}

    @property
    def all_partitions(self) -> list[TopicPartition]:
        return [
            TopicPartition(topic, partition)
            for topic, partitions in self.assignments.items()
            for partition in partitions
        ]

    def partitions_for_topic(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, partition) for partition in self.assignments.get(topic, {})]

    def partitions_on_broker(self, broker_id: int) -> list[TopicPartition]:
        return [r.tp for r in self.replicas_on_brokers({broker_id})]

    def replicas_on_brokers(self, broker_ids: Collection[int]) -> list[PartitionAndReplica]:
        return [r for r in self.all_replicas() if r.replica in broker_ids]

    def all_replicas(self) -> Iterable[PartitionAndReplica]:
        return self.replicas_for_partitions(self.all_partitions)

    def replicas_for_topic(self, topic: str) -> list[PartitionAndReplica]:
        return self.replicas_for_partitions(self.partitions_for_topic(topic))

    def replicas_for_partitions(
        self, partitions: Iterable[TopicPartition]
    ) -> list[PartitionAndReplica]:
        return [
            PartitionAndReplica(tp, replica)
            for tp in partitions
            for replica in self.partition_replica_assignment(tp)
        ]

    # ---- leadership ------------------------------------------------------------------------------

    def partition_leadership_info(self, tp: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        return self.leadership.get(tp)

    def leader_of(self, tp: TopicPartition) -> int:
        """-1 when none is known."""
        info = self.leadership.get(tp)
        return -1 if info is None else info.leader_and_isr.leader

    def leader_epoch(self, tp: TopicPartition) -> int:
        """As a StopReplica has it: -2 while the topic is being deleted, overriding any other."""
        if self.is_topic_queued_up_for_deletion(tp.topic):
            return EPOCH_DURING_DELETE
        info = self.leadership.get(tp)
        return NO_EPOCH if info is None else info.leader_and_isr.leader_epoch

    def _leaderships(
        self, condition: Callable[[TopicPartition, int], bool]
    ) -> list[TopicPartition]:
        return [
            tp
            for tp, info in self.leadership.items()
            if not self.is_topic_queued_up_for_deletion(tp.topic)
            and condition(tp, info.leader_and_isr.leader)
        ]

    @property
    def partitions_with_leaders(self) -> list[TopicPartition]:
        return self._leaderships(lambda _tp, _leader: True)

    @property
    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        return self._leaderships(lambda tp, leader: not self.is_replica_online(leader, tp))

    def partition_leaders_on_broker(self, broker_id: int) -> list[TopicPartition]:
        """Partitions that a broker leads and somebody else could (more than one replica)."""
        return self._leaderships(
            lambda tp, leader: (
                leader == broker_id and len(self.partition_replica_assignment(tp)) > 1
            )
        )

    # ---- deletion --------------------------------------------------------------------------------

    def is_topic_queued_up_for_deletion(self, topic: str) -> bool:
        return topic in self.topics_to_be_deleted

    def replicas_in_state(self, topic: str, state: ReplicaState) -> list[PartitionAndReplica]:
        return [r for r in self.replicas_for_topic(topic) if self.replica_states.get(r) == state]

    def is_any_replica_in_state(self, topic: str, state: ReplicaState) -> bool:
        return any(self.replica_states.get(r) == state for r in self.replicas_for_topic(topic))

    # ---- states and gauges -----------------------------------------------------------------------

    def partition_state(self, tp: TopicPartition) -> PartitionState:
        return self.partition_states.get(tp, PartitionState.NON_EXISTENT)

    def replica_state(self, replica: PartitionAndReplica) -> ReplicaState:
        return self.replica_states.get(replica, ReplicaState.NON_EXISTENT)

    def partitions_in_states(self, *states: PartitionState) -> list[TopicPartition]:
        return [tp for tp, state in self.partition_states.items() if state in states]

    @property
    def offline_partition_count(self) -> int:
        return sum(
            state is PartitionState.OFFLINE and tp.topic not in self.topics_with_deletion_started
            for tp, state in self.partition_states.items()
        )

    @property
    def preferred_replica_imbalance_count(self) -> int:
        return sum(not self._has_preferred_leader(tp) for tp in self.partitions_with_leaders)

    def _has_preferred_leader(self, tp: TopicPartition) -> bool:
        """A replica that a reassignment is just adding counts as soon as it is in the ISR."""
        assignment = self.partition_full_replica_assignment(tp)
        state = self.leadership[tp].leader_and_isr
        if not assignment.replicas:
            return True
        preferred = assignment.replicas[0]
        if preferred in assignment.adding_replicas:
            return preferred not in state.isr
        return state.leader == preferred

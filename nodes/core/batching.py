"""What brokers have to be told about one state change, gathered into one request each.

A state change touches many partitions and may say several things about each. What is said is
collected per broker and leaves as at most one LeaderAndIsr, then one UpdateMetadata, then one
StopReplica per broker (Kafka's AbstractControllerBrokerRequestBatch):

- LeaderAndIsr goes to the replicas concerned; it always entails UpdateMetadata about the partition
  to all live brokers, so that clients learn of the new leader wherever they ask;
- UpdateMetadata says the same to all of its recipients;
- a later word about a partition replaces an earlier one, but *new* and *delete* stick.

Pure bookkeeping: building and sending requests is `nodes.controller.request_batch`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from nodes.core.assignment import ReplicaAssignment
from nodes.core.leader_and_isr import (
    LEADER_DURING_DELETE,
    LeaderIsrAndControllerEpoch,
)
from nodes.core.types import TopicPartition


@dataclass(frozen=True, slots=True)
class LeaderAndIsrEntry:
    """Lead or follow a partition. `is_new`: the replica may be created in any log directory."""

    state: LeaderIsrAndControllerEpoch
    assignment: ReplicaAssignment
    is_new: bool


@dataclass(frozen=True, slots=True)
class UpdateMetadataEntry:
    """What clients should be told about a partition."""

    state: LeaderIsrAndControllerEpoch
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StopReplicaEntry:
    """Stop, and with `delete` remove, a replica."""

    leader_epoch: int
    delete: bool


@dataclass(slots=True)
class Batch:
    """One state change's messages: broker -> partition -> entry; metadata is the same for all."""

    leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrEntry]] = field(default_factory=dict)
    update_metadata_brokers: set[int] = field(default_factory=set)
    update_metadata: dict[TopicPartition, UpdateMetadataEntry] = field(default_factory=dict)
    stop_replica: dict[int, dict[TopicPartition, StopReplicaEntry]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.leader_and_isr or self.update_metadata_brokers or self.stop_replica)


class ClusterView(Protocol):
    """What the batch has to know about the cluster (the controller's context)."""

    @property
    def live_or_shutting_down_broker_ids(self) -> Collection[int]: ...
    def is_topic_queued_up_for_deletion(self, topic: str) -> bool: ...
    def partition_leadership_info(
        self, tp: TopicPartition
    ) -> LeaderIsrAndControllerEpoch | None: ...
    def partition_replica_assignment(self, tp: TopicPartition) -> tuple[int, ...]: ...
    def is_replica_online(self, broker_id: int, tp: TopicPartition) -> bool: ...
    def leader_epoch(self, tp: TopicPartition) -> int: ...


class BatchNotEmpty(RuntimeError):
    """A new batch was begun although messages of the previous one had not been sent: some state
    change would be lost. The controller resigns on this, and its successor starts afresh."""


class BatchBuilder:
    """`new_batch`, any number of ``add_...``, `take`. For the controller's event thread only."""

    def __init__(self, view: ClusterView, *, tells_all_of_elections: bool = True) -> None:
        """`tells_all_of_elections=False` leaves brokers without word of new leaders (a planted
        bug)."""
        self._view = view
        self._tells_all_of_elections = tells_all_of_elections
        self._batch = Batch()

    def new_batch(self) -> None:
        if self._batch:
            raise BatchNotEmpty(f"Controller to broker requests might be lost: {self._batch}")

    def clear(self) -> None:
        self._batch = Batch()

    def take(self) -> Batch:
        """The batch so far; the builder is empty again."""
        batch, self._batch = self._batch, Batch()
        return batch

    def add_leader_and_isr(
        self,
        broker_ids: Iterable[int],
        tp: TopicPartition,
        state: LeaderIsrAndControllerEpoch,
        assignment: ReplicaAssignment,
        *,
        is_new: bool,
    ) -> None:
        for broker_id in _real(broker_ids):
            entries = self._batch.leader_and_isr.setdefault(broker_id, {})
            already_new = tp in entries and entries[tp].is_new
            entries[tp] = LeaderAndIsrEntry(state, assignment, is_new or already_new)
        if is_new or self._tells_all_of_elections:
            self.add_update_metadata(self._view.live_or_shutting_down_broker_ids, [tp])

    def add_stop_replica(
        self, broker_ids: Iterable[int], tp: TopicPartition, *, delete: bool
    ) -> None:
        leader_epoch = self._view.leader_epoch(tp)
        for broker_id in _real(broker_ids):
            entries = self._batch.stop_replica.setdefault(broker_id, {})
            already_delete = tp in entries and entries[tp].delete
            entries[tp] = StopReplicaEntry(leader_epoch, delete or already_delete)

    def add_update_metadata(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Partitions without a leader yet are left out; those of dying topics get leader -2."""
        self._batch.update_metadata_brokers.update(_real(broker_ids))
        for tp in partitions:
            state = self._view.partition_leadership_info(tp)
            if state is None:
                continue
            if self._view.is_topic_queued_up_for_deletion(tp.topic):
                state = _during_delete(state)
            replicas = self._view.partition_replica_assignment(tp)
            offline = tuple(r for r in replicas if not self._view.is_replica_online(r, tp))
            self._batch.update_metadata[tp] = UpdateMetadataEntry(state, replicas, offline)


def _real(broker_ids: Iterable[int]) -> list[int]:
    """Without the negative ids that stand for "no leader"."""
    return [broker_id for broker_id in broker_ids if broker_id >= 0]


def _during_delete(state: LeaderIsrAndControllerEpoch) -> LeaderIsrAndControllerEpoch:
    """Leader -2 tells brokers to forget the partition. Its epochs start at zero, as in Kafka."""
    leader_and_isr = replace(
        state.leader_and_isr, leader=LEADER_DURING_DELETE, leader_epoch=0, partition_epoch=0
    )
    return replace(state, leader_and_isr=leader_and_isr)


Entries = Mapping[TopicPartition, LeaderAndIsrEntry | UpdateMetadataEntry | StopReplicaEntry]

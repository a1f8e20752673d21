"""What this broker believes about the cluster (Kafka's ZkMetadataCache).

The controller's UpdateMetadata requests are the only writers. Readers (every Metadata request, the
fetchers, the group coordinator) must never wait for them, so the whole state is one immutable
`MetadataSnapshot` behind one attribute: a reader takes the attribute once and works on that copy; a
writer builds a new snapshot under a lock and swaps it in. Inner maps of topics that an update does
not name are shared between snapshots, so an update costs what it changes plus one shallow copy.

An update carries *all* live brokers but only the partitions that changed. A partition whose leader
is -2 (being deleted) is removed; a topic is forgotten with its last one, together with its id.

Which updates are to be believed (broker epoch, controller epoch) is decided above, in nodes.api and
ReplicaManager: this class takes in what it is given.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from nodes.core.types import TopicPartition

NO_LEADER: Final = -1
LEADER_DURING_DELETE: Final = -2
NO_CONTROLLER: Final = -1


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition as the controller told it. `partition_epoch` is the znode's version."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    controller_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class AliveBroker:
    """A registered broker: listener name -> (host, port) as advertised."""

    broker_id: int
    endpoints: Mapping[str, tuple[str, int]]
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class MetadataSnapshot:
    """Immutable. `version` grows by one per update; `encoded` is the answers' cache of this very
    snapshot (see nodes.api.metadata), dropped with it: entries are only ever added, each by one
    dict assignment, so it needs no lock."""

    version: int = 0
    topics: Mapping[str, Mapping[int, PartitionState]] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    topic_names: Mapping[UUID, str] = field(default_factory=dict)
    brokers: Mapping[int, AliveBroker] = field(default_factory=dict)
    controller_id: int = NO_CONTROLLER
    encoded: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)


class MetadataCache:
    """Thread-safe: reads take `snapshot` without a lock, `update` calls are serialized."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.snapshot = MetadataSnapshot()
        self._update_lock = threading.Lock()

    # ---- reads ---------------------------------------------------------------------------------

    @property
    def controller_id(self) -> int:
        """The controller named by the last update, -1 when none."""
        return self.snapshot.controller_id

    def topics(self) -> Mapping[str, Mapping[int, PartitionState]]:
        """Topic -> partition -> state, of one snapshot."""
        return self.snapshot.topics

    def contains(self, topic: str) -> bool:
        return topic in self.snapshot.topics

    def partition_state(self, topic: str, partition: int) -> PartitionState | None:
        partitions = self.snapshot.topics.get(topic)
        return None if partitions is None else partitions.get(partition)

    def alive_brokers(self) -> Mapping[int, AliveBroker]:
        return self.snapshot.brokers

    def is_alive(self, broker_id: int) -> bool:
        return broker_id in self.snapshot.brokers

    def broker_endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """(host, port) of a live broker on a listener; None when dead or without that listener."""
        broker = self.snapshot.brokers.get(broker_id)
        return None if broker is None else broker.endpoints.get(listener)

    def topic_id(self, name: str) -> UUID | None:
        return self.snapshot.topic_ids.get(name)

    def topic_name(self, topic_id: UUID) -> str | None:
        return self.snapshot.topic_names.get(topic_id)

    # ---- the one write -------------------------------------------------------------------------

    def update(self, request: Any) -> list[TopicPartition]:
        """Take in an UpdateMetadataRequest (any version); return the partitions it deleted."""
        with self._update_lock:
            old = self.snapshot
            topic_ids = _merge_topic_ids(old.topic_ids, request)
            topics, deleted = _merge_partitions(old.topics, topic_ids, request)
            self.snapshot = MetadataSnapshot(
                version=old.version + 1,
                topics=topics,
                topic_ids=topic_ids,
                topic_names={i: name for name, i in topic_ids.items()},
                brokers={b.broker_id: b for b in _brokers(request)},
                controller_id=max(int(request.controller_id), NO_CONTROLLER),
            )
            return deleted


def _merge_partitions(
    current: Mapping[str, Mapping[int, PartitionState]], topic_ids: dict[str, UUID], request: Any
) -> tuple[dict[str, Mapping[int, PartitionState]], list[TopicPartition]]:
    """The partition states after an update, and what it deleted. Untouched topics are shared. A
    topic loses its id with its last partition; rows count in their order."""
    topics = dict(current)
    deleted: dict[TopicPartition, None] = {}
    for topic_state in request.topic_states:
        name = str(topic_state.topic_name)
        partitions = dict(topics.get(name, {}))
        for state in topic_state.partition_states:
            tp = TopicPartition(name, int(state.partition_index))
            if state.leader != LEADER_DURING_DELETE:
                partitions[tp.partition] = _partition_state(state)
                deleted.pop(tp, None)
                continue
            deleted[tp] = None
            if partitions:
                partitions.pop(tp.partition, None)
                if not partitions:
                    topic_ids.pop(name, None)
        if partitions:
            topics[name] = partitions
        else:
            topics.pop(name, None)
    return topics, list(deleted)


def _partition_state(state: Any) -> PartitionState:
    return PartitionState(
        leader=int(state.leader),
        leader_epoch=int(state.leader_epoch),
        isr=tuple(state.isr),
        replicas=tuple(state.replicas),
        offline_replicas=tuple(state.offline_replicas),
        controller_epoch=int(state.controller_epoch),
        partition_epoch=int(state.zk_version),
    )


def _merge_topic_ids(current: Mapping[str, UUID], request: Any) -> dict[str, UUID]:
    """Name -> id as an update tells it, partitions or not; a topic told without an id loses it.

    Before version 7 the request carries no ids at all, which Kafka also reads as "no id".
    """
    told = {str(t.topic_name): getattr(t, "topic_id", None) for t in request.topic_states}
    kept = {name: topic_id for name, topic_id in current.items() if name not in told}
    return kept | {name: topic_id for name, topic_id in told.items() if topic_id and topic_id.int}


def _brokers(request: Any) -> Iterable[AliveBroker]:
    for broker in request.live_brokers:
        endpoints = {str(e.listener): (str(e.host), int(e.port)) for e in broker.endpoints}
        yield AliveBroker(int(broker.id_), endpoints, broker.rack)

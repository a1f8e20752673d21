"""What the controller's requests say, apart from how their versions say it.

LeaderAndIsr has topic ids from version 5; StopReplica carries leader epochs from version 3 and one
delete flag for the whole request before that. Callers see one form.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

from nodes.core.epochs import NO_EPOCH
from nodes.core.types import TopicPartition
from nodes.replication.model import LeaderAndIsrState


class StopState(NamedTuple):
    """One partition of a StopReplica request."""

    tp: TopicPartition
    leader_epoch: int
    delete: bool


def leader_and_isr_states(request: Any) -> Iterator[LeaderAndIsrState]:
    """The partitions of a LeaderAndIsrRequest entity (versions 2 and later)."""
    for topic in request.topic_states:
        name = str(topic.topic_name)
        topic_id = known_topic_id(getattr(topic, "topic_id", None))
        for state in topic.partition_states:
            yield LeaderAndIsrState(
                tp=TopicPartition(name, int(state.partition_index)),
                topic_id=topic_id,
                controller_epoch=int(state.controller_epoch),
                leader=int(state.leader),
                leader_epoch=int(state.leader_epoch),
                isr=tuple(map(int, state.isr)),
                partition_epoch=int(state.partition_epoch),
                replicas=tuple(map(int, state.replicas)),
                adding_replicas=tuple(map(int, getattr(state, "adding_replicas", ()))),
                removing_replicas=tuple(map(int, getattr(state, "removing_replicas", ()))),
                is_new=bool(state.is_new),
            )


def stop_states(request: Any) -> Iterator[StopState]:
    """The partitions of a StopReplicaRequest entity."""
    if hasattr(request, "topic_states"):
        for topic in request.topic_states:
            for state in topic.partition_states:
                tp = TopicPartition(str(topic.topic_name), int(state.partition_index))
                yield StopState(tp, int(state.leader_epoch), bool(state.delete_partition))
        return
    for topic in request.topics:
        for index in topic.partition_indexes:
            tp = TopicPartition(str(topic.name), int(index))
            yield StopState(tp, NO_EPOCH, bool(request.delete_partitions))


def metadata_partitions(request: Any) -> Iterator[TopicPartition]:
    """The partitions of an UpdateMetadataRequest entity."""
    for topic in request.topic_states:
        name = str(topic.topic_name)
        for state in topic.partition_states:
            yield TopicPartition(name, int(state.partition_index))


def metadata_rows(request: Any) -> Iterator[dict[str, Any]]:
    """The partitions of an UpdateMetadataRequest as fields of `metadata_update` trace rows."""
    for topic in request.topic_states:
        for state in topic.partition_states:
            yield {
                "topic": str(topic.topic_name),
                "partition": int(state.partition_index),
                "leader": int(state.leader),
                "leader_epoch": int(state.leader_epoch),
                "controller_epoch": int(request.controller_epoch),
            }


def known_topic_id(topic_id: uuid.UUID | None) -> uuid.UUID | None:
    """The all-zero id stands for none."""
    return None if topic_id is None or topic_id.int == 0 else topic_id

"""Single sentences about what a broker answers to whom, each with its lawful twin."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.wire.apis import ApiKey
from nodes.wire.records import build_batch

BATCH = build_batch(
    [(None, b"value", 1_700_000_000_000)], producer_id=7, producer_epoch=1, base_sequence=0
)


def produce(node: Any) -> None:
    done: list[Any] = []
    node.manager.append_single(TopicPartition("t", 0), BATCH, 1, 0, done.append)
    assert done[0].error == 0


@pytest.mark.parametrize(("min_bytes", "waits"), [(1 << 30, False), (len(BATCH) + 1, True)])
def test_nobody_waits_for_more_than_an_answer_may_have(
    node: Any, min_bytes: int, waits: bool
) -> None:
    """KafkaApis.handleFetchRequest: fetchMinBytes is at most fetchMaxBytes."""
    node.lead("t")
    produce(node)
    row = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    reply = node.send(
        ApiKey.FETCH,
        11,
        replica_id=-1,
        max_wait=600_000,
        min_bytes=min_bytes,
        max_bytes=1 << 20 if waits else len(BATCH),
        topics=[{"topic": "t", "partitions": [row]}],
    )
    assert reply.is_done != waits


@pytest.mark.parametrize(("leader", "error"), [(1, 0), (2, Errors.NOT_LEADER_OR_FOLLOWER)])
def test_only_the_leader_knows_who_writes(node: Any, leader: int, error: int) -> None:
    """ReplicaManager.activeProducerState."""
    node.lead("t")
    produce(node)
    node.lead("t", leader=leader, leader_epoch=1)
    topics = [{"name": "t", "partition_indexes": [0]}]
    (topic,) = node.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics).topics
    (row,) = topic.partitions
    assert (row.error_code, len(row.active_producers)) == (error, 0 if error else 1)


@pytest.mark.parametrize(("high_watermark", "lag"), [(0, 0), (1, 0), (4, 3)])
def test_a_replica_lags_by_what_it_lacks(node: Any, high_watermark: int, lag: int) -> None:
    """Not by what it has beyond the high watermark (ReplicaManager.getLogEndOffsetLag)."""
    node.lead("t")
    produce(node)
    node.manager.partition(TopicPartition("t", 0)).high_watermark = high_watermark
    (directory,) = node.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None).results
    assert [p.offset_lag for t in directory.topics for p in t.partitions] == [lag]


def test_a_log_that_no_controller_has_named_is_shown_as_well(node: Any) -> None:
    """What another life left, before it is known whose it is (ReplicaManager.describeLogDirs)."""
    node.log_manager.get_or_create(TopicPartition("old", 0), None, None)
    (directory,) = node.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None).results
    assert [(t.name, p.offset_lag) for t in directory.topics for p in t.partitions] == [("old", -1)]


@pytest.mark.parametrize(
    ("name", "number", "error"),
    [("t", 0, 0), (None, 5, 0), ("t", 5, Errors.INVALID_REQUEST), ("", 5, Errors.INVALID_REQUEST)],
)
def test_a_topic_is_deleted_by_name_or_by_id(
    node: Any, name: str | None, number: int, error: int
) -> None:
    """Not by both (KafkaApis.handleDeleteTopicsRequest)."""
    node.lead("t", topic_id=UUID(int=5))
    topics = [{"name": name, "topic_id": UUID(int=number) if number else None}]
    answer = node.call(ApiKey.DELETE_TOPICS, 6, topics=topics, timeout=1000)
    assert [r.error_code for r in answer.responses] == [error]
    assert node.cache.contains("t") == bool(error)

"""Committed positions, as clients of different ages ask for them to be kept."""

from __future__ import annotations

import time
from typing import Any

import pytest

from nodes.core.types import TopicPartition
from nodes.groups.store import OFFSETS_TOPIC
from nodes.wire.apis import ApiKey

TP = TopicPartition("t", 0)
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS


def commit(node: Any, version: int, **fields: Any) -> None:
    topics = [
        {"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]},
    ]
    answer = node.call(
        ApiKey.OFFSET_COMMIT,
        version,
        group_id="g",
        generation_id_or_member_epoch=-1,
        topics=topics,
        **fields,
    )
    assert answer.topics[0].partitions[0].error_code == 0


def position(node: Any) -> Any:
    return node.groups.fetch_offsets("g", [TP])[1][TP]


@pytest.fixture
def coordinating(node: Any) -> Any:
    node.lead("t")
    node.lead(OFFSETS_TOPIC)
    deadline = time.monotonic() + 60
    while node.groups.list_groups(())[0]:
        assert time.monotonic() < deadline, "the groups were not loaded"
        time.sleep(0.005)
    return node


@pytest.mark.parametrize(("version", "asked_ms"), [(2, HOUR_MS), (4, 10 * WEEK_MS), (3, 0)])
def test_as_long_as_an_old_client_asked_for(coordinating: Any, version: int, asked_ms: int) -> None:
    commit(coordinating, version, retention_time=asked_ms)
    committed = position(coordinating)
    assert committed.expire_timestamp_ms == committed.commit_timestamp_ms + asked_ms


@pytest.mark.parametrize(
    ("asked_ms", "is_kept"),
    [(2**62, True), (10**17, True), (2**63 - 1, False), (-(2**63), False), (-2, False)],
)
def test_extreme_times_are_answered(coordinating: Any, asked_ms: int, is_kept: bool) -> None:
    """Kafka adds them to its clock, in a long: who asks for too much has nothing at the next look,
    and so has who asks for less than none."""
    commit(coordinating, 2, retention_time=asked_ms)
    assert position(coordinating) is not None
    coordinating.groups.expiration.run()
    assert (position(coordinating) is not None) == is_kept


@pytest.mark.parametrize(("version", "fields"), [(2, {"retention_time": -1}), (3, {}), (7, {})])
def test_otherwise_as_the_broker_is_configured(
    coordinating: Any, version: int, fields: Any
) -> None:
    commit(coordinating, version, **fields)
    assert position(coordinating).expire_timestamp_ms == -1
    groups, node = coordinating.groups, coordinating
    begun_ms = position(node).commit_timestamp_ms
    for passed_ms, is_kept in ((WEEK_MS - 1, True), (WEEK_MS, False)):
        groups.expiration._now_ms = lambda passed_ms=passed_ms: begun_ms + passed_ms
        groups.expiration.run()
        assert (position(node) is not None) == is_kept

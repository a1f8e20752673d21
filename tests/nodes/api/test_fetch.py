"""Fetch, ListOffsets and OffsetForLeaderEpoch as their clients see them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.replication.model import ListOffsetResult
from nodes.wire.apis import ApiKey
from nodes.wire.records import build_batch

BATCH = build_batch([(None, b"value", 1_700_000_000_000)])


def fetch(node: Any, version: int, *partitions: dict[str, Any], **more: Any) -> Any:
    fields: dict[str, Any] = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "topics": [
            {"topic": "t", "partitions": [{"partition_max_bytes": 1 << 20} | p for p in partitions]}
        ],
    }
    return node.call(ApiKey.FETCH, version, **(fields | more))


def produce(node: Any, count: int = 1) -> None:
    for _ in range(count):
        done: list[Any] = []
        node.manager.append_single(TopicPartition("t", 0), BATCH, 1, 0, done.append)
        assert done[0].error == 0


@pytest.mark.parametrize("version", range(4, 13))
def test_reads_what_was_produced(node: Any, version: int) -> None:
    node.lead("t")
    produce(node, 2)
    answer = fetch(node, version, {"partition": 0, "fetch_offset": 1})
    (partition,) = answer.responses[0].partitions
    assert partition.error_code == 0
    assert partition.high_watermark == partition.last_stable_offset == 2
    assert len(partition.records) == len(BATCH)
    assert int.from_bytes(partition.records[:8], "big") == 1


def test_by_the_id_of_a_topic(node: Any, topic_state: Callable[..., Any]) -> None:
    """KIP-516. Metadata may already tell of a topic that was made anew while the log is still that
    of its namesake: then neither is what the client asked for."""
    first, second = uuid.UUID(int=7), uuid.UUID(int=8)

    def fetched(topic_id: uuid.UUID) -> tuple[int, int, int]:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        topics = [{"topic_id": topic_id, "partitions": [partition]}]
        answer = fetch(node, 13, topics=topics, max_wait=0)
        ((row,),) = [topic.partitions for topic in answer.responses]
        assert [topic.topic_id for topic in answer.responses] == [topic_id]
        return row.error_code, row.high_watermark, len(row.records or b"")

    node.lead("t", topic_id=first)
    produce(node, 2)
    assert fetched(first) == (0, 2, 2 * len(BATCH))
    node.update_metadata([topic_state("t", [(0, 1, 0)], second)])
    assert fetched(second) == (Errors.INCONSISTENT_TOPIC_ID, -1, 0)
    assert fetched(first) == (Errors.UNKNOWN_TOPIC_ID, -1, 0)


def test_known_and_unknown_partitions(node: Any) -> None:
    node.lead("t")
    produce(node)
    answer = fetch(node, 11, {"partition": 7}, {"partition": 0})
    found = {p.partition_index: p for p in answer.responses[0].partitions}
    assert found[7].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert found[7].high_watermark == -1
    assert found[0].error_code == 0
    answer = fetch(node, 11, {"partition": 7}, max_wait=30_000)  # answered at once
    assert answer.responses[0].partitions[0].error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(
    ("session_id", "session_epoch", "error"),
    [
        (0, 0, Errors.NONE),
        (0, -1, Errors.NONE),
        (5, 0, Errors.NONE),  # wants a new session in place of an old one
        (5, -1, Errors.NONE),  # closes its session
        (5, 1, Errors.FETCH_SESSION_ID_NOT_FOUND),
        (0, 1, Errors.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
def test_sessions_are_declined(
    node: Any, session_id: int, session_epoch: int, error: Errors
) -> None:
    node.lead("t")
    session = {"session_id": session_id, "session_epoch": session_epoch}
    answer = fetch(node, 11, {"partition": 0}, **session)
    assert (answer.error_code, answer.session_id) == (error, 0)
    assert bool(answer.responses) is not bool(error)


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [(-1, 0), (3, 0), (2, Errors.FENCED_LEADER_EPOCH), (4, Errors.UNKNOWN_LEADER_EPOCH)],
)
def test_leader_epochs(node: Any, leader_epoch: int, error: int) -> None:
    node.lead("t", leader_epoch=3)
    asked = {"partition": 0, "current_leader_epoch": leader_epoch}
    assert fetch(node, 11, asked).responses[0].partitions[0].error_code == error
    answer = node.call(
        ApiKey.LIST_OFFSETS,
        4,
        replica_id=-1,
        topics=[{"name": "t", "partitions": [{"timestamp": -1, "partition_index": 0}
                | {"current_leader_epoch": leader_epoch}]}],
    )  # fmt: skip
    assert answer.topics[0].partitions[0].error_code == error
    answer = node.call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        3,
        replica_id=-1,
        topics=[{"topic": "t", "partitions": [
            {"partition": 0, "current_leader_epoch": leader_epoch, "leader_epoch": 3}]}],
    )  # fmt: skip
    row = answer.topics[0].partitions[0]
    assert row.error_code == error
    assert (row.leader_epoch, row.end_offset) == ((3, 0) if not error else (-1, -1))


def test_waits_for_data_until_the_deadline(node: Any) -> None:
    node.lead("t")
    reply = node.send(
        ApiKey.FETCH,
        11,
        replica_id=-1,
        max_wait=60_000,
        min_bytes=1,
        max_bytes=1000,
        topics=[{"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 100}]}],
    )
    assert not reply.is_done
    produce(node)
    assert BATCH[21:] in (reply.wait() or b"")


@pytest.mark.parametrize("version", range(1, 8))
def test_list_offsets(node: Any, version: int) -> None:
    node.lead("t")
    produce(node, 3)
    wanted = {-1: 3, -2: 0}
    for timestamp_ms, offset in wanted.items():
        asked = {"partition_index": 0, "timestamp": timestamp_ms}
        answer = node.call(
            ApiKey.LIST_OFFSETS, version, replica_id=-1,
            topics=[{"name": "t", "partitions": [asked]}],
        )  # fmt: skip
        row = answer.topics[0].partitions[0]
        assert (row.error_code, row.offset) == (0, offset)


@pytest.mark.parametrize(
    ("timestamp_ms", "version", "error"),
    [(-3, 6, 35), (-3, 7, 0), (-4, 7, 35), (-9, 7, 35), (5, 1, 0)],
)
def test_special_timestamps(node: Any, timestamp_ms: int, version: int, error: int) -> None:
    node.lead("t")
    asked = {"partition_index": 0, "timestamp": timestamp_ms}
    answer = node.call(
        ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=[{"name": "t", "partitions": [asked]}]
    )
    assert answer.topics[0].partitions[0].error_code == error


def test_duplicates_and_old_error_codes(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    node.lead("t")
    asked = {"partition_index": 0, "timestamp": -1}
    topics = [{"name": "t", "partitions": [asked, asked]}]
    answer = node.call(ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=topics)
    errors = {row.error_code for row in answer.topics[0].partitions}
    assert errors == {Errors.INVALID_REQUEST}
    unavailable = ListOffsetResult(int(Errors.OFFSET_NOT_AVAILABLE))
    monkeypatch.setattr(node.manager, "list_offset", lambda *_: unavailable)
    topics[0]["partitions"] = [asked]
    for version, error in ((4, Errors.LEADER_NOT_AVAILABLE), (5, Errors.OFFSET_NOT_AVAILABLE)):
        answer = node.call(ApiKey.LIST_OFFSETS, version, replica_id=-1, topics=topics)
        assert answer.topics[0].partitions[0].error_code == error


@pytest.mark.parametrize(
    ("replica_id", "is_followers"), [(-2, False), (-1, False), (0, True), (3, True)]
)
@pytest.mark.parametrize("is_incremental", [False, True])
def test_whose_fetch_it_is(
    node: Any, replica_id: int, is_followers: bool, is_incremental: bool
) -> None:
    """FetchRequest.isFromFollower: of a broker, by its id; known also of one that is refused."""
    reply = node.send(
        ApiKey.FETCH,
        12,
        replica_id=replica_id,
        max_wait=0,
        session_epoch=1 if is_incremental else -1,
        topics=[],
    )
    assert reply.wait()
    assert reply.request.is_followers is is_followers

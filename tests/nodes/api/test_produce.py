"""Produce: what is refused before a log sees it, the answers by acks, and the short way."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.api.parse import parse
from nodes.api.produce import validate_records
from nodes.api.produce_frame import SingleProduce, parse_single_produce
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.network.request_channel import Request
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import (
    WireError,
    build,
    decode_response,
    encode_request,
    parse_body,
    parse_header,
)
from nodes.wire.produce_codec import decode_produce_response
from nodes.wire.records import build_batch

BATCH = build_batch([(None, b"value", 1_700_000_000_000)])


def data(*partitions: tuple[int, bytes], topic: str = "t") -> dict[str, Any]:
    return {
        "name": topic,
        "partition_data": [{"index": i, "records": records} for i, records in partitions],
    }


def produce(node: Any, topics: list[Any], *, acks: int = 1, version: int = 9, **more: Any) -> Any:
    return node.send(
        ApiKey.PRODUCE,
        version,
        transactional_id=None,
        acks=acks,
        timeout=500,
        topic_data=topics,
        **more,
    )


def results(reply: Any, version: int = 9) -> list[tuple[str, int, int, int]]:
    frame = reply.wait()
    _, rows = decode_produce_response(version, frame[4:])
    return [row[:4] for row in rows]


@pytest.mark.parametrize("acks", [1, -1])
def test_offsets_come_back(node: Any, acks: int) -> None:
    node.lead("t")
    for offset in range(3):
        reply = produce(node, [data((0, BATCH))], acks=acks)
        assert results(reply) == [("t", 0, 0, offset)]


def test_several_partitions_keep_their_order(node: Any) -> None:
    node.lead("t", 2)
    reply = produce(node, [data((1, BATCH), (0, BATCH), (7, BATCH)), data((0, BATCH), topic="u")])
    unknown = int(Errors.UNKNOWN_TOPIC_OR_PARTITION)
    assert results(reply) == [
        ("t", 1, 0, 0),
        ("t", 0, 0, 0),
        ("t", 7, unknown, -1),
        ("u", 0, unknown, -1),
    ]


def test_acks_0(node: Any) -> None:
    node.lead("t")
    assert produce(node, [data((0, BATCH))], acks=0).wait() == b""
    assert produce(node, [data((7, BATCH))], acks=0).wait() is None  # closes
    assert produce(node, [data((0, BATCH), (7, BATCH))], acks=0).wait() is None
    assert results(produce(node, [data((0, BATCH))])) == [("t", 0, 0, 2)]


def test_a_follower_refuses(node: Any) -> None:
    node.lead("t", leader=2)
    not_leader = int(Errors.NOT_LEADER_OR_FOLLOWER)
    assert results(produce(node, [data((0, BATCH))])) == [("t", 0, not_leader, -1)]


def test_strange_acks(node: Any) -> None:
    node.lead("t")
    error = int(Errors.INVALID_REQUIRED_ACKS)
    assert results(produce(node, [data((0, BATCH))], acks=2)) == [("t", 0, error, -1)]


def test_internal_topics_are_the_brokers_own(node: Any) -> None:
    node.lead("__consumer_offsets", 2)
    topics = [data((0, BATCH), topic="__consumer_offsets")]
    assert results(produce(node, topics))[0][2] == Errors.INVALID_TOPIC_EXCEPTION
    assert results(produce(node, topics, client_id="__admin_client"))[0][2] == 0


def test_transactional_records_fail_the_request(node: Any) -> None:
    node.lead("t", 2)
    transactional = build_batch([(None, b"v", 1)], attributes=0x10)
    for topics in ([data((0, transactional))], [data((1, BATCH), (0, transactional))]):
        assert {row[2] for row in results(produce(node, topics))} == {53}


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, Errors.INVALID_RECORD),
        (b"", Errors.INVALID_RECORD),
        (BATCH[:40], Errors.INVALID_RECORD),
        (BATCH[:-1], Errors.INVALID_RECORD),
        (BATCH + BATCH, Errors.INVALID_RECORD),
        (BATCH[:8] + struct.pack(">i", 3) + BATCH[12:], Errors.CORRUPT_MESSAGE),
        (BATCH[:16] + b"\1" + BATCH[17:], Errors.INVALID_RECORD),
        (BATCH[:16] + b"\3" + BATCH[17:], Errors.CORRUPT_MESSAGE),
        (BATCH[:8] + struct.pack(">i", 20) + BATCH[12:32], Errors.CORRUPT_MESSAGE),
        (BATCH, Errors.NONE),
    ],
)
def test_exactly_one_batch_of_magic_2(records: bytes | None, error: Errors) -> None:
    assert validate_records(records, 9) == error


def test_zstd_came_with_version_7() -> None:
    zstd = BATCH[:22] + b"\4" + BATCH[23:]
    assert validate_records(zstd, 6) == Errors.UNSUPPORTED_COMPRESSION_TYPE
    assert validate_records(zstd, 7) == Errors.NONE


# ---- the short way -----------------------------------------------------------------------------

names = st.text(min_size=0, max_size=140)
requests = st.fixed_dictionaries(
    {
        "transactional_id": st.none() | st.text(max_size=3),
        "acks": st.sampled_from([-1, 0, 1]),
        "timeout": st.integers(0, 2**31 - 1),
        "topic_data": st.lists(
            st.fixed_dictionaries(
                {
                    "name": names,
                    "partition_data": st.lists(
                        st.fixed_dictionaries(
                            {
                                "index": st.integers(0, 2**31 - 1),
                                "records": st.binary(min_size=0, max_size=300),
                            }
                        ),
                        max_size=2,
                    ),
                }
            ),
            min_size=1,
            max_size=2,
        ),
    }
)


@given(st.integers(3, 11), requests, st.text(max_size=20))
def test_the_short_way_reads_the_same(version: int, fields: dict[str, Any], client_id: str) -> None:
    entity = build(request_class(ApiKey.PRODUCE, version), **fields)
    frame = encode_request(entity, 5, client_id)[4:]
    header = parse_header(frame)
    body = parse_body(header, frame)
    short = parse_single_produce(frame)
    if short is None:
        topics = body.topic_data
        single = len(topics) == 1 and len(topics[0].partition_data) == 1
        assert not single or body.transactional_id is not None or len(topics[0].name) > 40
        return
    own_header, own = short
    assert own_header.correlation_id == header.correlation_id
    assert own_header.client_id == header.client_id
    assert own_header.api_version == header.api_version
    (topic,), (own_topic,) = body.topic_data, own.topic_data
    (partition,), (own_partition,) = topic.partition_data, own_topic.partition_data
    assert (own_topic.name, own_partition.index) == (topic.name, partition.index)
    assert own_partition.records == partition.records
    assert own.acks == body.acks
    assert own.timeout_ms == fields["timeout"]


@given(st.integers(3, 11), st.data())
def test_a_cut_frame_never_passes_the_short_way(version: int, draw: st.DataObject) -> None:
    fields = {"transactional_id": None, "acks": 1, "timeout": 5, "topic_data": [data((0, BATCH))]}
    entity = build(request_class(ApiKey.PRODUCE, version), **fields)
    frame = encode_request(entity, 5, "client")[4:]
    assert isinstance(parse(frame)[1], SingleProduce)
    cut = frame[: draw.draw(st.integers(0, len(frame) - 1))]
    assert parse_single_produce(cut) is None
    with pytest.raises(WireError):
        parse(cut)


@given(st.binary(max_size=200))
def test_garbage_is_no_produce(garbage: bytes) -> None:
    parse_single_produce(b"\0\0" + garbage)  # whatever it says, it does not raise


@pytest.mark.parametrize(
    ("partitions", "errors"), [([0], None), ([7], [3]), ([0, 7], [0, 3]), ([0, 7, 8], [0, 3, 3])]
)
def test_a_closed_connections_errors_are_counted(
    node: Any, partitions: list[int], errors: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RequestChannel.closeConnection: each partition's error of an acks=0 produce, NONE among them,
    though nobody is told of it."""
    node.lead("t")
    ended: list[Any] = []
    close = Request.close_connection

    def noted(request: Request) -> None:
        ended.append(sorted(request.errors or ()))
        close(request)

    monkeypatch.setattr(Request, "close_connection", noted)
    produce(node, [data(*((p, BATCH) for p in partitions))], acks=0).wait()
    assert ended == ([] if errors is None else [errors])


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("others", [False, True])
def test_a_refusal_tells_the_logs_start(node: Any, acks: int, others: bool) -> None:
    """As Kafka does, but for refusals that every client knows how to take."""
    node.lead("t", 2)
    for _ in range(3):
        produce(node, [data((0, BATCH))]).wait()
    own_log = node.manager.partition(TopicPartition("t", 0)).log
    assert own_log.advance_log_start_offset(2, "test")

    def refused(records: bytes) -> tuple[int, int]:
        rows = [(0, records), (1, BATCH)] if others else [(0, records)]
        frame = produce(node, [data(*rows)], acks=acks, version=8).wait()
        result = decode_produce_response(8, frame[4:])[1][0]
        assert result.base_offset == -1
        return result.error, result.log_start_offset

    rows = [(None, b"value", 1)]
    sequenced = build_batch(rows, producer_id=1, producer_epoch=0, base_sequence=0)
    produce(node, [data((0, sequenced))]).wait()
    gap = build_batch(rows, producer_id=1, producer_epoch=0, base_sequence=5)
    assert refused(gap) == (Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, 2)
    broken = BATCH[:-1] + b"\1"
    assert refused(broken) == (Errors.CORRUPT_MESSAGE, -1)


@pytest.mark.parametrize("version", [7, 8, 9, 11])
def test_record_errors_come_back(node: Any, version: int) -> None:
    """KIP-467: from version 8 on a client learns which records were at fault."""
    node.lead("t")
    own_log = node.manager.partition(TopicPartition("t", 0)).log
    own_log.config = dataclasses.replace(own_log.config, cleanup_policy="compact")
    records = build_batch([(b"k", b"v", 1), (None, b"v", 1)])
    frame = produce(node, [data((0, records))], version=version).wait()
    _, answer = decode_response(ApiKey.PRODUCE, version, frame[4:])
    row = answer.responses[0].partition_responses[0]
    assert int(row.error_code) == Errors.INVALID_RECORD
    assert row.log_start_offset == 0
    if version < 8:
        return
    why = "Compacted topic cannot accept message without key in topic partition t-0"
    assert [(e.batch_index, e.batch_index_error_message) for e in row.record_errors] == [(1, why)]
    assert row.error_message.startswith("One or more records have been rejected due to 1 record")

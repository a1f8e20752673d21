"""ProduceResponse and FetchResponse by hand, against the general codec."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodes.wire.apis import ApiKey, response_class
from nodes.wire.codec import WireError, build, decode_response, encode_response
from nodes.wire.fetch_codec import FetchedPartition, FetchFrame, encode_fetch_response
from nodes.wire.produce_codec import (
    PartitionResult,
    decode_produce_response,
    encode_produce_response,
)

RESULTS = [
    PartitionResult("a", 0, 0, 17, -1, 3),
    PartitionResult("a", 4, 6),
    PartitionResult("bé", 1, 0, 2**40, 1_700_000_000_000, 0),
    PartitionResult("c", 2, 87, -1, -1, 5, ((0, "é" * 100), (70, "no key")), "two records"),
]


@pytest.mark.parametrize("version", range(3, 12))
@pytest.mark.parametrize("count", range(5))
def test_produce_response_is_what_the_general_codec_writes(version: int, count: int) -> None:
    results = RESULTS[4 - count :]
    topics: dict[str, list[dict[str, object]]] = {}
    for result in results:
        topics.setdefault(result.topic, []).append(
            {
                "index": result.partition,
                "error_code": result.error,
                "base_offset": result.base_offset,
                "log_append_time": result.log_append_time_ms,
                "log_start_offset": result.log_start_offset,
                "record_errors": [
                    {"batch_index": index, "batch_index_error_message": why}
                    for index, why in result.record_errors
                ],
                "error_message": result.error_message,
            }
        )
    answer = build(
        response_class(ApiKey.PRODUCE, version),
        responses=[
            {"name": name, "partition_responses": partitions} for name, partitions in topics.items()
        ],
        throttle_time=9,
    )
    frame = encode_produce_response(version, 5, results, throttle_ms=9)
    assert frame == encode_response(ApiKey.PRODUCE, version, 5, answer)
    _, decoded = decode_produce_response(version, frame[4:])
    assert [row[:5] for row in decoded] == [row[:5] for row in results]


@pytest.mark.parametrize("version", range(3, 12))
def test_produce_response_keeps_milliseconds(version: int) -> None:
    results = [PartitionResult("t", 0, 0, 5, 1_700_000_000_123, -1)]
    frame = encode_produce_response(version, 6, results)
    assert decode_produce_response(version, frame[4:]) == (6, results)


@settings(max_examples=200, deadline=None)
@given(st.integers(3, 11), st.binary(max_size=60))
def test_hostile_produce_responses(version: int, payload: bytes) -> None:
    with contextlib.suppress(WireError):
        decode_produce_response(version, payload)


@pytest.mark.parametrize("version", range(4, 14))
def test_fetch_response_is_what_the_general_codec_reads(version: int) -> None:
    partitions = [
        FetchedPartition(0, 0, 10, 10, 1, b"records" * 30),
        FetchedPartition(3, 1, -1, -1, -1, memoryview(b""), 2, (4, 99)),
    ]
    topics = ["t", "u"] if version < 13 else [uuid.UUID(int=7), uuid.UUID(int=8)]
    rows = list(zip(topics, (partitions, []), strict=True))
    frame = encode_fetch_response(version, 8, rows, error=0, session_id=0, throttle_ms=7).whole()

    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    correlation_id, answer = decode_response(ApiKey.FETCH, version, frame[4:])
    assert correlation_id == 8
    assert encode_response(ApiKey.FETCH, version, 8, answer) == frame
    first, second = answer.responses[0].partitions
    assert (first.partition_index, first.high_watermark, first.records) == (0, 10, b"records" * 30)
    assert int(second.error_code) == 1
    if version >= 13:
        assert [topic.topic_id for topic in answer.responses] == topics
    if version >= 11:
        assert second.preferred_read_replica == 2
    if version >= 12:
        assert (second.diverging_epoch.epoch, second.diverging_epoch.end_offset) == (4, 99)
        assert first.diverging_epoch.epoch == -1


class Stored:
    """Records that note what was asked of them."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.asked: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self.data)

    def read_into(self, buffer: memoryview, start: int) -> None:
        self.asked.append((start, len(buffer)))
        buffer[:] = self.data[start : start + len(buffer)]


@pytest.mark.parametrize("version", [4, 12, 13])
@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300), max_size=4),
    piece=st.integers(1, 400),
)
def test_a_fetch_response_in_pieces_is_the_same(version: int, sizes: list[int], piece: int) -> None:
    stored = [Stored(bytes(i for _ in range(size))) for i, size in enumerate(sizes)]

    def frame(records: list[Any]) -> FetchFrame:
        rows = [FetchedPartition(i, 0, 1, 1, 0, data) for i, data in enumerate(records)]
        topic = "t" if version < 13 else uuid.UUID(int=7)
        return encode_fetch_response(version, 8, [(topic, rows)])

    expected = frame([each.data for each in stored]).whole()
    pieces = frame(list(stored))
    found, buffer = b"", bytearray(piece)
    while len(pieces):
        before = len(pieces)
        with memoryview(buffer) as view:
            count = pieces.fill(view)
        assert count == min(piece, before) == before - len(pieces)
        found += buffer[:count]
    assert found == expected
    for each in stored:  # each byte once, in order, none before its turn
        assert sum(size for _, size in each.asked) == len(each)
        assert [start for start, _ in each.asked] == sorted({start for start, _ in each.asked})


def test_records_of_a_fetch_response_are_not_looked_at_before_they_are_sent() -> None:
    stored = Stored(b"x" * 1000)
    frame = encode_fetch_response(4, 8, [("t", [FetchedPartition(0, 0, 1, 1, 0, stored)])])
    assert not stored.asked
    fixed = len(frame) - len(stored)
    with memoryview(bytearray(fixed)) as view:
        assert frame.fill(view) == fixed
    assert not stored.asked
    with memoryview(bytearray(10)) as view:
        assert frame.fill(view) == 10
    assert stored.asked == [(0, 10)]

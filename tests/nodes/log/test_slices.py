"""Slices say where batches are; their bytes are there until a truncation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log import Log, LogConfig
from nodes.log.slices import OffsetPosition, StaleSlice
from nodes.wire.records import build_batch

NOW_MS = 1_700_000_000_000
BATCH = build_batch([(None, b"v" * 400, NOW_MS)])


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Three batches a segment."""
    config = LogConfig(segment_bytes=3 * len(BATCH) + 10)
    return Log.open(
        tmp_path / "t-0",
        TopicPartition("t", 0),
        config,
        clean_shutdown=True,
        now_ms=lambda: NOW_MS,
    )


def append(log: Log, count: int) -> None:
    for _ in range(count):
        log.append_as_leader(BATCH, 0)


def part(found: Any, start: int, size: int) -> bytes:
    data = bytearray(size)
    with memoryview(data) as view:
        found.read_into(view, start)
    return bytes(data)


@pytest.mark.parametrize("offset", range(7))
@pytest.mark.parametrize("max_bytes", [1, 2 * len(BATCH), 1 << 20])
@pytest.mark.parametrize("max_offset", [None, 5])
def test_a_slice_is_what_a_read_gives(
    log: Log, offset: int, max_bytes: int, max_offset: int | None
) -> None:
    append(log, 7)
    data = log.read(offset, max_bytes, max_offset=max_offset)
    found = log.slice(offset, max_bytes, max_offset=max_offset)
    if not data:
        assert found is None
        return
    assert found is not None
    assert len(found) == len(data)
    assert found.read() == data == part(found, 0, len(data))
    assert part(found, 100, 200) == data[100:300]


def test_offsets_outside_of_the_log_have_no_slice(log: Log) -> None:
    append(log, 2)
    assert log.slice(2, 1 << 20) is None
    for offset in (-1, 3):
        with pytest.raises(ApiError) as caught:
            log.slice(offset, 1 << 20)
        assert caught.value.error is Errors.OFFSET_OUT_OF_RANGE


def test_where_offsets_are(log: Log) -> None:
    size = len(BATCH)
    assert log.position_of(0) == OffsetPosition(0, 0, 0)
    append(log, 3)
    assert log.position_of(2) == OffsetPosition(2, 0, 2 * size)
    assert log.position_of(3) == OffsetPosition(3, 0, 3 * size)  # the end, nothing rolled yet
    append(log, 2)
    assert log.position_of(3) == OffsetPosition(3, 3, 0)
    assert log.position_of(5) == OffsetPosition(5, 3, 2 * size)


def test_the_end_of_the_log_is_known_without_a_look(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, 5)

    def forbidden(*_: Any) -> bytes:
        raise AssertionError("read")

    monkeypatch.setattr(os, "pread", forbidden)
    assert log.position_of(5).position == 2 * len(BATCH)
    with pytest.raises(AssertionError):
        log.position_of(4)


def test_after_a_truncation_nothing_is_given(log: Log) -> None:
    append(log, 2)
    found = log.slice(0, 1 << 20)
    assert found is not None
    append(log, 6)  # more of it, and new segments: nobody's business
    assert found.read() == log.read(0, 2 * len(BATCH))
    log.truncate_to(1)
    append(log, 1)  # and other records in the same place
    for call in (found.read, lambda: part(found, 0, 10)):
        with pytest.raises(StaleSlice):
            call()
    assert len(log.read(0, 1 << 20)) == 2 * len(BATCH)


def test_a_truncation_during_the_reading_is_noticed(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(log, 2)
    found = log.slice(0, 1 << 20)
    assert found is not None
    real = os.preadv

    def cut_then_read(fd: int, buffers: Any, at: int) -> int:
        log.truncate_to(1)
        append(log, 1)
        return real(fd, buffers, at)

    monkeypatch.setattr(os, "preadv", cut_then_read)
    with pytest.raises(StaleSlice):
        part(found, 0, len(found))


def test_a_deleted_segment_can_still_be_read_where_it_was_found(log: Log) -> None:
    append(log, 7)
    data, found = log.read(0, 1 << 20), log.slice(0, 1 << 20)
    assert found is not None
    log.advance_log_start_offset(6, "for the test")
    log.delete_old_segments(high_watermark=7, now_ms=0)
    assert log.segment_count == 1
    assert found.read() == data


def test_a_file_that_is_shorter_than_it_should_be_is_an_error(log: Log) -> None:
    append(log, 2)
    found = log.slice(0, 1 << 20)
    assert found is not None
    os.truncate(next(log.dir.glob("*.log")), len(BATCH))
    for call in (found.read, lambda: part(found, 0, len(found))):
        with pytest.raises(OSError, match="ends before"):
            call()
    assert part(found, 16, len(BATCH) - 16) == BATCH[16:]

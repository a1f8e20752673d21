"""Reads beside a writer: what is half done is not there yet, what is cut is looked for anew.

Each test makes the change happen at the one moment that matters.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodes.core.errors import ApiError, Errors
from nodes.log import Log
from nodes.log.indexes import OffsetIndex, TimeIndex
from nodes.log.segment import Segment
from nodes.wire.records import HEADER_SIZE
from tests.nodes.log.logs import NOW_MS, batch, contents, open_log

LATE_MS = NOW_MS + 1000


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Ten batches of one record in a few segments, one index entry for each."""
    log = open_log(tmp_path, segment_bytes=300, index_interval_bytes=0)
    for number in range(10):
        log.append_as_leader(batch(b"%020d" % number, timestamp_ms=NOW_MS + number), 0)
    assert log.segment_count > 2
    return log


def between(
    monkeypatch: pytest.MonkeyPatch, name: str, change: Callable[[], object], *, after: bool
) -> None:
    """`change` comes once, before or after a segment's method did its part."""
    real, pending = getattr(Segment, name), [change]

    def with_change(self: Segment, *args: Any, **options: Any) -> Any:
        if pending and not after:
            pending.pop()()
        found = real(self, *args, **options)
        if pending and after:
            pending.pop()()
        return found

    monkeypatch.setattr(Segment, name, with_change)


def test_a_batch_is_not_there_before_its_append_is_done(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, end = contents(log), log.position_of(10)
    seen: list[object] = []

    def look() -> None:
        seen.append(contents(log) == before)
        seen.append(log.slice(9, 1 << 20, max_offset=20).read() == log.read(9, 1 << 20))  # type: ignore[union-attr]
        seen.append(len(log.read(9, 1 << 20)) == len(log.read(8, 1)))
        seen.append(log.position_of(10) == end)
        seen.append(log.offset_for_timestamp(LATE_MS) is None)
        seen.append(log.end_offset_for_epoch(0) == (0, 10))
        with pytest.raises(ApiError) as refused:
            log.read(11, 1)
        seen.append(refused.value.error is Errors.OFFSET_OUT_OF_RANGE)

    between(monkeypatch, "append", look, after=True)
    log.append_as_leader(batch(b"x", timestamp_ms=LATE_MS), 0)
    assert seen == [True] * 7
    assert contents(log)[-1] == (10, b"x")
    assert log.offset_for_timestamp(LATE_MS) == (LATE_MS, 10, 0)


def cut_and_refill(log: Log) -> None:
    log.truncate_to(7)
    for number in range(5):
        log.append_as_leader(batch(b"new%030d" % number, timestamp_ms=LATE_MS), 1)


@pytest.mark.parametrize("after", [False, True])
def test_records_are_looked_for_anew(
    log: Log, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    between(monkeypatch, "position_of", lambda: cut_and_refill(log), after=after)
    found = log.slice(9, 1 << 20)
    assert found is not None
    assert b"new%030d" % 2 in found.read()


@pytest.mark.parametrize("after", [False, True])
def test_positions_are_looked_for_anew(
    log: Log, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    stale = log.position_of(9)

    def another_batch() -> None:
        log.truncate_to(7)
        log.append_as_leader(batch(b"7", b"8", b"9"), 1)

    between(monkeypatch, "position_of", another_batch, after=after)
    assert log.position_of(9) == log.position_of(7)._replace(offset=9) != stale


@pytest.mark.parametrize("after", [False, True])
def test_times_are_looked_for_anew(log: Log, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    between(monkeypatch, "position_for_timestamp", lambda: cut_and_refill(log), after=after)
    assert log.offset_for_timestamp(NOW_MS + 9) == (LATE_MS, 7, 1)


def test_bytes_that_are_gone_are_looked_for_anew(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between finding a batch and reading its header."""
    real, pending = os.pread, [True]

    def cut_first(fd: int, size: int, position: int) -> bytes:
        if size == HEADER_SIZE and pending:
            pending.pop()
            log.truncate_to(9)
            log.append_as_leader(batch(b"new", timestamp_ms=LATE_MS), 1)
            log.truncate_to(9)
        return real(fd, size, position)

    monkeypatch.setattr(os, "pread", cut_first)
    assert log.offset_for_timestamp(NOW_MS + 9) is None
    assert not pending


def test_an_offset_that_was_cut_off_meanwhile_is_out_of_range(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    between(monkeypatch, "position_of", lambda: log.truncate_to(5), after=False)
    with pytest.raises(ApiError) as refused:
        log.slice(9, 1 << 20)
    assert refused.value.error is Errors.OFFSET_OUT_OF_RANGE


def test_a_read_goes_on_in_segments_that_go(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention is no truncation: what was found may still be sent."""

    def retain() -> None:
        log.advance_log_start_offset(9, "test")
        assert log.delete_old_segments(10, NOW_MS) > 0

    between(monkeypatch, "end_of_read", retain, after=False)
    found = log.slice(0, 1 << 20)
    assert found is not None
    assert found.read()
    with pytest.raises(ApiError):
        log.slice(0, 1 << 20)


def test_an_index_that_is_cut_leaves_its_readers_both_halves(tmp_path: Path) -> None:
    log = open_log(tmp_path, index_interval_bytes=0)
    for number in range(10):
        log.append_as_leader(batch(b"%d" % number, timestamp_ms=NOW_MS + number), 0)
    segment = log._segments[-1]
    held = [*segment._index.entries, *segment._times.entries]
    before = [list(half) for half in held]
    log.truncate_to(5)
    assert [list(half) for half in held] == before
    assert len(segment._index) < len(before[0])
    assert len(segment._times) < len(before[2])


@pytest.mark.parametrize("kind", [OffsetIndex, TimeIndex])
def test_what_an_index_finds_is_there_when_it_is_found(
    tmp_path: Path, kind: type[OffsetIndex] | type[TimeIndex]
) -> None:
    """Searches go by the first half, and take what they find from the second."""
    index = kind(tmp_path / f"{0:020d}.log", 0)
    found = index.entries[1]
    ahead: list[int] = []

    class Searched(array):  # type: ignore[type-arg]
        def append(self, value: int) -> None:
            ahead.append(len(found) - len(self))
            super().append(value)

    index.entries = (Searched("q"), found)
    for number in range(3):
        index.note(NOW_MS + number, number)
    assert ahead == [1, 1, 1]
    assert list(found) == [0, 1, 2]

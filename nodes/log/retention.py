"""What of a log may go for good, and why (Kafka's UnifiedLog.deleteOldSegments).

Segments go as a whole, oldest first, up to the first that must stay; only those whose records all
lie below the high watermark, so that the log's start never passes it. The active segment goes like
any other (the log then gets a new one), unless it is empty. By

- start offset: another reason moved the log's start beyond it (DeleteRecords, or a follower's
  leader). The only one that also holds for a log that is compacted and not deleted.
- size: what remains without it is still at least `retention.bytes`.
- time: its newest record is older than `retention.ms`. A segment whose records carry no timestamp
  is as old as its file's last modification.

Pure: sizes in bytes, times in wall-clock milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from nodes.log.config import LogConfig

START_OFFSET: Final = "log start offset breach"
SIZE: Final = "retention size breach"
TIME: Final = "retention time breach"


class Retained(Protocol):
    """What retention asks of a segment."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def largest_timestamp_ms(self) -> int: ...


class LogState(NamedTuple):
    """The log around its segments."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int


def expired(
    segments: Sequence[Retained], log: LogState, config: LogConfig, now_ms: int
) -> tuple[int, str]:
    """How many of the first segments go, for the first reason that takes any; (0, "") for none.

    Ask again after they went: the next reason may take more.
    """
    count = _by_start(segments, log)
    if count:
        return count, START_OFFSET
    if "delete" in config.cleanup_policy:
        count = _by_size(segments, log, config.retention_bytes)
        if count:
            return count, SIZE
        count = _by_time(segments, log, config.retention_ms, now_ms)
        if count:
            return count, TIME
    return 0, ""


def _committed(segments: Sequence[Retained], log: LogState) -> Iterator[tuple[Retained, int]]:
    """The segments wholly below the high watermark, each with the offset that follows it; without
    an active one that is empty."""
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        end = log.log_end_offset if following is None else following.base_offset
        if end > log.high_watermark or (following is None and not segment.size_bytes):
            return
        yield segment, end


def _by_start(segments: Sequence[Retained], log: LogState) -> int:
    committed = list(_committed(segments, log))[: len(segments) - 1]
    return sum(end <= log.log_start_offset for _, end in committed)


def _by_size(segments: Sequence[Retained], log: LogState, retention_bytes: int) -> int:
    surplus = sum(segment.size_bytes for segment in segments) - retention_bytes
    if retention_bytes < 0 or surplus < 0:
        return 0
    count = 0
    for segment, _ in _committed(segments, log):
        surplus -= segment.size_bytes
        if surplus < 0:
            break
        count += 1
    return count


def _by_time(segments: Sequence[Retained], log: LogState, retention_ms: int, now_ms: int) -> int:
    if retention_ms < 0:
        return 0
    count = 0
    for segment, _ in _committed(segments, log):
        if now_ms - segment.largest_timestamp_ms <= retention_ms:
            break
        count += 1
    return count

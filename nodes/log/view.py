"""A log as whoever reads it sees it: its segments, and where it ends (what Kafka's LocalLog keeps
in a concurrent map and in nextOffsetMetadata).

Reads take no lock of the log's, or they would wait for the disk behind every append. A view never
changes: an append makes a new one once its batch is written, so nothing that is still being written
can be found. Indexes and sizes of a segment only grow meanwhile, in an order in which a search that
runs beside it finds its way. What does not only grow is a truncation: it is counted before it cuts,
and a search that has seen another count than its view has begins anew (`nodes.log.log`).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from nodes.log.segment import Segment
from nodes.log.slices import LogSlice, OffsetPosition, Truncatable
from nodes.wire.errors import WireError
from nodes.wire.records import iter_records


class LogView(NamedTuple):
    """`segments`: at least one, the last one active; `end_offset`: the next to be written, at
    `end_position` of the active segment. `truncations`: how many there had been."""

    segments: tuple[Segment, ...]
    end_offset: int
    end_position: int
    truncations: int

    @property
    def end(self) -> OffsetPosition:
        return OffsetPosition(self.end_offset, self.segments[-1].base_offset, self.end_position)

    def locate(
        self, log: Truncatable, offset: int, max_bytes: int, max_offset: int | None, min_one: bool
    ) -> LogSlice | None:
        """See `Log.slice`; `offset` is not below the log's start."""
        if offset >= self.end_offset or (max_offset is not None and offset >= max_offset):
            return None
        for index in range(self.index_of(offset), len(self.segments)):
            segment, size, next_offset = self._extent(index)
            start = segment.position_of(offset, size)
            if start is not None:
                bound = None if max_offset is None or max_offset >= next_offset else max_offset
                end = segment.end_of_read(start, size, max_bytes, bound, min_one)
                position = OffsetPosition(offset, segment.base_offset, start)
                if end <= start:
                    return None
                return LogSlice(log, self.truncations, segment.file, position, end - start)
        return None

    def position_of(self, offset: int) -> OffsetPosition:
        """Where the batch is that holds `offset`, or the next one after it. At the log's end that
        costs no look into the file."""
        if offset < self.end_offset:
            for index in range(self.index_of(offset), len(self.segments)):
                segment, size, _ = self._extent(index)
                start = segment.position_of(offset, size)
                if start is not None:
                    return OffsetPosition(offset, segment.base_offset, start)
        return self.end._replace(offset=offset)

    def index_of(self, offset: int) -> int:
        """Which segment holds an offset; the first one for what lies below all."""
        return max(0, bisect_right(self.segments, offset, key=_base_offset) - 1)

    def _extent(self, index: int) -> tuple[Segment, int, int]:
        """A segment, how much of it this view has, and the offset that follows that."""
        segment = self.segments[index]
        if index == len(self.segments) - 1:
            return segment, self.end_position, self.end_offset
        return segment, segment.size_bytes, segment.next_offset

    # ---- by time ---------------------------------------------------------------------------------

    def offset_for_timestamp(
        self, timestamp_ms: int, log_start_offset: int
    ) -> tuple[int, int, int] | None:
        """See `Log.offset_for_timestamp`."""
        for index in range(len(self.segments)):
            segment, size, _ = self._extent(index)
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            start = segment.position_for_timestamp(timestamp_ms)
            for position, header in segment.headers(start, size):
                if header.max_timestamp < timestamp_ms or header.last_offset < log_start_offset:
                    continue
                batch = segment.file.read(position, header.size_bytes)
                try:
                    for record in iter_records(batch):
                        if (
                            record.timestamp_ms >= timestamp_ms
                            and record.offset >= log_start_offset
                        ):
                            return record.timestamp_ms, record.offset, header.leader_epoch
                except WireError:
                    return header.max_timestamp, header.base_offset, header.leader_epoch
        return None

    @property
    def max_timestamp_ms(self) -> int:
        """The newest record's; -1 without one."""
        return max(segment.max_timestamp_ms for segment in self.segments)


def _base_offset(segment: Segment) -> int:
    return segment.base_offset

"""One segment of a log: `<base offset, 20 digits>.log` with its `.index` and `.timeindex`
(Kafka's LogSegment; for the indexes see `nodes.log.indexes`).

The `.log` file holds whole record batches and, with `preallocate`, zeros after them while it is the
active segment (as in Kafka, whose tools then stumble over the zeros). `size_bytes` says where
batches end; `seal` cuts the space off. After kill -9 `recover` finds the end again: it walks
batches up to the first that is not one (zeros, a torn batch, a wrong checksum).

Appends, truncation and sealing belong to whoever holds the log's lock. Finding and `pread` need
none (see `nodes.log.view`, which says how far the batches go): the file descriptor lives as long as
anyone refers to the `SegmentFile`, even if the segment is deleted meanwhile.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nodes.log.config import LogConfig
from nodes.log.indexes import OffsetIndex, SegmentFile, TimeIndex
from nodes.wire.errors import WireError
from nodes.wire.records import HEADER_SIZE, MAGIC, OVERHEAD, BatchHeader, check_crc, read_header

#: base_offset, length, last_offset_delta: as far as a search must look into a header.
_SEARCH: Final = struct.Struct(">qi11xi")
_SEARCH_CHUNK_BYTES: Final = 16 << 10
_SCAN_CHUNK_BYTES: Final = 1 << 20
_FIRST_ALLOCATION_BYTES: Final = 1 << 20
_LARGEST_ALLOCATION_BYTES: Final = 16 << 20
_NEVER: Final = 1 << 62
_ALWAYS: Final = -2
_LARGEST_RELATIVE_OFFSET: Final = (1 << 31) - 1


class Segment:
    """See the module's text. `next_offset` is one beyond the last batch's last offset."""

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        *,
        opened_ms: int,
        jitter_ms: int = 0,
    ) -> None:
        self.path = directory / f"{base_offset:020d}.log"
        self.base_offset = base_offset
        self.opened_ms = opened_ms
        self.next_offset = base_offset
        self.size_bytes = 0
        self.max_timestamp_ms = -1
        self.roll_after_ms = _NEVER
        """Ask `is_full` for a batch with a later timestamp; without need for an earlier one."""
        self.file = SegmentFile(self.path)
        self.allocated_bytes = os.fstat(self.file.fd).st_size
        self._offset_of_max_timestamp = base_offset
        self._index_interval_bytes = config.index_interval_bytes
        self._index_bytes = config.segment_index_bytes
        #: Below this neither index is full: the larger entries, one kept free.
        self._few_entries = self._index_bytes // 12 - 1
        #: Segments of many partitions that began together are not to end together.
        self.jitter_ms = jitter_ms
        self._unindexed_bytes = 0
        self._index = OffsetIndex(self.path, base_offset)
        self._times = TimeIndex(self.path, base_offset)

    @classmethod
    def create(
        cls,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        *,
        opened_ms: int,
        jitter_ms: int = 0,
    ) -> Segment:
        """A new one, empty."""
        segment = cls(directory, base_offset, config, opened_ms=opened_ms, jitter_ms=jitter_ms)
        segment._index.rewrite()
        segment._times.rewrite()
        return segment

    @property
    def largest_timestamp_ms(self) -> int:
        """Of its records; the file's last modification where none carries a timestamp."""
        if self.max_timestamp_ms >= 0:
            return self.max_timestamp_ms
        return os.fstat(self.file.fd).st_mtime_ns // 1_000_000

    @property
    def first_timestamp_ms(self) -> int:
        """The greatest timestamp of the first batch; -1 without one, or without a batch."""
        return next((header.max_timestamp for _, header in self.headers()), -1)

    # ---- when another one is due -----------------------------------------------------------------

    def is_full(self, end: int, max_timestamp_ms: int, config: LogConfig, now_ms: int) -> bool:
        """Whether a batch that would end at `end` belongs into a new segment (LogSegment's
        shouldRoll). Time is that of records; where the first has none, that of the clock."""
        if not self.size_bytes:
            return False
        if end > config.segment_bytes or self._is_index_full:
            return True
        first_ms = self.first_timestamp_ms
        age_ms = max_timestamp_ms - first_ms if first_ms >= 0 else now_ms - self.opened_ms
        return age_ms > config.roll_ms - self.jitter_ms

    def time_roll(self, config: LogConfig) -> None:
        """Sets `roll_after_ms`, after the first batch came or `segment.ms` changed."""
        first_ms = self.first_timestamp_ms
        if not self.size_bytes:
            self.roll_after_ms = _NEVER
        elif first_ms < 0 or self._is_index_full:
            self.roll_after_ms = _ALWAYS
        else:
            self.roll_after_ms = first_ms + config.roll_ms - self.jitter_ms

    def can_hold(self, offset: int) -> bool:
        """Whether indexes can express an offset."""
        return offset - self.base_offset <= _LARGEST_RELATIVE_OFFSET

    @property
    def _is_index_full(self) -> bool:
        # One entry of the time index is kept free for `seal`.
        return (
            len(self._index) >= self._index_bytes // 8
            or len(self._times) >= self._index_bytes // 12 - 1
        )

    # ---- appending -------------------------------------------------------------------------------

    def allocate(self, upto_bytes: int, limit_bytes: int) -> None:
        """Makes room for `upto_bytes`, in doubling steps that end at the segment's limit."""
        if upto_bytes <= self.allocated_bytes:
            return
        step = min(max(self.allocated_bytes, _FIRST_ALLOCATION_BYTES), _LARGEST_ALLOCATION_BYTES)
        wanted = max(upto_bytes, min(self.allocated_bytes + step, limit_bytes))
        os.posix_fallocate(
            self.file.fd, self.allocated_bytes, max(1, wanted - self.allocated_bytes)
        )
        self.allocated_bytes = wanted

    def append(self, data: bytes, last_offset: int, max_timestamp_ms: int) -> None:
        """Writes a batch at the end; a failed write leaves the segment as it was."""
        position = self.size_bytes
        size = len(data)
        written = os.pwrite(self.file.fd, data, position)
        while written < size:
            written += os.pwrite(self.file.fd, data[written:], position + written)
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self._offset_of_max_timestamp = last_offset
        if self._unindexed_bytes > self._index_interval_bytes:
            self._index.append(last_offset, position)
            self._times.append(self.max_timestamp_ms, self._offset_of_max_timestamp)
            self._unindexed_bytes = 0
            if len(self._index) >= self._few_entries and self._is_index_full:
                self.roll_after_ms = _ALWAYS
        self._unindexed_bytes += size
        self.size_bytes = position + size
        self.next_offset = last_offset + 1

    def append_found(self, data: bytes) -> None:
        """Appends a batch as it is."""
        header = read_header(data)
        self.append(data, header.last_offset, header.max_timestamp)

    def _note(self, position: int, size: int, last_offset: int, max_timestamp_ms: int) -> None:
        """The same for a batch that is there, with indexes in memory only."""
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self._offset_of_max_timestamp = last_offset
        if self._unindexed_bytes > self._index_interval_bytes:
            self._index.note(last_offset, position)
            self._times.note(self.max_timestamp_ms, self._offset_of_max_timestamp)
            self._unindexed_bytes = 0
        self._unindexed_bytes += size
        self.size_bytes = position + size
        self.next_offset = last_offset + 1

    # ---- finding ---------------------------------------------------------------------------------

    def position_of(self, offset: int, size: int | None = None) -> int | None:
        """Where the batch that holds `offset`, or the next one after it, begins, within the first
        `size` bytes (None: within all)."""
        size = self.size_bytes if size is None else size
        if offset <= self.base_offset and size:
            return 0  # no look into the file: nothing here comes before it
        for position, last_offset, _ in self._walk(self._index.lookup(offset), size):
            if last_offset >= offset:
                return position
        return None

    def end_of_read(
        self, start: int, size: int, max_bytes: int, max_offset: int | None, min_one: bool
    ) -> int:
        """Where a read from `start` ends: whole batches of the first `size` bytes, all below
        `max_offset`, which lies within them (None: no bound).

        `min_one` lets the first batch exceed `max_bytes` (never `max_offset`).
        """
        limit = start + max_bytes
        if limit >= size and max_offset is None:
            return size
        offsets, positions = self._index.entries
        number = bisect_right(positions, limit) - 1
        if max_offset is not None:
            number = min(number, bisect_left(offsets, max_offset) - 1)
        end = max(start, positions[number] if number >= 0 else 0)
        for position, last_offset, next_position in self._walk(end, size):
            if max_offset is not None and last_offset >= max_offset:
                break
            if next_position > limit and not (min_one and position == start):
                break
            end = next_position
        return end

    def _walk(self, position: int, size: int) -> Iterator[tuple[int, int, int]]:
        """(position, last_offset, next position) of each batch from a batch's start on."""
        chunk, chunk_at = b"", 0
        fd = self.file.fd
        while position + HEADER_SIZE <= size:
            if not 0 <= position - chunk_at <= len(chunk) - _SEARCH.size:
                chunk, chunk_at = os.pread(fd, _SEARCH_CHUNK_BYTES, position), position
                if len(chunk) < _SEARCH.size:
                    return
            base_offset, length, delta = _SEARCH.unpack_from(chunk, position - chunk_at)
            next_position = position + length + OVERHEAD
            if length < HEADER_SIZE - OVERHEAD or next_position > size:
                return
            yield position, base_offset + delta, next_position
            position = next_position

    def headers(self, start: int = 0, size: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a batch's start on, within the first `size` bytes
        (None: within all)."""
        for position, _, _ in self._walk(start, self.size_bytes if size is None else size):
            yield position, read_header(os.pread(self.file.fd, HEADER_SIZE, position))

    def position_for_timestamp(self, timestamp_ms: int) -> int:
        """A batch's start before which every record is older than the time."""
        offset = self._times.lookup(timestamp_ms)
        return 0 if offset is None else self._index.lookup(offset)

    # ---- cutting ---------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> None:
        """Cuts off the batch that holds `offset` and all after it."""
        position = self.position_of(offset)
        if position is None:
            return
        # The cut bytes must read as zeros when space is allocated again: ftruncate sees to that.
        os.ftruncate(self.file.fd, position)
        self.allocated_bytes = self.size_bytes = position
        self._index.truncate(position)
        self._times.truncate(offset)
        # After its last entry the time index says nothing.
        self.max_timestamp_ms, self._offset_of_max_timestamp = self._times.last
        for _, header in self.headers(self._index.lookup(self._offset_of_max_timestamp)):
            if header.max_timestamp > self.max_timestamp_ms:
                self.max_timestamp_ms = header.max_timestamp
                self._offset_of_max_timestamp = header.last_offset
        self._find_end()

    def _find_end(self) -> int:
        """Sets what is known from the last index entry on; where the batches end."""
        start = end = self._index.last_position
        self.next_offset = self.base_offset
        for _, last_offset, end in self._walk(start, self.size_bytes):  # noqa: B007 (both are wanted after it)
            self.next_offset = last_offset + 1
        self._unindexed_bytes = self.size_bytes - start
        return end

    # ---- coming back -----------------------------------------------------------------------------

    def recover(self, *, verify: bool = True) -> int:
        """Finds the end of the batches, makes the indexes, cuts the rest; returns bytes cut.

        Preallocated zeros are not counted. `verify=False` leaves out checksums (a planted bug).
        """
        file_size = os.fstat(self.file.fd).st_size
        self._forget()
        data, data_at = b"", 0
        while True:
            position = self.size_bytes
            at = position - data_at
            if at + HEADER_SIZE > len(data) or at + read_header(data, at).size_bytes > len(data):
                want = _SCAN_CHUNK_BYTES
                if at + HEADER_SIZE <= len(data):
                    want = max(want, min(read_header(data, at).size_bytes, file_size))
                data, data_at, at = os.pread(self.file.fd, want, position), position, 0
            header = self._valid_batch(data, at, verify)
            if header is None:
                break
            self._note(position, header.size_bytes, header.last_offset, header.max_timestamp)
        torn = data[at:].rstrip(b"\0")
        if file_size != self.size_bytes:  # it would change the time of modification
            os.ftruncate(self.file.fd, self.size_bytes)
        self.allocated_bytes = self.size_bytes
        self._times.note(self.max_timestamp_ms, self._offset_of_max_timestamp)
        self._index.rewrite()
        self._times.rewrite()
        return len(torn)

    def _valid_batch(self, data: bytes, at: int, verify: bool) -> BatchHeader | None:
        try:
            header = read_header(data, at)
        except WireError:
            return None
        end = at + header.size_bytes
        if header.size_bytes < HEADER_SIZE or end > len(data) or header.magic != MAGIC:
            return None
        if header.base_offset < self.next_offset or header.last_offset_delta < 0:
            return None
        if verify and not check_crc(data, at, header.size_bytes):
            return None
        return header

    def _forget(self) -> None:
        self.size_bytes = self._unindexed_bytes = 0
        self.next_offset = self._offset_of_max_timestamp = self.base_offset
        self.max_timestamp_ms = -1
        self._index.forget()
        self._times.forget()

    def load(self) -> bool:
        """Takes over a sealed segment by its indexes; False when they do not hold together."""
        self._forget()
        self.size_bytes = self.allocated_bytes = os.fstat(self.file.fd).st_size
        if not (self._index.load(self.size_bytes) and self._times.load()):
            return False
        self.max_timestamp_ms, self._offset_of_max_timestamp = self._times.last
        return self._find_end() == self.size_bytes and self._offset_of_max_timestamp <= max(
            self.base_offset, self.next_offset - 1
        )

    # ---- to the disk, and off it -----------------------------------------------------------------

    def seal(self) -> None:
        """Cuts preallocated space off and completes the indexes; more may be appended."""
        if self.allocated_bytes != self.size_bytes:
            os.ftruncate(self.file.fd, self.size_bytes)
            self.allocated_bytes = self.size_bytes
        self._times.append(self.max_timestamp_ms, self._offset_of_max_timestamp)
        self._index.file.cut(len(self._index))
        self._times.file.cut(len(self._times))

    def complete_indexes(self) -> None:
        """Writes the entries that the index files still lack."""
        self._index.file.complete()
        self._times.file.complete()

    def flush(self) -> None:
        """Waits until batches and what the index files have are on the disk. Needs no lock."""
        os.fdatasync(self.file.fd)
        self._index.file.flush()
        self._times.file.flush()

    def set_modified(self, other: Segment) -> None:
        """Makes it as old as another one (what has no timestamps is as old as its file)."""
        status = os.fstat(other.file.fd)
        os.utime(self.path, ns=(status.st_atime_ns, status.st_mtime_ns))

    def move_to(self, directory: Path) -> None:
        """Moves the indexes of a sealed segment to where its batches were moved."""
        self.path = directory / self.path.name
        for file in (self._index.file, self._times.file):
            target = directory / file.path.name
            file.path.rename(target)
            file.path = target

    def delete(self, *, keep_snapshot: bool = False) -> None:
        """Removes the files; readers that still hold `file` may finish."""
        # The batches last: an index without them then tells of a loss, never of a crash in here.
        self._index.file.delete()
        self._times.file.delete()
        self.path.unlink(missing_ok=True)
        # The producers' snapshot was taken at its first offset and is of no use without it.
        if not keep_snapshot:
            self.path.with_suffix(".snapshot").unlink(missing_ok=True)

"""One segment of a log: `<base offset, 20 digits>.log` with its `.index` and `.timeindex`.

The `.log` file holds whole record batches and, while it is the active segment, preallocated space
after them (zeros): growing a file page by page stalls appends. `size_bytes` says where batches end;
`seal` cuts the space off. After kill -9 `recover` finds the end again: it walks batches up to the
first that is not one (zeros, a torn batch, a wrong checksum).

The sparse index lives in memory and is written when the segment is sealed, in Kafka's format
(i32 last offset - base, i32 position; i64 timestamp, i32 last offset - base). An entry means: the
batch at `position` ends with `last offset`, so a search for any offset above it may start there.

Appends, truncation and sealing belong to whoever holds the log's lock. `pread` needs no lock: the
file descriptor lives as long as anyone refers to the `SegmentFile`, even if the segment is deleted
meanwhile.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from nodes.log.checkpoints import write_bytes_atomically
from nodes.wire.errors import WireError
from nodes.wire.records import HEADER_SIZE, MAGIC, OVERHEAD, BatchHeader, check_crc, read_header

#: base_offset, length, last_offset_delta: as far as a search must look into a header.
_SEARCH: Final = struct.Struct(">qi11xi")
_SEARCH_CHUNK_BYTES: Final = 16 << 10
_SCAN_CHUNK_BYTES: Final = 1 << 20
_FIRST_ALLOCATION_BYTES: Final = 1 << 20
_LARGEST_ALLOCATION_BYTES: Final = 16 << 20
_NEVER: Final = 1 << 62


class SegmentFile:
    """A file descriptor that closes itself when nobody refers to it any more."""

    __slots__ = ("fd",)

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)

    def read(self, start: int, size: int) -> bytes:
        """Up to `size` bytes from `start`."""
        data = os.pread(self.fd, size, start)
        while len(data) < size:
            more = os.pread(self.fd, size - len(data), start + len(data))
            if not more:
                break
            data += more
        return data


class Segment:
    """See the module's text. `next_offset` is one beyond the last batch's last offset."""

    def __init__(
        self, directory: Path, base_offset: int, *, index_interval_bytes: int, opened_ms: int
    ) -> None:
        self.path = directory / f"{base_offset:020d}.log"
        self.base_offset = base_offset
        self.opened_ms = opened_ms
        self.next_offset = base_offset
        self.size_bytes = 0
        self.max_timestamp_ms = -1
        self.roll_after_ms = _NEVER
        """A batch with a later timestamp may be one too many: the log sets it."""
        self.file = SegmentFile(self.path)
        self.allocated_bytes = os.fstat(self.file.fd).st_size
        self._index_interval_bytes = index_interval_bytes
        self._unindexed_bytes = 0
        self._offsets = array("q")
        self._positions = array("q")
        self._timestamps = array("q")

    @property
    def index_path(self) -> Path:
        return self.path.with_suffix(".index")

    @property
    def time_index_path(self) -> Path:
        return self.path.with_suffix(".timeindex")

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
        """Writes whole batches at the end; a failed write leaves the segment as it was."""
        position = self.size_bytes
        size = len(data)
        written = os.pwrite(self.file.fd, data, position)
        while written < size:
            written += os.pwrite(self.file.fd, data[written:], position + written)
        self.max_timestamp_ms = max(self.max_timestamp_ms, max_timestamp_ms)
        if self._unindexed_bytes > self._index_interval_bytes:
            self._index(position, last_offset)
        self._unindexed_bytes += size
        self.size_bytes = position + size
        self.next_offset = last_offset + 1

    def _index(self, position: int, last_offset: int) -> None:
        self._offsets.append(last_offset)
        self._positions.append(position)
        self._timestamps.append(self.max_timestamp_ms)
        self._unindexed_bytes = 0

    def _note(self, position: int, size: int, last_offset: int, max_timestamp_ms: int) -> None:
        self.max_timestamp_ms = max(self.max_timestamp_ms, max_timestamp_ms)
        if self._unindexed_bytes > self._index_interval_bytes:
            self._index(position, last_offset)
        self._unindexed_bytes += size
        self.size_bytes = position + size
        self.next_offset = last_offset + 1

    def position_of(self, offset: int) -> int | None:
        """Where the batch that holds `offset`, or the next one after it, begins."""
        index = bisect_right(self._offsets, offset) - 1
        start = self._positions[index] if index >= 0 else 0
        for position, last_offset, _ in self._walk(start):
            if last_offset >= offset:
                return position
        return None

    def end_of_read(self, start: int, max_bytes: int, max_offset: int | None, min_one: bool) -> int:
        """Where a read from `start` ends: whole batches, all below `max_offset`.

        `min_one` lets the first batch exceed `max_bytes` (never `max_offset`).
        """
        limit = start + max_bytes
        bounded = max_offset is not None and max_offset < self.next_offset
        if limit >= self.size_bytes and not bounded:
            return self.size_bytes
        index = bisect_right(self._positions, limit) - 1
        if bounded:
            index = min(index, bisect_left(self._offsets, max_offset or 0) - 1)
        end = max(start, self._positions[index] if index >= 0 else 0)
        for position, last_offset, next_position in self._walk(end):
            if bounded and last_offset >= (max_offset or 0):
                break
            if next_position > limit and not (min_one and position == start):
                break
            end = next_position
        return end

    def _walk(self, position: int) -> Iterator[tuple[int, int, int]]:
        """(position, last_offset, next position) of each batch from a batch's start on."""
        chunk, chunk_at = b"", 0
        fd, size = self.file.fd, self.size_bytes
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

    def headers(self, start: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """(position, header) of each batch from a batch's start on."""
        for position, _, _ in self._walk(start):
            yield position, read_header(os.pread(self.file.fd, HEADER_SIZE, position))

    def position_for_timestamp(self, timestamp_ms: int) -> int:
        """A batch's start before which every record is older than the time."""
        index = bisect_left(self._timestamps, timestamp_ms) - 1
        return self._positions[index] if index >= 0 else 0

    def truncate_to(self, offset: int) -> None:
        """Cuts off the batch that holds `offset` and all after it."""
        position = self.position_of(offset)
        if position is not None:
            self._cut(position)

    def _cut(self, position: int) -> None:
        # The cut bytes must read as zeros when space is allocated again: ftruncate sees to that.
        os.ftruncate(self.file.fd, position)
        self.allocated_bytes = self.size_bytes = position
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:], self._positions[keep:], self._timestamps[keep:]
        start = self._positions[-1] if keep else 0
        self.max_timestamp_ms = self._timestamps[-1] if keep else -1
        self.next_offset = self.base_offset
        for _, header in self.headers(start):
            self.max_timestamp_ms = max(self.max_timestamp_ms, header.max_timestamp)
            self.next_offset = header.next_offset
        self._unindexed_bytes = position - start

    def recover(self, *, verify: bool = True) -> int:
        """Finds the end of the batches, rebuilds the index, cuts the rest; returns bytes cut.

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
        self.next_offset = self.base_offset
        self.max_timestamp_ms = -1
        del self._offsets[:], self._positions[:], self._timestamps[:]

    def load(self) -> bool:
        """Takes over a sealed segment by its index; False when it does not hold together."""
        try:
            offsets = list(struct.iter_unpack(">ii", self.index_path.read_bytes()))
            times = list(struct.iter_unpack(">qi", self.time_index_path.read_bytes()))
        except (OSError, struct.error):
            return False
        self._forget()
        self.size_bytes = self.allocated_bytes = os.fstat(self.file.fd).st_size
        if len(times) != len(offsets) + 1 or offsets != sorted(offsets):
            return False
        if offsets and offsets[-1][1] >= self.size_bytes:
            return False
        self._offsets.extend(self.base_offset + relative for relative, _ in offsets)
        self._positions.extend(position for _, position in offsets)
        self._timestamps.extend(timestamp_ms for timestamp_ms, _ in times[:-1])
        self.max_timestamp_ms = times[-1][0]
        start = end = self._positions[-1] if offsets else 0
        for _, last_offset, end in self._walk(start):  # noqa: B007 (both are wanted after it)
            self.next_offset = last_offset + 1
        self._unindexed_bytes = self.size_bytes - start
        return end == self.size_bytes

    def seal(self) -> None:
        """Cuts preallocated space off and writes the indexes; appending afterwards is allowed."""
        if self.allocated_bytes != self.size_bytes:
            os.ftruncate(self.file.fd, self.size_bytes)
            self.allocated_bytes = self.size_bytes
        base = self.base_offset
        entries = list(zip(self._offsets, self._positions, self._timestamps, strict=True))
        write_bytes_atomically(
            self.index_path,
            b"".join(
                struct.pack(">ii", offset - base, position) for offset, position, _ in entries
            ),
        )
        times = [(timestamp_ms, offset) for offset, _, timestamp_ms in entries]
        times.append((self.max_timestamp_ms, self.next_offset - 1))
        write_bytes_atomically(
            self.time_index_path,
            b"".join(
                struct.pack(">qi", timestamp_ms, offset - base) for timestamp_ms, offset in times
            ),
        )

    def unseal(self) -> None:
        """Forgets the files of the index, which the next append would make wrong."""
        self.index_path.unlink(missing_ok=True)
        self.time_index_path.unlink(missing_ok=True)

    def flush(self) -> None:
        """Waits until the batches are on the disk."""
        os.fdatasync(self.file.fd)

    def delete(self) -> None:
        """Removes the files; readers that still hold `file` may finish."""
        # The batches last: an index without them then tells of a loss, never of a crash in here.
        # The producers' snapshot was taken at its first offset and is of no use without it.
        snapshot = self.path.with_suffix(".snapshot")
        for path in (self.index_path, self.time_index_path, self.path, snapshot):
            path.unlink(missing_ok=True)

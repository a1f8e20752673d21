"""The sparse indexes beside a segment, in Kafka's format and kept as it is written (OffsetIndex,
TimeIndex): Kafka's tools read them, of the active segment, too.

`.index`      i32 last offset - base, i32 position: the batch at `position` ends with that offset,
              so a search for any higher offset may start there.
`.timeindex`  i64 timestamp, i32 offset - base: the greatest timestamp up to the batch that an index
              entry was made for, and the last offset of the first batch that has it. Only entries
              with a greater timestamp than the one before are kept. A sealed segment's last entry
              is its greatest timestamp.

Both are in memory as a whole; searches never touch the files. Entries go out some at a time, so
that an append hardly pays for them: those of the active segment may be behind by that many until it
is flushed or sealed. A crash loses nothing by it, as an active segment's are then made again. Kafka
maps the files and grows them in advance, so that those of a broker that was killed end with zeros:
these are no entries. No checksum: an index that does not hold together is made again from the
batches.

The owner of the segment guards changes; searches need no lock. Both halves of an index are replaced
together when it is cut, and otherwise only grow. File descriptors are open only while entries come.
"""

from __future__ import annotations

import os
import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from nodes.log.checkpoints import write_bytes_atomically

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_PENDING: Final = 32
"""So many entries are written at once."""
OFFSET_SUFFIX: Final = ".index"
TIME_SUFFIX: Final = ".timeindex"


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


class _IndexFile:
    """Entries of one size, one after the other."""

    __slots__ = ("_count", "_entry", "_file", "_pending", "path")

    def __init__(self, path: Path, entry: struct.Struct) -> None:
        self.path = path
        self._entry = entry
        self._file: SegmentFile | None = None
        self._pending = bytearray()
        self._count = 0

    def put(self, number: int, *fields: int) -> None:
        """Entry `number`, counted from 0; the ones before it were put."""
        self._pending += self._entry.pack(*fields)
        self._count = number + 1
        if len(self._pending) >= _PENDING * self._entry.size:
            self.complete()

    def complete(self) -> None:
        """Writes what is pending."""
        if self._pending:
            if self._file is None:
                self._file = SegmentFile(self.path)
            at = self._count * self._entry.size - len(self._pending)
            os.pwrite(self._file.fd, self._pending, at)
            self._pending.clear()

    def read(self) -> list[tuple[Any, ...]]:
        """All entries but zeros at the end; raises OSError, and struct.error for a part of one."""
        size = self._entry.size
        data = self.path.read_bytes()
        if len(data) % size:
            raise struct.error(f"{self.path} ends with a part of an entry")
        # One alone is no zero from growing the file: the time of its records is 0.
        used = -(-len(data.rstrip(b"\0")) // size) if len(data) > size else len(data) // size
        return list(self._entry.iter_unpack(data[: used * size]))

    def replace(self, entries: Iterable[tuple[int, ...]]) -> None:
        self._file = None
        self._pending.clear()
        write_bytes_atomically(self.path, b"".join(self._entry.pack(*entry) for entry in entries))

    def cut(self, count: int) -> None:
        """Keeps `count` entries and closes the file."""
        self.complete()
        file = self._file or SegmentFile(self.path)
        if os.fstat(file.fd).st_size != count * self._entry.size:
            os.ftruncate(file.fd, count * self._entry.size)
        self._file = None

    def flush(self) -> None:
        file = self._file or SegmentFile(self.path)
        os.fdatasync(file.fd)

    def delete(self) -> None:
        self._file = None
        self._pending.clear()
        self.path.unlink(missing_ok=True)


class OffsetIndex:
    """Where batches lie, about every `index.interval.bytes`."""

    __slots__ = ("_base_offset", "entries", "file")

    def __init__(self, segment_path: Path, base_offset: int) -> None:
        self.file = _IndexFile(segment_path.with_suffix(OFFSET_SUFFIX), _OFFSET_ENTRY)
        self._base_offset = base_offset
        self.entries = (array("q"), array("q"))
        """Last offsets, and the positions of their batches."""

    def __len__(self) -> int:
        return len(self.entries[0])

    @property
    def last_position(self) -> int:
        """Of the last entry; 0 without one."""
        positions = self.entries[1]
        return positions[-1] if positions else 0

    def append(self, last_offset: int, position: int) -> None:
        self.file.put(len(self), last_offset - self._base_offset, position)
        self.note(last_offset, position)

    def note(self, last_offset: int, position: int) -> None:
        """An entry in memory only, until `rewrite`."""
        offsets, positions = self.entries
        positions.append(position)  # first: whoever finds the offset looks for it
        offsets.append(last_offset)

    def lookup(self, offset: int) -> int:
        """A batch's start from which a batch that holds `offset`, or a higher one, is found."""
        offsets, positions = self.entries
        number = bisect_right(offsets, offset) - 1
        return positions[number] if number >= 0 else 0

    def load(self, size_bytes: int) -> bool:
        """Reads the file; False when it is missing or cannot be that of so many bytes."""
        try:
            entries = self.file.read()
        except (OSError, struct.error):
            return False
        self.forget()
        before = (-1, 0)
        for relative, position in entries:
            if relative <= before[0] or not before[1] < position < size_bytes:
                return False
            before = (relative, position)
            self.note(self._base_offset + relative, position)
        return True

    def truncate(self, position: int) -> None:
        """Forgets batches from `position` on."""
        offsets, positions = self.entries
        keep = bisect_left(positions, position)
        self.entries = (offsets[:keep], positions[:keep])
        self.file.cut(keep)

    def forget(self) -> None:
        self.entries = (array("q"), array("q"))

    def rewrite(self) -> None:
        base = self._base_offset
        self.file.replace(
            (offset - base, position) for offset, position in zip(*self.entries, strict=True)
        )


class TimeIndex:
    """How late the records are up to some offsets."""

    __slots__ = ("_base_offset", "entries", "file")

    def __init__(self, segment_path: Path, base_offset: int) -> None:
        self.file = _IndexFile(segment_path.with_suffix(TIME_SUFFIX), _TIME_ENTRY)
        self._base_offset = base_offset
        self.entries = (array("q"), array("q"))
        """Timestamps, and the offsets that go with them."""

    def __len__(self) -> int:
        return len(self.entries[0])

    @property
    def last(self) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) without one."""
        timestamps, offsets = self.entries
        return (timestamps[-1], offsets[-1]) if timestamps else (-1, self._base_offset)

    def append(self, timestamp_ms: int, offset: int) -> None:
        """Adds an entry unless its timestamp is no greater than the last one's."""
        if timestamp_ms > self.last[0]:
            self.file.put(len(self), timestamp_ms, offset - self._base_offset)
            self.note(timestamp_ms, offset)

    def note(self, timestamp_ms: int, offset: int) -> None:
        """The same in memory only, until `rewrite`."""
        timestamps, offsets = self.entries
        if timestamp_ms > self.last[0]:
            offsets.append(offset)
            timestamps.append(timestamp_ms)

    def lookup(self, timestamp_ms: int) -> int | None:
        """An offset before which every record is older than a time; None: the segment's start."""
        timestamps, offsets = self.entries
        number = bisect_right(timestamps, timestamp_ms) - 1
        return offsets[number] if number >= 0 else None

    def load(self) -> bool:
        """Reads the file; False when it is missing or does not hold together."""
        try:
            entries = self.file.read()
        except (OSError, struct.error):
            return False
        self.forget()
        for timestamp_ms, relative in entries:
            before_ms, before = self.last
            if timestamp_ms <= before_ms or relative < before - self._base_offset:
                return False
            self.note(timestamp_ms, self._base_offset + relative)
        return True

    def truncate(self, offset: int) -> None:
        """Forgets entries of `offset` and higher ones."""
        timestamps, offsets = self.entries
        keep = bisect_left(offsets, offset)
        self.entries = (timestamps[:keep], offsets[:keep])
        self.file.cut(keep)

    def forget(self) -> None:
        self.entries = (array("q"), array("q"))

    def rewrite(self) -> None:
        base = self._base_offset
        self.file.replace(
            (timestamp_ms, offset - base)
            for timestamp_ms, offset in zip(*self.entries, strict=True)
        )

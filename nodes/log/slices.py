"""Where record batches are in a log's files, without a byte of them read.

A fetch needs to know how much there is before it wants any of it, and its answer may be many times
what a connection's buffers take. So a log is asked for slices (Kafka's FileRecords.slice), and
their bytes are read when they are sent, or never.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from nodes.log.indexes import SegmentFile


class OffsetPosition(NamedTuple):
    """Where an offset's batch begins or, at the log's end, would begin (Kafka's LogOffsetMetadata).

    Positions of one segment can be subtracted from each other.
    """

    offset: int
    segment_base_offset: int
    position: int


class StaleSlice(OSError):
    """The log was truncated since: other records may be there now."""


class Truncatable(Protocol):
    @property
    def truncations(self) -> int:
        """Grows with each truncation, before anything is cut."""


class LogSlice:
    """Whole batches that lie side by side in one segment, found when the log had been truncated
    `truncations` times. Any thread.

    The file lives as long as the slice, even if its segment is deleted meanwhile. After a
    truncation nothing is given any more: what is there is not what was found.
    """

    __slots__ = ("_file", "_log", "_size", "_truncations", "position")

    def __init__(
        self,
        log: Truncatable,
        truncations: int,
        file: SegmentFile,
        position: OffsetPosition,
        size: int,
    ) -> None:
        self.position = position
        self._log = log
        self._file = file
        self._size = size
        self._truncations = truncations

    def __len__(self) -> int:
        return self._size

    def __repr__(self) -> str:
        return f"LogSlice({self.position}, {self._size} bytes)"

    def read(self) -> bytes:
        """All of it. Raises OSError, StaleSlice."""
        data = self._file.read(self.position.position, self._size)
        self._check(len(data))
        return data

    def read_into(self, buffer: memoryview, start: int) -> None:
        """Fills `buffer` with what begins `start` bytes into the slice. Raises OSError,
        StaleSlice."""
        at = self.position.position + start
        count = os.preadv(self._file.fd, [buffer], at)
        while 0 < count < len(buffer):
            more = os.preadv(self._file.fd, [buffer[count:]], at + count)
            if not more:
                break
            count += more
        self._check(count, len(buffer))

    def _check(self, count: int, wanted: int | None = None) -> None:
        if self._truncations != self._log.truncations:
            raise StaleSlice(f"the log was truncated below the end of {self}")
        if count < (self._size if wanted is None else wanted):
            raise OSError(f"the file of {self} ends before it")

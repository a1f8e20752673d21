"""What a log is, and what may be asked of it while others write (UnifiedLog.read, LocalLog.read).

None of this takes the log's lock, which an append holds over its write: a fetch does not wait for
the disk behind a produce to the same partition. Answers come from one `LogView`; a search that a
truncation came into begins anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log.checkpoints import LEADER_EPOCHS
from nodes.log.config import LogConfig
from nodes.log.epoch_cache import LeaderEpochCache
from nodes.log.owner import LogOwner, Nobody
from nodes.log.producer_state import ActiveProducer, ProducerState
from nodes.log.segment import Segment
from nodes.log.slices import LogSlice, OffsetPosition, StaleSlice
from nodes.log.view import LogView
from nodes.wire.errors import WireError

NEVER_CLEANED = -1
T = TypeVar("T")


class ReadableLog:
    """State and reads; `nodes.log.log` says which lock guards what."""

    def __init__(self, directory: Path, tp: TopicPartition, config: LogConfig) -> None:
        self.dir = directory
        self.tp = tp
        self.config = config
        self.log_start_offset = 0
        self.recovery_point = 0
        self.cleaned_upto = NEVER_CLEANED
        self.owner: LogOwner = Nobody()
        self._now_ms: Callable[[], int] = lambda: 0
        self._draw_below: Callable[[int], int] = lambda _bound: 0
        self._lock = threading.Lock()
        self._view = LogView((), 0, 0, 0)
        """Replaced with each change, under the lock."""
        self._truncations = 0
        """Grows before a truncation cuts anything; the view that has the same count comes after."""
        self._epochs = LeaderEpochCache(directory / LEADER_EPOCHS)
        self._producers = ProducerState()
        self._closed = False
        self._is_leaving = False
        """Its directory has another name, or is about to: files that are not there are no loss."""
        self._last_flush_ms = 0
        self._flush_from = 0
        """The last offset from which on an append must flush (flush.messages)."""

    def __repr__(self) -> str:
        return f"Log({self.tp}, {self.log_start_offset}..{self.log_end_offset})"

    @property
    def log_end_offset(self) -> int:
        """The next offset to be written."""
        return self._view.end_offset

    @property
    def _segments(self) -> tuple[Segment, ...]:
        return self._view.segments

    @property
    def latest_epoch(self) -> int | None:
        """The newest leader epoch in the log."""
        return self._epochs.latest

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return sum(segment.size_bytes for segment in self._segments)

    @property
    def segment_count(self) -> int:
        """How many segments there are, the active one included."""
        return len(self._segments)

    @property
    def last_flush_ms(self) -> int:
        """When the log was last flushed, or opened."""
        return self._last_flush_ms

    @property
    def truncations(self) -> int:
        """How many there have been, one that is under way included."""
        return self._truncations

    @property
    def epoch_entries(self) -> list[tuple[int, int]]:
        """(leader_epoch, start_offset), rising."""
        return self._epochs.entries

    def active_producers(self) -> list[ActiveProducer]:
        """The idempotent producers that are remembered. Waits for an append, as Kafka's does."""
        with self._lock:
            return self._producers.active()

    def last_offsets_of_producers(self) -> set[int]:
        """Where the last batch of each remembered producer ends. Waits for an append."""
        with self._lock:
            return self._producers.last_offsets()

    # ---- records ---------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        max_offset: int | None = None,
        min_one: bool = True,
    ) -> bytes:
        """Whole batches from the one that holds `offset`, all below `max_offset` (exclusive).

        `min_one` gives one batch even if it is larger than `max_bytes`. One call reads from one
        segment. Raises ApiError OFFSET_OUT_OF_RANGE outside of log start and log end.
        """
        while True:
            found = self.slice(offset, max_bytes, max_offset=max_offset, min_one=min_one)
            try:
                return b"" if found is None else found.read()
            except StaleSlice:
                continue

    def slice(
        self,
        offset: int,
        max_bytes: int,
        *,
        max_offset: int | None = None,
        min_one: bool = True,
    ) -> LogSlice | None:
        """Where the batches are that `read` would give; None when there are none."""

        def look(view: LogView) -> LogSlice | None:
            if not self.log_start_offset <= offset <= view.end_offset:
                raise ApiError(
                    Errors.OFFSET_OUT_OF_RANGE,
                    f"offset {offset} of {self.tp} is outside of {self.log_start_offset}.."
                    f"{view.end_offset}",
                )
            return view.locate(self, offset, max_bytes, max_offset, min_one)

        return self._undisturbed(look)

    def position_of(self, offset: int) -> OffsetPosition:
        """Where the batch is that holds `offset`, or the next one after it. At the log's end that
        costs no look into the file."""
        return self._undisturbed(lambda view: view.position_of(offset))

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int, int] | None:
        """(timestamp_ms, offset, leader_epoch) of the first record at or after a time, or None.

        A compressed batch that cannot be opened here answers with its own bounds.
        """
        start = self.log_start_offset
        return self._undisturbed(lambda view: view.offset_for_timestamp(timestamp_ms, start))

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """(timestamp_ms, offset, leader_epoch) of the newest record by time (ListOffsets -3)."""
        newest = self._view.max_timestamp_ms
        return self.offset_for_timestamp(newest) if newest >= 0 else None

    def _undisturbed(self, look: Callable[[LogView], T]) -> T:
        """What `look` finds in a view that no truncation changed under its hands. Raises ApiError
        KAFKA_STORAGE_ERROR when the disk refuses."""
        while True:
            view = self._view
            if view.truncations != self._truncations:
                with self._lock:  # until the cut is done
                    view = self._view
            try:
                found = look(view)
            except (OSError, WireError) as error:  # bytes that were cut off under its hands?
                if view.truncations == self._truncations:
                    if isinstance(error, OSError):
                        raise self._failed(error) from error
                    raise
            else:
                if view.truncations == self._truncations:
                    return found

    # ---- leader epochs ---------------------------------------------------------------------------

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(leader_epoch, end_offset) of the largest epoch <= the asked one; (-1, -1) if unknown."""
        return self._epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of an offset, -1 when unknown."""
        return self._epochs.epoch_at(offset)

    # ---- for those who change it -----------------------------------------------------------------

    def _show(self, segments: tuple[Segment, ...], end_offset: int) -> None:
        """From now on the log has these segments and ends there. Needs the lock."""
        self._view = LogView(segments, end_offset, segments[-1].size_bytes, self._truncations)

    def _failed(self, error: OSError) -> ApiError:
        """The disk refused: somebody has to decide about the whole directory."""
        if not (self._is_leaving and isinstance(error, FileNotFoundError)):
            self.owner.failed(self.dir.parent, error)
        return ApiError(Errors.KAFKA_STORAGE_ERROR, f"{self.tp}: {error}")

    @contextmanager
    def _storage(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(error) from error

    def _set_recovery_point(self, offset: int) -> None:
        self.recovery_point = offset
        self._flush_from = offset + self.config.flush_messages - 1

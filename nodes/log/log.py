"""One partition's log: an ordered list of segments, the last one active (Kafka's UnifiedLog).

Offsets rise and may have gaps. `log_start_offset` is the first offset that may be read,
`log_end_offset` the next to be written. The directory is `<log dir>/<topic>-<partition>`.

Threads: one lock guards everything that changes the log or its positions; an append holds it over
its write. Reads take none (`nodes.log.reads`); what else is done to a log is in `nodes.log.upkeep`.
The Partition above has locks of its own; this one is always taken inside them and never calls out.

Crash: after kill -9 `Log.open(clean_shutdown=False)` walks the segments that were not flushed, cuts
a torn tail, and rebuilds indexes, leader epochs and producer state from the batches themselves.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log import cleaner, removal
from nodes.log.config import LogConfig
from nodes.log.loading import load_producers, load_segments
from nodes.log.reads import NEVER_CLEANED
from nodes.log.upkeep import KeptLog
from nodes.log.validation import validate_produced
from nodes.log.view import LogView
from nodes.wire.errors import WireError
from nodes.wire.records import check_crc, iter_batches, set_log_append_time

__all__ = ("NEVER_CLEANED", "AppendInfo", "Log", "UnexpectedOffset")

_logger = logging.getLogger("kafka.log.UnifiedLog")
#: What a leader rewrites: base offset, (length), leader epoch. The checksum does not cover it.
_REWRITTEN: Final = struct.Struct(">qii")


class AppendInfo(NamedTuple):
    """What an append did; `log_append_time_ms` is -1 under CreateTime.

    `duplicate`: nothing was written, the offsets are those of the first time.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


class UnexpectedOffset(ApiError):
    """A leader sent batches that begin below our log's end; nothing of them was written."""

    def __init__(self, message: str) -> None:
        super().__init__(Errors.UNKNOWN_SERVER_ERROR, message)


class Log(KeptLog):
    """See the module's text. Made by `Log.open`."""

    def __init__(self, directory: Path, tp: TopicPartition, config: LogConfig) -> None:
        super().__init__(directory, tp, config)
        self._stamps_time = config.is_log_append_time

    @classmethod
    def open(
        cls,
        dir: Path,
        tp: TopicPartition,
        config: LogConfig,
        *,
        clean_shutdown: bool,
        now_ms: Callable[[], int],
        recovery_point: int = 0,
        log_start_offset: int = 0,
        verify_tail: bool = True,
        cleaned_upto: int = NEVER_CLEANED,
        draw_below: Callable[[int], int] = lambda _bound: 0,
    ) -> Log:
        """Opens a partition's log, made empty if there is none.

        `cleaned_upto`: so far compaction came once, whatever the policy is now.
        Offsets below `recovery_point` are known to be on the disk. `verify_tail=False` leaves out
        the checksums of a recovery (a planted bug). `draw_below` draws a segment's jitter.
        """
        dir.mkdir(parents=True, exist_ok=True)
        log = cls(dir, tp, config)
        log._now_ms = now_ms
        log._draw_below = draw_below
        cleaner.finish_swaps(dir)
        segments = load_segments(
            dir,
            config,
            trusted_upto=None if clean_shutdown else recovery_point,
            first_offset=log_start_offset,
            verify=verify_tail,
            may_have_gaps=cleaned_upto >= 0 or config.is_compacted,
            now_ms=now_ms(),
        )
        log.log_start_offset = max(log_start_offset, segments[0].base_offset)
        log._show(tuple(segments), segments[-1].next_offset)
        if log.log_end_offset < log_start_offset:
            _logger.warning("%s ends before it starts: its segments are gone, starting anew", log)
            log._restart_at(log_start_offset)
        log.recovery_point = min(recovery_point, log.log_end_offset)
        log.cleaned_upto = min(cleaned_upto, log.log_end_offset)
        log._epochs.truncate_from_end(log.log_end_offset)
        removal.remove_stray_snapshots(
            dir,
            [segment.base_offset for segment in log._segments],
            start=log.log_start_offset,
            end=log.log_end_offset,
        )
        load_producers(list(log._segments), log._producers, log._epochs, clean=clean_shutdown)
        log._segments[-1].jitter_ms = log._draw_jitter_ms()
        log._segments[-1].time_roll(config)
        log._mark_flushed(log.recovery_point)
        return log

    # ---- appends ---------------------------------------------------------------------------------

    def forget_producers(self) -> None:
        """What idempotent producers wrote is known no more (a planted bug)."""
        with self._lock:
            self._producers.clear()

    def forget_older_batches(self) -> None:
        """Of each producer the last batch alone is known (a planted bug)."""
        with self._lock:
            self._producers.forget_older_batches()

    def confuse_producer_epochs(self) -> None:
        """Batches of another producer epoch are taken for sent again (a planted bug)."""
        self._producers.tells_epochs_apart = False

    def append_as_leader(self, data: bytes | memoryview, leader_epoch: int) -> AppendInfo:
        """Validates one produced batch, gives it offsets and the leader epoch, and writes it.

        Raises ApiError: see `validate_produced` and `ProducerState.check`; KAFKA_STORAGE_ERROR
        when the disk refuses.
        """
        if not isinstance(data, bytes):
            data = bytes(data)
        data, header = validate_produced(data, self.tp, self.config, self._now_ms)
        append_time_ms = -1
        max_timestamp_ms = header.max_timestamp
        with self._lock:
            if header.producer_id >= 0:
                written = self._producers.duplicate_of(header)
                if written is not None:
                    return self._duplicate(written.first_offset, written.last_offset, written[4])
                self._producers.check(header)
            first_offset = self.log_end_offset
            last_offset = first_offset + header.last_offset_delta
            head = _REWRITTEN.pack(first_offset, header.length, leader_epoch)
            if self._stamps_time:
                append_time_ms = max_timestamp_ms = self._now_ms()
                changed = bytearray(data)
                changed[:16] = head
                set_log_append_time(changed, 0, len(changed), append_time_ms)
                stamped = bytes(changed)
            else:
                stamped = head + data[16:]
            if leader_epoch != self._epochs.latest:
                with self._storage():
                    self._epochs.assign(leader_epoch, first_offset)
            self._write(stamped, last_offset, max_timestamp_ms)
            if header.producer_id >= 0:
                self._producers.record(header, first_offset, max_timestamp_ms)
        if last_offset >= self._flush_from:
            self.flush()
        # As AppendInfo(...), in a third of the time; the class is known to have these four fields.
        return tuple.__new__(AppendInfo, (first_offset, last_offset, append_time_ms, False))

    def _duplicate(self, first_offset: int, last_offset: int, timestamp_ms: int) -> AppendInfo:
        append_time_ms = timestamp_ms if self.config.is_log_append_time else -1
        return AppendInfo(first_offset, last_offset, append_time_ms, True)

    def append_as_follower(self, data: bytes | memoryview) -> AppendInfo | None:
        """Writes batches as a leader sent them; None when there is not one whole batch.

        A batch cut short at the end is left out, as a fetch may end anywhere. Raises ApiError
        CORRUPT_MESSAGE for a wrong checksum and `UnexpectedOffset` for batches below our end; the
        batches before the bad one stay written.
        """
        data = bytes(data)
        first_offset = -1
        last_offset = -1
        with self._lock:
            try:
                for position, size, header in iter_batches(data):
                    if not check_crc(data, position, size):
                        raise ApiError(
                            Errors.CORRUPT_MESSAGE,
                            f"batch at offset {header.base_offset} of {self.tp} is corrupt",
                        )
                    if header.base_offset < self.log_end_offset or header.last_offset_delta < 0:
                        raise UnexpectedOffset(
                            f"batch at offset {header.base_offset} of {self.tp}, the log ends at "
                            f"{self.log_end_offset}"
                        )
                    if header.leader_epoch != self._epochs.latest:
                        with self._storage():
                            self._epochs.assign(header.leader_epoch, header.base_offset)
                    if not self._segments[-1].can_hold(header.last_offset):
                        with self._storage():  # compaction took two thousand million records
                            self._roll(header.base_offset)
                    self._write(
                        data[position : position + size], header.last_offset, header.max_timestamp
                    )
                    if header.producer_id >= 0:
                        self._producers.record(header, header.base_offset, header.max_timestamp)
                    if first_offset < 0:
                        first_offset = header.base_offset
                    last_offset = header.last_offset
            except WireError as error:
                if "magic" in str(error):
                    raise ApiError(Errors.CORRUPT_MESSAGE, f"{self.tp}: {error}") from error
        if last_offset >= self._flush_from:
            self.flush()
        return None if first_offset < 0 else AppendInfo(first_offset, last_offset, -1, False)

    def _write(self, data: bytes, last_offset: int, max_timestamp_ms: int) -> None:
        config = self.config
        segment = self._segments[-1]
        end = segment.size_bytes + len(data)
        try:
            if (
                end > config.segment_bytes or max_timestamp_ms > segment.roll_after_ms
            ) and segment.is_full(end, max_timestamp_ms, config, self._now_ms()):
                segment = self._roll()
                end = len(data)
            if end > segment.allocated_bytes and config.preallocate:
                segment.allocate(end, config.segment_bytes)
            segment.append(data, last_offset, max_timestamp_ms)
            if end == len(data):
                segment.time_roll(config)
        except OSError as error:
            raise self._failed(error) from error
        # As LogView(...), in a third of the time.
        fields = (self._view.segments, last_offset + 1, end, self._truncations)
        self._view = tuple.__new__(LogView, fields)

    # ---- truncation ------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> bool:
        """Cuts the log so that it ends at `offset`; whether anything was cut.

        A batch that holds `offset` in its middle goes as a whole.
        """
        with self._lock, self._storage():
            before = self.recovery_point, self.log_start_offset
            cut = self._truncate_to(max(0, offset))
            lowered = (self.recovery_point, self.log_start_offset) != before
        if lowered:
            self.owner.positions_lowered(self)
        return cut

    def _truncate_to(self, offset: int) -> bool:
        if offset >= self.log_end_offset:
            # An epoch that began here without a record may conflict with the leader's.
            self._epochs.truncate_from_end(offset)
            return False
        self._truncations += 1
        segments = self._segments
        if offset < segments[0].base_offset:
            self._restart_at(offset)
            return True
        try:
            while len(segments) > 1 and segments[-1].base_offset > offset:
                segments[-1].delete()
                segments = segments[:-1]
            segments[-1].truncate_to(offset)
            segments[-1].time_roll(self.config)
        finally:
            self._show(segments, offset)
        removal.remove_snapshots(self.dir, beyond=offset)
        self.log_start_offset = min(self.log_start_offset, offset)
        self.cleaned_upto = min(self.cleaned_upto, offset)
        self._set_recovery_point(min(self.recovery_point, offset))
        self._epochs.truncate_from_end(offset)
        if self._producers.reaches(offset):
            load_producers(list(segments), self._producers, None, clean=True)
        return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empties the log; the next offset is `offset`."""
        with self._lock, self._storage():
            self._truncations += 1
            self._restart_at(offset)
        self.owner.positions_lowered(self)

    def _restart_at(self, offset: int) -> None:
        for segment in self._segments:
            segment.delete()
        removal.remove_snapshots(self.dir, beyond=-1)
        segment = self._new_segment(offset)
        self._epochs.clear()
        self._producers.clear()
        self.log_start_offset = offset
        self._show((segment,), offset)
        self.cleaned_upto = min(self.cleaned_upto, offset)
        self._set_recovery_point(offset)

    # ---- the rest --------------------------------------------------------------------------------

    def start_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """We lead in `leader_epoch`, from `start_offset` on."""
        with self._lock, self._storage():
            self._epochs.assign(leader_epoch, start_offset)

    def update_config(self, config: LogConfig) -> None:
        """New settings take effect with the next append or cleanup. Raises ApiError
        KAFKA_STORAGE_ERROR."""
        with self._lock, self._storage():
            self.config = config
            self._stamps_time = config.is_log_append_time
            self._set_recovery_point(self.recovery_point)
            self._segments[-1].time_roll(config)

    def close(self) -> None:
        """Trims the active segment, writes indexes and a producer snapshot, flushes. Raises
        ApiError KAFKA_STORAGE_ERROR."""
        with self._lock, self._storage():
            if self._closed:
                return
            self._closed = True
            self._segments[-1].seal()
            self._producers.write_snapshot(self.dir / f"{self.log_end_offset:020d}.snapshot")
        self.flush()

    def rename_for_deletion(self) -> None:
        """Moves the directory out of the way (`<topic>-<partition>.<32 hex digits>-delete`).

        From here on a topic of the same name may come anew, and a crash does not revive this one.
        Raises ApiError KAFKA_STORAGE_ERROR.
        """
        with self._lock, self._storage():
            self._is_leaving = True  # before: others flush meanwhile
            self.dir = removal.rename_for_deletion(self.dir, self.tp)

    def delete(self) -> None:
        """Removes the directory; reads under way may still finish. Raises ApiError
        KAFKA_STORAGE_ERROR."""
        with self._lock, self._storage():
            self._closed = True
            self._show(self._segments[-1:], self.log_end_offset)
            removal.delete_directory(self.dir)

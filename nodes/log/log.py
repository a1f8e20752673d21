"""One partition's log: an ordered list of segments, the last one active (Kafka's UnifiedLog).

Offsets rise and may have gaps. `log_start_offset` is the first offset that may be read,
`log_end_offset` the next to be written. The directory is `<log dir>/<topic>-<partition>`.

Threads: one lock guards everything that changes the log or its positions. It is held for an append
(one small write to preallocated space) and for finding positions; a read's record bytes come
through `pread` outside it, and are read again if a truncation came between. The Partition above has
its own lock; this one is always taken inside it and never calls out.

Crash: after kill -9 `Log.open(clean_shutdown=False)` walks the segments that were not flushed, cuts
a torn tail, and rebuilds indexes, leader epochs and producer state from the batches themselves.
"""

from __future__ import annotations

import logging
import struct
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log import cleaner, removal, retention
from nodes.log.checkpoints import LEADER_EPOCHS, sync_directory
from nodes.log.config import LogConfig
from nodes.log.epoch_cache import LeaderEpochCache
from nodes.log.loading import load_producers, load_segments
from nodes.log.owner import LogOwner, Nobody
from nodes.log.producer_state import ActiveProducer, ProducerState
from nodes.log.segment import Segment
from nodes.log.slices import LogSlice, OffsetPosition, StaleSlice
from nodes.log.validation import validate_produced
from nodes.wire.errors import WireError
from nodes.wire.records import check_crc, iter_batches, iter_records, set_log_append_time

_logger = logging.getLogger("kafka.log.UnifiedLog")
#: What a leader rewrites: base offset, (length), leader epoch. The checksum does not cover it.
_REWRITTEN: Final = struct.Struct(">qii")
_PRODUCER_EXPIRATION_MS: Final = 24 * 3600 * 1000
NEVER_CLEANED: Final = -1


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


class Log:
    """See the module's text. Made by `Log.open`."""

    def __init__(self, directory: Path, tp: TopicPartition, config: LogConfig) -> None:
        self.dir = directory
        self.tp = tp
        self.config = config
        self._stamps_time = config.is_log_append_time
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.cleaned_upto = NEVER_CLEANED
        self._now_ms: Callable[[], int] = lambda: 0
        self.owner: LogOwner = Nobody()
        self._lock = threading.Lock()
        self._segments: list[Segment] = []
        self._epochs = LeaderEpochCache(directory / LEADER_EPOCHS)
        self._producers = ProducerState()
        #: Grows with each truncation, so that a read notices one that came between.
        self._truncations = 0
        self._closed = False
        self._last_flush_ms = 0
        #: The last offset from which on an append must flush (flush.messages).
        self._flush_from = 0

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
    ) -> Log:
        """Opens a partition's log, made empty if there is none.

        `cleaned_upto`: so far compaction came once, whatever the policy is now.
        Offsets below `recovery_point` are known to be on the disk. `verify_tail=False` leaves out
        the checksums of a recovery (a planted bug).
        """
        dir.mkdir(parents=True, exist_ok=True)
        log = cls(dir, tp, config)
        log._now_ms = now_ms
        cleaner.finish_swaps(dir)
        log._segments = load_segments(
            dir,
            config,
            trusted_upto=None if clean_shutdown else recovery_point,
            first_offset=log_start_offset,
            verify=verify_tail,
            may_have_gaps=cleaned_upto >= 0 or config.is_compacted,
            now_ms=now_ms(),
        )
        log.log_start_offset = max(log_start_offset, log._segments[0].base_offset)
        log.log_end_offset = log._segments[-1].next_offset
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
        load_producers(log._segments, log._producers, log._epochs, clean=clean_shutdown)
        log._segments[-1].time_roll(config.segment_ms)
        log._mark_flushed(log.recovery_point)
        return log

    def __repr__(self) -> str:
        return f"Log({self.tp}, {self.log_start_offset}..{self.log_end_offset})"

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
    def epoch_entries(self) -> list[tuple[int, int]]:
        """(leader_epoch, start_offset), rising."""
        with self._lock:
            return self._epochs.entries

    def active_producers(self) -> list[ActiveProducer]:
        """The idempotent producers that are remembered."""
        with self._lock:
            return self._producers.active()

    def append_as_leader(self, data: bytes | memoryview, leader_epoch: int) -> AppendInfo:
        """Validates one produced batch, gives it offsets and the leader epoch, and writes it.

        Raises ApiError: see `validate_produced` and `ProducerState.check`; KAFKA_STORAGE_ERROR
        when the disk refuses.
        """
        if not isinstance(data, bytes):
            data = bytes(data)
        data, header = validate_produced(data, self.tp, self.config)
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
                segment.time_roll(config.segment_ms)
        except OSError as error:
            raise self._failed(error) from error
        self.log_end_offset = last_offset + 1

    def _failed(self, error: OSError) -> ApiError:
        """The disk refused: somebody has to decide about the whole directory."""
        self.owner.failed(self.dir.parent, error)
        return ApiError(Errors.KAFKA_STORAGE_ERROR, f"{self.tp}: {error}")

    @contextmanager
    def _storage(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(error) from error

    def _roll(self, base_offset: int | None = None) -> Segment:
        self._segments[-1].seal()
        # Not the log's end: it lies higher where a truncation cut a batch in its middle, and after
        # a restart this would look like a hole.
        offset = self._segments[-1].next_offset if base_offset is None else base_offset
        self._producers.write_snapshot(self.dir / f"{offset:020d}.snapshot")
        segment = Segment.create(self.dir, offset, self.config, opened_ms=self._now_ms())
        self._segments.append(segment)
        self.owner.rolled(self, offset)
        return segment

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
        with self._lock:
            if not self.log_start_offset <= offset <= self.log_end_offset:
                raise ApiError(
                    Errors.OFFSET_OUT_OF_RANGE,
                    f"offset {offset} of {self.tp} is outside of {self.log_start_offset}.."
                    f"{self.log_end_offset}",
                )
            return self._locate(offset, max_bytes, max_offset, min_one)

    @property
    def truncations(self) -> int:
        """How many there have been, one that is under way included."""
        return self._truncations

    def position_of(self, offset: int) -> OffsetPosition:
        """Where the batch is that holds `offset`, or the next one after it. At the log's end that
        costs no look into the file."""
        with self._lock:
            if offset < self.log_end_offset:
                for segment in self._segments[self._index_of(offset) :]:
                    start = segment.position_of(offset)
                    if start is not None:
                        return OffsetPosition(offset, segment.base_offset, start)
            active = self._segments[-1]
            return OffsetPosition(offset, active.base_offset, active.size_bytes)

    def _locate(
        self, offset: int, max_bytes: int, max_offset: int | None, min_one: bool
    ) -> LogSlice | None:
        if offset >= self.log_end_offset or (max_offset is not None and offset >= max_offset):
            return None
        for segment in self._segments[self._index_of(offset) :]:
            start = segment.position_of(offset)
            if start is not None:
                end = segment.end_of_read(start, max_bytes, max_offset, min_one)
                position = OffsetPosition(offset, segment.base_offset, start)
                return LogSlice(self, segment.file, position, end - start) if end > start else None
        return None

    def _index_of(self, offset: int) -> int:
        bases = [segment.base_offset for segment in self._segments]
        return max(0, bisect_right(bases, offset) - 1)

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
        if offset < self._segments[0].base_offset:
            self._restart_at(offset)
            return True
        while len(self._segments) > 1 and self._segments[-1].base_offset > offset:
            self._segments.pop().delete()
        segment = self._segments[-1]
        segment.truncate_to(offset)
        segment.time_roll(self.config.segment_ms)
        removal.remove_snapshots(self.dir, beyond=offset)
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.cleaned_upto = min(self.cleaned_upto, offset)
        self._set_recovery_point(min(self.recovery_point, offset))
        self._epochs.truncate_from_end(offset)
        if self._producers.reaches(offset):
            load_producers(self._segments, self._producers, None, clean=True)
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
        self._segments = [Segment.create(self.dir, offset, self.config, opened_ms=self._now_ms())]
        self._epochs.clear()
        self._producers.clear()
        self.log_start_offset = self.log_end_offset = offset
        self.cleaned_upto = min(self.cleaned_upto, offset)
        self._set_recovery_point(offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(leader_epoch, end_offset) of the largest epoch <= the asked one; (-1, -1) if unknown."""
        with self._lock:
            return self._epochs.end_offset_for(leader_epoch, self.log_end_offset)

    def start_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """We lead in `leader_epoch`, from `start_offset` on."""
        with self._lock, self._storage():
            self._epochs.assign(leader_epoch, start_offset)

    def offset_for_timestamp(self, timestamp_ms: int) -> tuple[int, int, int] | None:
        """(timestamp_ms, offset, leader_epoch) of the first record at or after a time, or None.

        A compressed batch that cannot be opened here answers with its own bounds.
        """
        with self._lock:
            segments = [s for s in self._segments if s.max_timestamp_ms >= timestamp_ms]
            log_start_offset = self.log_start_offset
        for segment in segments:
            start = segment.position_for_timestamp(timestamp_ms)
            for position, header in segment.headers(start):
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

    def offset_of_max_timestamp(self) -> tuple[int, int, int] | None:
        """(timestamp_ms, offset, leader_epoch) of the newest record by time (ListOffsets -3)."""
        with self._lock:
            newest = max((segment.max_timestamp_ms for segment in self._segments), default=-1)
        return self.offset_for_timestamp(newest) if newest >= 0 else None

    def epoch_at(self, offset: int) -> int:
        """The leader epoch of an offset, -1 when unknown."""
        with self._lock:
            return self._epochs.epoch_at(offset)

    def advance_log_start_offset(self, offset: int, reason: str) -> bool:
        """Nothing below `offset` may be read any more; segments wholly below it go with the next
        `delete_old_segments`. `reason` is for who reads logs and traces."""
        with self._lock:
            if not self.log_start_offset < offset <= self.log_end_offset:
                return False
            with self._storage():
                self._advance_start(offset, reason)
            return True

    def _advance_start(self, offset: int, reason: str) -> None:
        before, self.log_start_offset = self.log_start_offset, offset
        _logger.info(
            "[UnifiedLog partition=%s, dir=%s] Incremented log start offset to %d due to %s",
            self.tp, self.dir.parent, offset, reason,
        )  # fmt: skip
        self._epochs.truncate_from_start(offset)
        self.owner.start_moved(self, before, reason)

    def update_config(self, config: LogConfig) -> None:
        """New settings take effect with the next append or cleanup."""
        with self._lock:
            self.config = config
            self._stamps_time = config.is_log_append_time
            self._set_recovery_point(self.recovery_point)
            self._segments[-1].time_roll(config.segment_ms)

    def delete_old_segments(self, high_watermark: int, now_ms: int) -> int:
        """Lets go what `nodes.log.retention` says; returns how many segments went."""
        with self._lock, self._storage():
            self._producers.expire(now_ms - _PRODUCER_EXPIRATION_MS)
            gone: list[Segment] = []
            while True:
                state = retention.LogState(
                    self.log_start_offset, self.log_end_offset, high_watermark
                )
                count, reason = retention.expired(self._segments, state, self.config, now_ms)
                if not count:
                    break
                if count == len(self._segments):
                    self._roll()
                for segment in self._segments[:count]:
                    _logger.info(
                        "%s: deleting segment %d due to %s", self.tp, segment.base_offset, reason
                    )
                start = self._segments[count].base_offset
                if start > self.log_start_offset:
                    self._advance_start(start, f"segment deletion ({reason})")
                gone += self._segments[:count]
                del self._segments[:count]
        # Taking a large file off the disk takes time, which no append is to wait for. In this order
        # a crash leaves the newest of them, and no hole.
        with self._storage():
            for segment in gone:
                segment.delete()
        return len(gone)

    @property
    def last_flush_ms(self) -> int:
        """When the log was last flushed, or opened."""
        return self._last_flush_ms

    def clean(self, high_watermark: int) -> bool:
        """Compacts, if there is enough to do; whether it did, and `cleaned_upto` moved. For one
        thread. Raises ApiError KAFKA_STORAGE_ERROR."""
        with self._lock:
            segments, directory = list(self._segments), self.dir
            truncations = self._truncations
            cleaned_upto = max(self.cleaned_upto, self.log_start_offset)
        dirty = cleaner.dirty_part(
            segments, self.config, cleaned_upto=cleaned_upto, high_watermark=high_watermark
        )
        if dirty is None:
            return False
        try:
            is_clean = cleaner.clean(self, dirty, self._now_ms())
        except OSError as error:
            with self._lock:
                if self._closed or self.dir != directory:
                    return False  # it was deleted meanwhile
            raise self._failed(error) from error
        with self._lock:
            if is_clean and truncations == self._truncations:
                self.cleaned_upto = dirty.end
        return is_clean

    def last_offsets_of_producers(self) -> set[int]:
        """Where the last batch of each remembered producer ends."""
        with self._lock:
            return self._producers.last_offsets()

    def replace_segments(self, old: list[Segment], new: Segment) -> bool:
        """Puts a cleaned segment in the place of neighbours; False when one of them is gone."""
        with self._lock:
            at = next((n for n, s in enumerate(self._segments) if s is old[0]), -1)
            if self._closed or at < 0 or self._segments[at : at + len(old)] != old:
                return False
            swap = self.dir / (new.path.name + cleaner.SWAP_SUFFIX)
            new.path.rename(swap)
            sync_directory(self.dir)
            for segment in old:
                segment.delete(keep_snapshot=segment is old[0])
            swap.rename(self.dir / new.path.name)
            new.move_to(self.dir)
            self._segments[at : at + len(old)] = [new]
            return True

    def flush(self, upto: int | None = None) -> None:
        """What lies below `upto` is on the disk when it returns (None: everything appended before
        the call), and the recovery point has moved there. Raises ApiError KAFKA_STORAGE_ERROR."""
        with self._lock:
            end = self.log_end_offset if upto is None else upto
            recovery_point = self.recovery_point
            truncations = self._truncations
            segments = [
                segment
                for segment in self._segments[self._index_of(recovery_point) :]
                if segment.base_offset < end or upto is None
            ]
            if end <= recovery_point and not self._closed:
                return
            with self._storage():
                for segment in segments:
                    segment.complete_indexes()
        with self._storage():
            for segment in segments:
                segment.flush()
            if any(segment.base_offset >= recovery_point for segment in segments):
                sync_directory(self.dir)
        with self._lock:
            # What a truncation put in the place of what was flushed is not on the disk.
            if truncations == self._truncations:
                self._mark_flushed(max(self.recovery_point, end))

    def _mark_flushed(self, upto: int) -> None:
        self._last_flush_ms = self._now_ms()
        self._set_recovery_point(upto)

    def _set_recovery_point(self, offset: int) -> None:
        self.recovery_point = offset
        self._flush_from = offset + self.config.flush_messages - 1

    def close(self) -> None:
        """Trims the active segment, writes indexes and a producer snapshot, flushes."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._segments[-1].seal()
            self._producers.write_snapshot(self.dir / f"{self.log_end_offset:020d}.snapshot")
        self.flush()

    def rename_for_deletion(self) -> None:
        """Moves the directory out of the way (`<topic>-<partition>.<32 hex digits>-delete`).

        From here on a topic of the same name may come anew, and a crash does not revive this one.
        """
        with self._lock:
            self.dir = removal.rename_for_deletion(self.dir, self.tp)

    def delete(self) -> None:
        """Removes the directory; reads under way may still finish."""
        with self._lock:
            self._closed = True
            self._segments = self._segments[-1:]
            removal.delete_directory(self.dir)

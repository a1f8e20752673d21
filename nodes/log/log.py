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

import struct
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log import removal
from nodes.log.checkpoints import LEADER_EPOCHS
from nodes.log.config import LogConfig
from nodes.log.epoch_cache import LeaderEpochCache
from nodes.log.loading import load_producers, load_segments
from nodes.log.producer_state import ActiveProducer, ProducerState
from nodes.log.segment import Segment
from nodes.log.slices import LogSlice, OffsetPosition, StaleSlice
from nodes.log.validation import validate_produced
from nodes.wire.errors import WireError
from nodes.wire.records import check_crc, iter_batches, iter_records, set_log_append_time

#: What a leader rewrites: base offset, (length), leader epoch. The checksum does not cover it.
_REWRITTEN: Final = struct.Struct(">qii")
_PRODUCER_EXPIRATION_MS: Final = 24 * 3600 * 1000


class AppendInfo(NamedTuple):
    """What an append did; `log_append_time_ms` is -1 under CreateTime.

    `duplicate`: nothing was written, the offsets are those of the first time.
    """

    first_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool


OnFailure = Callable[[Path, OSError], None]
"""A disk refused: (log directory, why). Called under a log's lock; must not call back."""


def _unheard(_directory: Path, _error: OSError) -> None:
    """For logs without a manager."""


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
        self._now_ms: Callable[[], int] = lambda: 0
        self.on_failure: OnFailure = _unheard
        self._lock = threading.Lock()
        self._segments: list[Segment] = []
        self._epochs = LeaderEpochCache(directory / LEADER_EPOCHS)
        self._producers = ProducerState()
        #: Grows with each truncation, so that a read notices one that came between.
        self._truncations = 0
        self._closed = False

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
    ) -> Log:
        """Opens a partition's log, made empty if there is none.

        Offsets below `recovery_point` are known to be on the disk. `verify_tail=False` leaves out
        the checksums of a recovery (a planted bug).
        """
        dir.mkdir(parents=True, exist_ok=True)
        log = cls(dir, tp, config)
        log._now_ms = now_ms
        log._segments = load_segments(
            dir,
            config,
            trusted_upto=1 << 62 if clean_shutdown else recovery_point,
            first_offset=log_start_offset,
            verify=verify_tail,
        )
        log.log_start_offset = max(log_start_offset, log._segments[0].base_offset)
        log.log_end_offset = log._segments[-1].next_offset
        log.log_end_offset = max(log.log_end_offset, log.log_start_offset)
        log.recovery_point = min(recovery_point, log.log_end_offset)
        log._epochs.truncate_from_end(log.log_end_offset)
        load_producers(log._segments, log._producers, log._epochs, clean=clean_shutdown)
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
        header = validate_produced(data, self.tp, self.config)
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
        return None if first_offset < 0 else AppendInfo(first_offset, last_offset, -1, False)

    def _write(self, data: bytes, last_offset: int, max_timestamp_ms: int) -> None:
        config = self.config
        segment = self._segments[-1]
        end = segment.size_bytes + len(data)
        try:
            if end > config.segment_bytes and segment.size_bytes:
                segment = self._roll()
                end = len(data)
            if end > segment.allocated_bytes and config.preallocate:
                segment.allocate(end, config.segment_bytes)
            segment.append(data, last_offset, max_timestamp_ms)
        except OSError as error:
            raise self._failed(error) from error
        self.log_end_offset = last_offset + 1

    def _failed(self, error: OSError) -> ApiError:
        """The disk refused: somebody has to decide about the whole directory."""
        self.on_failure(self.dir.parent, error)
        return ApiError(Errors.KAFKA_STORAGE_ERROR, f"{self.tp}: {error}")

    @contextmanager
    def _storage(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failed(error) from error

    def _roll(self) -> Segment:
        self._segments[-1].seal()
        offset = self.log_end_offset
        self._producers.write_snapshot(self.dir / f"{offset:020d}.snapshot")
        segment = Segment(self.dir, offset, index_interval_bytes=self.config.index_interval_bytes)
        self._segments.append(segment)
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
            if offset >= self.log_end_offset:
                # An epoch that began here without a record may conflict with the leader's.
                self._epochs.truncate_from_end(offset)
                return False
            offset = max(0, offset)
            self._truncations += 1
            if offset < self._segments[0].base_offset:
                self._restart_at(offset)
                return True
            while len(self._segments) > 1 and self._segments[-1].base_offset > offset:
                self._segments.pop().delete()
            segment = self._segments[-1]
            segment.unseal()
            segment.truncate_to(offset)
            removal.remove_snapshots(self.dir, beyond=offset)
            self.log_end_offset = offset
            self.log_start_offset = min(self.log_start_offset, offset)
            self.recovery_point = min(self.recovery_point, offset)
            self._epochs.truncate_from_end(offset)
            if self._producers.reaches(offset):
                load_producers(self._segments, self._producers, None, clean=True)
            return True

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Empties the log; the next offset is `offset`."""
        with self._lock, self._storage():
            self._truncations += 1
            self._restart_at(offset)

    def _restart_at(self, offset: int) -> None:
        for segment in self._segments:
            segment.delete()
        removal.remove_snapshots(self.dir, beyond=-1)
        self._segments = [
            Segment(self.dir, offset, index_interval_bytes=self.config.index_interval_bytes)
        ]
        self._epochs.clear()
        self._producers.clear()
        self.log_start_offset = self.log_end_offset = self.recovery_point = offset

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

    def advance_log_start_offset(self, offset: int) -> bool:
        """Nothing below `offset` may be read any more; segments wholly below it are removed."""
        with self._lock:
            if not self.log_start_offset < offset <= self.log_end_offset:
                return False
            self.log_start_offset = offset
            self._drop_first(sum(s.next_offset <= offset for s in self._segments[:-1]))
            self._epochs.truncate_from_start(offset)
            return True

    def update_config(self, config: LogConfig) -> None:
        """New settings take effect with the next append or cleanup."""
        self.config = config
        self._stamps_time = config.is_log_append_time

    def delete_old_segments(self, high_watermark: int, now_ms: int) -> int:
        """Applies retention by time and by size; returns how many segments went.

        Only segments wholly below the high watermark go, oldest first. An active segment that is
        older than `segment.ms` is closed first, so that it can go with a later call.
        """
        with self._lock:
            self._producers.expire(now_ms - _PRODUCER_EXPIRATION_MS)
            active = self._segments[-1]
            expired_ms = min(self.config.segment_ms, max(self.config.retention_ms, 0) or 1 << 62)
            if active.size_bytes and now_ms - active.max_timestamp_ms > expired_ms:
                self._roll()
            if "delete" not in self.config.cleanup_policy:
                return 0
            count = removal.deletable(
                self._segments, self.config, high_watermark=high_watermark, now_ms=now_ms
            )
            self._drop_first(count)
            if self._segments[0].base_offset > self.log_start_offset:
                self.log_start_offset = self._segments[0].base_offset
                self._epochs.truncate_from_start(self.log_start_offset)
            return count

    def _drop_first(self, count: int) -> None:
        for segment in self._segments[:count]:
            segment.delete()
        del self._segments[:count]

    def flush(self) -> None:
        """Everything appended before the call is on the disk when it returns."""
        with self._lock:
            end = self.log_end_offset
            segments = self._segments[self._index_of(self.recovery_point) :]
        for segment in segments:
            segment.flush()
        with self._lock:
            self.recovery_point = min(max(self.recovery_point, end), self.log_end_offset)

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

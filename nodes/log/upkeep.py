"""What is done to a log beside appends, from other threads: flush, retention, compaction.

Files are written out, copied and removed without the log's lock, or appends would wait for them.
"""

from __future__ import annotations

import logging

from nodes.log import cleaner, retention
from nodes.log.checkpoints import sync_directory
from nodes.log.reads import ReadableLog
from nodes.log.segment import Segment

_logger = logging.getLogger("kafka.log.UnifiedLog")


class KeptLog(ReadableLog):
    """See the module's text."""

    def _roll(self, base_offset: int | None = None) -> Segment:
        active = self._segments[-1]
        active.seal()
        # Not the log's end: it lies higher where a truncation cut a batch in its middle, and after
        # a restart this would look like a hole.
        offset = active.next_offset if base_offset is None else base_offset
        self._producers.write_snapshot(self.dir / f"{offset:020d}.snapshot")
        segment = self._new_segment(offset)
        self._show((*self._segments, segment), self.log_end_offset)
        self.owner.rolled(self, offset)
        return segment

    def _new_segment(self, offset: int) -> Segment:
        jitter_ms = self._draw_jitter_ms()
        return Segment.create(
            self.dir, offset, self.config, opened_ms=self._now_ms(), jitter_ms=jitter_ms
        )

    def _draw_jitter_ms(self) -> int:
        bound_ms = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return self._draw_below(bound_ms) if bound_ms else 0

    # ---- to the disk -----------------------------------------------------------------------------

    def flush(self, upto: int | None = None) -> None:
        """What lies below `upto` is on the disk when it returns (None: everything appended before
        the call), and the recovery point has moved there. Raises ApiError KAFKA_STORAGE_ERROR."""
        with self._lock:
            if self._is_leaving:
                return
            end = self.log_end_offset if upto is None else upto
            recovery_point = self.recovery_point
            truncations = self._truncations
            segments = [
                segment
                for segment in self._segments[self._view.index_of(recovery_point) :]
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

    # ---- off it ----------------------------------------------------------------------------------

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

    def expire_producers(self, upto_ms: int) -> None:
        """Forgets producers whose last batch is of that time or older."""
        with self._lock:
            self._producers.expire(upto_ms)

    def delete_old_segments(self, high_watermark: int, now_ms: int) -> int:
        """Lets go what `nodes.log.retention` says; returns how many segments went."""
        with self._lock, self._storage():
            if self._is_leaving:
                return 0
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
                self._show(self._segments[count:], self.log_end_offset)
        # Taking a large file off the disk takes time, which no append is to wait for. In this order
        # a crash leaves the newest of them, and no hole.
        with self._storage():
            for segment in gone:
                segment.delete()
        return len(gone)

    # ---- compaction ------------------------------------------------------------------------------

    def clean(self, high_watermark: int) -> bool:
        """Compacts, if there is enough to do; whether it did, and `cleaned_upto` moved. For one
        thread. Raises ApiError KAFKA_STORAGE_ERROR."""
        with self._lock:
            segments, directory = list(self._segments), self.dir
            truncations = self._truncations
            cleaned_upto = max(self.cleaned_upto, self.log_start_offset)
        now_ms = self._now_ms()
        try:
            dirty = cleaner.dirty_part(
                segments,
                self.config,
                now_ms,
                cleaned_upto=cleaned_upto,
                high_watermark=high_watermark,
            )
            if dirty is None:
                return False
            is_clean = cleaner.clean(self, dirty, now_ms)
        except OSError as error:
            with self._lock:
                if self._closed or self.dir != directory:
                    return False  # it was deleted meanwhile
            raise self._failed(error) from error
        with self._lock:
            if is_clean and truncations == self._truncations:
                self.cleaned_upto = dirty.end
        return is_clean

    def replace_segments(self, old: list[Segment], new: Segment) -> bool:
        """Puts a cleaned segment in the place of neighbours; False when one of them is gone."""
        with self._lock:
            segments = list(self._segments)
            at = next((n for n, segment in enumerate(segments) if segment is old[0]), -1)
            if self._closed or at < 0 or segments[at : at + len(old)] != old:
                return False
            swap = self.dir / (new.path.name + cleaner.SWAP_SUFFIX)
            new.path.rename(swap)
            sync_directory(self.dir)
            for segment in old:
                segment.delete(keep_snapshot=segment is old[0])
            swap.rename(self.dir / new.path.name)
            new.move_to(self.dir)
            segments[at : at + len(old)] = [new]
            self._show(tuple(segments), self.log_end_offset)
            return True

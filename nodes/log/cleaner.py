"""Compaction: of records with the same key only the last one stays (Kafka's LogCleaner).

What is cleaned lies below the *first uncleanable offset*: the high watermark or the start of the
active segment, whichever is lower. The part above the offset up to which the last run came (the
*dirty* part) says which offset is the last of each key; then everything below is copied without the
records that it overrides. Offsets stay as they are, so a cleaned log has gaps. A record without a
value (a tombstone) is overridden by nobody; it goes `delete.retention.ms` after the run that first
saw it, so that readers have that long to see it. That run writes its due time into the batch
(attribute bit 6, KIP-534), where it is kept in place of the base timestamp. A batch of which
nothing is left goes, but for the last one of a producer that is remembered: it stays, empty, as the
memory of its sequence.

Segments are copied in groups that fit into one, into `cleaned/` beside them; the copy is brought to
the disk, becomes `<base>.log.swap`, and takes the place of the originals under the log's lock. A
crash before that leaves `cleaned/`, which is thrown away; one after it leaves the swap file, which
the next start puts in place (`nodes.log.loading`).

Keys are held in memory, all of a dirty part at once. A batch whose codec cannot be opened here is
kept as it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from nodes.log.config import LogConfig
from nodes.log.segment import Segment
from nodes.wire.errors import WireError
from nodes.wire.records import BatchHeader, Record, filtered_batch, iter_batches, iter_records

if TYPE_CHECKING:
    from nodes.log.upkeep import KeptLog

SCRATCH: Final = "cleaned"
SWAP_SUFFIX: Final = ".swap"


class Dirty(NamedTuple):
    """What there is to clean, in segments below the first uncleanable offset."""

    segments: list[Segment]
    first_dirty: int
    end: int
    ratio: float


def dirty_part(
    segments: Sequence[Segment],
    config: LogConfig,
    now_ms: int,
    *,
    cleaned_upto: int,
    high_watermark: int,
) -> Dirty | None:
    """What of a log's segments, the active one last, should be cleaned now; None: nothing.

    Nothing is cleaned before the dirty part is more than `min.cleanable.dirty.ratio` of the whole,
    or begins with records older than `max.compaction.lag.ms`; and nothing that is dirty from the
    first segment on with a record younger than `min.compaction.lag.ms`.
    """
    below = []
    lag_ms = config.min_compaction_lag_ms
    for segment, following in pairwise(segments):
        end = following.base_offset
        is_dirty = end > cleaned_upto
        if end > high_watermark or (
            is_dirty and lag_ms and segment.largest_timestamp_ms > now_ms - lag_ms
        ):
            break
        below.append((segment, end))
    if not below:
        return None
    end = below[-1][1]
    dirty = [s for s, s_end in below if s_end > cleaned_upto]
    dirty_bytes = sum(s.size_bytes for s in dirty)
    total_bytes = sum(s.size_bytes for s, _ in below)
    ratio = dirty_bytes / total_bytes if total_bytes else 0.0
    if not dirty_bytes or not (
        ratio > config.min_cleanable_dirty_ratio or _is_overdue(dirty, config, now_ms)
    ):
        return None
    return Dirty([s for s, _ in below], cleaned_upto, end, ratio)


def _is_overdue(dirty: Sequence[Segment], config: LogConfig, now_ms: int) -> bool:
    due_ms = now_ms - config.max_compaction_lag_ms
    return due_ms > 0 and any(0 < segment.first_timestamp_ms < due_ms for segment in dirty)


def last_offsets(dirty: Dirty) -> dict[bytes, int]:
    """The last offset of each key in the dirty part."""
    found: dict[bytes, int] = {}
    for segment in dirty.segments:
        if segment.next_offset <= dirty.first_dirty:
            continue
        for data, header in _batches(segment):
            if header.last_offset < dirty.first_dirty or header.is_control:
                continue
            try:
                for record in iter_records(data):
                    if record.key is not None and record.offset >= dirty.first_dirty:
                        found[record.key] = record.offset
            except WireError:
                continue
    return found


def stays(record: Record, last: Mapping[bytes, int], delete_due: bool) -> bool:
    """Whether a record below the first uncleanable offset is kept; `delete_due`: tombstones of its
    batch have been there long enough."""
    if record.key is None or record.offset < last.get(record.key, -1):
        return False
    return record.value is not None or not delete_due


def clean_batch(
    data: bytes,
    header: BatchHeader,
    last: Mapping[bytes, int],
    *,
    is_producers_last: bool,
    now_ms: int,
    delete_retention_ms: int,
) -> bytes:
    """What is left of a batch: itself, a smaller one, or nothing (empty)."""
    if header.is_control:
        return data
    horizon_ms = header.delete_horizon_ms
    try:
        records = list(iter_records(data))
    except WireError:
        return data
    due = horizon_ms is not None and horizon_ms <= now_ms
    kept = [record for record in records if stays(record, last, due)]
    if horizon_ms is None and any(record.value is None for record in kept):
        horizon_ms = now_ms + delete_retention_ms
    elif len(kept) == len(records):
        return data
    if not kept and not is_producers_last:
        return b""
    return filtered_batch(header, kept, delete_horizon_ms=horizon_ms)


def groups(segments: Sequence[Segment], config: LogConfig) -> Iterator[list[Segment]]:
    """Neighbours that fit into one segment."""
    group: list[Segment] = []
    size = 0
    for segment in segments:
        fits = size + segment.size_bytes <= config.segment_bytes
        if group and not (fits and group[0].can_hold(segment.next_offset)):
            yield group
            group, size = [], 0
        group.append(segment)
        size += segment.size_bytes
    if group:
        yield group


def clean(log: KeptLog, dirty: Dirty, now_ms: int) -> bool:
    """Cleans; False when the log was cut meanwhile, or deleted: then nothing is known to be clean.

    Raises OSError."""
    config = log.config
    last = last_offsets(dirty)
    producers_last = log.last_offsets_of_producers()
    scratch = log.dir / SCRATCH
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        for group in groups(dirty.segments, config):
            copy = Segment.create(scratch, group[0].base_offset, config, opened_ms=now_ms)
            for segment in group:
                for data, header in _batches(segment):
                    left = clean_batch(
                        data,
                        header,
                        last,
                        is_producers_last=header.last_offset in producers_last,
                        now_ms=now_ms,
                        delete_retention_ms=config.delete_retention_ms,
                    )
                    if left:
                        copy.append_found(left)
            copy.seal()
            copy.flush()
            copy.set_modified(group[-1])
            if not log.replace_segments(group, copy):
                return False
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return True


def _batches(segment: Segment) -> Iterator[tuple[bytes, BatchHeader]]:
    for position, header in segment.headers():
        yield segment.file.read(position, header.size_bytes), header


def finish_swaps(directory: Path) -> None:
    """At start, before anything is loaded: completes a replacement that a crash interrupted."""
    shutil.rmtree(directory / SCRATCH, ignore_errors=True)
    for swap in sorted(directory.glob("*.log" + SWAP_SUFFIX)):
        target = swap.with_suffix("")
        if not (target.stem.isascii() and target.stem.isdigit()):
            continue  # nobody's here
        base_offset = int(target.stem)
        end = base_offset + 1
        for end in _ends(swap):  # noqa: B007 (the last one is wanted)
            pass
        for path in list(directory.glob("*.log")):
            if path.stem.isascii() and path.stem.isdigit() and base_offset <= int(path.stem) < end:
                for suffix in (".index", ".timeindex", ".log"):
                    path.with_suffix(suffix).unlink(missing_ok=True)
        swap.rename(target)


def _ends(path: Path) -> Iterator[int]:
    for view in iter_batches(path.read_bytes()):
        yield view.header.next_offset

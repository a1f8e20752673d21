"""How a log comes back from its directory (Kafka's LogLoader).

A segment that was sealed and is known to be on the disk is taken over by its index; any other is
recovered batch by batch. Where recovery cuts something off a segment, or where a segment does not
begin at the offset at which the one before it ends, the log ends and later segments go: what
follows a hole cannot be trusted. A log is a prefix of its leader's, so a replica with a hole would
count as holding what it has lost. (Kafka notices a hole only where recovery cut something; it reads
over a segment whose file is gone.) Compaction leaves lawful gaps between segments; in a compacted
log an index whose segment is gone tells of a loss.
"""

from __future__ import annotations

import contextlib
import logging
import re
from pathlib import Path
from typing import Final

from nodes.log.config import LogConfig
from nodes.log.epoch_cache import LeaderEpochCache
from nodes.log.producer_state import ProducerState
from nodes.log.segment import Segment

_SEGMENT: Final = re.compile(r"[0-9]{20}\.log\Z")
"""Digits, not what `str.isdigit` takes for some: "²" is no number."""

log = logging.getLogger("kafka.log.LogLoader")


def load_segments(
    directory: Path,
    config: LogConfig,
    *,
    trusted_upto: int | None,
    first_offset: int,
    verify: bool,
    may_have_gaps: bool,
    now_ms: int,
) -> list[Segment]:
    """The segments of a directory, at least one; the last one is ready for appends.

    Segments below `trusted_upto` are on the disk as they were meant (None: all are).
    `may_have_gaps`: compaction may have taken the last records of a segment.
    """
    bases = sorted(int(path.stem) for path in directory.glob("*.log") if _SEGMENT.match(path.name))
    for leftover in directory.glob("*.tmp"):
        leftover.unlink()
    orphans = _remove_orphans(directory, set(bases))
    segments: list[Segment] = []
    torn = False
    bases = bases or [first_offset]
    for base_offset, following in zip(bases, [*bases[1:], None], strict=True):
        segment = Segment(directory, base_offset, config, opened_ms=now_ms)
        if segments and not torn:
            end = segments[-1].next_offset
            lost = any(end <= orphan < base_offset for orphan in orphans)
            torn = lost or base_offset < end or (base_offset > end and not may_have_gaps)
            if torn:
                log.warning(
                    "Corruption found in %s: no records from offset %d to %d; deleting all "
                    "segments from there on",
                    directory, end, base_offset,
                )  # fmt: skip
        if torn:
            segment.delete()
            continue
        # Of a segment that was active nobody knows whether its indexes were completed.
        flushed = trusted_upto is None or (following is not None and following <= trusted_upto)
        if not (flushed and segment.load()):
            cut_bytes = segment.recover(verify=verify)
            torn = cut_bytes > 0
            if torn:
                log.warning(
                    "Corruption found in segment %d of %s, truncating to offset %d (%d bytes)",
                    base_offset, directory, segment.next_offset, cut_bytes,
                )  # fmt: skip
        segments.append(segment)
    return segments


def _remove_orphans(directory: Path, bases: set[int]) -> list[int]:
    """Removes indexes without a segment; their base offsets."""
    orphans = []
    for path in [*directory.glob("*.index"), *directory.glob("*.timeindex")]:
        if path.stem.isascii() and path.stem.isdigit() and int(path.stem) not in bases:
            log.warning("Found an orphaned index file %s, with no corresponding log file.", path)
            path.unlink()
            orphans.append(int(path.stem))
    return orphans


def load_producers(
    segments: list[Segment],
    producers: ProducerState,
    epochs: LeaderEpochCache | None,
    *,
    clean: bool,
) -> None:
    """Rebuilds producer state from the newest usable snapshot and the headers after it.

    After an unclean stop leader epochs that the checkpoint lacks are taken from the headers, too,
    and every header is looked at for that.
    """
    directory = segments[0].path.parent
    end_offset = segments[-1].next_offset
    from_offset = _newest_snapshot(directory, producers, end_offset)
    scan_from = from_offset if clean else min(from_offset, segments[-1].base_offset)
    for segment in segments:
        if segment.next_offset <= scan_from:
            continue
        start = segment.position_of(scan_from) if scan_from > segment.base_offset else 0
        for _, header in segment.headers(start or 0):
            if epochs is not None and (
                epochs.latest is None or header.leader_epoch > epochs.latest
            ):
                epochs.assign(header.leader_epoch, header.base_offset)
            if header.producer_id >= 0 and header.base_offset >= from_offset:
                producers.record(header, header.base_offset, header.max_timestamp)


def _newest_snapshot(directory: Path, producers: ProducerState, end_offset: int) -> int:
    """Loads the newest snapshot within the log; its offset, or 0 when there is none."""
    offsets = []
    for path in directory.glob("*.snapshot"):
        with contextlib.suppress(ValueError):
            offsets.append((int(path.stem), path))
    for offset, path in sorted(offsets, reverse=True):
        if offset <= end_offset and producers.read_snapshot(path):
            return offset
    producers.clear()
    return 0

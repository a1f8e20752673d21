"""The logs as they lie on disk, read past their brokers once the final read is done.

What a broker serves it may have from memory, from an index that misleads or a checkpoint of which
its next life will know better. So the folder of every replica that was read is looked at by itself,
in Kafka's own formats, as ``kafka-dump-log`` would (`--index-sanity-check`): batches with their
checksums, offsets, times (DefaultRecordBatch) and sequences (ProducerAppendInfo), ``.index`` and
``.timeindex`` against the batches that they lead to (OffsetIndex, TimeIndex), producer snapshots
against the batches before them (ProducerStateManager), leader epochs beside
``leader-epoch-checkpoint`` (LeaderEpochFileCache), the topic's id (PartitionMetadataFile). Nothing
is written; nobody appends to topics under test any more, so that brokers may run on meanwhile. What
retention takes goes step by step, and none of that is seen half-way (`_begun`).

Rows: ``log_folder`` a replica; `checkers.promises.log_files` judges them.
"""

from __future__ import annotations

import mmap
import re
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from crc32c import crc32c

from harness.cluster.final_read import PROCESS
from nodes.wire.compression import is_readable
from nodes.wire.errors import WireError
from nodes.wire.records import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    Buffer,
    check_crc,
    iter_records,
    read_header,
)

if TYPE_CHECKING:
    from harness.cluster.cluster import Cluster

_INDEX_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")
_SNAPSHOT_HEAD: Final = struct.Struct(">hIi")
_PRODUCER: Final = struct.Struct(">qhiqiqiq")
_SNAPSHOT_VERSION: Final = 1
_SEQUENCES: Final = 2**31 - 1
_ID: Final = "topic_id: "
_GOES_S: Final = 2.0
"""So long a segment may still be there that is to go: the time of a busy machine."""
_LOOK_S: Final = 0.05
_KEPT: Final = 20
"""So much damage of one folder is told."""


class _Batch(NamedTuple):
    position: int
    first_offset: int
    last_offset: int
    max_timestamp_ms: int


class _Written(NamedTuple):
    """The last batch of an idempotent producer."""

    producer_epoch: int
    last_sequence: int
    last_offset: int


@dataclass(slots=True)
class _Reading:
    """What is known of a log, segment after segment."""

    end_offset: int = 0
    batches: int = 0
    index_entries: int = 0
    snapshots: int = 0
    epochs: list[dict[str, int]] = field(default_factory=list)
    producers: dict[int, _Written] = field(default_factory=dict)
    remembered: dict[int, tuple[int, Path]] = field(default_factory=dict)
    """By producer, the last offset that a snapshot knows of it, and which one."""
    damage: list[dict[str, str]] = field(default_factory=list)

    def damaged(self, sort: str, file: Path, says: str) -> None:
        if len(self.damage) < _KEPT:
            self.damage.append({"sort": sort, "file": file.name, "says": says})

    def has_entry(self, file: Path, wrong: Sequence[str]) -> None:
        """One of an index, and how it misleads, if it does."""
        self.index_entries += 1
        for says in wrong:
            self.damaged("index", file, says)


def record_folders(cluster: Cluster, topics: Sequence[str]) -> None:
    """A row for each replica of these topics whose node runs."""
    partitions = [s for s in cluster.view.partitions() if s.topic in topics]
    for node in cluster.node_ids:
        if not cluster.nodes.is_running(node):
            continue
        log_dir = Path(cluster.nodes.log_dir(node))
        for s in partitions:
            if node in s.replicas:
                found = read_folder(log_dir / f"{s.topic}-{s.partition}")
                at = {"node": node, "topic": s.topic, "partition": s.partition}
                cluster.record("log_folder", process=PROCESS, **at, **found)


def read_folder(folder: Path) -> dict[str, Any]:
    """The columns of a `log_folder` row, or its ``error`` alone: the folder cannot be read."""
    try:
        try:
            return _read(folder)
        except FileNotFoundError:  # a segment went after it had been seen
            return _read(folder)
    except (OSError, ValueError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


def _read(folder: Path) -> dict[str, Any]:
    segments, checkpoint, reading = _begun(folder)
    if not segments and not folder.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {folder.parent}")
    snapshots = _files(folder, ".snapshot")
    start_offset = _offset_of(segments[0]) if segments else 0
    reading.end_offset = start_offset
    kept: list[dict[str, int]] = []
    for segment, following in pairwise([*segments, None]):
        assert segment is not None
        until = None if following is None else _offset_of(following)
        batches: list[_Batch] = []
        size_bytes = 0
        for header, position in _batches(segment, reading):
            while snapshots and _offset_of(snapshots[0]) <= header.base_offset:
                _check_snapshot(snapshots.pop(0), reading)
            _note(segment, header, until, reading)
            size_bytes = position + header.size_bytes
            # What compaction has emptied tells of no record, and nobody looks for its time.
            latest_ms = header.max_timestamp if header.record_count else -1
            batches.append(_Batch(position, header.base_offset, header.last_offset, latest_ms))
        newest_ms = max((batch.max_timestamp_ms for batch in batches), default=-1)
        at = {"base_offset": _offset_of(segment), "bytes": size_bytes, "newest_ms": newest_ms}
        kept.append(at)
        _check_index(segment.with_suffix(".index"), batches, reading)
        _check_time_index(segment.with_suffix(".timeindex"), batches, reading)
    for snapshot in snapshots:  # one beyond the end is of a log that was cut, and about to go
        if _offset_of(snapshot) == reading.end_offset:
            _check_snapshot(snapshot, reading)
    _check_remembered(start_offset, reading)
    return {
        "segments": len(segments),
        "batches": reading.batches,
        "index_entries": reading.index_entries,
        "snapshots": reading.snapshots,
        "start_offset": start_offset,
        "end_offset": reading.end_offset,
        "kept": kept,
        "producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": written.producer_epoch,
                "last_sequence": written.last_sequence,
            }
            for producer_id, written in sorted(reading.producers.items())
        ],
        "epochs": reading.epochs,
        "checkpoint": checkpoint,
        "topic_id": _topic_id(folder / "partition.metadata"),
        "damage": reading.damage,
    }


def _begun(folder: Path) -> tuple[list[Path], list[dict[str, int]], _Reading]:
    """Its segments and its leader epochs, and what is wrong with these. A segment that lies wholly
    below the first of them is about to go, and waited for; what goes later is in both."""
    until = time.monotonic() + _GOES_S
    while True:
        reading = _Reading()
        checkpoint = _checkpoint(folder / "leader-epoch-checkpoint", reading)
        segments = _files(folder, ".log")
        following = _offset_of(segments[1]) if len(segments) > 1 else None
        goes = following is not None and checkpoint and checkpoint[0]["offset"] >= following
        if not goes or time.monotonic() > until:
            return segments, checkpoint, reading
        time.sleep(_LOOK_S)


def _files(folder: Path, suffix: str) -> list[Path]:
    """Those that are named by an offset, in order; others are nobody's."""
    named = re.compile(r"[0-9]{20}" + re.escape(suffix))
    return sorted(file for file in folder.glob("*") if named.fullmatch(file.name))


def _offset_of(file: Path) -> int:
    return int(file.stem)


# -- batches --------------------------------------------------------------------------------------


def _batches(segment: Path, reading: _Reading) -> Iterator[tuple[BatchHeader, int]]:
    """Each whole batch and where it lies, up to the first place where there is none."""
    with ExitStack() as stack:
        file = stack.enter_context(segment.open("rb"))
        size = segment.stat().st_size
        if not size:
            return
        data: Any = stack.enter_context(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ))
        position = 0
        while position < size:
            header = _whole(data, position, size)
            if header is None:
                says = f"the {size - position} bytes from {position} on are no whole batch"
                reading.damaged("batch", segment, says)
                return
            if not check_crc(data, position, header.size_bytes):
                says = f"the batch at {position} does not have its checksum"
                reading.damaged("batch", segment, says)
            else:
                _check_times(segment, data[position : position + header.size_bytes], reading)
            yield header, position
            position += header.size_bytes


def _whole(data: Buffer, position: int, size: int) -> BatchHeader | None:
    try:
        header = read_header(data, position)
    except WireError:
        return None
    fits = HEADER_SIZE <= header.size_bytes <= size - position
    return header if fits and header.magic == MAGIC else None


def _check_times(segment: Path, batch: bytes, reading: _Reading) -> None:
    """The header tells the latest time of its records: searches, time indexes and retention go by
    that, and no broker takes a producer's word for it (LogValidator)."""
    header = read_header(batch)
    of_its_own = header.is_log_append_time or header.is_control or header.delete_horizon_ms
    if of_its_own or not header.record_count or not is_readable(header.compression):
        return
    first = header.base_offset
    try:
        latest = max(-1, *(record.timestamp_ms for record in iter_records(batch)))
    except WireError as error:
        reading.damaged("batch", segment, f"the records from offset {first} on: {error}")
        return
    if latest != header.max_timestamp:
        says = f"the batch from offset {first} on says {header.max_timestamp}, its records {latest}"
        reading.damaged("times", segment, says)


def _note(segment: Path, header: BatchHeader, until: int | None, reading: _Reading) -> None:
    first, last = header.base_offset, header.last_offset
    if first < max(reading.end_offset, _offset_of(segment)):
        says = f"a batch begins with offset {first}, before {reading.end_offset}"
        reading.damaged("batch", segment, says)
    if until is not None and last >= until:
        reading.damaged("batch", segment, f"a batch ends with offset {last}, beyond its segment")
    reading.batches += 1
    reading.end_offset = max(reading.end_offset, header.next_offset)
    epochs = reading.epochs
    if epochs and epochs[-1]["leader_epoch"] == header.leader_epoch:
        epochs[-1]["last_offset"] = last
    elif header.leader_epoch >= 0:
        own = {"leader_epoch": header.leader_epoch, "first_offset": first, "last_offset": last}
        epochs.append(own)
    if header.producer_id >= 0 and not header.is_control:
        _check_producer(segment, header, reading)
        written = _Written(header.producer_epoch, header.last_sequence, last)
        reading.producers[header.producer_id] = written


def _check_producer(segment: Path, header: BatchHeader, reading: _Reading) -> None:
    """No leader takes a batch of an older producer epoch, or one that it has already
    (ProducerAppendInfo). What is missing between two was lost, or compacted."""
    before = reading.producers.get(header.producer_id)
    if before is None or header.producer_epoch > before.producer_epoch:
        return
    back = header.producer_epoch < before.producer_epoch
    # Sequences wrap: half of them lie ahead of the last one.
    if back or (header.base_sequence - before.last_sequence - 1) & _SEQUENCES > _SEQUENCES // 2:
        at = f"epoch {header.producer_epoch}, sequence {header.base_sequence}"
        says = f"producer {header.producer_id}: {at} from offset {header.base_offset} on, after"
        reading.damaged("producer", segment, f"{says} {before}")


# -- what lies beside them ------------------------------------------------------------------------


def _entries(
    file: Path, entry: struct.Struct, reading: _Reading
) -> tuple[list[tuple[int, ...]], bool]:
    """Up to the zeros by which a file is grown in advance, and whether it is: behind them there is
    nothing. No file: no entries, it is made anew.

    Of a file that is grown in advance only its broker knows how many entries it has: those that a
    cut took are not overwritten until others come (AbstractIndex.truncateToEntries). So from the
    first on that misleads they may be what a cut left (``stale-index``): whoever judges knows."""
    found: list[tuple[int, ...]] = []
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        return found, False
    for number in range(len(data) // entry.size):
        values = entry.unpack_from(data, number * entry.size)
        if not any(values):
            if data[number * entry.size :].strip(b"\0"):
                reading.damaged("index", file, f"entry {number} is of zeros, and others follow")
            return found, True
        found.append(values)
    return found, False


def _check_index(file: Path, batches: Sequence[_Batch], reading: _Reading) -> None:
    """A search for an offset begins at the entry before it, and goes on from there: an entry that
    leads beyond its offset hides records."""
    begins = {batch.position: batch.first_offset for batch in batches}
    before = -1
    entries, is_grown = _entries(file, _INDEX_ENTRY, reading)
    for relative, position in entries:
        offset = _offset_of(file) + relative
        wrong = []
        if position not in begins:
            wrong.append(f"offset {offset} leads to {position}: no batch is there")
        elif begins[position] > offset:
            wrong.append(f"offset {offset} leads to a batch that begins with {begins[position]}")
        if offset <= before:
            wrong.append(f"offset {offset} comes after {before}")
        if wrong and is_grown:
            return reading.damaged("stale-index", file, wrong[0])
        reading.has_entry(file, wrong)
        before = offset
    return None


def _check_time_index(file: Path, batches: Sequence[_Batch], reading: _Reading) -> None:
    """An entry promises that whatever is later than its time lies behind its offset, and that no
    batch before that one is as late (LogSegment.append): a search for just that time begins there.
    The offset is of a batch of this segment, what was cut from it has no entry
    (TimeIndex.truncateTo)."""
    ahead = iter(batches)
    end = batches[-1].last_offset if batches else -1
    batch = next(ahead, None)
    earlier, before = -1, (-1, -1)
    entries, is_grown = _entries(file, _TIME_ENTRY, reading)
    for timestamp, relative in entries:
        offset = _offset_of(file) + relative
        wrong = []
        while batch is not None and batch.last_offset < offset:
            earlier, batch = max(earlier, batch.max_timestamp_ms), next(ahead, None)
        ends_here = batch is not None and batch.last_offset == offset
        latest = max(earlier, batch.max_timestamp_ms) if batch and ends_here else earlier
        if offset > end >= 0:
            wrong.append(f"time {timestamp} leads to offset {offset}, the segment ends with {end}")
        if latest > timestamp:
            wrong.append(
                f"time {timestamp} leads to offset {offset}, and {latest} lies before that"
            )
        elif earlier == timestamp >= 0:
            wrong.append(f"time {timestamp} leads to offset {offset}, and is there before that")
        if (timestamp, offset) < before or offset < before[1]:
            wrong.append(f"time {timestamp} comes after {before[0]}")
        if wrong and is_grown:
            return reading.damaged("stale-index", file, wrong[0])
        reading.has_entry(file, wrong)
        before = (timestamp, offset)
    return None


def _check_snapshot(file: Path, reading: _Reading) -> None:
    """A producer that the log has batches of up to there is in it, with the last of them. It may
    have more: of batches that are deleted by now."""
    data = file.read_bytes()
    if len(data) < _SNAPSHOT_HEAD.size:
        return reading.damaged("snapshot", file, f"it has {len(data)} bytes")
    version, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        return None  # of a release that nobody has read yet
    content = data[6:]
    if crc32c(content) != crc or len(content) != 4 + count * _PRODUCER.size:
        return reading.damaged("snapshot", file, "it does not have its checksum, or its size")
    kept = {
        producer_id: _Written(producer_epoch, last_sequence, last_offset)
        for producer_id, producer_epoch, last_sequence, last_offset, *_ in _PRODUCER.iter_unpack(
            content[4:]
        )
    }
    reading.snapshots += 1
    for producer_id, known in kept.items():
        if known.last_offset >= reading.remembered.get(producer_id, (0, file))[0]:
            reading.remembered[producer_id] = (known.last_offset, file)
    for producer_id, written in reading.producers.items():
        if kept.get(producer_id) != written:
            says = f"producer {producer_id}: {kept.get(producer_id)}, not {written}"
            reading.damaged("snapshot", file, says)
    return None


def _check_remembered(start_offset: int, reading: _Reading) -> None:
    """The last batch of a producer is there as long as its segment is, if only as an empty one:
    compaction keeps it, and a cut takes the snapshots that know of it along."""
    for producer_id, (last_offset, file) in sorted(reading.remembered.items()):
        written = reading.producers.get(producer_id)
        if last_offset >= start_offset and (written is None or written.last_offset < last_offset):
            says = f"producer {producer_id} has written up to {last_offset}; the log has no such"
            reading.damaged("forgotten", file, f"{says} batch of it")


def _checkpoint(file: Path, reading: _Reading) -> list[dict[str, int]]:
    """Version, how many there are, and by line a leader epoch and where it begins. Until there is
    a first one, the file is empty (Kafka's), or missing."""
    try:
        lines = file.read_text().splitlines()
    except FileNotFoundError:
        return []
    try:
        pairs = [tuple(map(int, line.split())) for line in lines[2:]]
        if lines and len(pairs) != int(lines[1]):
            raise ValueError(f"it has {len(pairs)} entries, and says {lines[1]}")
        return [{"leader_epoch": epoch, "offset": offset} for epoch, offset in pairs]
    except (IndexError, ValueError) as error:
        reading.damaged("epochs", file, f"it cannot be read: {error}")
        return []


def _topic_id(file: Path) -> str | None:
    try:
        lines = file.read_text().splitlines()
    except FileNotFoundError:
        return None
    return next((line[len(_ID) :] for line in lines if line.startswith(_ID)), None)

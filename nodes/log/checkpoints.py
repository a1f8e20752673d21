"""The small text files beside the logs, in Kafka's own formats.

=============================================  =============================================
`<log dir>/recovery-point-offset-checkpoint`   version 0, count, ``topic partition offset``
`<log dir>/replication-offset-checkpoint`      the same: high watermarks
`<log dir>/log-start-offset-checkpoint`        the same: log start offsets
`<log dir>/cleaner-offset-checkpoint`          the same: up to where logs are compacted
`<log dir>/meta.properties`                    version=0, broker.id, cluster.id
`<partition>/leader-epoch-checkpoint`          version 0, count, ``leader_epoch offset``
`<partition>/partition.metadata`               ``version: 0``, ``topic_id: <base64>``
=============================================  =============================================

Every file is replaced as a whole: written beside, then renamed over the old one, so that a crash
leaves the old or the new content. Renaming protects against kill -9, `sync=True` against the loss
of power, after which any other may be empty: it then says nothing, as in Kafka (CheckpointFile).
"""

from __future__ import annotations

import base64
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

from nodes.core.topic_names import is_legal_partition
from nodes.core.types import TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
CLEANED = "cleaner-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


class CheckpointError(OSError):
    """A checkpoint file that is not what it should be; the text names file and line."""


def write_atomically(path: Path, text: str, *, sync: bool = False) -> None:
    """Replaces a file's content (see the module's text)."""
    write_bytes_atomically(path, text.encode(), sync=sync)


def write_bytes_atomically(path: Path, content: bytes, *, sync: bool = False) -> None:
    """The same for bytes."""
    beside = path.with_name(path.name + ".tmp")
    with open(beside, "wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    os.replace(beside, path)


def sync_directory(path: Path) -> None:
    """Waits until names in a directory are on the disk; one that is gone has none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_offsets(path: Path, offsets: Mapping[TopicPartition, int], *, sync: bool = False) -> None:
    """An offset checkpoint of a log directory."""
    rows = [f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())]
    write_atomically(path, _table(rows), sync=sync)


def read_offsets(path: Path) -> dict[TopicPartition, int]:
    """What `write_offsets` wrote; empty when there is no file. A line about what cannot be a
    partition is passed over: no log can have it."""
    offsets = {}
    for number, row in _rows(path):
        try:
            topic, partition, offset = row.split(" ")
            tp = TopicPartition(topic, int(partition))
            if is_legal_partition(tp):
                offsets[tp] = int(offset)
        except ValueError:
            raise CheckpointError(f"{path}, line {number}: {row!r} is no offset") from None
    return offsets


def write_leader_epochs(path: Path, entries: Iterable[tuple[int, int]]) -> None:
    """(leader_epoch, start_offset) pairs, in order."""
    write_atomically(path, _table([f"{epoch} {offset}" for epoch, offset in entries]))


def read_leader_epochs(path: Path) -> list[tuple[int, int]]:
    """What `write_leader_epochs` wrote; empty when there is no file."""
    entries = []
    for number, row in _rows(path):
        try:
            leader_epoch, offset = row.split(" ")
            entries.append((int(leader_epoch), int(offset)))
        except ValueError:
            raise CheckpointError(f"{path}, line {number}: {row!r} is no epoch") from None
    return entries


def _table(rows: list[str]) -> str:
    return "\n".join(("0", str(len(rows)), *rows)) + "\n"


def _rows(path: Path) -> list[tuple[int, str]]:
    lines = _lines(path)
    if lines in ([], ["0"]):
        return []
    if len(lines) < 2 or lines[0] != "0" or not lines[1].isdecimal():
        raise CheckpointError(f"{path}, line 1: expected version 0 and a count")
    rows = [(number, line) for number, line in enumerate(lines[2:], 3) if line]
    if len(rows) != int(lines[1]):
        raise CheckpointError(f"{path}: {len(rows)} rows, line 2 says {lines[1]}")
    return rows


def _lines(path: Path) -> list[str]:
    """None of a file that is not there. What is no text is no number and no name either."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return []


def topic_id_text(topic_id: uuid.UUID) -> str:
    """A topic id as Kafka prints it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


def topic_id_from_text(text: str) -> uuid.UUID:
    """The reverse of `topic_id_text`."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def write_partition_metadata(directory: Path, topic_id: uuid.UUID) -> None:
    """Remembers the topic id of a partition's directory."""
    text = f"version: 0\ntopic_id: {topic_id_text(topic_id)}\n"
    write_atomically(directory / PARTITION_METADATA, text)


def read_partition_metadata(directory: Path) -> uuid.UUID | None:
    """The topic id of a partition's directory, None when none was written, or none is left of it
    (see the module's text)."""
    path = directory / PARTITION_METADATA
    lines = _lines(path)
    if not lines:
        return None
    values = dict(line.split(": ", 1) for line in lines if ": " in line)
    try:
        return topic_id_from_text(values["topic_id"])
    except (KeyError, ValueError):
        raise CheckpointError(f"{path}: no topic_id in {lines}") from None


def read_properties(path: Path) -> dict[str, str]:
    """`name=value` lines; empty when there is no file."""
    return dict(
        (part.strip() for part in line.split("=", 1))  # type: ignore[misc]
        for line in _lines(path)
        if "=" in line and not line.startswith("#")
    )


def write_properties(path: Path, values: Mapping[str, str]) -> None:
    """Writes `name=value` lines, synced."""
    write_atomically(path, "".join(f"{k}={v}\n" for k, v in values.items()), sync=True)

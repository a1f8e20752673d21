"""How parts of a log go: what retention may take, snapshots, and the whole directory."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from nodes.core.topic_names import MAX_FILE_NAME_BYTES
from nodes.core.types import TopicPartition
from nodes.log.config import LogConfig
from nodes.log.paths import inside
from nodes.log.segment import Segment

DELETE_SUFFIX: Final = "-delete"
_DELETED: Final = re.compile(rf".+\.[0-9a-f]{{32}}{DELETE_SUFFIX}")


def deletable(
    segments: Sequence[Segment], config: LogConfig, *, high_watermark: int, now_ms: int
) -> int:
    """How many of the first segments retention lets go; never the active one.

    By size, the oldest goes while what remains is still at least `retention.bytes`; by time, when
    its newest record is older than `retention.ms`. Both stop at the high watermark.
    """
    surplus = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    count = 0
    for segment in segments[:-1]:
        too_large = config.retention_bytes >= 0 and surplus >= segment.size_bytes
        too_old = (
            config.retention_ms >= 0 and now_ms - segment.max_timestamp_ms > config.retention_ms
        )
        if segment.next_offset > high_watermark or not (too_large or too_old):
            break
        surplus -= segment.size_bytes
        count += 1
    return count


def remove_snapshots(directory: Path, *, beyond: int) -> None:
    """Removes producer snapshots taken after an offset."""
    for path in directory.glob("*.snapshot"):
        if path.stem.isdecimal() and int(path.stem) > beyond:
            path.unlink(missing_ok=True)


def rename_for_deletion(directory: Path, tp: TopicPartition) -> Path:
    """Gives a partition's directory the name under which it will not be loaded again."""
    suffix = f".{uuid.uuid4().hex}{DELETE_SUFFIX}"
    name = str(tp)[: MAX_FILE_NAME_BYTES - len(suffix)] + suffix
    return directory.rename(inside(directory.parent, name))


def is_deleted(name: str) -> bool:
    """Whether `rename_for_deletion` gave a directory this name: nobody else's may go."""
    return _DELETED.fullmatch(name) is not None


def delete_directory(directory: Path) -> None:
    """Removes a directory, whatever of it is still there."""
    shutil.rmtree(directory, ignore_errors=True)

"""The one way from a name to a path below a log directory.

Names come from sockets, from ZooKeeper and from the disk itself. They are checked where they enter
(`nodes.core.topic_names`); this is the second line: whatever slipped through, no path made here
lies anywhere but directly inside the log directory, symbolic links considered. The log directory
itself may be a link, as operators like them. An entry of it may not: a partition's directory that
is a link would be written, truncated and deleted through it, somewhere else. (Kafka follows such
links.) Names of files inside a partition's directory are made of numbers only.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from nodes.core.errors import ApiError, Errors
from nodes.core.topic_names import MAX_FILE_NAME_BYTES, is_legal_partition
from nodes.core.types import TopicPartition

_NUMBER: Final = re.compile("[0-9]{1,10}")


class OutsideLogDir(ApiError):
    """The path that a name would make is not directly inside its log directory."""

    def __init__(self, log_dir: Path, name: str) -> None:
        super().__init__(
            Errors.KAFKA_STORAGE_ERROR, f"{name!r} does not name a place directly inside {log_dir}"
        )


def inside(log_dir: Path, name: str) -> Path:
    """``log_dir/name``. Raises `OutsideLogDir` for a name that is no single name, and for an entry
    that is a symbolic link; the entry need not exist."""
    if "\0" in name or len(os.fsencode(name)) > MAX_FILE_NAME_BYTES:
        raise OutsideLogDir(log_dir, name)
    path = log_dir / name
    where = os.path.split(os.path.realpath(path))
    # A link that leads to itself resolves to itself.
    if where != (os.path.realpath(log_dir), name) or path.is_symlink():
        raise OutsideLogDir(log_dir, name)
    return path


def partition_dir(log_dir: Path, tp: TopicPartition) -> Path:
    """Where a partition's log lies. Raises ApiError: INVALID_TOPIC_EXCEPTION when there can be no
    such partition, and `OutsideLogDir`."""
    if not is_legal_partition(tp):
        raise ApiError(Errors.INVALID_TOPIC_EXCEPTION, f"there can be no partition {str(tp)!r}")
    return inside(log_dir, str(tp))


def partition_of(name: str) -> TopicPartition | None:
    """The partition whose log has this directory name; None for any other name."""
    topic, _, number = name.rpartition("-")
    if _NUMBER.fullmatch(number) is None:
        return None
    tp = TopicPartition(topic, int(number))
    # Written as we write it: "t-00" is not a second directory of t-0.
    return tp if str(tp) == name and is_legal_partition(tp) else None

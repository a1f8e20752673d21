"""Which names topics and partitions may have (org.apache.kafka.common.internals.Topic).

A topic's name becomes part of a directory's name and of a znode's path. So every name is held
against the rules where it enters, whoever sent it: Kafka checks only where topics are created, and
believes the names in control requests, in ZooKeeper and on its disks. Here these are refused with
INVALID_TOPIC_EXCEPTION, or passed over where there is nobody to tell.
"""

from __future__ import annotations

import re
from typing import Final

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition

MAX_LENGTH: Final = 249
"""What leaves room for ``-<partition>`` of up to five digits in a file name."""
MAX_FILE_NAME_BYTES: Final = 255
"""What file systems take; a longer name would look like a failing disk."""
_MAX_PARTITION: Final = 2**31 - 1
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def _problem_with(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    if _LEGAL.fullmatch(name) is None:
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    return None


def is_legal(name: str) -> bool:
    """Whether a topic may have this name."""
    return _problem_with(name) is None


def validate_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION, naming what is allowed."""
    problem = _problem_with(name)
    if problem is not None:
        raise ApiError(Errors.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def is_legal_partition(tp: TopicPartition) -> bool:
    """Whether there may be such a partition: its topic's name is legal, its number is not negative,
    and both together can be the name of a directory."""
    return (
        is_legal(tp.topic)
        and 0 <= tp.partition <= _MAX_PARTITION
        and len(str(tp)) <= MAX_FILE_NAME_BYTES
    )


def collides(name: str, other: str) -> bool:
    """Metric names turn '.' into '_': two topics that differ in nothing else would share them."""
    return name.replace(".", "_") == other.replace(".", "_")

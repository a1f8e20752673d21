"""Which names a topic may have (org.apache.kafka.common.internals.Topic)."""

from __future__ import annotations

import re
from typing import Final

from nodes.core.errors import ApiError, Errors

MAX_LENGTH: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def validate_topic_name(name: str) -> None:
    """Raise INVALID_TOPIC_EXCEPTION, naming what is allowed."""
    problem = None
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = "'.' or '..' is not allowed"
    elif len(name) > MAX_LENGTH:
        problem = f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    elif _LEGAL.fullmatch(name) is None:
        problem = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, "
            "'.', '_' and '-'"
        )
    if problem is not None:
        raise ApiError(Errors.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def collides(name: str, other: str) -> bool:
    """Metric names turn '.' into '_': two topics that differ in nothing else would share them."""
    return name.replace(".", "_") == other.replace(".", "_")

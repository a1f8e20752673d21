"""Which topic names there may be, and which topics are the brokers' own (Kafka's Topic)."""

from __future__ import annotations

import re
from typing import Final

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
METADATA_TOPIC: Final = "__cluster_metadata"

INTERNAL: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})

_MAX_LENGTH: Final = 249  # what leaves room for "-<partition>.<suffix>" in a file name
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(topic: str | None) -> bool:
    return topic in INTERNAL


def is_legal(topic: str) -> bool:
    """Whether a topic may have this name: it becomes part of a directory's name."""
    return (
        topic not in ("", ".", "..")
        and len(topic) <= _MAX_LENGTH
        and _LEGAL.fullmatch(topic) is not None
    )

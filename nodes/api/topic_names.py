"""Which topics are the brokers' own (Kafka's Topic); which names are legal at all: nodes.core."""

from __future__ import annotations

from typing import Final

from nodes.core.topic_names import is_legal

__all__ = [
    "INTERNAL",
    "METADATA_TOPIC",
    "OFFSETS_TOPIC",
    "TRANSACTIONS_TOPIC",
    "is_internal",
    "is_legal",
]

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
METADATA_TOPIC: Final = "__cluster_metadata"

INTERNAL: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})


def is_internal(topic: str | None) -> bool:
    return topic in INTERNAL

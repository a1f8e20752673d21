"""The few value types that every layer of a node speaks in."""

from __future__ import annotations

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """Kafka's TopicPartition; prints as in Kafka's logs (``topic-0``)."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def as_long(value: int) -> int:
    """What Java makes of a sum that its long does not hold."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)

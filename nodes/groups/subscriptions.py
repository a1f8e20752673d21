"""What a member's metadata says about the topics that it reads, in groups of consumers."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

_SUBSCRIPTION: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def all_subscribed(members: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all of these subscriptions; None when one of them cannot be read."""
    topics: set[str] = set()
    for metadata in members:
        found = subscribed_topics(metadata)
        if found is None:
            return None
        topics |= found
    return frozenset(topics)


def subscribed_topics(metadata: bytes) -> set[str] | None:
    """The topics in a consumer's subscription (ConsumerProtocolSubscription: every version begins
    with its number and the list of topics); None when it is none."""
    topics: set[str] = set()
    try:
        _version, count = _SUBSCRIPTION.unpack_from(metadata)
        at = _SUBSCRIPTION.size
        for _ in range(count):
            (size,) = _LENGTH.unpack_from(metadata, at)
            at += _LENGTH.size
            if size < 0 or at + size > len(metadata):
                return None
            topics.add(metadata[at : at + size].decode())
            at += size
    except (struct.error, UnicodeDecodeError):
        return None
    return topics

"""The four APIs between controller and brokers that kio 0.6 dropped: one module a message pair.

`MESSAGES` maps an API key to its pair; `.request(version)` and `.response(version)` give
dataclasses of kio's own form, so that kio's native reader and our writer treat them as any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from nodes.wire.entities import controlled_shutdown, leader_and_isr, stop_replica, update_metadata
from nodes.wire.entities.schema import MessagePair

MESSAGES: Final[Mapping[int, MessagePair]] = MappingProxyType(
    {
        pair.api_key: pair
        for pair in (
            leader_and_isr.MESSAGE,
            stop_replica.MESSAGE,
            update_metadata.MESSAGE,
            controlled_shutdown.MESSAGE,
        )
    }
)

__all__ = ("MESSAGES", "MessagePair")

"""The life of a partition as the controller sees it (Kafka's PartitionStateMachine).

    NonExistent ──> New ──> Online <──> Offline ──> NonExistent
                     └────────────────────^

NonExistent  never created, or deleted.
New          assigned, but no leader and ISR are written yet.
Online       has a leader (which need not be alive this instant; the next event will tell).
Offline      its leader is gone and none has been elected.

`VALID_PREVIOUS_STATES` is the whole table; anything else is refused and the partition left alone.
The side effects of each transition are in `nodes.controller.partition_machine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class PartitionState(Enum):
    """The value is Kafka's number of the state."""

    NEW = 0
    ONLINE = 1
    OFFLINE = 2
    NON_EXISTENT = 3


VALID_PREVIOUS_STATES: Final[Mapping[PartitionState, frozenset[PartitionState]]] = {
    PartitionState.NEW: frozenset({PartitionState.NON_EXISTENT}),
    PartitionState.ONLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.OFFLINE: frozenset(
        {PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE}
    ),
    PartitionState.NON_EXISTENT: frozenset({PartitionState.OFFLINE}),
}


def is_valid_transition(current: PartitionState, target: PartitionState) -> bool:
    return current in VALID_PREVIOUS_STATES[target]

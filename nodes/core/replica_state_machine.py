"""The life of a replica as the controller sees it (Kafka's ReplicaStateMachine).

    NonExistent ──> New ──> Online <──> Offline ──> DeletionStarted ──> DeletionSuccessful ─┐
         ^           └──────────────────^  ^  │            │                                │
         │                   Online <──────┴──┴── DeletionIneligible                        │
         └──────────────────────────────────────────────────────────────────────────────────┘

New                 created with a topic, or by a reassignment; it may only become a follower.
Online              its broker is up and has been told to lead or follow.
Offline             its broker is down, or it is to be stopped.
DeletionStarted     a StopReplica(delete) is on its way.
DeletionSuccessful  its broker answered that without an error.
DeletionIneligible  deletion failed, or its broker is down: to be tried again when that returns.

The side effects of each transition are in `nodes.controller.replica_machine`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ReplicaState(Enum):
    """The value is Kafka's number of the state."""

    NEW = 1
    ONLINE = 2
    OFFLINE = 3
    DELETION_STARTED = 4
    DELETION_SUCCESSFUL = 5
    DELETION_INELIGIBLE = 6
    NON_EXISTENT = 7


_RUNNING_OR_NOT: Final = frozenset(
    {
        ReplicaState.NEW,
        ReplicaState.ONLINE,
        ReplicaState.OFFLINE,
        ReplicaState.DELETION_INELIGIBLE,
    }
)

VALID_PREVIOUS_STATES: Final[Mapping[ReplicaState, frozenset[ReplicaState]]] = {
    ReplicaState.NEW: frozenset({ReplicaState.NON_EXISTENT}),
    ReplicaState.ONLINE: _RUNNING_OR_NOT,
    ReplicaState.OFFLINE: _RUNNING_OR_NOT,
    ReplicaState.DELETION_STARTED: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.DELETION_SUCCESSFUL: frozenset({ReplicaState.DELETION_STARTED}),
    ReplicaState.DELETION_INELIGIBLE: frozenset(
        {ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED}
    ),
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.DELETION_SUCCESSFUL}),
}


def is_valid_transition(current: ReplicaState, target: ReplicaState) -> bool:
    return current in VALID_PREVIOUS_STATES[target]

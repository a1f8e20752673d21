"""The rules that decide what a broker does, gathered so that single ones can be broken.

Threads and sockets call ``rules.<name>(...)`` instead of the functions themselves. A correct broker
uses `RULES`; `nodes.mutants` replaces fields of it with wrong ones, to show that the checkers find
what such a bug does (the list of planted bugs is there, not here).

Not every rule is switchable: only those whose breaking a history can show.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nodes.core import acks, epochs, isr, truncation
from nodes.core.acks import Acknowledgement
from nodes.core.errors import Errors
from nodes.core.truncation import EpochEnd, Truncation


def verifies_log_tail() -> bool:
    """After anything but a clean shutdown a log's tail may be torn: it is checked and cut."""
    return True


def appends_per_batch() -> int:
    """How often a leader writes each accepted batch. Asked once a partition, not once a request."""
    return 1


def checks_controller_znode() -> bool:
    """A controller writes on condition that the znode of the controller epoch still has the version
    that its own election left there (KAFKA-6082)."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Each field is a function of `nodes.core`; its docstring is there."""

    broker_epoch_is_stale: Callable[[int, int], bool] = epochs.broker_epoch_is_stale
    controller_epoch_is_stale: Callable[[int, int], bool] = epochs.controller_epoch_is_stale
    metadata_epoch_is_stale: Callable[[int, int], bool] = epochs.metadata_epoch_is_stale
    leader_and_isr_error: Callable[[int, int], Errors] = epochs.leader_and_isr_error
    stop_replica_error: Callable[[int, int], Errors] = epochs.stop_replica_error
    client_epoch_error: Callable[[int, int], Errors] = epochs.client_epoch_error
    may_join_isr: Callable[[int, int, int], bool] = isr.may_join_isr
    acknowledgement: Callable[[int, int, int, int], Acknowledgement] = acks.acknowledgement
    readable_end: Callable[[bool, int, int], int] = acks.readable_end
    truncation_for: Callable[[EpochEnd, EpochEnd, int, int], Truncation] = truncation.truncation_for
    asks_leader_for_divergence: Callable[[], bool] = truncation.asks_leader_for_divergence
    """False makes followers cut at their high watermark without asking (before KIP-101)."""
    verifies_log_tail: Callable[[], bool] = verifies_log_tail
    appends_per_batch: Callable[[], int] = appends_per_batch
    checks_controller_znode: Callable[[], bool] = checks_controller_znode


RULES = Rules()

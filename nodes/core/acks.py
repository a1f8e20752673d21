"""When a produce request may be acknowledged (``acks`` 0, 1, all; ``min.insync.replicas``).

Two checks bracket an append with acks=all. Before it, the committed ISR must be large enough, or
the record is refused (19) and was never written. After it, the record is acknowledged once it is
below the high watermark; if by then the ISR has become too small it is answered with 20, which
tells the client that the record is written but not safe.

Pure; `required_offset` is one past the request's last record.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from nodes.core.errors import Errors

ALL: Final = -1
VALID: Final = frozenset({-1, 0, 1})


class Acknowledgement(NamedTuple):
    done: bool
    error: Errors


WAITING: Final = Acknowledgement(False, Errors.NONE)
ACKNOWLEDGED: Final = Acknowledgement(True, Errors.NONE)
TOO_FEW_REPLICAS: Final = Acknowledgement(True, Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

DEMOTED: Final = Acknowledgement(True, Errors.NOT_LEADER_OR_FOLLOWER)


def effective_min_isr(min_insync_replicas: int, replication_factor: int) -> int:
    """A partition with fewer replicas than the minimum needs all of them, not the impossible."""
    return min(min_insync_replicas, replication_factor)


def may_append(required_acks: int, isr_size: int, min_isr: int) -> bool:
    """acks=all is refused up front when too few replicas are in sync."""
    return required_acks != ALL or isr_size >= min_isr


def awaits_commit(required_acks: int) -> bool:
    """Who wants what its leader has waits for nobody else."""
    return required_acks == ALL


def acknowledgement(
    required_offset: int, high_watermark: int, maximal_isr_size: int, min_isr: int
) -> Acknowledgement:
    """The state of one acks=all append."""
    if high_watermark < required_offset:
        return WAITING
    return ACKNOWLEDGED if maximal_isr_size >= min_isr else TOO_FEW_REPLICAS


def acknowledgement_after_demotion() -> Acknowledgement:
    """What still waits when its leader is one no more, or leads anew: nobody knows whether it is
    written, so it must not be acknowledged."""
    return DEMOTED


def readable_end(reads_log_end: bool, high_watermark: int, log_end_offset: int) -> int:
    """How far a fetch may read: replicas to the end, clients to what is committed."""
    return log_end_offset if reads_log_end else high_watermark

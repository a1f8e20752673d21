"""Where a follower's log parts from its leader's (KIP-101, KIP-279).

Both logs know, for each leader epoch that wrote to them, where that epoch's records end. A follower
asks "where does my last epoch end with you?"; the leader answers with the largest epoch it knows
that is not above the one asked for, and that epoch's end. If epochs or ends disagree, the follower
cuts, and asks again when it may have more to cut. Cutting at the high watermark instead (Kafka
before KIP-101) loses committed records, because a follower's watermark lags its leader's.

Pure; ends are exclusive offsets; (-1, -1) says that the log knows no epoch so low.
"""

from __future__ import annotations

from typing import Final, NamedTuple

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1


class EpochEnd(NamedTuple):
    """The largest leader epoch not above the one asked for, and the end of its records."""

    leader_epoch: int
    end_offset: int

    @property
    def is_undefined(self) -> bool:
        return self.leader_epoch == UNDEFINED_EPOCH or self.end_offset == UNDEFINED_OFFSET


class Truncation(NamedTuple):
    """Cut to `offset`; when not `completed` another round with the leader is needed."""

    offset: int
    completed: bool


def diverges(leader_end: EpochEnd, last_fetched_epoch: int, fetch_offset: int) -> bool:
    """The leader's view: does a follower that holds records up to `fetch_offset`, the last of
    them written in `last_fetched_epoch`, hold something that this log does not?"""
    return leader_end.leader_epoch < last_fetched_epoch or leader_end.end_offset < fetch_offset


def truncation_for(
    leader_end: EpochEnd, own_end: EpochEnd, log_end_offset: int, high_watermark: int
) -> Truncation:
    """The follower's view, for the leader's answer `leader_end`.

    `own_end` is this log's answer to the same question for ``leader_end.leader_epoch``.
    """
    if leader_end.end_offset == UNDEFINED_OFFSET:
        # The leader's first epoch is above ours: only what was committed is provably shared.
        return Truncation(min(high_watermark, log_end_offset), True)
    if leader_end.leader_epoch == UNDEFINED_EPOCH or own_end.is_undefined:
        return Truncation(min(leader_end.end_offset, log_end_offset), True)
    if own_end.leader_epoch != leader_end.leader_epoch:
        # We never saw the leader's epoch: cut to the end of our next lower one, and ask about that.
        return Truncation(min(own_end.end_offset, log_end_offset), False)
    return Truncation(min(own_end.end_offset, leader_end.end_offset, log_end_offset), True)


def asks_leader_for_divergence() -> bool:
    """A follower lets its leader find where their logs part, instead of cutting at its own high
    watermark (Kafka before KIP-101)."""
    return True

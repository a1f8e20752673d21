"""Who is in sync and what is committed: ISR membership and the high watermark (KIP-497).

The sets, as Kafka's Partition keeps them:

* *ISR*: the in-sync replicas that the controller has committed;
* *maximal ISR*: the ISR plus a replica whose joining was proposed but not yet confirmed. While a
  shrink is pending it is the old ISR. Both make the commit rule stricter than the committed set,
  so a proposal that fails or whose answer is lost can never have acknowledged too much.

A record is committed when every member of the maximal ISR holds it, and the high watermark is the
end of what is committed.

Pure. All times are milliseconds of one monotonic clock; offsets are ends (exclusive).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

NEVER_MS: Final = -(2**62)
"""A follower that has not been caught up since this leader began. Kafka writes 0, which a
monotonic clock shortly after boot could mistake for recent."""
UNKNOWN_OFFSET: Final = -1


@dataclass(frozen=True, slots=True)
class FollowerState:
    """What a leader knows of one follower from its fetches (Kafka's ReplicaState).

    `last_caught_up_ms` is the newest time at which the follower held everything that the leader
    held at that time.
    """

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_end_offset: int = 0
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS


def after_fetch(
    state: FollowerState, *, fetch_offset: int, log_start_offset: int, leader_end: int, now_ms: int
) -> FollowerState:
    """A fetch from `fetch_offset` proves that the follower holds everything below it.

    A follower that always trails a busy leader by one round is caught up all the same: reaching
    what was the leader's end at its *previous* fetch dates it to that fetch.
    """
    caught_up_ms = state.last_caught_up_ms
    if fetch_offset >= leader_end:
        caught_up_ms = max(caught_up_ms, now_ms)
    elif fetch_offset >= state.last_fetch_leader_end_offset:
        caught_up_ms = max(caught_up_ms, state.last_fetch_ms)
    return FollowerState(
        log_end_offset=fetch_offset,
        log_start_offset=log_start_offset,
        last_fetch_leader_end_offset=max(leader_end, state.last_fetch_leader_end_offset),
        last_fetch_ms=now_ms,
        last_caught_up_ms=caught_up_ms,
    )


def at_new_leader_epoch(
    state: FollowerState, *, newly_leader: bool, in_isr: bool, leader_end: int, now_ms: int
) -> FollowerState:
    """What is still known of a follower when this broker is elected, or elected again.

    A broker that has just become leader knows no follower's position. Members of the ISR get the
    benefit of one lag period; others must not hold the high watermark back.
    """
    seen_ms = now_ms if in_isr else NEVER_MS
    if newly_leader:
        return FollowerState(last_fetch_leader_end_offset=UNKNOWN_OFFSET, last_caught_up_ms=seen_ms)
    return FollowerState(
        log_end_offset=state.log_end_offset,
        log_start_offset=state.log_start_offset,
        last_fetch_leader_end_offset=leader_end,
        last_fetch_ms=seen_ms,
        last_caught_up_ms=seen_ms,
    )


def is_caught_up(state: FollowerState, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
    """At the leader's end, or there at some time within the last `lag_max_ms`."""
    return state.log_end_offset == leader_end or now_ms - state.last_caught_up_ms <= lag_max_ms


def may_join_isr(follower_end: int, high_watermark: int, leader_epoch_start: int) -> bool:
    """Reaching the high watermark is not enough: until a new leader's watermark has passed the
    start of its epoch, committed records may lie above it, and a member lacking them could be
    elected (KAFKA-7128)."""
    return follower_end >= high_watermark and follower_end >= leader_epoch_start


def leader_high_watermark(
    current: int,
    leader_end: int,
    followers: Iterable[tuple[FollowerState, bool, bool]],
    *,
    now_ms: int,
    lag_max_ms: int,
) -> int:
    """The new high watermark; never below the current one.

    `followers` gives (state, in the maximal ISR, eligible to join it). A follower outside the ISR
    that is caught up within the lag limit is waited for as well, or a busy leader alone in its ISR
    would run away from it for ever.
    """
    committed = leader_end
    for state, in_maximal_isr, eligible in followers:
        if state.log_end_offset < committed and (
            in_maximal_isr or (eligible and is_caught_up(state, leader_end, now_ms, lag_max_ms))
        ):
            committed = state.log_end_offset
    return max(current, committed)


def follower_high_watermark(leader_high_watermark: int, log_start: int, log_end: int) -> int:
    """A follower takes the leader's word, as far as its own log reaches.

    As in Kafka it may go down: a leader that was just elected knows less than its predecessor did.
    """
    return max(log_start, min(leader_high_watermark, log_end))


@dataclass(frozen=True, slots=True)
class IsrState:
    """A leader's view of its ISR: what is committed, and one proposal that is under way.

    `isr` is the committed set; `maximal_isr` what the high watermark must wait for; `proposed` what
    the controller was asked to commit, None when nothing was.
    """

    isr: frozenset[int]
    maximal_isr: frozenset[int]
    proposed: frozenset[int] | None = None

    @property
    def is_inflight(self) -> bool:
        return self.proposed is not None


NO_ISR: Final = IsrState(frozenset(), frozenset())


def committed(isr: Iterable[int]) -> IsrState:
    members = frozenset(isr)
    return IsrState(members, members)


def proposing_expansion(state: IsrState, joining: int) -> IsrState:
    """The joiner counts for the high watermark from now on: should the proposal be committed
    without our hearing of it, nothing will have been acknowledged that the joiner lacks."""
    proposed = state.isr | {joining}
    return IsrState(state.isr, proposed, proposed)


def proposing_shrink(state: IsrState, leaving: Iterable[int]) -> IsrState:
    """Those who leave go on counting until the controller has agreed: it may not."""
    return IsrState(state.isr, state.isr, state.isr - frozenset(leaving))


def out_of_sync(
    state: IsrState,
    followers: Mapping[int, FollowerState],
    *,
    local_id: int,
    leader_end: int,
    now_ms: int,
    lag_max_ms: int,
) -> frozenset[int]:
    """Members that have not been caught up for longer than `lag_max_ms`; none while a proposal is
    under way. A member that is not even assigned any more is out as well."""
    if state.is_inflight:
        return frozenset()
    lagging = []
    for member in state.isr - {local_id}:
        follower = followers.get(member)
        if follower is None or not is_caught_up(follower, leader_end, now_ms, lag_max_ms):
            lagging.append(member)
    return frozenset(lagging)

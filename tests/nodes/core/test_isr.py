"""ISR membership and the commit rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.core import isr
from nodes.core.isr import FollowerState

LAG_MS = 1000
OFFSETS = st.integers(min_value=0, max_value=100)
TIMES = st.integers(min_value=0, max_value=5000)
FOLLOWERS = st.builds(
    FollowerState, log_end_offset=OFFSETS, last_caught_up_ms=TIMES | st.just(isr.NEVER_MS)
)


@given(
    current=OFFSETS,
    leader_end=OFFSETS,
    followers=st.lists(st.tuples(FOLLOWERS, st.booleans(), st.booleans()), max_size=4),
    now_ms=TIMES,
)
def test_what_is_committed_is_on_every_member(
    current: int,
    leader_end: int,
    followers: list[tuple[FollowerState, bool, bool]],
    now_ms: int,
) -> None:
    result = isr.leader_high_watermark(
        current, leader_end, followers, now_ms=now_ms, lag_max_ms=LAG_MS
    )
    assert result >= current
    if result > current:
        assert result <= leader_end
        assert all(f.log_end_offset >= result for f, in_isr, _eligible in followers if in_isr)


def test_a_caught_up_outsider_is_waited_for_but_not_when_its_broker_is_dead() -> None:
    outsider = FollowerState(log_end_offset=5, last_caught_up_ms=900)
    for eligible, expected in ((True, 5), (False, 10)):
        assert (
            isr.leader_high_watermark(
                3, 10, [(outsider, False, eligible)], now_ms=1000, lag_max_ms=LAG_MS
            )
            == expected
        )


def test_a_follower_one_round_behind_a_busy_leader_is_caught_up() -> None:
    state = FollowerState()
    for now_ms, fetch_offset, leader_end in ((0, 0, 10), (100, 10, 20), (200, 20, 30)):
        state = isr.after_fetch(
            state,
            fetch_offset=fetch_offset,
            log_start_offset=0,
            leader_end=leader_end,
            now_ms=now_ms,
        )
    assert state.log_end_offset == 20
    assert state.last_caught_up_ms == 100
    assert isr.is_caught_up(state, 30, 1100, LAG_MS)
    assert not isr.is_caught_up(state, 30, 1101, LAG_MS)


def test_a_stuck_follower_stays_as_old_as_it_is() -> None:
    state = isr.after_fetch(
        FollowerState(), fetch_offset=10, log_start_offset=0, leader_end=10, now_ms=50
    )
    for now_ms in (100, 200, 300):
        state = isr.after_fetch(
            state, fetch_offset=10, log_start_offset=0, leader_end=50, now_ms=now_ms
        )
    # Its first fetch after the leader grew still reaches what was the end one round earlier.
    assert state.last_caught_up_ms == 50


def test_a_new_leader_knows_no_positions_and_trusts_members_for_one_period() -> None:
    known = FollowerState(log_end_offset=7, last_caught_up_ms=1)
    member = isr.at_new_leader_epoch(known, newly_leader=True, in_isr=True, leader_end=9, now_ms=5)
    outsider = isr.at_new_leader_epoch(
        known, newly_leader=True, in_isr=False, leader_end=9, now_ms=5
    )
    assert member.log_end_offset == outsider.log_end_offset == isr.UNKNOWN_OFFSET
    assert member.last_caught_up_ms == 5
    assert not isr.is_caught_up(outsider, 9, 0, LAG_MS)


@pytest.mark.parametrize("in_isr", [True, False])
@pytest.mark.parametrize("newly_leader", [True, False])
def test_what_is_known_of_a_follower_at_a_new_leader_epoch(
    newly_leader: bool, in_isr: bool
) -> None:
    """Replica.resetReplicaState: a broker that was elected again keeps where its followers are; a
    lag period begins anew for members of the ISR, however long ago they were caught up, and for
    nobody else, however lately."""
    for caught_up_ms in (isr.NEVER_MS, 1, 400):
        known = FollowerState(
            log_end_offset=7,
            log_start_offset=3,
            last_fetch_leader_end_offset=8,
            last_fetch_ms=450,
            last_caught_up_ms=caught_up_ms,
        )
        found = isr.at_new_leader_epoch(
            known, newly_leader=newly_leader, in_isr=in_isr, leader_end=9, now_ms=500
        )
        seen_ms = 500 if in_isr else isr.NEVER_MS
        assert found == FollowerState(
            log_end_offset=-1 if newly_leader else 7,
            log_start_offset=-1 if newly_leader else 3,
            last_fetch_leader_end_offset=-1 if newly_leader else 9,
            last_fetch_ms=isr.NEVER_MS if newly_leader else seen_ms,
            last_caught_up_ms=seen_ms,
        )


def test_joining_needs_the_high_watermark_and_the_epochs_start() -> None:
    assert isr.may_join_isr(10, 10, 10)
    assert not isr.may_join_isr(9, 10, 5)
    assert not isr.may_join_isr(10, 5, 11)


@given(st.frozensets(st.integers(1, 5), min_size=1), st.integers(1, 5))
def test_proposals_only_make_committing_stricter(members: frozenset[int], broker: int) -> None:
    state = isr.committed(members)
    for proposal in (
        isr.proposing_expansion(state, broker),
        isr.proposing_shrink(state, [broker]),
    ):
        assert proposal.isr == members
        assert proposal.maximal_isr >= members
        assert proposal.proposed is not None
        assert proposal.maximal_isr >= proposal.proposed
        assert proposal.is_inflight


def test_out_of_sync_members() -> None:
    state = isr.committed({1, 2, 3, 4})
    followers = {
        2: FollowerState(log_end_offset=10, last_caught_up_ms=isr.NEVER_MS),
        3: FollowerState(log_end_offset=9, last_caught_up_ms=0),
    }
    lagging = isr.out_of_sync(
        state, followers, local_id=1, leader_end=10, now_ms=1001, lag_max_ms=LAG_MS
    )
    assert lagging == {3, 4}
    pending = isr.proposing_shrink(state, lagging)
    assert not isr.out_of_sync(
        pending, followers, local_id=1, leader_end=10, now_ms=1001, lag_max_ms=LAG_MS
    )


def test_a_followers_high_watermark_stays_inside_its_log() -> None:
    assert isr.follower_high_watermark(50, 0, 20) == 20
    assert isr.follower_high_watermark(5, 10, 20) == 10
    assert isr.follower_high_watermark(15, 10, 20) == 15

"""Divergence by leader epochs, on pairs of logs with a common past."""

from hypothesis import given
from hypothesis import strategies as st

from nodes.core.truncation import (
    UNDEFINED_EPOCH,
    UNDEFINED_OFFSET,
    EpochEnd,
    diverges,
    truncation_for,
)


class EpochLog:
    """A log reduced to the epoch of each record, with Kafka's epoch cache over it. Epochs that
    wrote nothing at the end are in the cache too, as on a leader that was deposed at once."""

    def __init__(self, epochs: list[int], empty_epoch: int | None = None) -> None:
        self.epochs = list(epochs)
        self.starts: list[tuple[int, int]] = []
        for offset, leader_epoch in enumerate(self.epochs):
            if not self.starts or self.starts[-1][0] != leader_epoch:
                self.starts.append((leader_epoch, offset))
        if empty_epoch is not None:
            self.starts.append((empty_epoch, len(self.epochs)))

    @property
    def end(self) -> int:
        return len(self.epochs)

    @property
    def latest(self) -> int:
        return self.starts[-1][0] if self.starts else UNDEFINED_EPOCH

    def end_offset_for(self, leader_epoch: int) -> EpochEnd:
        found = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
        for index, (epoch_started, _start) in enumerate(self.starts):
            if epoch_started <= leader_epoch:
                last = index + 1 == len(self.starts)
                found = EpochEnd(epoch_started, self.end if last else self.starts[index + 1][1])
        return found

    def truncate_to(self, offset: int) -> None:
        del self.epochs[offset:]
        self.starts = [(epoch, start) for epoch, start in self.starts if start < offset]


@st.composite
def histories(draw: st.DrawFn) -> tuple[EpochLog, EpochLog, int]:
    """(leader, follower, length of their common past). An epoch has one writer, so from where they
    part, the two hold records of different epochs."""

    def run_of(epochs: list[int]) -> list[int]:
        return [e for e in epochs for _ in range(draw(st.integers(0, 3)))]

    shared_epochs = sorted(draw(st.sets(st.integers(0, 4), min_size=1)))
    shared = run_of(shared_epochs) or [shared_epochs[0]]
    sides = draw(st.lists(st.tuples(st.integers(5, 14), st.booleans()), unique_by=lambda p: p[0]))
    leader_tail = run_of(sorted(e for e, side in sides if side))
    follower_tail = run_of(sorted(e for e, side in sides if not side))
    # One side may also have gone on in the last shared epoch: its writer had more than it shared.
    longer = [shared[-1]] * draw(st.integers(0, 2))
    if draw(st.booleans()):
        leader = EpochLog(shared + longer + leader_tail, 20)
        follower = EpochLog(shared + follower_tail, draw(st.none() | st.just(15)))
    else:
        leader = EpochLog(shared + leader_tail, 20)
        follower = EpochLog(shared + longer + follower_tail, draw(st.none() | st.just(15)))
    return leader, follower, len(shared)


@given(histories())
def test_following_ends_at_the_common_past(pair: tuple[EpochLog, EpochLog, int]) -> None:
    leader, follower, common = pair
    original = list(follower.epochs)
    for _round in range(30):
        answer = leader.end_offset_for(follower.latest)
        assert not answer.is_undefined
        if not diverges(answer, follower.latest, follower.end):
            break
        decision = truncation_for(
            answer, follower.end_offset_for(answer.leader_epoch), follower.end, 0
        )
        follower.truncate_to(decision.offset)
    else:
        raise AssertionError("no end to truncating")
    assert follower.epochs == leader.epochs[: follower.end]
    # Nothing that both had was cut: what is committed always is.
    assert follower.end >= common
    assert follower.epochs == original[: follower.end]


def test_an_unknown_end_falls_back_to_the_high_watermark() -> None:
    nothing = EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET)
    assert truncation_for(nothing, nothing, 10, 4) == (4, True)
    assert truncation_for(nothing, nothing, 3, 4) == (3, True)


def test_an_epoch_that_the_follower_never_saw_asks_for_another_round() -> None:
    decision = truncation_for(EpochEnd(3, 12), EpochEnd(2, 8), 10, 0)
    assert decision == (8, False)


def test_committed_records_above_the_followers_watermark_survive() -> None:
    """KIP-101's case: the follower's watermark lags, cutting there would lose record 1."""
    answer = EpochEnd(0, 2)
    assert not diverges(answer, 0, 2)
    assert truncation_for(answer, EpochEnd(0, 2), 2, 1) == (2, True)

"""Every election that three brokers can be part of, against Kafka's definitions
(PartitionLeaderElectionAlgorithms, Election): whoever stands, lives and is in sync."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from nodes.core.election import (
    elect_for_controlled_shutdown,
    elect_for_offline,
    elect_for_reassignment,
    elect_preferred,
    without_replica,
)
from nodes.core.leader_and_isr import LeaderAndIsr

BROKERS = (1, 2, 3)
RECOVERED, RECOVERING = 0, 1


def subsets(of: Iterable[int]) -> list[tuple[int, ...]]:
    members = tuple(of)
    return [s for n in range(len(members) + 1) for s in itertools.combinations(members, n)]


def orders() -> list[tuple[int, ...]]:
    return [o for s in subsets(BROKERS) if s for o in itertools.permutations(s)]


def states() -> Iterator[LeaderAndIsr]:
    for isr in orders():
        for recovery in (RECOVERED, RECOVERING):
            yield LeaderAndIsr(isr[0], isr, 4, 9, recovery)


def first(candidates: Iterable[int], may: Callable[[int], bool]) -> int | None:
    return next((c for c in candidates if may(c)), None)


def outcome(state: LeaderAndIsr | None) -> Any:
    return state and (
        state.leader, state.leader_epoch, state.isr, state.partition_epoch,
        state.leader_recovery_state,
    )  # fmt: skip


@pytest.mark.parametrize("unclean", [False, True])
def test_offline(unclean: bool) -> None:
    for state, assignment, live in itertools.product(states(), orders(), subsets(BROKERS)):
        elected = elect_for_offline(state, assignment, live, unclean_allowed=unclean)
        clean = first(assignment, lambda b, s=state, up=live: b in up and b in s.isr)
        lossy = first(assignment, lambda b, up=live: b in up) if unclean else None
        expected = None
        if clean is not None:
            isr = tuple(b for b in state.isr if b in live)
            expected = (clean, 5, isr, 9, state.leader_recovery_state)
        elif lossy is not None:
            expected = (lossy, 5, (lossy,), 9, RECOVERING)
        assert outcome(elected) == expected


@pytest.mark.parametrize(
    ("elect", "stands"),
    [(elect_for_reassignment, lambda order: order), (elect_preferred, lambda order: order[:1])],
)
def test_reassignment_and_preferred_replica(elect: Any, stands: Any) -> None:
    """The ISR is left alone."""
    for state, assignment, live in itertools.product(states(), orders(), subsets(BROKERS)):
        leader = first(stands(assignment), lambda b, s=state, up=live: b in up and b in s.isr)
        expected = leader and (leader, 5, state.isr, 9, state.leader_recovery_state)
        assert outcome(elect(state, assignment, live)) == expected


def test_controlled_shutdown() -> None:
    """Who takes its leave neither leads nor stays in the ISR; the dead stay."""
    for state, assignment, live, leaving in itertools.product(
        states(), orders(), subsets(BROKERS), subsets(BROKERS)
    ):
        leader = first(
            assignment,
            lambda b, s=state, up=live, off=leaving: b in up and b in s.isr and b not in off,
        )
        isr = tuple(b for b in state.isr if b not in leaving)
        expected = leader and (leader, 5, isr, 9, state.leader_recovery_state)
        assert outcome(elect_for_controlled_shutdown(state, assignment, live, leaving)) == expected


def test_a_replica_that_goes() -> None:
    """The last one in the ISR stays there; a leader is one no more."""
    for state, replica in itertools.product(states(), (*BROKERS, 4)):
        isr = tuple(b for b in state.isr if b != replica) if len(state.isr) > 1 else state.isr
        leader = -1 if state.leader == replica else state.leader
        expected = (leader, 5, isr, 9, state.leader_recovery_state)
        assert outcome(without_replica(state, replica)) == expected

"""Whom to make leader of a partition (Kafka's Election and PartitionLeaderElectionAlgorithms).

Every election prefers the order of the assignment and asks for a replica that is live and in the
ISR; the four occasions differ in who may stand:

    offline              the leader died, or the partition is new: any assigned replica; if none is
                         in the ISR and the topic allows it, any live one (*unclean*: loses records)
    reassignment         only the replicas that the partition moves to
    preferred replica    only the first assigned
    controlled shutdown  anybody but the brokers that are shutting down

Each returns the new state, its leader epoch one higher, or None when nobody may lead. The ISR loses
its dead (offline) or leaving (controlled shutdown) members with the same write, since nobody else
could shrink it then; elsewhere it is left alone. Pure functions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from nodes.core.leader_and_isr import RECOVERING, LeaderAndIsr


def _first(candidates: Sequence[int], *conditions: Collection[int]) -> int | None:
    return next((c for c in candidates if all(c in members for members in conditions)), None)


def elect_for_offline(
    state: LeaderAndIsr,
    assignment: Sequence[int],
    live_replicas: Collection[int],
    *,
    unclean_allowed: bool,
) -> LeaderAndIsr | None:
    """A leader for a partition that has none. An unclean one is alone in the ISR and RECOVERING."""
    leader = _first(assignment, live_replicas, state.isr)
    if leader is not None:
        isr = tuple(replica for replica in state.isr if replica in live_replicas)
        return state.new_leader_and_isr(leader, isr)
    if not unclean_allowed:
        return None
    leader = _first(assignment, live_replicas)
    if leader is None:
        return None
    return replace(state.new_leader_and_isr(leader, (leader,)), leader_recovery_state=RECOVERING)


def elect_for_reassignment(
    state: LeaderAndIsr, target_replicas: Sequence[int], live_replicas: Collection[int]
) -> LeaderAndIsr | None:
    leader = _first(target_replicas, live_replicas, state.isr)
    return None if leader is None else state.new_leader(leader)


def elect_preferred(
    state: LeaderAndIsr, assignment: Sequence[int], live_replicas: Collection[int]
) -> LeaderAndIsr | None:
    leader = _first(assignment[:1], live_replicas, state.isr)
    return None if leader is None else state.new_leader(leader)


def elect_for_controlled_shutdown(
    state: LeaderAndIsr,
    assignment: Sequence[int],
    live_or_shutting_down_replicas: Collection[int],
    shutting_down_brokers: Collection[int],
) -> LeaderAndIsr | None:
    staying = [r for r in assignment if r not in shutting_down_brokers]
    leader = _first(staying, live_or_shutting_down_replicas, state.isr)
    if leader is None:
        return None
    isr = tuple(r for r in state.isr if r not in shutting_down_brokers)
    return state.new_leader_and_isr(leader, isr)


def without_replica(state: LeaderAndIsr, replica: int) -> LeaderAndIsr:
    """The state once a replica went offline: out of the ISR, unless it is the last (it may come
    back with all acknowledged records), and leader no more."""
    leader = -1 if replica == state.leader else state.leader
    isr = state.isr if len(state.isr) == 1 else tuple(r for r in state.isr if r != replica)
    return state.new_leader_and_isr(leader, isr)

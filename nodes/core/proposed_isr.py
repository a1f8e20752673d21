"""May a leader change its partition's ISR so? The controller's answer to AlterPartition (KIP-497).

The proposal carries the leader epoch and partition epoch that the leader believes in. Higher ones
than the controller knows mean that *the controller* is out of date, so it sends the leader to look
for another; lower ones mean that the leader is. A proposal that is already the truth is confirmed
(it was sent twice). Brokers that are not live may not be in an ISR (KIP-841). Pure.
"""

from __future__ import annotations

from collections.abc import Collection

from nodes.core.errors import Errors
from nodes.core.leader_and_isr import RECOVERED, RECOVERING, LeaderAndIsr


def judge_proposal(
    proposed: LeaderAndIsr, current: LeaderAndIsr | None, live_brokers: Collection[int]
) -> Errors | LeaderAndIsr | None:
    """An error to answer; or the current state, which satisfies it; or None: write the proposal."""
    if current is None:
        return Errors.UNKNOWN_TOPIC_OR_PARTITION
    if (
        proposed.partition_epoch > current.partition_epoch
        or proposed.leader_epoch > current.leader_epoch
    ):
        return Errors.NOT_CONTROLLER
    if proposed.leader_epoch < current.leader_epoch:
        return Errors.FENCED_LEADER_EPOCH
    if proposed.equals_allowing_stale_partition_epoch(current):
        return current
    if proposed.partition_epoch < current.partition_epoch:
        return Errors.INVALID_UPDATE_VERSION
    if proposed.leader_recovery_state == RECOVERING and (
        len(proposed.isr) > 1 or current.leader_recovery_state == RECOVERED
    ):
        return Errors.INVALID_REQUEST
    if not set(proposed.isr) <= set(live_brokers):
        return Errors.INELIGIBLE_REPLICA
    return None

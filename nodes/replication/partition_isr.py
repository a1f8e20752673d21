"""What a leader commits, and whom it counts on: the high watermark and the in-sync replicas.

Only the controller commits a change of the ISR (KIP-497). From the proposal to its answer the
stricter of both sets holds (`nodes.core.isr`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from nodes.core import isr as isr_rules
from nodes.core.errors import Errors
from nodes.core.isr import FollowerState, IsrState
from nodes.replication.partition_base import IsrAnswer, IsrProposal
from nodes.replication.partition_follower import FollowerPartition

if TYPE_CHECKING:
    from nodes.log.log import Log

log = logging.getLogger("kafka.cluster.Partition")

_FINAL_REFUSALS: Final = frozenset(
    {
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.UNKNOWN_TOPIC_ID,
        Errors.FENCED_LEADER_EPOCH,
        Errors.INVALID_UPDATE_VERSION,
        Errors.INVALID_REQUEST,
        Errors.NEW_LEADER_ELECTED,
    }
)
"""Asking again would only be refused again: a LeaderAndIsr must come first."""


class IsrPartition(FollowerPartition):
    """The half of `Partition` that is about other replicas; see there for locks."""

    def _advance_high_watermark(self, own_log: Log) -> bool:
        """Applies the commit rule; true when the high watermark moved. Needs the lock."""
        isr_state = self.isr_state
        followers = self.followers
        size = len(isr_state.isr)
        # Nearly all partitions need one replica, and as the leader counts that needs no more looks.
        few = size < own_log.config.min_insync_replicas and size < self.min_isr
        if few and not self._rules.commits_below_min_isr():
            return False
        if not followers:
            committed = own_log.log_end_offset
        else:
            maximal_isr = isr_state.maximal_isr
            is_alive = self._host.is_alive
            committed = self._rules.leader_high_watermark(
                self.high_watermark,
                own_log.log_end_offset,
                [(f, i in maximal_isr, is_alive(i)) for i, f in followers.items()],
                now_ms=self._host.now_ms(),
                lag_max_ms=self._host.lag_max_ms,
            )
        if committed <= self.high_watermark:
            return False
        self.high_watermark = committed
        return True

    def _maybe_expand_isr(self, replica_id: int, follower: FollowerState) -> IsrProposal | None:
        state = self.isr_state
        start = self.leader_epoch_start
        if (
            replica_id in state.isr
            or state.is_inflight
            or start is None
            or not self._host.is_alive(replica_id)
            or not self._rules.may_join_isr(follower.log_end_offset, self.high_watermark, start)
        ):
            return None
        return self._under_way(self._rules.proposing_expansion(state, replica_id))

    def maybe_shrink_isr(self) -> None:
        """Proposes to drop members that lag; called on a clock."""
        with self._lock:
            if self.log is None or not self.is_leader:
                return
            lagging = self._rules.out_of_sync(
                self.isr_state,
                self.followers,
                local_id=self._broker_id,
                leader_end=self.log.log_end_offset,
                now_ms=self._host.now_ms(),
                lag_max_ms=self._host.lag_max_ms,
            )
            if not lagging:
                return
            before = sorted(self.isr_state.isr)
            proposal = self._under_way(self._rules.proposing_shrink(self.isr_state, lagging))
        log.info(
            "[Partition %s broker=%d] Shrinking ISR from %s to %s",
            self.tp, self._broker_id, before, list(proposal.isr),
        )  # fmt: skip
        self._propose(proposal)

    def _under_way(self, state: IsrState) -> IsrProposal:
        assert state.proposed is not None
        self.isr_state = state
        return IsrProposal(
            self.topic_id,
            self.leader_epoch,
            self.partition_epoch,
            tuple(sorted(state.proposed)),
            state,
        )

    def _propose(self, proposal: IsrProposal) -> None:
        taken = self._host.propose_isr(
            self.tp, proposal, lambda answer: self._proposal_answered(proposal, answer)
        )
        if not taken:
            # An older proposal of this partition is still out. Ours was not sent, so undo it; the
            # next fetch or shrink check proposes again.
            with self._lock:
                if self.isr_state is proposal.state:
                    self.isr_state = isr_rules.committed(self.isr_state.isr)

    def _proposal_answered(self, proposal: IsrProposal, answer: IsrAnswer) -> None:
        """The controller's word on a proposal. Runs on the AlterPartition thread."""
        advanced = retry = changed = False
        with self._lock:
            state = self.isr_state
            if state is not proposal.state:
                # A LeaderAndIsr came first. What the controller did, that request knows better.
                return
            if answer.error:
                retry = self._proposal_failed(Errors(answer.error))
            elif (
                answer.leader_epoch == self.leader_epoch
                and answer.partition_epoch >= self.partition_epoch
            ):
                self.isr_state = isr_rules.committed(answer.isr)
                self.partition_epoch = answer.partition_epoch
                changed = True
                if self.log is not None and self.is_leader:
                    advanced = self._advance_high_watermark(self.log)
        if changed:
            log.info(
                "[Partition %s broker=%d] ISR updated to %s  and version updated to %d",
                self.tp, self._broker_id, sorted(answer.isr), answer.partition_epoch,
            )  # fmt: skip
            self._host.isr_changed(self, shrunk=len(answer.isr) < len(state.isr))
        if advanced:
            self._host.complete_delayed(self.tp)
        if retry:
            self._propose(proposal)

    def _proposal_failed(self, error: Errors) -> bool:
        """What to do after a refusal; true: ask again. Needs the lock.

        Most refusals say that this leader's knowledge is out of date. It then stays in the pending,
        stricter state until a LeaderAndIsr tells it better. Only INELIGIBLE_REPLICA (and its name
        of old) proves that nothing was or will be applied, so that it may go back.
        """
        log.info("%s: the controller refused an ISR change: %s", self.tp, error.name)
        if error in (Errors.OPERATION_NOT_ATTEMPTED, Errors.INELIGIBLE_REPLICA):
            self.isr_state = isr_rules.committed(self.isr_state.isr)
            return False
        return error not in _FINAL_REFUSALS

"""Moves replicas between their states, and does what each move entails (ZkReplicaStateMachine).

    -> New                  LeaderAndIsr to it, if the partition has a leader (which it is not)
    New -> Online           nothing: its partition's first LeaderAndIsr is on its way
    other -> Online         LeaderAndIsr to it
    -> Offline              StopReplica to it; out of the ISR in ZooKeeper; LeaderAndIsr to others
    -> DeletionStarted      StopReplica(delete) to it
    -> NonExistent          out of the assignment in memory

The requests leave as one batch at the end of each call.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from kazoo.exceptions import NoNodeError

from nodes.controller.context import ControllerContext, PartitionAndReplica
from nodes.controller.request_batch import ControllerRequestBatch
from nodes.controller.state_writer import PartitionStateWriter
from nodes.coordination.errors import ControllerMoved
from nodes.core.leader_and_isr import LeaderIsrAndControllerEpoch
from nodes.core.replica_state_machine import ReplicaState, is_valid_transition
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition

log = logging.getLogger("state.change.logger")


class ReplicaStateMachine:
    """Event thread only."""

    def __init__(
        self,
        context: ControllerContext,
        states: PartitionStateWriter,
        batch: ControllerRequestBatch,
        rules: Rules = RULES,
    ) -> None:
        self._context = context
        self._states = states
        self._batch = batch
        self._rules = rules

    def startup(self) -> None:
        """After a failover: tell every live replica its role, take every dead one offline.

        A dead one starts as DeletionIneligible, which is what it is should its topic be dying.
        """
        context = self._context
        online, offline = [], []
        for replica in context.all_replicas():
            if context.is_replica_online(replica.replica, replica.tp):
                context.replica_states[replica] = ReplicaState.ONLINE
                online.append(replica)
            else:
                context.replica_states[replica] = ReplicaState.DELETION_INELIGIBLE
                offline.append(replica)
        self.handle_state_changes(online, ReplicaState.ONLINE)
        if self._rules.looks_for_the_dead():
            self.handle_state_changes(offline, ReplicaState.OFFLINE)

    def shutdown(self) -> None:
        self._batch.clear()

    def handle_state_changes(
        self, replicas: Iterable[PartitionAndReplica], target: ReplicaState
    ) -> None:
        by_broker: dict[int, list[PartitionAndReplica]] = {}
        for replica in replicas:
            by_broker.setdefault(replica.replica, []).append(replica)
        if not by_broker:
            return
        try:
            self._batch.new_batch()
            for broker_id, its_replicas in by_broker.items():
                self._change(broker_id, self._valid(its_replicas, target), target)
            self._batch.send()
        except ControllerMoved:
            self._batch.clear()
            raise
        except Exception:
            log.exception("Error while moving some replicas to %s", target.name)
            self._batch.clear()

    def _valid(
        self, replicas: Sequence[PartitionAndReplica], target: ReplicaState
    ) -> list[PartitionAndReplica]:
        valid = []
        for replica in replicas:
            current = self._context.replica_states.setdefault(replica, ReplicaState.NON_EXISTENT)
            if is_valid_transition(current, target):
                valid.append(replica)
            else:
                log.error("Replica %s cannot go from %s to %s", replica, current.name, target.name)
        return valid

    def _change(
        self, broker_id: int, replicas: Sequence[PartitionAndReplica], target: ReplicaState
    ) -> None:
        if target is ReplicaState.OFFLINE:
            self._take_offline(broker_id, replicas)
            return
        for replica in replicas:
            if self._enter(replica, target):
                self._context.replica_states[replica] = target
        if target is ReplicaState.NON_EXISTENT:
            for replica in replicas:
                self._context.replica_states.pop(replica, None)

    def _enter(self, replica: PartitionAndReplica, target: ReplicaState) -> bool:
        """The side effects of one move; False when it is refused."""
        context = self._context
        tp, broker_id = replica
        info = context.partition_leadership_info(tp)
        match target:
            case ReplicaState.NEW:
                if info is not None and info.leader_and_isr.leader == broker_id:
                    log.error("Replica %s leads its partition: it cannot become New", replica)
                    return False
                self._tell_role(broker_id, tp, info, is_new=True)
            case ReplicaState.ONLINE:
                if context.replica_state(replica) is not ReplicaState.NEW:
                    self._tell_role(broker_id, tp, info, is_new=False)
            case ReplicaState.DELETION_STARTED:
                self._batch.add_stop_replica([broker_id], tp, delete=True)
            case ReplicaState.NON_EXISTENT:
                assignment = context.partition_full_replica_assignment(tp)
                context.update_assignment(tp, assignment.remove_replica(broker_id))
        return True

    def _tell_role(
        self,
        broker_id: int,
        tp: TopicPartition,
        info: LeaderIsrAndControllerEpoch | None,
        *,
        is_new: bool,
    ) -> None:
        if info is not None:
            assignment = self._context.partition_full_replica_assignment(tp)
            self._batch.add_leader_and_isr([broker_id], tp, info, assignment, is_new=is_new)

    # ---- -> Offline ------------------------------------------------------------------------------

    def _take_offline(self, broker_id: int, replicas: Sequence[PartitionAndReplica]) -> None:
        context = self._context
        for replica in replicas:
            self._batch.add_stop_replica([broker_id], replica.tp, delete=False)
        led = [r.tp for r in replicas if context.partition_leadership_info(r.tp) is not None]
        for tp, state in self._remove_from_isr(broker_id, led).items():
            if not context.is_topic_queued_up_for_deletion(tp.topic):
                others = [r for r in context.partition_replica_assignment(tp) if r != broker_id]
                assignment = context.partition_full_replica_assignment(tp)
                self._batch.add_leader_and_isr(others, tp, state, assignment, is_new=False)
            context.replica_states[PartitionAndReplica(tp, broker_id)] = ReplicaState.OFFLINE
        for replica in replicas:
            if context.partition_leadership_info(replica.tp) is None:
                context.replica_states[replica] = ReplicaState.OFFLINE
                self._batch.add_update_metadata(
                    context.live_or_shutting_down_broker_ids, [replica.tp]
                )

    def _remove_from_isr(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> dict[TopicPartition, LeaderIsrAndControllerEpoch]:
        """The states without the replica: as they were where it was in no ISR, else as written."""
        context = self._context
        results: dict[TopicPartition, LeaderIsrAndControllerEpoch] = {}
        remaining = list(partitions)
        while remaining:
            current, errors = self._states.read(remaining)
            for tp, error in errors.items():
                gone = isinstance(error, NoNodeError)
                if not (gone and context.is_topic_queued_up_for_deletion(tp.topic)):
                    log.error("Replica %d of %s stays: %r", broker_id, tp, error)
            changed = {}
            for tp, state in current.items():
                if broker_id in state.isr:
                    changed[tp] = self._rules.without_replica(state, broker_id)
                else:
                    info = LeaderIsrAndControllerEpoch(state, context.controller_epoch)
                    context.leadership[tp] = info
                    results[tp] = info
            written = self._states.update(changed)
            results.update(written.states)
            for tp, error in written.errors.items():
                log.error("Replica %d of %s stays in the ISR: %r", broker_id, tp, error)
            remaining = written.retry
        return results

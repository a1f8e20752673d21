"""Moves partitions to other replicas (KIP-455, and the old `/admin/reassign_partitions`).

While replicas are missing from the ISR (phase A): the assignment in ZooKeeper grows to old and new
replicas, all of them are told with a raised leader epoch, and the new ones start to follow. When
all targets are in the ISR (phase B): the target becomes the assignment, a leader outside of it is
replaced, the removed replicas are stopped and deleted, and only then ZooKeeper has the final
assignment. A controller that fails in between leaves a state from which its successor goes on. A
mere reordering is complete from the start: phase B at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from nodes.controller.context import PartitionAndReplica
from nodes.controller.event_manager import ControllerState, Event
from nodes.controller.partition_machine import REASSIGN
from nodes.controller.parts import Parts
from nodes.controller.results import Result, StateChangeFailed, why_unanswered
from nodes.coordination import znodes
from nodes.coordination.errors import ControllerMoved
from nodes.coordination.session import ChangeHandler
from nodes.core.assignment import ReplicaAssignment
from nodes.core.batching import BatchNotEmpty
from nodes.core.errors import Errors
from nodes.core.partition_state_machine import PartitionState
from nodes.core.replica_state_machine import ReplicaState
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition

log = logging.getLogger("kafka.controller.KafkaController")

Respond = Callable[[Errors, Mapping[TopicPartition, Result]], None]
RespondList = Callable[[Errors, Mapping[TopicPartition, ReplicaAssignment]], None]


class Reassignments:
    """Event thread only, but for `alter`, `list` and the watch callback, which enqueue."""

    def __init__(self, parts: Parts, rules: Rules = RULES) -> None:
        self._parts = parts
        self._rules = rules
        self._handler = ChangeHandler(znodes.REASSIGN_PARTITIONS, created=self._put_from_zk)

    # ---- requests --------------------------------------------------------------------------------

    def alter(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None], respond: Respond
    ) -> None:
        """Any thread. None cancels a reassignment."""

        def run() -> None:
            if not self._parts.is_active():
                respond(Errors.NOT_CONTROLLER, {})
                return
            try:
                results = self._alter(wanted)
            except Exception as error:
                # Kafka lets the request time out; who asked is better served by an answer.
                respond(why_unanswered(error), {})
                raise
            respond(Errors.NONE, results)

        self._parts.put(
            Event(
                "ApiPartitionReassignment",
                ControllerState.ALTER_PARTITION_REASSIGNMENT,
                run,
                lambda: respond(Errors.NOT_CONTROLLER, {}),
            )
        )

    def list(self, partitions: Collection[TopicPartition] | None, respond: RespondList) -> None:
        """Any thread. Those of the partitions (None: of all) that are being reassigned."""

        def run() -> None:
            context = self._parts.context
            if not self._parts.is_active():
                respond(Errors.NOT_CONTROLLER, {})
                return
            moving = context.partitions_being_reassigned if self._rules.lists_moves() else ()
            asked = moving if partitions is None else partitions
            found = {tp: context.partition_full_replica_assignment(tp) for tp in asked}
            respond(Errors.NONE, {tp: a for tp, a in found.items() if a.is_being_reassigned})

        self._parts.put(
            Event(
                "ListPartitionReassignments",
                ControllerState.LIST_PARTITION_REASSIGNMENT,
                run,
                lambda: respond(Errors.NOT_CONTROLLER, {}),
            )
        )

    def _alter(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, Result]:
        context = self._parts.context
        results: dict[TopicPartition, Result] = {}
        accepted: dict[TopicPartition, ReplicaAssignment] = {}
        for tp, target in wanted.items():
            current = context.partition_full_replica_assignment(tp)
            problem = None if target is None else self._problem(current, target)
            if problem is not None:
                results[tp] = Result(Errors.INVALID_REPLICA_ASSIGNMENT, problem)
            elif target is not None:
                accepted[tp] = current.reassign_to(target)
            elif current.is_being_reassigned and not self._rules.calls_off_moves():
                results[tp] = Result()
            elif current.is_being_reassigned:
                accepted[tp] = current.reassign_to(current.origin_replicas)
            else:
                results[tp] = Result(Errors.NO_REASSIGNMENT_IN_PROGRESS)
        # The latest wish counts, however it was expressed.
        self._forget_in_zk(lambda tp, _replicas: tp in accepted)
        for tp, assignment in accepted.items():
            results[tp] = self._trigger(tp, assignment)
        return results

    def _problem(self, current: ReplicaAssignment, target: Sequence[int]) -> str | None:
        """What is wrong with a target, None if nothing is."""
        if not target:
            return "Empty replica list specified in partition reassignment."
        if len(set(target)) != len(target):
            return f"Duplicate replica ids in partition reassignment replica list: {list(target)}"
        if min(target) < 0:
            return f"Invalid broker id in replica list: {list(target)}"
        live = self._parts.context.live_broker_ids
        adding = current.reassign_to(target).adding_replicas
        if not set(adding) <= live:
            return (
                f"Replica assignment has brokers that are not alive. Replica list: {list(adding)}, "
                f"live broker list: {sorted(live)}"
            )
        return None

    def _trigger(self, tp: TopicPartition, assignment: ReplicaAssignment) -> Result:
        context = self._parts.context
        unknown = not context.partition_replica_assignment(tp)
        if unknown or context.is_topic_queued_up_for_deletion(tp.topic):
            return Result(Errors.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
        try:
            self._reassign(tp, assignment)
        except (ControllerMoved, BatchNotEmpty):
            raise
        except Exception as error:
            log.exception("Error completing reassignment of partition %s", tp)
            return Result(Errors.UNKNOWN_SERVER_ERROR, repr(error))
        return Result()

    # ---- through ZooKeeper -----------------------------------------------------------------------

    def watch(self) -> None:
        self._parts.zk.register_znode_change_handler_and_check_existence(self._handler)

    def unwatch(self) -> None:
        self._parts.zk.unregister_znode_change_handler(znodes.REASSIGN_PARTITIONS)

    def _put_from_zk(self) -> None:
        self._parts.put(
            Event(
                "ZkPartitionReassignment",
                ControllerState.ALTER_PARTITION_REASSIGNMENT,
                self._on_znode,
            )
        )

    def _on_znode(self) -> None:
        self.start_from_zk()

    def start_from_zk(self) -> set[TopicPartition]:
        """Begin what the znode asks for; answers what was begun. Arms its watch."""
        parts = self._parts
        exists = parts.zk.register_znode_change_handler_and_check_existence
        if not parts.is_active() or not exists(self._handler):
            return set()
        started: set[TopicPartition] = set()
        failed: set[TopicPartition] = set()
        for tp, target in parts.zk.get_partition_reassignment().items():
            assignment = parts.context.partition_full_replica_assignment(tp).reassign_to(target)
            (failed if self._trigger(tp, assignment).error else started).add(tp)
        if failed:
            log.warning("Failed reassignment through ZooKeeper: %s", failed)
            self._forget_in_zk(lambda tp, _replicas: tp in failed)
        return started

    def _forget_in_zk(self, forget: Callable[[TopicPartition, tuple[int, ...]], bool]) -> None:
        zk = self._parts.zk
        listed = zk.get_partition_reassignment()
        left = {tp: replicas for tp, replicas in listed.items() if not forget(tp, replicas)}
        if listed and left != listed:
            zk.set_or_delete_partition_reassignment(left, self._parts.context.epoch_zk_version)
            if not left:
                self._put_from_zk()  # its watch has fired for the deletion: arm it again

    # ---- going on --------------------------------------------------------------------------------

    def resume(self, should_resume: Callable[[TopicPartition, ReplicaAssignment], bool]) -> None:
        """Take another step with those in progress."""
        context = self._parts.context
        for tp in sorted(context.partitions_being_reassigned):
            assignment = context.partition_full_replica_assignment(tp)
            if should_resume(tp, assignment):
                self._reassign(tp, assignment)

    def maybe_complete(self, tp: TopicPartition) -> None:
        """The partition's ISR has changed."""
        context = self._parts.context
        if tp in context.partitions_being_reassigned:
            assignment = context.partition_full_replica_assignment(tp)
            if self._is_complete(tp, assignment):
                self._reassign(tp, assignment)

    def _is_complete(self, tp: TopicPartition, assignment: ReplicaAssignment) -> bool:
        if not assignment.is_being_reassigned:
            return True
        state = self._parts.zk.get_topic_partition_states([tp]).get(tp)
        return state is not None and self._rules.move_is_complete(
            assignment.target_replicas, state.leader_and_isr.isr
        )

    def _reassign(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        parts, context = self._parts, self._parts.context
        parts.deletions.halt([tp.topic], "topic reassignment in progress")
        self._update_current(tp, assignment)
        adding = [PartitionAndReplica(tp, r) for r in assignment.adding_replicas]
        if not self._is_complete(tp, assignment):
            self._raise_leader_epoch(tp, assignment)
            for replica in adding:
                parts.replicas.handle_state_changes([replica], ReplicaState.NEW)
            return
        parts.replicas.handle_state_changes(adding, ReplicaState.ONLINE)
        completed = ReplicaAssignment(self._rules.replicas_after_move(assignment.target_replicas))
        context.update_assignment(tp, completed)
        self._move_leader_if_required(tp, completed)
        self._stop_removed(tp, assignment.removing_replicas)
        self._write_assignment(tp, completed)
        self._forget_in_zk(lambda t, replicas: t == tp and replicas == completed.replicas)
        context.partitions_being_reassigned.discard(tp)
        parts.send_update_metadata(context.live_or_shutting_down_broker_ids, [tp])
        if self._rules.goes_on_after_moves():
            parts.deletions.resume_for([tp.topic])

    def _update_current(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        context = self._parts.context
        current = context.partition_full_replica_assignment(tp)
        if current != assignment:
            self._write_assignment(tp, assignment)
            context.update_assignment(tp, assignment)
            # A redirected reassignment may drop replicas that it had begun to add.
            self._stop_removed(tp, [r for r in current.replicas if r not in assignment.replicas])
        context.partitions_being_reassigned.add(tp)

    def _write_assignment(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        context = self._parts.context
        self._parts.zk.set_topic_assignment(
            tp.topic,
            context.topic_ids.get(tp.topic),
            {**context.full_assignment_of_topic(tp.topic), tp: assignment},
            context.epoch_zk_version,
        )

    def _stop_removed(self, tp: TopicPartition, removed: Collection[int]) -> None:
        """Out of the ISR, stopped, deleted; unlike a topic's deletion nobody waits for answers."""
        replicas = [PartitionAndReplica(tp, r) for r in removed]
        for state in (
            ReplicaState.OFFLINE,
            ReplicaState.DELETION_STARTED,
            ReplicaState.DELETION_SUCCESSFUL,
            ReplicaState.NON_EXISTENT,
        ):
            self._parts.replicas.handle_state_changes(replicas, state)

    def _move_leader_if_required(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        context = self._parts.context
        leader = context.leader_of(tp)
        if leader in assignment.replicas and context.is_replica_online(leader, tp):
            self._raise_leader_epoch(tp, assignment)
        else:
            self._parts.partitions.handle_state_changes([tp], PartitionState.ONLINE, REASSIGN)

    def _raise_leader_epoch(self, tp: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Same leader and ISR, new assignment: only a higher leader epoch makes brokers look."""
        parts = self._parts
        while True:
            current, errors = parts.states.read([tp])
            for error in errors.values():
                raise StateChangeFailed(f"Cannot update leader epoch of {tp}: {error!r}") from error
            written = parts.states.update({tp: current[tp].new_epoch()})
            for error in written.errors.values():
                raise error
            if written.states:
                break
        batch = parts.batch
        batch.new_batch()
        batch.add_leader_and_isr(
            assignment.origin_replicas, tp, written.states[tp], assignment, is_new=False
        )
        batch.add_leader_and_isr(
            assignment.adding_replicas, tp, written.states[tp], assignment, is_new=True
        )
        batch.send()

"""What the controller orders: LeaderAndIsr, StopReplica and UpdateMetadata (Kafka's ReplicaManager
under its replica-state-change lock).

One lock serializes the three, on whichever plane they arrive. Under it the controller epoch is
compared and adopted, so that nothing of a deposed controller is applied once its successor has been
heard. (Broker epochs are compared before, in nodes.api.)

Order matters when a role changes:

* to leader: stop fetching, *then* lead, so that no fetched record lands after the new epoch began;
* to follower: take the new state (no more appends), stop the old fetcher, fail what waits here,
  then start the new fetcher from the log's end. It truncates as its first answer tells it.

Names are checked, since they become paths (Kafka believes its controller): a partition that there
cannot be (`nodes.core.topic_names`) is answered INVALID_TOPIC_EXCEPTION, and nothing is made,
changed or deleted for it; the request's other partitions take their course. UpdateMetadata has no
errors of partitions: one such name, and the whole request is answered so and not taken in, for no
controller sends one. The controller epoch counts all the same, as when every partition is refused.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Protocol

from nodes.core.errors import ApiError, Errors
from nodes.core.rules import Rules
from nodes.core.topic_names import is_legal_partition
from nodes.core.types import TopicPartition
from nodes.replication.control_requests import (
    StopState,
    leader_and_isr_states,
    metadata_partitions,
    metadata_rows,
    stop_states,
)
from nodes.replication.fetcher import InitialFetch
from nodes.replication.fetcher_manager import ReplicaFetcherManager
from nodes.replication.model import (
    LeaderAndIsrResult,
    LeaderAndIsrState,
    PartitionErrorRow,
    StopReplicaResult,
    UpdateMetadataResult,
)
from nodes.replication.partition import Partition
from nodes.replication.state_change_lines import Lines, name_of
from nodes.state_change_log import topic_id_text

LeadershipListener = Callable[[list[Partition], list[Partition]], None]
"""(now leading, now following), called under the replica-state-change lock."""


class Replicas(Protocol):
    """What the orders act on: the ReplicaManager."""

    broker_id: int
    rules: Rules
    fetchers: ReplicaFetcherManager
    on_leadership_change: LeadershipListener | None

    def partition(self, tp: TopicPartition) -> Partition | None: ...
    def create_partition(self, tp: TopicPartition) -> Partition: ...
    def drop_partition(self, tp: TopicPartition) -> None: ...
    def delete_log(self, tp: TopicPartition) -> None: ...
    def is_offline(self, tp: TopicPartition) -> bool: ...
    def take_offline(self, tp: TopicPartition) -> None: ...
    def take_out_logs(self, directory: Path) -> list[TopicPartition]: ...
    def ensure_log(self, partition: Partition, state: LeaderAndIsrState) -> None: ...
    def assign_topic_id(self, partition: Partition, topic_id: uuid.UUID) -> None: ...
    def is_alive(self, broker_id: int) -> bool: ...
    def complete_delayed(self, tp: TopicPartition) -> None: ...
    def start_high_watermark_checkpoints(self) -> None: ...
    def trace_event(self, kind: str, **fields: Any) -> None: ...
    def take_in_metadata(self, request: Any) -> list[TopicPartition]: ...
    def is_shutting_down(self) -> bool: ...


class StateChanges:
    """Any thread may call; the lock makes them one at a time."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._rules = replicas.rules
        self._lock = threading.Lock()
        self._lines = Lines(replicas.broker_id)
        self.controller_epoch = 0

    # ---- LeaderAndIsr ----------------------------------------------------------------------------

    def become_leader_or_follower(self, correlation_id: int, request: Any) -> LeaderAndIsrResult:
        states = list(leader_and_isr_states(request))
        start_ns = time.monotonic_ns()
        with self._lock:
            self._lines.handling("LeaderAndIsr", correlation_id, request, len(states))
            self._lines.received_leader_and_isr(correlation_id, request)
            result = self._become_leader_or_follower(correlation_id, request, states)
            elapsed_ms = (time.monotonic_ns() - start_ns) // 1_000_000
            self._lines.finished_leader_and_isr(correlation_id, request, len(states), elapsed_ms)
            return result

    def _become_leader_or_follower(
        self, correlation_id: int, request: Any, states: list[LeaderAndIsrState]
    ) -> LeaderAndIsrResult:
        if not self._adopt(request, correlation_id, self._rules.controller_epoch_is_stale):
            error = int(Errors.STALE_CONTROLLER_EPOCH)
            return LeaderAndIsrResult(error, [_row(state, error) for state in states])
        errors: dict[TopicPartition, int] = {}
        # By partition: of one that is named twice the last state counts, as in Kafka.
        leaders: dict[TopicPartition, LeaderAndIsrState] = {}
        followers: dict[TopicPartition, LeaderAndIsrState] = {}
        for state in states:
            try:
                error, applies = self._admit(state, correlation_id, request)
            except ApiError as refused:
                code = int(refused.error)
                return LeaderAndIsrResult(code, [_row(state, code) for state in states])
            if applies or not (state.tp in leaders or state.tp in followers):
                errors[state.tp] = int(error)
            if applies:
                leads = state.leader == self._replicas.broker_id
                (leaders if leads else followers)[state.tp] = state
        now_leading = self._make_leaders(leaders.values(), errors, correlation_id)
        now_following = self._make_followers(followers.values(), errors, correlation_id, request)
        self._replicas.start_high_watermark_checkpoints()
        self._replicas.fetchers.stop_idle_threads()
        listener = self._replicas.on_leadership_change
        if listener is not None and (now_leading or now_following):
            listener(now_leading, now_following)
        return LeaderAndIsrResult(0, [_row(state, errors[state.tp]) for state in states])

    def _admit(
        self, state: LeaderAndIsrState, correlation_id: int, request: Any
    ) -> tuple[Errors, bool]:
        """What one partition is answered, and whether its new state is applied. Raises ApiError
        for what fails the whole request."""
        if not is_legal_partition(state.tp):
            self._lines.log.error("Ignoring LeaderAndIsr request: there can be no %r", state.tp)
            return Errors.INVALID_TOPIC_EXCEPTION, False
        if self._replicas.is_offline(state.tp):
            self._lines.ignored_offline("LeaderAndIsr request", correlation_id, request, state.tp)
            return Errors.KAFKA_STORAGE_ERROR, False
        partition = self._replicas.partition(state.tp) or self._replicas.create_partition(state.tp)
        known_id = partition.topic_id
        if known_id is not None and state.topic_id is not None and known_id != state.topic_id:
            self._lines.log.error(
                "Topic ID in memory: %s does not match the topic ID for partition %s received: %s.",
                topic_id_text(known_id),
                name_of(state.tp),
                topic_id_text(state.topic_id),
            )
            error = Errors.INCONSISTENT_TOPIC_ID
        elif self._knows_but_the_id(partition, state, correlation_id, request):
            return Errors.NONE, False
        else:
            error = self._rules.leader_and_isr_error(state.leader_epoch, partition.leader_epoch)
            if error is not Errors.NONE:
                self._lines.ignored_epoch(correlation_id, request, state, partition.leader_epoch)
            elif self._replicas.broker_id not in state.replicas:
                self._lines.ignored_stranger(correlation_id, request, state)
                error = Errors.UNKNOWN_TOPIC_OR_PARTITION
        return error, error is Errors.NONE or self._rules.applies_in_spite_of(error)

    def _knows_but_the_id(
        self, partition: Partition, state: LeaderAndIsrState, correlation_id: int, request: Any
    ) -> bool:
        """A leader epoch that is known, and a topic id that only one of the two has: no error.

        A topic that was made without an id is given one by a controller of today: it is taken over,
        and nothing else. One that has an id is told to a follower by a controller that knows none
        (any more). Where there is no log that could take an id over, Kafka fails with the whole
        request."""
        if state.leader_epoch != partition.leader_epoch:
            return False
        if partition.topic_id is None and state.topic_id is not None:
            partition.local_log()
            self._replicas.assign_topic_id(partition, state.topic_id)
            self._lines.takes_topic_id(correlation_id, request, state)
            return True
        if (
            partition.topic_id is None
            or state.topic_id is not None
            or state.leader == self._replicas.broker_id
        ):
            return False
        self._lines.lacks_topic_id(correlation_id, request, state, partition.topic_id)
        return True

    def _make_leaders(
        self,
        states: Collection[LeaderAndIsrState],
        errors: dict[TopicPartition, int],
        correlation_id: int,
    ) -> list[Partition]:
        if not states:
            return []
        replicas = self._replicas
        replicas.fetchers.remove(state.tp for state in states)
        changed = []
        for state in states:
            partition = replicas.partition(state.tp)
            assert partition is not None
            if _is_older(state, partition) or not self._with_log(partition, state, errors):
                continue
            previous = partition.leader_id, partition.leader_epoch
            try:
                newly_leader = partition.make_leader(state)
            except ApiError as error:
                self._refused(state, error, errors)
                continue
            self._trace_role(
                partition, state, "leader", correlation_id, previous, partition.ordered_at
            )
            if newly_leader:
                changed.append(partition)
        return changed

    def _make_followers(
        self,
        states: Collection[LeaderAndIsrState],
        errors: dict[TopicPartition, int],
        correlation_id: int,
        request: Any,
    ) -> list[Partition]:
        if not states:
            return []
        replicas = self._replicas
        changed: list[Partition] = []
        for state in states:
            partition = replicas.partition(state.tp)
            assert partition is not None
            if not replicas.is_alive(state.leader):
                # As in Kafka the answer is "no error", and the partition stays what it was; but it
                # has a log, so that its high watermark is checkpointed (KAFKA-1647).
                self._lines.unavailable_leader(correlation_id, request, state)
                self._with_log(partition, state, errors)
                continue
            if _is_older(state, partition) or not self._with_log(partition, state, errors):
                continue
            previous = partition.leader_id, partition.leader_epoch
            restart = partition.make_follower(state)
            at = partition.local_log().log_end_offset, partition.high_watermark
            self._trace_role(partition, state, "follower", correlation_id, previous, at)
            if restart:
                changed.append(partition)
        replicas.fetchers.remove(partition.tp for partition in changed)
        if self._rules.answers_at_demotion():
            for partition in changed:
                replicas.complete_delayed(partition.tp)
        if not replicas.is_shutting_down():
            replicas.fetchers.add({p.tp: self._initial_fetch(p) for p in changed})
        return changed

    def _initial_fetch(self, partition: Partition) -> InitialFetch:
        """From the log's end, so that the leader can find a divergence by epochs; a log that knows
        no epoch can only be cut to what it knows to be committed."""
        own_log = partition.local_log()
        assert partition.leader_id is not None
        asks = self._rules.asks_leader_for_divergence() and own_log.latest_epoch is not None
        return InitialFetch(
            partition.leader_id,
            partition.leader_epoch,
            own_log.log_end_offset if asks else partition.high_watermark,
            cuts_first=not asks,
        )

    def _with_log(
        self,
        partition: Partition,
        state: LeaderAndIsrState,
        errors: dict[TopicPartition, int],
    ) -> bool:
        try:
            self._replicas.ensure_log(partition, state)
        except (OSError, ApiError) as error:
            self._refused(state, error, errors)
            return False
        except Exception:
            # The topic's configs could not be read: the ZooKeeper session is over. It stays what it
            # was, and so takes the same order when it comes again, after the next registration. If
            # the request failed as a whole, the partitions before this one would have taken over
            # their epochs without being fetched, for good: the order would be old to them.
            self._lines.log.exception("Cannot open the log of %s", name_of(state.tp))
            errors[state.tp] = int(Errors.UNKNOWN_SERVER_ERROR)
            return False
        return True

    def _refused(
        self,
        state: LeaderAndIsrState,
        error: OSError | ApiError,
        errors: dict[TopicPartition, int],
    ) -> None:
        self._lines.log.error("Cannot use the log of %s: %s", name_of(state.tp), error)
        code = error.error if isinstance(error, ApiError) else Errors.KAFKA_STORAGE_ERROR
        if isinstance(error, ApiError) and code is Errors.KAFKA_STORAGE_ERROR:
            self._replicas.take_offline(state.tp)
        errors[state.tp] = int(code)

    def _trace_role(
        self,
        partition: Partition,
        state: LeaderAndIsrState,
        role: str,
        correlation_id: int,
        previous: tuple[int | None, int],
        at: tuple[int, int],
    ) -> None:
        """``at``: where its log ended and its high watermark was as it took the role up. A leader
        is written to, and fetched from, before it comes to tell."""
        if (partition.leader_epoch, partition.partition_epoch) != (
            state.leader_epoch,
            state.partition_epoch,
        ):
            return  # an older partition epoch: nothing was applied
        log_end_offset, high_watermark = at
        self._lines.role(
            state,
            role,
            log_end_offset,
            high_watermark,
            *previous,
            is_under_min_isr=previous[0] == partition.leader_id and partition.is_under_min_isr,
        )
        self._replicas.trace_event(
            "leader_change",
            topic=state.tp.topic,
            partition=state.tp.partition,
            role=role,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            controller_epoch=state.controller_epoch,
            correlation_id=correlation_id,
            log_end_offset=log_end_offset,
            high_watermark=high_watermark,
        )

    # ---- StopReplica -----------------------------------------------------------------------------

    def stop_replicas(self, correlation_id: int, request: Any) -> StopReplicaResult:
        states = list({state.tp: state for state in stop_states(request)}.values())
        with self._lock:
            self._lines.handling("StopReplica", correlation_id, request, len(states))
            self._lines.received_stop_replica(correlation_id, request)
            if not self._adopt(request, correlation_id, self._rules.controller_epoch_is_stale):
                error = int(Errors.STALE_CONTROLLER_EPOCH)
                return StopReplicaResult(error, [_stop_row(state, error) for state in states])
            errors: dict[TopicPartition, int] = {}
            stopping: list[StopState] = []
            for state in states:
                if not is_legal_partition(state.tp):
                    self._lines.log.error(
                        "Ignoring StopReplica request: there can be no %r", state.tp
                    )
                    errors[state.tp] = int(Errors.INVALID_TOPIC_EXCEPTION)
                    continue
                if self._replicas.is_offline(state.tp):
                    what = f"StopReplica request (delete={'true' if state.delete else 'false'})"
                    self._lines.ignored_offline(what, correlation_id, request, state.tp)
                    errors[state.tp] = int(Errors.KAFKA_STORAGE_ERROR)
                    continue
                partition = self._replicas.partition(state.tp)
                known_epoch = -1 if partition is None else partition.leader_epoch
                error = int(self._rules.stop_replica_error(state.leader_epoch, known_epoch))
                if partition is None or not error:
                    error = 0
                    stopping.append(state)
                else:
                    self._lines.ignored_stop(correlation_id, request, state, known_epoch)
                errors[state.tp] = error
            self._stop(stopping, errors, int(request.controller_epoch), correlation_id)
            return StopReplicaResult(0, [_stop_row(state, errors[state.tp]) for state in states])

    def _stop(
        self,
        states: list[StopState],
        errors: dict[TopicPartition, int],
        controller_epoch: int,
        correlation_id: int,
    ) -> None:
        replicas = self._replicas
        replicas.fetchers.remove(state.tp for state in states)
        for state in states:
            if state.delete:
                replicas.drop_partition(state.tp)
            # Who waits for a partition that is gone need not wait for the deadline.
            replicas.complete_delayed(state.tp)
        for state in states:
            if self._rules.stop_deletes(state.delete):
                try:
                    replicas.delete_log(state.tp)
                except ApiError as error:
                    self._lines.log.error(
                        "Cannot delete the log of %s: %s", name_of(state.tp), error
                    )
                    errors[state.tp] = int(error.error)
            replicas.trace_event(
                "replica_stop",
                topic=state.tp.topic,
                partition=state.tp.partition,
                leader_epoch=state.leader_epoch,
                controller_epoch=controller_epoch,
                correlation_id=correlation_id,
                delete=state.delete,
            )

    # ---- UpdateMetadata --------------------------------------------------------------------------

    def maybe_update_metadata_cache(
        self, correlation_id: int, request: Any
    ) -> UpdateMetadataResult:
        with self._lock:
            if not self._adopt(request, correlation_id, self._rules.metadata_epoch_is_stale):
                return UpdateMetadataResult(int(Errors.STALE_CONTROLLER_EPOCH))
            illegal = [tp for tp in metadata_partitions(request) if not is_legal_partition(tp)]
            if illegal:
                self._lines.log.error(
                    "Refusing UpdateMetadata request: there can be no %r", illegal[0]
                )
                return UpdateMetadataResult(int(Errors.INVALID_TOPIC_EXCEPTION))
            deleted = self._replicas.take_in_metadata(request)
            self._lines.updated_metadata(correlation_id, request, len(deleted))
            for row in metadata_rows(request):
                self._replicas.trace_event("metadata_update", **row, correlation_id=correlation_id)
            return UpdateMetadataResult(0, deleted)

    # ---- a log directory that failed -------------------------------------------------------------

    def take_out(self, directory: Path) -> None:
        """What lies there is offline from now on (ReplicaManager.handleLogDirFailure). Who waits
        for it is told when somebody looks, or at the deadline."""
        with self._lock:
            tps = self._replicas.take_out_logs(directory)
            self._replicas.fetchers.remove(tps)
            for tp in tps:
                self._replicas.take_offline(tp)
        self._lines.log.warning(
            "Stopped serving replicas %s, which are in the failed log directory %s",
            ",".join(map(name_of, tps)), directory,
        )  # fmt: skip

    # ---- shared ----------------------------------------------------------------------------------

    def _adopt(
        self, request: Any, correlation_id: int, is_stale: Callable[[int, int], bool]
    ) -> bool:
        """Compares the controller epoch and adopts a newer one; false: refuse everything."""
        controller_epoch = int(request.controller_epoch)
        if is_stale(controller_epoch, self.controller_epoch):
            self._lines.ignored_controller(correlation_id, request, self.controller_epoch)
            return False
        # max(): with a planted bug in the rule, what was seen must not be forgotten too.
        self.controller_epoch = max(self.controller_epoch, controller_epoch)
        return True


def _row(state: LeaderAndIsrState, error: int) -> PartitionErrorRow:
    return PartitionErrorRow(state.tp.topic, state.topic_id, state.tp.partition, error)


def _stop_row(state: StopState, error: int) -> PartitionErrorRow:
    return PartitionErrorRow(state.tp.topic, None, state.tp.partition, error)


def _is_older(state: LeaderAndIsrState, partition: Partition) -> bool:
    """An older partition epoch: as in Kafka no error, and nothing is done, no log made either."""
    return state.partition_epoch < partition.partition_epoch

"""The coordinator of consumer groups (Kafka's GroupCoordinator and GroupMetadataManager).

This broker coordinates the groups whose partition of `__consumer_offsets` it leads. When it becomes
that partition's leader, a thread of its own reads the groups and their offsets out of the log;
until that is done they are answered COORDINATOR_LOAD_IN_PROGRESS. When it ceases to be, they are
forgotten at once and everybody who waits is answered NOT_COORDINATOR.

A group is made by its first join or commit and is gone at once if nothing came of that; what else
makes groups and positions go is in `expiration`. Questions (Heartbeat, OffsetFetch, DescribeGroups)
make none. Transactions do not commit offsets.

Threads: everything is guarded by one DeferringLock; log appends happen outside of it.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.groups.deletion import GroupDeletion
from nodes.groups.expiration import GroupExpiration
from nodes.groups.group import (
    AnswerJoin,
    AnswerSync,
    Group,
    GroupState,
    JoinRequest,
    JoinResult,
    SyncResult,
)
from nodes.groups.lock import DeferringLock
from nodes.groups.membership import Membership
from nodes.groups.messages import CommittedOffset
from nodes.groups.store import (
    OFFSETS_TOPIC,
    GroupStore,
    Loaded,
    Rows,
    group_row,
    group_store_error,
    offset_row,
    offset_store_error,
    partition_for,
)
from nodes.groups.timer import Timer

if TYPE_CHECKING:
    from nodes.config import BrokerConfig
    from nodes.replication.partition import Partition
    from nodes.replication.replica_manager import ReplicaManager

log = logging.getLogger("kafka.coordinator.group.GroupCoordinator")


class GroupOverview(NamedTuple):
    group_id: str
    protocol_type: str
    state: str


class MemberDescription(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupCounts(NamedTuple):
    groups: int
    offsets: int
    states: Counter[GroupState]


class GroupDescription(NamedTuple):
    """`state` is "" with an error, "Dead" for a group that does not exist."""

    error: Errors
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[MemberDescription, ...] = ()


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class GroupCoordinator:
    """One a broker; all methods are thread-safe. `on_leadership_change` is made to be handed to
    ReplicaManager: it takes only this object's lock and does no I/O."""

    def __init__(
        self,
        config: BrokerConfig,
        replica_manager: ReplicaManager,
        *,
        now_ms: Callable[[], int] = _wall_ms,
    ) -> None:
        self._config = config
        self.now_ms = now_ms
        self._lock = DeferringLock()
        self.timer = Timer(f"ExpirationReaper-{config.broker_id}-Rebalance")
        self._loader = Timer("group-metadata-manager-0")
        self._store = GroupStore(replica_manager, config.offsets_commit_timeout_ms, now_ms)
        self._rules = replica_manager.rules
        self._membership = Membership(
            *(config, self._lock, self.timer, self._store_group, now_ms, self._discard_if_vacant),
            rules=self._rules,
        )
        self._groups: dict[str, Group] = {}
        self.deletion = GroupDeletion(
            self._lock,
            self._groups,
            self._membership,
            self._error,
            self._erase,
        )
        self._check_interval_ms = config.offsets_retention_check_interval_ms
        self.expiration = GroupExpiration(
            self._lock,
            self._groups,
            self._membership,
            self._erase,
            retention_ms=config.offsets_retention_minutes * 60_000,
            now_ms=now_ms,
            rules=self._rules,
        )
        self._partition_count = config.offsets_topic_num_partitions
        self._owned: dict[int, object] = {}
        """Partition -> a token of this term of leadership."""
        self._loading: set[int] = set()
        self._active = False

    def startup(self, partition_count: int = 0) -> None:
        """`partition_count`: of the groups' topic, where there is one by now. It holds as long as
        this broker lives, as in Kafka: if partitions were added, groups would be looked for where
        they are not."""
        self._partition_count = partition_count or self._config.offsets_topic_num_partitions
        self._active = True
        self._loader.schedule(self._check_interval_ms, self._check_expiration)

    def _check_expiration(self) -> None:
        self._loader.schedule(self._check_interval_ms, self._check_expiration)
        self.expiration.run()

    def shutdown(self) -> None:
        """Ends the threads; requests are answered COORDINATOR_NOT_AVAILABLE from now on."""
        self._active = False
        self._loader.shutdown()
        self.timer.shutdown()

    # ---- whose groups ----------------------------------------------------------------------------

    def partition_for(self, group_id: str) -> int:
        return partition_for(group_id, self._partition_count)

    def on_leadership_change(
        self, leaders: Iterable[Partition], followers: Iterable[Partition]
    ) -> None:
        """This broker now leads the one and follows the other partitions."""
        for partition in leaders:
            if partition.tp.topic == OFFSETS_TOPIC:
                self.on_election(partition.tp.partition)
        for partition in followers:
            if partition.tp.topic == OFFSETS_TOPIC:
                self.on_resignation(partition.tp.partition)

    def on_election(self, partition: int) -> None:
        """Start to load a partition's groups. A leader of a new epoch keeps what it has loaded."""
        with self._lock:
            if partition in self._owned:
                return
            term = self._owned[partition] = object()
            self._loading.add(partition)
        log.info("Elected as the group coordinator for partition %d", partition)
        self._loader.schedule(0, lambda: self._load(partition, term))

    def on_resignation(self, partition: int) -> None:
        """Forget a partition's groups; nothing happens when this broker has not led it."""
        with self._lock:
            if self._owned.pop(partition, None) is None:
                return
            self._loading.discard(partition)
            lost = [g for g in self._groups.values() if self.partition_for(g.group_id) == partition]
            for group in lost:
                if self._rules.forgets_at_resignation():
                    del self._groups[group.group_id]
                self._membership.unload(group)
        log.info("Resigned as the group coordinator for partition %d", partition)

    def _load(self, partition: int, term: object) -> None:
        started_ns = time.monotonic_ns()
        try:
            loaded = self._store.load(partition, lambda: self._owned.get(partition) is term)
        except Exception:
            # Like Kafka: serve what there is (nothing) rather than refuse the groups for ever.
            log.exception("The groups of partition %d could not be loaded", partition)
            loaded = Loaded()
        # The lock is taken for one group at a time: there may be many, and others to be served.
        for group_id in {*loaded.groups, *(g for g, o in loaded.offsets.items() if o)}:
            stored = loaded.groups.get(group_id)
            group = Group(group_id) if stored is None else Group.load(group_id, stored)
            group.generation = self._rules.loaded_generation(group.generation)
            group.offsets = loaded.offsets.get(group_id, {})
            with self._lock:
                if self._owned.get(partition) is not term:
                    return
                if group_id in self._groups and not self._rules.forgets_at_resignation():
                    continue
                self._groups[group_id] = group
                self._membership.loaded(group)
        with self._lock:
            if self._owned.get(partition) is not term:
                return
            self._loading.discard(partition)
        log.info(
            "Finished loading offsets and group metadata from %s-%d in %d milliseconds",
            OFFSETS_TOPIC,
            partition,
            (time.monotonic_ns() - started_ns) // 1_000_000,
        )

    def _error(self, group_id: str, *, may_be_empty: bool = False) -> Errors:
        """Why this broker cannot serve a group at all."""
        if not group_id and not may_be_empty:
            return Errors.INVALID_GROUP_ID
        if not self._active:
            return Errors.COORDINATOR_NOT_AVAILABLE
        partition = self.partition_for(group_id)
        if partition in self._loading:
            return Errors.COORDINATOR_LOAD_IN_PROGRESS
        return Errors.NONE if partition in self._owned else Errors.NOT_COORDINATOR

    # ---- members ---------------------------------------------------------------------------------

    def join(self, request: JoinRequest, answer: AnswerJoin) -> None:
        low, high = (
            self._config.group_min_session_timeout_ms,
            self._config.group_max_session_timeout_ms,
        )
        with self._lock:
            error = self._error(request.group_id)
            if error:
                answer(JoinResult(error, request.member_id))
                return
            if not low <= request.session_timeout_ms <= high:
                answer(JoinResult(Errors.INVALID_SESSION_TIMEOUT, request.member_id))
                return
            group = self._groups.get(request.group_id)
            if group is None:
                if request.member_id:
                    answer(JoinResult(Errors.UNKNOWN_MEMBER_ID, request.member_id))
                    return
                group = self._create(request.group_id)
            self._membership.join(group, request, answer)
            self._discard_if_vacant(group)

    def _create(self, group_id: str) -> Group:
        group = self._groups[group_id] = Group(group_id, state_timestamp_ms=self.now_ms())
        return group

    def _discard_if_vacant(self, group: Group) -> None:
        """Nothing came of this group: nobody joined, or no position got into the log. One that has
        had a generation is in the log itself; it stays as empty until expiration erases it."""
        is_known = self._groups.get(group.group_id) is group
        if is_known and group.is_vacant and group.generation == 0:
            del self._groups[group.group_id]
            self._membership.unload(group)

    def sync(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        protocol: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
        answer: AnswerSync,
    ) -> None:
        with self._lock:
            error = self._error(group_id)
            if error == Errors.COORDINATOR_LOAD_IN_PROGRESS:
                # Old clients do not expect it here; joining anew is what they have to do anyway.
                error = Errors.REBALANCE_IN_PROGRESS
            group = self._groups.get(group_id)
            if not error and group is None:
                error = Errors.UNKNOWN_MEMBER_ID
            if error or group is None:
                answer(SyncResult(error))
                return
            self._membership.sync(
                group, generation, member_id, instance_id, protocol, assignments, answer
            )

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None
    ) -> int:
        with self._lock:
            error = self._error(group_id)
            if error == Errors.COORDINATOR_LOAD_IN_PROGRESS:
                return Errors.NONE  # nothing is known against it yet
            group = self._groups.get(group_id)
            if not error and group is None:
                return Errors.UNKNOWN_MEMBER_ID
            if error or group is None:
                return error
            return self._membership.heartbeat(group, generation, member_id, instance_id)

    def leave(
        self, group_id: str, members: Sequence[tuple[str, str | None]]
    ) -> tuple[Errors, list[Errors]]:
        """(top-level error, an error for each (member id, instance id))."""
        with self._lock:
            error = self._error(group_id)
            if error:
                return error, []
            group = self._groups.get(group_id)
            if group is None:
                return Errors.NONE, [Errors.UNKNOWN_MEMBER_ID] * len(members)
            if group.state is GroupState.DEAD:
                return Errors.COORDINATOR_NOT_AVAILABLE, []
            return Errors.NONE, [self._membership.leave(group, *member) for member in members]

    # ---- offsets ---------------------------------------------------------------------------------

    def commit_offsets(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        offsets: Mapping[TopicPartition, CommittedOffset],
        answer: Callable[[dict[TopicPartition, Errors]], None],
    ) -> None:
        """Store positions; `answer` hears an error for each, once they are committed. Who may not
        commit is told so before anything is said of a position."""
        with self._lock:
            error = self._error(group_id, may_be_empty=True)
            group = self._groups.get(group_id)
            if not error and group is None:
                # A group that only keeps offsets in Kafka and assigns partitions itself.
                if generation < 0:
                    group = self._create(group_id)
                else:
                    error = Errors.ILLEGAL_GENERATION
            if not error and group is not None:
                error = self._commit_error(group, generation, member_id, instance_id)
            if error or group is None:
                answer(dict.fromkeys(offsets, error))
                return
            longest = self._config.offset_metadata_max_bytes
            kept = {tp: c for tp, c in offsets.items() if len(c.metadata) <= longest}
            errors = dict.fromkeys(offsets, Errors.OFFSET_METADATA_TOO_LARGE)
            if not kept:
                self._discard_if_vacant(group)
                answer(errors)
                return
            committing = group
            committing.pending_commits.update(kept.keys())
            rows = [offset_row(group_id, tp, committed) for tp, committed in kept.items()]
            if not self._rules.takes_in_what_is_kept():
                committing.offsets.update(kept)

            def done(failure: Errors, at: int) -> None:
                with self._lock:
                    committing.end_commit(kept, None if failure else at)
                    self._discard_if_vacant(committing)
                answer(errors | dict.fromkeys(kept, offset_store_error(failure)))

            self._lock.defer(lambda: self._store.append(self.partition_for(group_id), rows, done))

    def _commit_error(
        self, group: Group, generation: int, member_id: str, instance_id: str | None
    ) -> Errors:
        if group.state is GroupState.DEAD:
            return Errors.COORDINATOR_NOT_AVAILABLE
        if generation < 0 and group.state is GroupState.EMPTY:
            return Errors.NONE
        if generation < 0 and not member_id and instance_id is None:
            return Errors.UNKNOWN_MEMBER_ID  # the group has members: a stranger may not commit
        error = self._membership.error_of(group, generation, member_id, instance_id)
        if error:
            return error
        if group.state is GroupState.COMPLETING_REBALANCE:
            # Its member waits for a new assignment and should commit no more for the old one.
            return Errors.REBALANCE_IN_PROGRESS
        if group.state is GroupState.PREPARING_REBALANCE and not self._rules.commits_until_joined():
            return Errors.REBALANCE_IN_PROGRESS
        if member_id in group.members:
            self._membership.restart_session(group, group.members[member_id])
        return Errors.NONE

    def fetch_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None
    ) -> tuple[Errors, dict[TopicPartition, CommittedOffset | None]]:
        """Positions of these partitions (None: of all that have one)."""
        with self._lock:
            error = self._error(group_id, may_be_empty=True)
            if error:
                return error, {}
            group = self._groups.get(group_id)
            offsets = {} if group is None else group.offsets
            if partitions is None:
                return Errors.NONE, dict(offsets)
            return Errors.NONE, {tp: offsets.get(tp) for tp in partitions}

    def on_partitions_deleted(self, partitions: Collection[TopicPartition]) -> None:
        """Forget positions in partitions that are no more, here and in the log."""
        deleted = set(partitions)
        with self._lock:
            for group in self._groups.values():
                gone = deleted & group.offsets.keys()
                if not gone or not self._rules.forgets_with_topics():
                    continue
                for tp in gone:
                    del group.offsets[tp]
                rows = [offset_row(group.group_id, tp, None) for tp in gone]
                self._defer_append(self.partition_for(group.group_id), rows)

    def _erase(self, group_id: str, rows: Rows) -> None:
        self._defer_append(self.partition_for(group_id), rows)

    def _defer_append(self, partition: int, rows: Rows) -> None:
        def done(error: Errors, _at: int) -> None:
            if error:
                log.warning("What was deleted remains in the log: %s", error.name)

        self._lock.defer(lambda: self._store.append(partition, rows, done))

    # ---- looking at groups -----------------------------------------------------------------------

    def list_groups(self, states: Collection[str]) -> tuple[Errors, list[GroupOverview]]:
        """Groups in these states (any case; none: all)."""
        if not self._active:
            return Errors.COORDINATOR_NOT_AVAILABLE, []
        wanted = {state.lower() for state in states}
        with self._lock:
            error = Errors.COORDINATOR_LOAD_IN_PROGRESS if self._loading else Errors.NONE
            return error, [
                GroupOverview(g.group_id, g.protocol_type or "", g.state.value)
                for g in self._groups.values()
                if not wanted or g.state.value.lower() in wanted
            ]

    def counts(self) -> GroupCounts:
        """How much there is of everything, for gauges."""
        with self._lock:
            groups = self._groups.values()
            return GroupCounts(
                len(groups), sum(len(g.offsets) for g in groups), Counter(g.state for g in groups)
            )

    def describe(self, group_id: str) -> GroupDescription:
        with self._lock:
            error = self._error(group_id, may_be_empty=True)
            if error:
                return GroupDescription(error)
            group = self._groups.get(group_id)
            if group is None:
                return GroupDescription(Errors.NONE, GroupState.DEAD.value)
            stable = group.state is GroupState.STABLE
            members = tuple(
                MemberDescription(
                    m.member_id,
                    m.instance_id,
                    m.client_id,
                    m.client_host,
                    m.metadata(group.protocol) if stable else b"",
                    m.assignment if stable else b"",
                )
                for m in group.members.values()
            )
            protocol = (group.protocol or "") if stable else ""
            return GroupDescription(
                Errors.NONE, group.state.value, group.protocol_type or "", protocol, members
            )

    # ---- storage ---------------------------------------------------------------------------------

    def _store_group(
        self, group: Group, assignment: Mapping[str, bytes], done: Callable[[Errors], None]
    ) -> None:
        with self._lock:
            row = group_row(group.group_id, group.stored(assignment))
        self._store.append(
            self.partition_for(group.group_id), [row], lambda e, _at: done(group_store_error(e))
        )

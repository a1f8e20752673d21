"""How members join, get their assignments, stay and leave: the rebalance protocol (KIP-62, KIP-134,
KIP-345, KIP-394).

Every public method wants the coordinator's lock held (except for what the timer calls, which takes
it) and answers through callbacks, now or when the rebalance gets there. Storing a group is deferred
until the lock is free. Follows the rebalance half of Kafka's GroupCoordinator.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from nodes.core.errors import Errors
from nodes.core.rules import RULES, Rules
from nodes.groups.group import (
    AnswerJoin,
    AnswerSync,
    Group,
    GroupState,
    JoinRequest,
    JoinResult,
    Member,
    Place,
    SyncResult,
)
from nodes.groups.pending import PendingIds

if TYPE_CHECKING:
    from nodes.config import BrokerConfig
    from nodes.groups.lock import DeferringLock
    from nodes.groups.timer import Task, Timer

log = logging.getLogger("kafka.coordinator.group.GroupCoordinator")

GROUP_MAX_SIZE_REACHED: Final = 81
_NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
_ABSENT_CHECK_MS: Final = 100
"""How often it is looked whether somebody is there, where members claim to need no time at all.
(In Kafka one look follows the other without a pause, on a thread of its own.)"""

StoreGroup = Callable[[Group, Mapping[str, bytes], Callable[[Errors], None]], None]
"""Write a group with these assignments; called and calling back without the lock."""


class Membership:
    """Guarded by the coordinator's lock."""

    def __init__(
        self,
        config: BrokerConfig,
        lock: DeferringLock,
        timer: Timer,
        store: StoreGroup,
        now_ms: Callable[[], int],
        on_vacant: Callable[[Group], None],
        rules: Rules = RULES,
    ) -> None:
        self._rules = rules
        self._lock = lock
        self._timer = timer
        self._store = store
        self._now_ms = now_ms
        self._on_vacant = on_vacant
        self.pending = PendingIds(self._forget_pending)
        self._max_size = config.group_max_size
        self._initial_delay_ms = config.group_initial_rebalance_delay_ms

    # ---- joining ---------------------------------------------------------------------------------

    def join(self, group: Group, request: JoinRequest, answer: AnswerJoin) -> None:
        names = [name for name, _ in request.protocols]
        if not group.has_room(request.member_id, self._max_size):
            self.pending.end(group, request.member_id)
            group.remove(request.member_id)
            answer(JoinResult(GROUP_MAX_SIZE_REACHED))
        elif group.state is GroupState.DEAD:
            answer(JoinResult(Errors.COORDINATOR_NOT_AVAILABLE, request.member_id))
        elif not group.supports(request.protocol_type, names):
            answer(JoinResult(Errors.INCONSISTENT_GROUP_PROTOCOL, request.member_id))
        elif not request.member_id:
            self._join_new(group, request, answer)
        elif request.member_id in group.pending_joins and request.instance_id is not None:
            # Only members without an instance id are given such ids. (Kafka trips over this one.)
            answer(JoinResult(Errors.UNKNOWN_SERVER_ERROR))
        elif request.member_id in group.pending_joins:
            self.pending.end(group, request.member_id)
            self._add_member(group, request.member_id, request, answer)
        else:
            self._rejoin(group, request, answer)
        self._maybe_complete_join(group)

    def _join_new(self, group: Group, request: JoinRequest, answer: AnswerJoin) -> None:
        member_id = f"{request.instance_id or request.client_id}-{uuid.uuid4()}"
        if request.instance_id is not None:
            if request.instance_id in group.static_members:
                self._rejoin_static(group, member_id, request, answer)
            else:
                self._add_member(group, member_id, request, answer)
        elif request.requires_member_id:
            forget = partial(self._forget_pending, group, member_id)
            expiry = self._later(request.session_timeout_ms, forget)
            self.pending.begin(group, member_id, expiry)
            answer(JoinResult(Errors.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add_member(group, member_id, request, answer)

    def _forget_pending(self, group: Group, member_id: str) -> None:
        if member_id in group.pending_joins:
            self.pending.end(group, member_id)
            self._maybe_complete_join(group)
            if group.is_vacant:
                self._on_vacant(group)

    def _add_member(
        self, group: Group, member_id: str, request: JoinRequest, answer: AnswerJoin
    ) -> None:
        member = Member(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            is_new=True,
            answer_join=answer,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.generation == 0:
            group.new_member_added = True
        group.add(member, request.protocol_type)
        # A new member may have to wait for a long rebalance; its session begins with the answer.
        self._restart_session(group, member, _NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._maybe_prepare(group, f"Adding new member {member_id}")

    def _rejoin(self, group: Group, request: JoinRequest, answer: AnswerJoin) -> None:
        error = group.error_of(request.member_id, request.instance_id)
        if error:
            answer(JoinResult(error, request.member_id))
            return
        member = group.members[request.member_id]
        unchanged = member.has_protocols(request.protocols)
        state = group.state
        if state is GroupState.EMPTY:
            answer(JoinResult(Errors.UNKNOWN_MEMBER_ID, request.member_id))
        elif (state is GroupState.COMPLETING_REBALANCE and unchanged) or (
            # A leader that joins a stable group wants a rebalance, for example for a new topic.
            state is GroupState.STABLE and unchanged and request.member_id != group.leader
        ):
            # It did not see the answer to its last join: the same once more.
            answer(group.joined(request.member_id))
        else:
            member.update(request, answer)
            self._maybe_prepare(group, f"Member {member.member_id} joined again")

    def _rejoin_static(
        self, group: Group, member_id: str, request: JoinRequest, answer: AnswerJoin
    ) -> None:
        """A static member's new process takes over its place; a stable group that would choose the
        same protocol anyway does not rebalance for it."""
        assert request.instance_id is not None
        before = group.place_of(request.instance_id)
        member = group.replace_static(request.instance_id, member_id)
        self.restart_session(group, member)
        member.update(request, answer)
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._prepare(group, f"Static member {member_id} joined again")
        elif group.state is GroupState.STABLE:
            if group.select_protocol(self._rules) != group.protocol:
                self._maybe_prepare(group, f"Static member {member_id} changed the protocol")
            else:
                self._keep_generation(group, member, request.may_skip_assignment, before)

    def _keep_generation(
        self, group: Group, member: Member, may_skip_assignment: bool, before: Place
    ) -> None:
        assignment = {m.member_id: m.assignment for m in group.members.values()}
        member_id = member.member_id

        def stored(error: Errors) -> None:
            with self._lock:
                if group.members.get(member_id) is not member:
                    return  # yet another process has come
                if error:
                    if group.put_back_static(member, before, error):
                        self.restart_session(group, member)
                    return
                if may_skip_assignment:
                    is_leader = member_id == group.leader
                    result = group.joined(member_id)._replace(skip_assignment=is_leader)
                else:
                    # Told of its old id as leader, it takes itself for a follower and does not
                    # assign anew.
                    leader = before.leader or ""
                    result = group.joined(member_id)._replace(leader=leader, members=())
                group.answer_join(member, result)

        if self._rules.keeps_who_came_back():
            self._defer_store(group, assignment, stored)
        else:
            self._lock.defer(lambda: stored(Errors.NONE))

    # ---- rebalancing -----------------------------------------------------------------------------

    def _maybe_prepare(self, group: Group, reason: str) -> None:
        if group.can_rebalance:
            self._prepare(group, reason)

    def _prepare(self, group: Group, reason: str) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
            self._propagate(group, Errors.REBALANCE_IN_PROGRESS)
        group.stop_sync_deadline()
        was_empty = group.state is GroupState.EMPTY
        group.in_initial_delay = was_empty
        group.transition_to(GroupState.PREPARING_REBALANCE, self._now_ms())
        log.info(
            "Preparing to rebalance group %s in state %s with old generation %d (reason: %s)",
            group.group_id,
            GroupState.PREPARING_REBALANCE.value,
            group.generation,
            reason,
        )
        if was_empty:
            delay_ms = self._initial_delay_ms
            self._delay_first_generation(
                group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0)
            )
        else:
            self._await_joins(group)

    def _delay_first_generation(self, group: Group, delay_ms: int, remaining_ms: int) -> None:
        def elapsed() -> None:
            if group.new_member_added and remaining_ms:
                group.new_member_added = False
                delay_again_ms = min(self._initial_delay_ms, remaining_ms)
                self._delay_first_generation(group, delay_again_ms, max(remaining_ms - delay_ms, 0))
            else:
                self._complete_join(group)

        group.set_rebalance(self._later(delay_ms, elapsed))

    def _await_joins(self, group: Group, *, at_least_ms: int = 0) -> None:
        timeout_ms = max(group.rebalance_timeout_ms, at_least_ms)
        deadline = self._later(timeout_ms, lambda: self._complete_join(group))
        group.set_rebalance(deadline if self._rules.deadlines_end() else None)
        self._maybe_complete_join(group)

    def _maybe_complete_join(self, group: Group) -> None:
        if (
            group.state is GroupState.PREPARING_REBALANCE
            and not group.in_initial_delay
            and group.has_all_joined
        ):
            self._complete_join(group)

    def _complete_join(self, group: Group) -> None:
        """Everybody is there, or the time is up: begin the next generation with who is."""
        if group.state is not GroupState.PREPARING_REBALANCE:
            return
        group.set_rebalance(None)
        group.in_initial_delay = group.new_member_added = False
        for member in list(group.members.values()):
            if member.answer_join is None and member.instance_id is None:
                log.info("Group %s removed %s: it has not joined", group.group_id, member.member_id)
                group.remove(member.member_id)
        if not group.elect_joined_leader() and group.members:
            # Only static members, none of which is there: they keep their place until they expire.
            self._await_joins(group, at_least_ms=_ABSENT_CHECK_MS)
            return
        group.next_generation(self._now_ms(), self._rules)
        if not group.members:
            self._defer_store(group, {}, lambda error: _log_failure(group, error))
            return
        log.info(
            "Stabilized group %s generation %d with %d members",
            group.group_id,
            group.generation,
            len(group.members),
        )
        for member in group.members.values():
            group.answer_join(member, group.joined(member.member_id))
            member.is_new = False
            self.restart_session(group, member)
            group.pending_syncs.add(member.member_id)
        self._start_sync_deadline(group)

    # ---- syncing ---------------------------------------------------------------------------------

    def sync(
        self,
        group: Group,
        generation: int,
        member_id: str,
        instance_id: str | None,
        protocol: tuple[str | None, str | None],
        assignments: Mapping[str, bytes],
        answer: AnswerSync,
    ) -> None:
        """`protocol` is (type, name) as the member believes them; None says nothing."""
        error = self._sync_error(group, generation, member_id, instance_id, protocol)
        if error:
            answer(SyncResult(error))
        elif group.state is GroupState.EMPTY:
            answer(SyncResult(Errors.UNKNOWN_MEMBER_ID))
        elif group.state is GroupState.PREPARING_REBALANCE:
            answer(SyncResult(Errors.REBALANCE_IN_PROGRESS))
        else:
            member = group.members[member_id]
            group.pending_syncs.discard(member_id)
            if not group.pending_syncs:
                group.stop_sync_deadline()
            if group.state is GroupState.STABLE:
                protocol_type, name = group.protocol_type, group.protocol
                answer(SyncResult(Errors.NONE, protocol_type, name, member.assignment))
                self.restart_session(group, member)
                return
            member.answer_sync = answer
            if member_id == group.leader:
                self._assign(group, assignments)

    def _sync_error(
        self,
        group: Group,
        generation: int,
        member_id: str,
        instance_id: str | None,
        protocol: tuple[str | None, str | None],
    ) -> int:
        error = self.error_of(group, generation, member_id, instance_id)
        if error:
            return error
        protocol_type, name = protocol
        if protocol_type is not None and protocol_type != group.protocol_type:
            return Errors.INCONSISTENT_GROUP_PROTOCOL
        if name is not None and name != group.protocol:
            return Errors.INCONSISTENT_GROUP_PROTOCOL
        return Errors.NONE

    def _assign(self, group: Group, assignments: Mapping[str, bytes]) -> None:
        """The leader has assigned: once that is stored, everybody gets theirs."""
        generation = group.generation
        complete = {m: self._rules.assignment_of(assignments, m) for m in group.members}

        def stored(error: Errors) -> None:
            with self._lock:
                completing = group.state is GroupState.COMPLETING_REBALANCE
                if not completing or group.generation != generation:
                    return
                for member_id, member in group.members.items():
                    member.assignment = b"" if error else complete.get(member_id, b"")
                self._propagate(group, error)
                if error:
                    self._maybe_prepare(group, f"The assignment could not be stored: {error.name}")
                else:
                    group.transition_to(GroupState.STABLE, self._now_ms())

        self._defer_store(group, complete, stored)

    def _propagate(self, group: Group, error: Errors) -> None:
        for member in group.members.values():
            if error:
                result = SyncResult(error)
            else:
                protocol_type, name = group.protocol_type, group.protocol
                result = SyncResult(error, protocol_type, name, member.assignment)
            if group.answer_sync(member, result):
                self.restart_session(group, member)

    def _start_sync_deadline(self, group: Group) -> None:
        def elapsed() -> None:
            lost = list(group.pending_syncs)
            for member_id in lost:
                group.remove(member_id)
            if lost:
                self._maybe_prepare(group, f"Removing {lost} on pending sync request expiration")

        if group.sync_deadline is not None:
            group.sync_deadline.cancel()
        group.sync_deadline = self._later(group.rebalance_timeout_ms, elapsed)

    # ---- staying and leaving ---------------------------------------------------------------------

    def heartbeat(
        self, group: Group, generation: int, member_id: str, instance_id: str | None
    ) -> int:
        error = self.error_of(group, generation, member_id, instance_id)
        if error:
            return error
        if group.state is GroupState.EMPTY:
            return Errors.UNKNOWN_MEMBER_ID
        if self._rules.heartbeats_count():
            self.restart_session(group, group.members[member_id])
        if group.state is GroupState.PREPARING_REBALANCE and self._rules.tells_of_rebalances():
            return Errors.REBALANCE_IN_PROGRESS
        return Errors.NONE

    def error_of(
        self, group: Group, generation: int, member_id: str, instance_id: str | None
    ) -> Errors:
        """What is wrong with a request of a member of a generation."""
        if group.state is GroupState.DEAD:
            return Errors.COORDINATOR_NOT_AVAILABLE
        error = group.error_of(member_id, instance_id)
        if error:
            return error
        if self._rules.is_present_generation(generation, group.generation):
            return Errors.NONE
        return Errors.ILLEGAL_GENERATION

    def leave(self, group: Group, member_id: str, instance_id: str | None) -> Errors:
        if not member_id:
            # An operator removes a static member by its instance id alone.
            current = None if instance_id is None else group.static_members.get(instance_id)
            if current is None:
                return Errors.UNKNOWN_MEMBER_ID
            self._remove(group, group.members[current], "it was removed by instance id")
            return Errors.NONE
        if member_id in group.pending_joins:
            self._forget_pending(group, member_id)
            return Errors.NONE
        error = group.error_of(member_id, instance_id)
        if not error and self._rules.lets_go():
            self._remove(group, group.members[member_id], "it left")
        return error

    def _remove(self, group: Group, member: Member, reason: str) -> None:
        log.info("Group %s loses member %s: %s", group.group_id, member.member_id, reason)
        group.answer_join(member, JoinResult(Errors.UNKNOWN_MEMBER_ID))
        group.answer_sync(member, SyncResult(Errors.UNKNOWN_MEMBER_ID))
        group.remove(member.member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            self._maybe_complete_join(group)
        elif group.state is GroupState.STABLE or (
            group.state is GroupState.COMPLETING_REBALANCE and self._rules.frees_who_syncs()
        ):
            self._prepare(group, reason)

    def restart_session(self, group: Group, member: Member) -> None:
        """The member has shown itself."""
        timeout_ms = self._rules.session_timeout_ms(member.session_timeout_ms)
        self._restart_session(group, member, timeout_ms)

    def _restart_session(self, group: Group, member: Member, timeout_ms: int) -> None:
        def expired() -> None:
            current = group.members.get(member.member_id) is member
            if current and group.state is not GroupState.DEAD and not member.is_waiting:
                self._remove(group, member, "its session expired")

        if member.session is not None:
            member.session.cancel()
        member.session = self._later(timeout_ms, expired)

    # ---- loading and unloading -------------------------------------------------------------------

    def loaded(self, group: Group) -> None:
        """The group has come to this coordinator, with everybody who was in it."""
        if len(group.members) > self._max_size:
            # Whoever has to go has its positions committed first, when told to join again.
            self._prepare(group, f"Freshly-loaded group is over capacity ({self._max_size})")
        if self._rules.watches_who_is_loaded():
            for member in group.members.values():
                self.restart_session(group, member)

    def unload(self, group: Group) -> None:
        """The group has moved to another coordinator, or is gone."""
        for member in group.members.values():
            group.answer_join(member, JoinResult(Errors.NOT_COORDINATOR, member.member_id))
            group.answer_sync(member, SyncResult(Errors.NOT_COORDINATOR))
            if member.session is not None:
                member.session.cancel()
        for member_id in list(group.pending_joins):
            self.pending.end(group, member_id)
        group.stop_sync_deadline()
        group.set_rebalance(None)
        group.transition_to(GroupState.DEAD, self._now_ms())

    # ---- time and storage ------------------------------------------------------------------------

    def _later(self, delay_ms: int, run: Callable[[], None]) -> Task:
        """Call `run` under the lock, unless the task has been cancelled by then."""

        def guarded() -> None:
            with self._lock:
                if not task.is_cancelled:
                    run()

        # The caller holds the lock, so `task` is bound before the timer can get to run it.
        task = self._timer.schedule(delay_ms, guarded)
        return task

    def _defer_store(
        self, group: Group, assignment: Mapping[str, bytes], done: Callable[[Errors], None]
    ) -> None:
        self._lock.defer(lambda: self._store(group, assignment, done))


def _log_failure(group: Group, error: Errors) -> None:
    if error:
        log.warning("Failed to write empty metadata for group %s: %s", group.group_id, error.name)

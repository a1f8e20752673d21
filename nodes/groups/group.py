"""One consumer group of the classic protocol: its members, generation and state.

::

    Empty --join--> PreparingRebalance --all joined or time out--> CompletingRebalance
      ^                   ^      |                                      |
      |                   |      +-- nobody left --> Empty              | leader's assignment stored
      +-- last one left --+---------- member joins, leaves, fails -- Stable <--+
                                                        any state --> Dead (moved or deleted)

A group knows no clock, socket or thread: GroupCoordinator holds its lock, runs its timers and calls
the transitions. Members wait inside it: `answer_join` and `answer_sync` hold the callbacks of
requests that are not answered yet. Follows Kafka's GroupMetadata and MemberMetadata.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from nodes.core.errors import Errors
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition
from nodes.groups.messages import CommittedOffset, StoredGroup, StoredMember
from nodes.groups.subscriptions import all_subscribed
from nodes.groups.timer import Task

CONSUMER: Final = "consumer"
"""The protocol type of groups whose members say which topics they read."""


class GroupState(Enum):
    """Values are the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_PREVIOUS: Final[Mapping[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(GroupState),
}

Protocols = Sequence[tuple[str, bytes]]
"""Assignment strategies that a member supports, its favourite first, with its metadata for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """`requires_member_id`: a member without an id is given one and has to come back with it
    (KIP-394). `may_skip_assignment`: a returning static leader can be told to leave assignments as
    they are (KIP-814)."""

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    requires_member_id: bool
    may_skip_assignment: bool


class JoinResult(NamedTuple):
    error: int
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    """(member id, instance id, metadata) of everyone, for the leader only."""
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    error: int
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Place(NamedTuple):
    """A static member, and its group's leader, before its new process came."""

    member_id: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    leader: str | None


AnswerJoin = Callable[[JoinResult], None]
AnswerSync = Callable[[SyncResult], None]


@dataclass(slots=True, kw_only=True, eq=False)
class Member:
    """`is_new`: it joined since the last generation, and has long to wait for the next."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    answer_join: AnswerJoin | None = None
    answer_sync: AnswerSync | None = None
    session: Task | None = None

    @property
    def is_waiting(self) -> bool:
        """A member that waits for an answer is alive by that alone, unless it is new."""
        return not self.is_new and (self.answer_join is not None or self.answer_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")

    def update(self, request: JoinRequest, answer: AnswerJoin) -> None:
        """It joins again, with what it says now."""
        self.protocols = request.protocols
        self.rebalance_timeout_ms = request.rebalance_timeout_ms
        self.session_timeout_ms = request.session_timeout_ms
        self.answer_join = answer

    def has_protocols(self, protocols: Protocols) -> bool:
        return list(self.protocols) == list(protocols)


@dataclass(slots=True, eq=False)
class Group:
    """Guarded by its coordinator's lock."""

    group_id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp_ms: int = -1
    subscribed: frozenset[str] | None = None
    """Topics that the present generation reads; None: not known, or not a group of consumers."""
    members: dict[str, Member] = field(default_factory=dict)
    static_members: dict[str, str] = field(default_factory=dict)
    """Instance id -> member id (KIP-345)."""
    pending_joins: set[str] = field(default_factory=set)
    """Ids given out with MEMBER_ID_REQUIRED that have not come back yet."""
    pending_syncs: set[str] = field(default_factory=set)
    new_member_added: bool = False
    """Somebody joined during the initial delay: the delay is extended once more."""
    in_initial_delay: bool = False
    """An empty group waits a little for more members before its first generation (KIP-134)."""
    rebalance: Task | None = None
    sync_deadline: Task | None = None
    offsets: dict[TopicPartition, CommittedOffset] = field(default_factory=dict)
    pending_commits: Counter[TopicPartition] = field(default_factory=Counter)
    """Positions on their way into the log, and how often."""
    _committed_at: dict[TopicPartition, int] = field(default_factory=dict)
    """Where in the log the newest of these is, while there are others on their way."""

    # ---- states ----------------------------------------------------------------------------------

    def transition_to(self, state: GroupState, now_ms: int) -> None:
        if self.state not in _PREVIOUS[state]:
            raise ValueError(f"group {self.group_id}: {self.state} cannot become {state}")
        self.state = state
        self.state_timestamp_ms = now_ms

    @property
    def is_vacant(self) -> bool:
        """Nobody is in it or about to be, and it keeps nothing: it need not exist."""
        return (
            self.state is GroupState.EMPTY
            and not self.members
            and not self.pending_joins
            and not self.offsets
            and not self.pending_commits
        )

    @property
    def can_rebalance(self) -> bool:
        return self.state in _PREVIOUS[GroupState.PREPARING_REBALANCE]

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def set_rebalance(self, task: Task | None) -> None:
        """What ends the present rebalance in time; None: it has ended."""
        if self.rebalance is not None:
            self.rebalance.cancel()
        self.rebalance = task

    def stop_sync_deadline(self) -> None:
        self.pending_syncs.clear()
        if self.sync_deadline is not None:
            self.sync_deadline.cancel()
            self.sync_deadline = None

    # ---- members ---------------------------------------------------------------------------------

    def has_room(self, member_id: str, max_size: int) -> bool:
        """Whether this member, perhaps a new one, may join."""
        member = self.members.get(member_id)
        if self.state in (GroupState.EMPTY, GroupState.DEAD):
            return True
        if self.state is GroupState.PREPARING_REBALANCE:
            waiting = sum(m.answer_join is not None for m in self.members.values())
            is_waiting = member is not None and member.answer_join is not None
            return is_waiting or waiting < max_size
        return member is not None or len(self.members) < max_size

    def add(self, member: Member, protocol_type: str) -> None:
        if not self.members:
            self.protocol_type = protocol_type
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self.pending_joins.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id, None)
        if member is not None:
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
            if member.session is not None:
                member.session.cancel()
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        self.pending_joins.discard(member_id)
        self.pending_syncs.discard(member_id)

    def place_of(self, instance_id: str) -> Place:
        member = self.members[self.static_members[instance_id]]
        return Place(
            member.member_id, member.rebalance_timeout_ms, member.session_timeout_ms, self.leader
        )

    def replace_static(self, instance_id: str, new_member_id: str) -> Member:
        """The process behind an instance id came back under a new member id; the old is fenced."""
        old_member_id = self.static_members[instance_id]
        member = self.members.pop(old_member_id)
        self.answer_join(member, JoinResult(Errors.FENCED_INSTANCE_ID, old_member_id))
        self.answer_sync(member, SyncResult(Errors.FENCED_INSTANCE_ID))
        member.member_id = new_member_id
        self.members[new_member_id] = member
        self.static_members[instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        return member

    def put_back_static(self, member: Member, before: Place, error: Errors) -> bool:
        """The new process of a static member is refused, its old id is valid again. What it said
        that it supports stays, as in Kafka. False when it was answered meanwhile."""
        answer, member.answer_join = member.answer_join, None
        if answer is None:
            return False
        assert member.instance_id is not None
        member.rebalance_timeout_ms = before.rebalance_timeout_ms
        member.session_timeout_ms = before.session_timeout_ms
        self.replace_static(member.instance_id, before.member_id)
        leader = before.leader or ""
        answer(JoinResult(error, "", self.generation, self.protocol_type, self.protocol, leader))
        return True

    def error_of(self, member_id: str, instance_id: str | None) -> Errors:
        """Whether this pair of ids is a current member."""
        if instance_id is not None:
            current = self.static_members.get(instance_id)
            if current is None:
                return Errors.UNKNOWN_MEMBER_ID
            return Errors.NONE if current == member_id else Errors.FENCED_INSTANCE_ID
        return Errors.NONE if member_id in self.members else Errors.UNKNOWN_MEMBER_ID

    @property
    def has_all_joined(self) -> bool:
        waiting = all(m.answer_join is not None for m in self.members.values())
        return waiting and not self.pending_joins

    def elect_joined_leader(self) -> bool:
        """Leadership of the next generation goes to somebody who has joined it."""
        if self.leader is None:
            return False
        if self.members[self.leader].answer_join is not None:
            return True
        joined = [m.member_id for m in self.members.values() if m.answer_join is not None]
        if not joined:
            return False
        self.leader = joined[0]
        return True

    # ---- protocols -------------------------------------------------------------------------------

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether a member with these protocols has one in common with everybody else."""
        wanted = set(names)
        if self.state is GroupState.EMPTY or not self.members:
            return bool(protocol_type) and bool(wanted)
        return self.protocol_type == protocol_type and bool(wanted & self._common_protocols())

    def _common_protocols(self) -> set[str]:
        sets = [{name for name, _ in m.protocols} for m in self.members.values()]
        return set.intersection(*sets) if sets else set()

    def select_protocol(self, rules: Rules = RULES) -> str:
        """By which one members would go that come together now."""
        offers = [[name for name, _ in m.protocols] for m in self.members.values()]
        return rules.chosen_protocol(offers)

    def next_generation(self, now_ms: int, rules: Rules = RULES) -> None:
        is_new = any(m.is_new for m in self.members.values())
        self.generation = rules.next_generation(self.generation, is_new)
        self.pending_syncs.clear()
        if self.members:
            self.protocol = self.select_protocol(rules)
            self.transition_to(GroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.protocol = None
            self.transition_to(GroupState.EMPTY, now_ms)
        self._note_subscriptions()

    def _note_subscriptions(self) -> None:
        metadata = [m.metadata(self.protocol) for m in self.members.values()]
        self.subscribed = all_subscribed(metadata) if self.protocol_type == CONSUMER else None

    # ---- positions -------------------------------------------------------------------------------

    def end_commit(self, offsets: Mapping[TopicPartition, CommittedOffset], at: int | None) -> None:
        """These pending positions are in the log, in the batch `at` this offset; None: they failed.
        Two commits of one position may end in either order: what the log says last counts."""
        for tp, committed in offsets.items():
            if at is not None and at >= self._committed_at.get(tp, at):
                self.offsets[tp] = committed
                self._committed_at[tp] = at
            self.pending_commits[tp] -= 1
            if not self.pending_commits[tp]:
                del self.pending_commits[tp]
                self._committed_at.pop(tp, None)

    # ---- answers ---------------------------------------------------------------------------------

    def joined(self, member_id: str) -> JoinResult:
        """The answer to a join of the present generation."""
        is_leader = member_id == self.leader
        return JoinResult(
            Errors.NONE,
            member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            self.subscriptions() if is_leader else (),
        )

    def subscriptions(self) -> tuple[tuple[str, str | None, bytes], ...]:
        return tuple(
            (m.member_id, m.instance_id, m.metadata(self.protocol)) for m in self.members.values()
        )

    def answer_join(self, member: Member, result: JoinResult) -> bool:
        """Answer a waiting join; False when none waits."""
        answer, member.answer_join = member.answer_join, None
        if answer is None:
            return False
        answer(result)
        return True

    def answer_sync(self, member: Member, result: SyncResult) -> bool:
        answer, member.answer_sync = member.answer_sync, None
        if answer is None:
            return False
        answer(result)
        return True

    # ---- storage ---------------------------------------------------------------------------------

    def stored(self, assignment: Mapping[str, bytes]) -> StoredGroup:
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_timestamp_ms=self.state_timestamp_ms,
            members=tuple(
                StoredMember(
                    member_id=m.member_id,
                    instance_id=m.instance_id,
                    client_id=m.client_id,
                    client_host=m.client_host,
                    rebalance_timeout_ms=m.rebalance_timeout_ms,
                    session_timeout_ms=m.session_timeout_ms,
                    subscription=m.metadata(self.protocol),
                    assignment=assignment.get(m.member_id, b""),
                )
                for m in self.members.values()
            ),
        )

    @classmethod
    def load(cls, group_id: str, stored: StoredGroup) -> Group:
        """A group as its last record left it."""
        group = cls(
            group_id,
            state=GroupState.STABLE if stored.members else GroupState.EMPTY,
            generation=stored.generation,
            protocol=stored.protocol,
            leader=stored.leader,
            state_timestamp_ms=stored.state_timestamp_ms,
        )
        for m in stored.members:
            member = Member(
                member_id=m.member_id,
                instance_id=m.instance_id,
                client_id=m.client_id,
                client_host=m.client_host,
                rebalance_timeout_ms=m.rebalance_timeout_ms,
                session_timeout_ms=m.session_timeout_ms,
                protocols=((stored.protocol or "", m.subscription),),
                assignment=m.assignment,
            )
            group.add(member, stored.protocol_type)
        group.protocol_type = stored.protocol_type or None
        group._note_subscriptions()
        return group

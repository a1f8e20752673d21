"""Two members of one group that keep to the protocol, step by step: one stays, one comes and goes.

The host joins, assigns (JoinGroup, SyncGroup: ``enter``, ``sync``) and says that it lives
(Heartbeat, ``live``). The guest joins too, and waits at the coordinator until the host has joined
anew; so the host is to hear of it by its next heartbeats (REBALANCE_IN_PROGRESS). What it had read
until then it commits first, in the generation that is ending (OffsetCommit, ``keep``), as clients
do, and joins anew. Once both are together the guest goes again: in one round it leaves in order
(LeaveGroup, ``part``), in the next it says that it lives for the last time (``last``) and is to be
missed when its session is over. Of either the host is to hear, and is alone again.

Where the guest waits to be let in the host offers two protocols to go by, the guest the second of
them alone, as members do of which some have been given another assignor: the group goes by that
one. Should it go by the first, for the guest has gone, the host joins anew before that is kept: of
what members offer a coordinator keeps the one that they go by, and whoever coordinates next lets
nobody in who does not offer that.

What the host commits is to be kept for a moment only (OffsetCommit 2 to 4 can say that), but of a
topic to which both subscribe: while they are members it stays (KIP-211), and the host asks for it
again (OffsetFetch, ``own``). It also asks what its group is like (DescribeGroups, ``describe``).

Whatever either is told of the group, as it joins, is given something or asks, is held against what
both had told of themselves (`harness.workload.member_words`).

The host says that it lives to every broker, over a connection of its own to each: one of them may
coordinate the group by now. The guest speaks to the one that let the host in, by another
connection. Each question is a `group_step` row.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.workload.asking import AskEach
from harness.workload.links import Channel
from harness.workload.member_words import of_description, of_join, of_sync, subscription
from harness.workload.spec import WorkloadSpec
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request

ENTER, SYNC, LIVE, KEEP, PART, LAST = "enter", "sync", "live", "keep", "part", "last"
OWN, DESCRIBE = "own", "describe"
_APIS: Final = {
    ENTER: (ApiKey.JOIN_GROUP, 4),
    SYNC: (ApiKey.SYNC_GROUP, 2),
    LIVE: (ApiKey.HEARTBEAT, 1),
    KEEP: (ApiKey.OFFSET_COMMIT, 4),
    PART: (ApiKey.LEAVE_GROUP, 1),
    LAST: (ApiKey.HEARTBEAT, 1),
    OWN: (ApiKey.OFFSET_FETCH, 5),
    DESCRIBE: (ApiKey.DESCRIBE_GROUPS, 1),
}
_OFFERED: Final = ("range",)
"""Protocols, in the order in which a member would have them; `_MORE` by the host of a guest."""
_MORE: Final = ("sticky", *_OFFERED)
_KEEP_MS: Final = 1
_IN_TURN: Final = (LIVE, LIVE, OWN, LIVE, LIVE, OWN, LIVE, LIVE, DESCRIBE)
"""What the host asks the coordinator once it is in."""
_STABLE: Final = "Stable"
_NOT_COORDINATOR: Final = 16
_ILLEGAL_GENERATION: Final = 22
_UNKNOWN_MEMBER_ID: Final = 25
_REBALANCE_IN_PROGRESS: Final = 27
_MEMBER_ID_REQUIRED: Final = 79
_KNOWS_IT: Final = frozenset(
    {0, _ILLEGAL_GENERATION, _UNKNOWN_MEMBER_ID, _REBALANCE_IN_PROGRESS, _MEMBER_ID_REQUIRED}
)
"""Who coordinates the group alone says so."""
_INDEFINITE: Final = frozenset({-1, 7, 13, 56})


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topic``: of whose partition 0 positions are kept; ``session_ms``: how long the guest may
    say nothing; ``stays_ms``: how long the host may, and is waited for, shorter than anybody waits
    for an answer; ``rate_per_s``: questions a second on each connection."""

    group: str
    topic: str
    session_ms: int = 1_500
    stays_ms: int = 4_000
    rate_per_s: float = 8.0
    timeout_ms: int = 6_000

    def __post_init__(self) -> None:
        if not 0 < self.session_ms <= self.stays_ms < self.timeout_ms:
            raise ValueError(
                "fields session_ms, stays_ms; allowed: above 0, rising, less than timeout_ms"
            )


class _Asked(NamedTuple):
    """In flight."""

    op: int
    invoke_t: int
    step: str
    offset: int
    is_hosts: bool
    offers: tuple[str, ...]
    asked_as: str
    leads: bool


@dataclass(slots=True)
class _Member:
    """``next``: what it asks next; ``generation``: -1 for who is in none; ``leads``: whether it is
    to assign."""

    next: str
    member_id: str = ""
    generation: int = -1
    leads: bool = False

    def forget(self) -> None:
        self.next, self.member_id, self.generation, self.leads = ENTER, "", -1, False


class GroupPair(AskEach):
    connections = 2

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._params = params
        self._host, self._guest = _Member(ENTER), _Member(ENTER)
        self._node = -1
        """Who coordinates the group, as far as the host knows."""
        self._has_parted = False
        """The guest was together with the host, which has not come to be alone since."""
        self._guest_waits = False
        """To be let in."""
        self._firsts: dict[int, Channel] = {}
        """By node: the host's connection."""
        self._rounds = self._op = self._offset = self._turns = 0
        self._subscription = subscription(params.topic)

    def ask(self, channel: Channel) -> None:
        is_hosts = self._firsts.setdefault(channel.node, channel) is channel
        step = self._hosts_step(channel.node) if is_hosts else self._guests_step(channel.node)
        if step is None:
            return
        self._offset += step == KEEP
        offset = self._offset if step == KEEP else -1
        if not is_hosts:
            self._guest_waits = step == ENTER and bool(self._guest.member_id)
        offers = _MORE if is_hosts and self._guest_waits else _OFFERED
        member = self._host if is_hosts else self._guest
        who = (member.member_id, member.leads)
        asked = _Asked(self._op, time.monotonic_ns(), step, offset, is_hosts, offers, *who)
        self._op += 1
        self.recorder.invoke("group_step", asked.op, asked.invoke_t, **self._about(channel, asked))
        self._links.send(channel, self._frame(asked), asked)

    def _hosts_step(self, node: int) -> str:
        host = self._host
        if host.next == LIVE and node == self._node:
            self._turns += 1
            return _IN_TURN[self._turns % len(_IN_TURN)]
        if host.next == ENTER or node == self._node:
            return host.next
        return LIVE  # to who may coordinate the group by now

    def _guests_step(self, node: int) -> str | None:
        host, guest = self._host, self._guest
        settled = host.next == LIVE and node == self._node
        if guest.next == ENTER:
            return ENTER if settled and not self._has_parted else None
        if guest.next == SYNC:
            return SYNC if node == self._node else None
        together = settled and host.generation == guest.generation
        return guest.next if together else None

    # ---- questions -------------------------------------------------------------------------------

    def _frame(self, asked: _Asked) -> bytes:
        member = self._host if asked.is_hosts else self._guest
        who: dict[str, Any] = {"member_id": member.member_id}
        if asked.step == ENTER:
            silent_ms = self._params.stays_ms if asked.is_hosts else self._params.session_ms
            who |= {
                "session_timeout": silent_ms,
                "rebalance_timeout": self._params.stays_ms,
                "protocol_type": "consumer",
                "protocols": [
                    {"name": name, "metadata": self._subscription} for name in asked.offers
                ],
            }
        elif asked.step == SYNC:
            ids = [m.member_id for m in (self._host, self._guest) if m.member_id]
            rows = [{"member_id": one, "assignment": one.encode()} for one in ids]
            who |= {"generation_id": member.generation, "assignments": rows if member.leads else []}
        elif asked.step == KEEP:
            position = {"committed_offset": asked.offset, "committed_metadata": None}
            rows = [
                {
                    "name": self._params.topic,
                    "partitions": [{"partition_index": 0, **position}],
                }
            ]
            generation = {"generation_id_or_member_epoch": member.generation}
            who |= {**generation, "retention_time": _KEEP_MS, "topics": rows}
        elif asked.step == OWN:
            topics = [{"name": self._params.topic, "partition_indexes": [0]}]
            who = {"topics": topics}
        elif asked.step in (LIVE, LAST):
            who |= {"generation_id": member.generation}
        group: dict[str, Any] = {"group_id": self._params.group}
        if asked.step == DESCRIBE:
            group, who = {"groups": [self._params.group]}, {}
        entity = build(request_class(*_APIS[asked.step]), **group, **who)
        return encode_request(entity, 0, self._spec.process)

    def _about(self, channel: Channel, asked: _Asked) -> dict[str, Any]:
        about = {"node": channel.node, "group": self._params.group, "step": asked.step}
        if asked.step == LAST:
            return {**about, "keep_ms": self._params.session_ms}
        if asked.step != ENTER:
            return about
        keep_ms = self._params.stays_ms if asked.is_hosts else self._params.session_ms
        return {**about, "keep_ms": keep_ms, "offers": ",".join(asked.offers)}

    # ---- answers ---------------------------------------------------------------------------------

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        asked: _Asked = channel.tag
        self._guest_waits = self._guest_waits and asked.is_hosts
        try:
            _, answer = decode_response(*_APIS[asked.step], payload)
            error = _error(asked.step, answer)
            more = {} if error else self._more(asked, answer)
        except (WireError, IndexError) as problem:
            self._done(channel, "info", t, failure=str(problem) or "empty answer")
            self._go_on_without(asked)
            return
        outcome = "info" if error in _INDEFINITE else "fail" if error else "ok"
        self._done(channel, outcome, t, error=error, **more)
        if asked.is_hosts:
            self._hosts_turn(channel.node, asked.step, error, answer)
        else:
            self._guests_turn(asked.step, error, answer)

    def _more(self, asked: _Asked, answer: Any) -> dict[str, Any]:
        """What an answer says, beside that nothing went wrong."""
        match asked.step:
            case "enter":
                return {
                    "generation": int(answer.generation_id),
                    "protocol": answer.protocol_name,
                    "otherwise": of_join(answer, asked.asked_as, self._subscription),
                }
            case "sync":
                return {"otherwise": of_sync(answer, asked.asked_as, leads=asked.leads)}
            case "own":
                return {"offset": int(answer.topics[0].partitions[0].committed_offset)}
            case "describe":
                return self._described(answer.groups[0], asked.asked_as)
        return {}

    def _described(self, group: Any, own: str) -> dict[str, Any]:
        told: dict[str, Any] = {"state": str(group.group_state)}
        if told["state"] == _STABLE:
            told["otherwise"] = of_description(
                group, self._spec.process, own, self._subscription, _MORE
            )
        return told

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        self._done(channel, "info", t, failure=reason)
        self._go_on_without(channel.tag)

    def _go_on_without(self, asked: _Asked) -> None:
        """Nobody answered: the host begins anew with joining, and the guest is gone."""
        if not asked.is_hosts:
            self._guest_waits = False
            self._guest_is_gone()
        elif asked.step in (SYNC, KEEP):
            self._host.next = ENTER

    def _hosts_turn(self, node: int, step: str, error: int, answer: Any) -> None:
        host = self._host
        if error in _KNOWS_IT:
            self._node = node
        elif node == self._node and error == _NOT_COORDINATOR:
            self._node = -1
        if error == _UNKNOWN_MEMBER_ID:
            host.forget()
        elif error == _MEMBER_ID_REQUIRED:
            host.member_id = str(answer.member_id)
        elif step == ENTER and not error:
            # Two may coordinate the group for a moment, and each has given it an id of its own.
            host.member_id = str(answer.member_id)
            is_known = answer.protocol_name in _OFFERED
            host.next = SYNC if is_known else ENTER
            host.generation = int(answer.generation_id)
            host.leads = str(answer.leader) == host.member_id
        elif step == SYNC:
            host.next = ENTER if error else LIVE
            self._has_parted = self._has_parted and bool(error)
        elif step == host.next == LIVE and error in (_ILLEGAL_GENERATION, _REBALANCE_IN_PROGRESS):
            host.next = KEEP if error == _REBALANCE_IN_PROGRESS else ENTER
        elif step == KEEP:
            host.next = ENTER

    def _guests_turn(self, step: str, error: int, answer: Any) -> None:
        guest = self._guest
        if step == ENTER and error == _MEMBER_ID_REQUIRED:
            guest.member_id = str(answer.member_id)
        elif error or step in (PART, LAST):
            self._guest_is_gone()
        elif step == ENTER:
            guest.next, guest.generation = SYNC, int(answer.generation_id)
            guest.leads = str(answer.leader) == guest.member_id
        else:
            guest.next = LAST if self._rounds % 2 else PART
            self._rounds += 1

    def _guest_is_gone(self) -> None:
        self._has_parted = self._guest.generation >= 0
        self._guest.forget()

    def _done(self, channel: Channel, outcome: str, t: int, **fields: Any) -> None:
        asked: _Asked = channel.tag
        about = {**self._about(channel, asked), "offset": asked.offset, **fields}
        self.recorder.complete("group_step", asked.op, outcome, asked.invoke_t, t, **about)


def _error(step: str, answer: Any) -> int:
    if step == DESCRIBE:
        return int(answer.groups[0].error_code)
    if step == OWN and not answer.error_code:
        return int(answer.topics[0].partitions[0].error_code)
    return int(answer.topics[0].partitions[0].error_code if step == KEEP else answer.error_code)

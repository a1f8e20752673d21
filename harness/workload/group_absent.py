"""Members that come, are given something and then say nothing: who comes after each has to wait.

Each joins (JoinGroup, step ``enter``: asked to come back with an id, and then let in), assigns, for
it is its group's leader (SyncGroup, step ``sync``), and is never heard of again. The next one, who
has an id of its own, is let in when nobody waits for the one before any more: when that one's
session is over, or the time in which it would have had to join anew (rebalance timeout, KIP-62),
whatever comes first. With ``hurried_ms`` every other member would have to join anew within that,
far less: of the two the longer time counts. With ``leaves`` every other member does speak once
more: it leaves in order (LeaveGroup, step ``part``) while the next one waits, who is let in at once
then. The time of that rebalance is over with it, and no business of the one after it. Every broker
is asked by itself, over a connection for who comes and one for who leaves; who does not coordinate
the group says so. Each question is a `group_step` row; ``keep_ms`` of an ``enter`` is how long a
member may be waited for.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.workload.asking import AskEach
from harness.workload.links import Channel
from harness.workload.spec import WorkloadSpec
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request

ENTER, SYNC, PART = "enter", "sync", "part"
_APIS: Final = {
    ENTER: (ApiKey.JOIN_GROUP, 4),
    SYNC: (ApiKey.SYNC_GROUP, 2),
    PART: (ApiKey.LEAVE_GROUP, 1),
}
_LEAVES_NS: Final = 500_000_000
"""So long the next one has waited when a member leaves: far less than it may have to."""
_MEMBER_ID_REQUIRED: Final = 79
_INDEFINITE: Final = frozenset({-1, 7, 13, 56})


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``session_ms``, ``rebalance_ms``: of every member; one of them is far longer than the other.
    ``hurried_ms``: in place of ``rebalance_ms`` of every other one, null for none. ``leaves``:
    whether every other one leaves; ``rate_per_s``: questions a second on each connection."""

    group: str
    session_ms: int
    rebalance_ms: int
    hurried_ms: int | None = None
    leaves: bool = False
    rate_per_s: float = 5.0
    timeout_ms: int = 6_000

    def __post_init__(self) -> None:
        if not 0 < self.waited_ms < self.timeout_ms:
            raise ValueError(
                "fields session_ms, rebalance_ms; allowed: above 0, one of them below timeout_ms"
            )
        if self.hurried_ms is not None and not 0 < self.hurried_ms < self.waited_ms:
            raise ValueError("field hurried_ms; allowed: null, or above 0 and below the others")

    @property
    def waited_ms(self) -> int:
        """How long a member that says nothing may be waited for."""
        return min(self.session_ms, self.rebalance_ms)

    def rebalance_of(self, number: int) -> int:
        """The rebalance timeout (ms) of who comes after so many."""
        return self.hurried_ms if self.hurried_ms and number % 2 else self.rebalance_ms


class _Asked(NamedTuple):
    """In flight."""

    op: int
    invoke_t: int
    step: str


@dataclass(slots=True)
class _Member:
    """Who is about to be let in by one broker. ``generation``: -1 until it is; ``rebalance_ms``:
    how long it has to join anew."""

    member_id: str = ""
    generation: int = -1
    rebalance_ms: int = 0


class GroupAbsent(AskEach):
    connections = 2

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._params = params
        self._coming: dict[int, _Member] = {}
        """By node."""
        self._firsts: dict[int, Channel] = {}
        """By node: the connection of who comes."""
        self._leaving: dict[int, str] = {}
        """By node: the id of the silent member, if it is to leave."""
        self._op = self._silent = 0

    def ask(self, channel: Channel) -> None:
        member = self._coming.setdefault(channel.node, _Member())
        first = self._firsts.setdefault(channel.node, channel)
        if channel is first:
            step = ENTER if member.generation < 0 else SYNC
        elif self._is_waited_for(first) and channel.node in self._leaving:
            step, member = PART, _Member(self._leaving.pop(channel.node))
        else:
            return
        if step == ENTER and not member.member_id:
            member.rebalance_ms = self._params.rebalance_of(self._silent)
        asked = _Asked(self._op, time.monotonic_ns(), step)
        self._op += 1
        self.recorder.invoke("group_step", asked.op, asked.invoke_t, **self._about(channel, step))
        self._links.send(channel, self._frame(step, member), asked)

    @staticmethod
    def _is_waited_for(first: Channel) -> bool:
        """Whether who comes has been waiting for a while for who is silent."""
        waits = first.state == "busy" and first.tag.step == ENTER
        return waits and time.monotonic_ns() - first.tag.invoke_t > _LEAVES_NS

    def _frame(self, step: str, member: _Member) -> bytes:
        who: dict[str, Any] = {"group_id": self._params.group, "member_id": member.member_id}
        if step == SYNC:
            assigned = {"member_id": member.member_id, "assignment": b"everything"}
            who |= {"generation_id": member.generation, "assignments": [assigned]}
        elif step == ENTER:
            who |= {
                "session_timeout": self._params.session_ms,
                "rebalance_timeout": member.rebalance_ms,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": b""}],
            }
        return encode_request(build(request_class(*_APIS[step]), **who), 0, self._spec.process)

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        step = channel.tag.step
        try:
            _, answer = decode_response(*_APIS[step], payload)
            error = int(answer.error_code)
        except (WireError, IndexError) as problem:
            self.lost(channel, str(problem) or "empty answer", t)
            return
        outcome = "info" if error in _INDEFINITE else "fail" if error else "ok"
        self._done(channel, outcome, t, error=error)
        if step == PART:
            return
        member = self._coming[channel.node]
        if step == ENTER and error == _MEMBER_ID_REQUIRED:
            member.member_id = str(answer.member_id)
        elif step == ENTER and not error:
            member.generation = int(answer.generation_id)
        else:  # it has what it is given and is silent from now on, or this broker does not know it
            self._coming[channel.node] = _Member()
            self._leaving.pop(channel.node, None)
            if step == SYNC and not error:
                self._silent += 1
                if self._params.leaves and self._silent % 2:
                    self._leaving[channel.node] = member.member_id

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        self._done(channel, "info", t, failure=reason)
        if channel.tag.step != PART:
            self._coming[channel.node] = _Member()

    def _about(self, channel: Channel, step: str) -> dict[str, Any]:
        about = {"node": channel.node, "group": self._params.group, "step": step}
        if step != ENTER:
            return about
        keep_ms = min(self._params.session_ms, self._coming[channel.node].rebalance_ms)
        return {**about, "keep_ms": keep_ms}

    def _done(self, channel: Channel, outcome: str, t: int, **fields: Any) -> None:
        asked: _Asked = channel.tag
        about = {**self._about(channel, asked.step), "offset": -1, **fields}
        self.recorder.complete("group_step", asked.op, outcome, asked.invoke_t, t, **about)

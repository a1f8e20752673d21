"""Two members of one group, of whom the leader never assigns: the other waits for that.

Both join over connections of their own to each broker (JoinGroup, step ``enter``). Who is not the
leader of the group then asks for what it is given (SyncGroup, step ``sync``) and waits: until the
leader's time is over, and both begin anew, or until its coordinator is one no more, which it is to
be told at once. Other brokers are asked to let them in all the while: one of them may coordinate
the group by now. Each question is a `group_step` row.
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

ENTER, SYNC = "enter", "sync"
_APIS: Final = {ENTER: (ApiKey.JOIN_GROUP, 4), SYNC: (ApiKey.SYNC_GROUP, 2)}
_UNKNOWN_MEMBER_ID: Final = 25
_MEMBER_ID_REQUIRED: Final = 79
_INDEFINITE: Final = frozenset({-1, 7, 13, 56})


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``stays_ms``: how long a member that says nothing is waited for, shorter than anybody waits
    for an answer, and by more than a busy coordinator is late; ``rate_per_s``: questions a second
    on each connection."""

    group: str
    stays_ms: int = 4_000
    rate_per_s: float = 5.0
    timeout_ms: int = 8_000

    def __post_init__(self) -> None:
        if not 0 < self.stays_ms < self.timeout_ms:
            raise ValueError("field stays_ms; allowed: above 0, less than timeout_ms")


class _Asked(NamedTuple):
    """In flight."""

    op: int
    invoke_t: int
    step: str


@dataclass(slots=True)
class _Member:
    """``generation``: -1 for who is in none; ``node``: who let it in."""

    member_id: str = ""
    generation: int = -1
    node: int = -1
    leads: bool = False


class GroupCouple(AskEach):
    connections = 2

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._group = params.group
        self._stays_ms = params.stays_ms
        self._members = (_Member(), _Member())
        self._firsts: dict[int, Channel] = {}
        """By node: the connection of the first of the two."""
        self._op = 0

    def ask(self, channel: Channel) -> None:
        mine, other = self._of(channel)
        together = mine.generation >= 0 and mine.generation == other.generation
        together = together and channel.node == mine.node
        if together and mine.leads:
            return
        asked = _Asked(self._op, time.monotonic_ns(), SYNC if together else ENTER)
        self._op += 1
        self.recorder.invoke("group_step", asked.op, asked.invoke_t, **self._about(channel, asked))
        self._links.send(channel, self._frame(asked.step, mine), asked)

    def _of(self, channel: Channel) -> tuple[_Member, _Member]:
        """Whose connection it is, and the other one."""
        one, two = self._members
        first = self._firsts.setdefault(channel.node, channel) is channel
        return (one, two) if first else (two, one)

    def _frame(self, step: str, mine: _Member) -> bytes:
        request, who = request_class(*_APIS[step]), {"member_id": mine.member_id}
        if step == SYNC:
            more: dict[str, Any] = {"generation_id": mine.generation, "assignments": []}
        else:
            more = {
                **{"session_timeout": self._stays_ms, "rebalance_timeout": self._stays_ms},
                **{"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]},
            }
        entity = build(request, group_id=self._group, **who, **more)
        return encode_request(entity, 0, self._spec.process)

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        asked: _Asked = channel.tag
        try:
            _, answer = decode_response(*_APIS[asked.step], payload)
            error = int(answer.error_code)
        except (WireError, IndexError) as problem:
            self._done(channel, "info", t, failure=str(problem) or "empty answer")
            return
        outcome = "info" if error in _INDEFINITE else "fail" if error else "ok"
        self._done(channel, outcome, t, error=error)
        mine, other = self._of(channel)
        if asked.step == ENTER and error in (0, _MEMBER_ID_REQUIRED):
            self._entered(mine, channel.node, answer)
        elif error == _UNKNOWN_MEMBER_ID:
            mine.member_id, mine.generation = "", -1
        if asked.step == SYNC:
            mine.generation = other.generation = -1

    def _entered(self, mine: _Member, node: int, answer: Any) -> None:
        """Two may coordinate the group for a moment: it is who the one that lets it in says."""
        mine.member_id = str(answer.member_id)
        if not int(answer.error_code):
            mine.node, mine.generation = node, int(answer.generation_id)
            mine.leads = str(answer.leader) == mine.member_id

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        self._done(channel, "info", t, failure=reason)
        if channel.tag.step == SYNC:
            for member in self._members:
                member.generation = -1

    def _about(self, channel: Channel, asked: _Asked) -> dict[str, Any]:
        about = {"node": channel.node, "group": self._group, "step": asked.step}
        return {**about, "keep_ms": self._stays_ms} if asked.step == ENTER else about

    def _done(self, channel: Channel, outcome: str, t: int, **fields: Any) -> None:
        asked: _Asked = channel.tag
        about = {**self._about(channel, asked), "offset": -1, **fields}
        self.recorder.complete("group_step", asked.op, outcome, asked.invoke_t, t, **about)

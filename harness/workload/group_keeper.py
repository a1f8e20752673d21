"""Groups without members: who only keeps positions in Kafka, and deletes the group again.

One group after the other: a position is committed for it (by nobody's generation, as tools and
consumers that assign partitions themselves do), asked for a few times, and the group is deleted
(KIP-229). From then on it is asked for again and again: what was deleted must not come back,
whoever coordinates it by then. With ``keep_ms`` every second position is to be kept for so long
(OffsetCommit 2 to 4 can say that), and its group is not deleted: it must be gone by itself, once
its time is over and the coordinator has looked. With ``visits`` some groups are only visited:
somebody asks to join without being a member of any, is to be given an id, and told to come back
with it (KIP-394), and never does. Nobody may be a member by that, and such a group is to be
forgotten when the id's session is over: from then on brokers are asked what they have of it. With
``leaves`` some groups are joined for good, by one member, which leaves at once and in order
(LeaveGroup), and then says that it lives (Heartbeat): it is to hear that it is no member. With
``waits`` one more group is joined again and again, each time by somebody who never comes back: the
next has to wait until that one's session is over, or its coordinator is one no more. With
``clears`` some groups are not deleted but their position is (OffsetDelete, KIP-496), and a position
before that which they never had.

Every broker is asked by itself, in turn; who does not coordinate the group says so, and that is a
failed operation like any other. Each question is a `group_step` row.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.workload.asking import AskEach
from harness.workload.links import Channel
from harness.workload.spec import WorkloadSpec
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request

COMMIT, ASK, DELETE, JOIN, LOOK = "commit", "ask", "delete", "join", "look"
ENTER, LEAVE, BEAT = "enter", "leave", "beat"
SPARE, CLEAR = "spare", "clear"
WAIT = "wait"
"""Not a step: a group of whose members each waits for the one before."""
_APIS: Final = {
    COMMIT: (ApiKey.OFFSET_COMMIT, 4),  # the last that says how long to keep it
    ASK: (ApiKey.OFFSET_FETCH, 5),
    DELETE: (ApiKey.DELETE_GROUPS, 0),
    JOIN: (ApiKey.JOIN_GROUP, 4),  # the first in which an id is asked for
    LOOK: (ApiKey.DESCRIBE_GROUPS, 1),
    ENTER: (ApiKey.JOIN_GROUP, 4),
    LEAVE: (ApiKey.LEAVE_GROUP, 1),
    BEAT: (ApiKey.HEARTBEAT, 1),
    SPARE: (ApiKey.OFFSET_DELETE, 0),
    CLEAR: (ApiKey.OFFSET_DELETE, 0),
}
_OFFSET: Final = 7
_SPARE: Final = 1
"""The partition in which no group has a position."""
_ALWAYS_MS: Final = -1
_SESSION_MS: Final = 1_000
"""Of who asks to join and never comes back."""
_STAYS_MS: Final = 6_000
"""Of who leaves in order: far longer than anybody needs to say so."""
_WAITS_MS: Final = 4_000
"""Of who is waited for: no shorter than the time between two changes of coordinators, and shorter
than anybody waits for an answer."""
_NOT_COORDINATOR: Final = 16
_UNKNOWN_MEMBER_ID: Final = 25
_MEMBER_ID_REQUIRED: Final = 79
_INDEFINITE: Final = frozenset({-1, 7, 13, 56})
"""It may have been done all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topic``: in whose partition 0 the positions are (with ``clears`` there is to be a partition
    1, in which none is); ``rate_per_s``: questions a second to each
    broker; ``asks``: how often a group is asked for before it is deleted. Groups are of several
    kinds, in turn: deleted ones; with ``keep_ms`` those whose positions are kept for so long; with
    ``visits`` those that are visited, with ``leaves`` those that a member leaves, with ``clears``
    those whose position is deleted; ``waits``: the id of the one whose members wait for each
    other."""

    topic: str
    prefix: str = "kept"
    rate_per_s: float = 8.0
    asks: int = 2
    keep_ms: int | None = None
    visits: bool = False
    leaves: bool = False
    clears: bool = False
    waits: str | None = None
    timeout_ms: int = 5_000

    def __post_init__(self) -> None:
        if self.asks < 1:
            raise ValueError("field asks; allowed: at least 1")
        if self.keep_ms is not None and self.keep_ms < 1:
            raise ValueError("field keep_ms; allowed: null, or at least 1")


@dataclass(frozen=True, slots=True)
class Asked:
    """In flight."""

    op: int
    invoke_t: int
    step: str
    group: str
    keep_ms: int | None


class GroupKeeper(AskEach):
    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._params = params
        self._number = 0
        self._is_kept = False
        self._is_spared = False
        """Whether a position that the present group never had was deleted."""
        self._answers = 0
        """How often the present group's position was told."""
        self._over: list[tuple[str, str]] = []
        """Groups that were deleted, or whose time is or will be over, and what is asked of each."""
        brief = [COMMIT] if params.keep_ms is not None else []
        visited = [JOIN] if params.visits else []
        left = [LEAVE] if params.leaves else []
        waited = [] if params.waits is None else [WAIT]
        cleared = [CLEAR] if params.clears else []
        self._kinds = [*waited, DELETE, *brief, *visited, *left, *cleared]
        """By the step that ends what is done to such a group."""
        self._first = {JOIN: JOIN, LEAVE: ENTER, WAIT: ENTER}
        """The step that a group begins with; others with a commit."""
        self._member, self._generation, self._left_by = "", -1, -1
        """Of who is to leave, and which broker let it."""
        self._ops = 0
        self._turns: Counter[int] = Counter()
        """By broker: were all counted together, two brokers would be asked about one kind each."""
        self._asked_over: Counter[int] = Counter()
        """By broker, which of those that are over comes next."""

    @property
    def _group(self) -> str:
        if self._kind == WAIT and self._params.waits is not None:
            return self._params.waits
        return f"{self._params.prefix}-{self._number}"

    @property
    def _kind(self) -> str:
        return self._kinds[self._number % len(self._kinds)]

    def ask(self, channel: Channel) -> None:
        """Every broker in turn: now about the present group, now about one that is over."""
        self._turns[channel.node] += 1
        turn = self._turns[channel.node]
        group, step = self._group, self._first.get(self._kind, COMMIT)
        if self._over and turn % 2:
            group, step = self._next_over(channel.node)
        elif self._left_by >= 0:
            step = BEAT
        elif self._generation >= 0:
            step = LEAVE
        elif self._is_kept:
            step = self._step_of_kept()
        stays_ms = _WAITS_MS if self._kind == WAIT else _STAYS_MS
        keep_ms = {JOIN: _SESSION_MS, ENTER: stays_ms}.get(step)
        if step == self._kind == COMMIT:
            keep_ms = self._params.keep_ms
        asked = Asked(self._ops, time.monotonic_ns(), step, group, keep_ms)
        self._ops += 1
        self.recorder.invoke("group_step", asked.op, asked.invoke_t, **self._about(channel, asked))
        self._links.send(channel, self._frame(asked), asked)

    def _step_of_kept(self) -> str:
        if self._kind == CLEAR and not self._is_spared:
            return SPARE
        if self._answers < self._params.asks:
            return ASK
        return CLEAR if self._kind == CLEAR else DELETE

    def _next_over(self, node: int) -> tuple[str, str]:
        """One after the other, and then from the first on: there are ever more of them."""
        at = self._asked_over[node] % len(self._over)
        self._asked_over[node] = at + 1
        return self._over[at]

    def _frame(self, asked: Asked) -> bytes:
        name, request = self._params.topic, request_class(*_APIS[asked.step])
        if asked.step == COMMIT:
            row = {"partition_index": 0, "committed_offset": _OFFSET, "committed_metadata": None}
            keep_ms = _ALWAYS_MS if asked.keep_ms is None else asked.keep_ms
            entity = build(
                request,
                group_id=asked.group,
                generation_id_or_member_epoch=-1,
                member_id="",
                retention_time=keep_ms,
                topics=[{"name": name, "partitions": [row]}],
            )
        elif asked.step == ASK:
            topics = [{"name": name, "partition_indexes": [0]}]
            entity = build(request, group_id=asked.group, topics=topics)
        elif asked.step in (JOIN, ENTER):
            entity = build(
                request,
                group_id=asked.group,
                session_timeout=asked.keep_ms or 0,
                rebalance_timeout=asked.keep_ms or 0,
                member_id=self._member if asked.step == ENTER else "",
                protocol_type="consumer",
                protocols=[{"name": "range", "metadata": b""}],
            )
        elif asked.step in (LEAVE, BEAT):
            beat = {"generation_id": self._generation} if asked.step == BEAT else {}
            entity = build(request, group_id=asked.group, member_id=self._member, **beat)
        elif asked.step == LOOK:
            entity = build(request, groups=[asked.group])
        elif asked.step in (SPARE, CLEAR):
            where = [{"partition_index": _SPARE if asked.step == SPARE else 0}]
            topics = [{"name": name, "partitions": where}]
            entity = build(request, group_id=asked.group, topics=topics)
        else:
            entity = build(request, groups_names=[asked.group])
        return encode_request(entity, 0, self._spec.process)

    # ---- answers -----------------------------------------------------------------------------

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        asked: Asked = channel.tag
        try:
            _, answer = decode_response(*_APIS[asked.step], payload)
            error, told = self._read(asked.step, answer)
        except (WireError, IndexError) as problem:
            self._done(channel, "info", t, failure=str(problem) or "empty answer")
            return
        outcome = "info" if error in _INDEFINITE else "fail" if error else "ok"
        self._done(channel, outcome, t, error=error, **told)
        if asked.group != self._group:
            return
        if asked.step in (ENTER, LEAVE, BEAT):
            self._go_on_leaving(channel.node, asked.step, error, answer)
        else:
            self._go_on(asked.step, outcome, error)

    def _read(self, step: str, answer: Any) -> tuple[int, Mapping[str, Any]]:
        """The error, and the offset that was committed or told, or the state of the group."""
        if step == LOOK:
            group = answer.groups[0]
            return int(group.error_code), {"offset": -1, "state": str(group.group_state)}
        if step in (JOIN, ENTER, LEAVE, BEAT):
            return int(answer.error_code), {"offset": -1}
        if step == DELETE:
            return int(answer.results[0].error_code), {"offset": -1}
        if step in (ASK, SPARE, CLEAR) and answer.error_code:
            return int(answer.error_code), {"offset": -1}
        one = answer.topics[0].partitions[0]
        error = int(one.error_code)
        if step in (SPARE, CLEAR):
            return error, {"offset": -1}
        if step == COMMIT:
            return error, {"offset": _OFFSET}
        return error, {"offset": -1 if error else int(one.committed_offset)}

    def _go_on(self, step: str, outcome: str, error: int) -> None:
        """The present group's next step. One that a deletion did not find is left alone: an earlier
        try, of which nobody heard, may have deleted it."""
        if outcome != "ok" and error not in (_NOT_FOUND, _MEMBER_ID_REQUIRED):
            return
        if step == COMMIT:
            self._is_kept, self._is_spared, self._answers = True, False, 0
        elif step == SPARE:
            self._is_spared = True
        elif step == ASK:
            self._answers += 1
            if self._kind == COMMIT and self._answers >= self._params.asks:
                self._next_group(ASK)
        elif step == JOIN:
            self._next_group(LOOK)
        else:
            self._next_group(ASK if outcome == "ok" else None)

    def _go_on_leaving(self, node: int, step: str, error: int, answer: Any) -> None:
        """Of who is forgotten on the way, as its coordinator is gone, there is nothing to leave."""
        if error == _UNKNOWN_MEMBER_ID and step != BEAT:
            self._next_group(None)
        elif step == ENTER and error == _MEMBER_ID_REQUIRED:
            self._member = str(answer.member_id)
        elif step == ENTER and not error and self._kind == WAIT:
            self._next_group(None)
        elif step == ENTER and not error:
            self._member = str(answer.member_id)  # of two coordinators each gave it one
            self._generation = int(answer.generation_id)
        elif step == LEAVE and not error:
            self._left_by = node
        elif step == BEAT and (node == self._left_by or error != _NOT_COORDINATOR):
            self._next_group(None)

    def _next_group(self, then: str | None) -> None:
        """``then``: what the present one is asked for from now on."""
        if then is not None:
            self._over.append((self._group, then))
        self._number, self._is_kept = self._number + 1, False
        self._member, self._generation, self._left_by = "", -1, -1

    def _about(self, channel: Channel, asked: Asked) -> dict[str, Any]:
        about = {"node": channel.node, "group": asked.group, "step": asked.step}
        return about if asked.keep_ms is None else {**about, "keep_ms": asked.keep_ms}

    def _done(self, channel: Channel, outcome: str, t: int, **fields: Any) -> None:
        asked: Asked = channel.tag
        about = self._about(channel, asked)
        self.recorder.complete(
            "group_step", asked.op, outcome, asked.invoke_t, t, **about, **fields
        )

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        self._done(channel, "info", t, failure=reason)


_NOT_FOUND: Final = 69  # GROUP_ID_NOT_FOUND

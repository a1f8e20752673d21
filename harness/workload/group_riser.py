"""Who keeps one position higher each time, and who looks at it meanwhile.

A group without members, of one id. Each broker is asked over two connections: by one to keep the
position, one higher than whatever was ever asked for, whatever becomes of it (step ``raise``); by
the other which position is kept (``see``). So one is looked at while it waits to be kept, as long
as that may take, and one that was refused is not asked for again: members wait for each answer, and
clients' libraries try again, so that with them nobody sees what a coordinator says of a position
that is not kept yet and never will be. One that is not raised any more (``raises_ms``) is what is
left of its topic, should that be deleted. Each question is a `group_step` row.

Once somebody has to be asked who coordinates the group (FindCoordinator): nobody does, in a cluster
that has had no group before.
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

RAISE, SEE = "raise", "see"
_FIND: Final = ""
"""Not a step."""
_APIS: Final = {
    RAISE: (ApiKey.OFFSET_COMMIT, 4),
    SEE: (ApiKey.OFFSET_FETCH, 5),
    _FIND: (ApiKey.FIND_COORDINATOR, 1),
}
_ALWAYS: Final = -1
_INDEFINITE: Final = frozenset({-1, 7, 13, 56})
"""It may have been kept all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topic``: in whose partition 0 the position is; ``rate_per_s``: questions a second on each
    connection; ``raises_ms``: for so long it is raised, and only looked at from then on (None: as
    long as the load goes on)."""

    group: str
    topic: str
    rate_per_s: float = 10.0
    timeout_ms: int = 5_000
    raises_ms: int | None = None


class _Asked(NamedTuple):
    """In flight."""

    op: int
    invoke_t: int
    step: str
    offset: int


class GroupRiser(AskEach):
    connections = 2

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._group, self._topic = params.group, params.topic
        self._raisers: dict[int, Channel] = {}
        """By node: the connection by which it is asked to keep the position."""
        self._is_found = False
        self._op = self._offset = 0
        self._raises_ns = None if params.raises_ms is None else params.raises_ms * 1_000_000
        self._raised_t: int | None = None
        """When the first one was asked for."""

    def ask(self, channel: Channel) -> None:
        raises = self._raisers.setdefault(channel.node, channel) is channel and self._goes_on()
        step = RAISE if raises else SEE
        if not self._is_found:
            asked = _Asked(-1, time.monotonic_ns(), _FIND, -1)
            self._links.send(channel, self._frame(asked), asked)
            return
        self._offset += step == RAISE
        asked = _Asked(self._op, time.monotonic_ns(), step, self._offset if step == RAISE else -1)
        self._op += 1
        self.recorder.invoke("group_step", asked.op, asked.invoke_t, **self._about(channel, asked))
        self._links.send(channel, self._frame(asked), asked)

    def _goes_on(self) -> bool:
        now = time.monotonic_ns()
        if self._is_found and self._raised_t is None:
            self._raised_t = now
        since = now - (now if self._raised_t is None else self._raised_t)
        return self._raises_ns is None or since < self._raises_ns

    def _frame(self, asked: _Asked) -> bytes:
        request = request_class(*_APIS[asked.step])
        if asked.step == _FIND:
            entity = build(request, key=self._group, key_type=0)
        elif asked.step == SEE:
            topics: list[Any] = [{"name": self._topic, "partition_indexes": [0]}]
            entity = build(request, group_id=self._group, topics=topics)
        else:
            position = {"committed_offset": asked.offset, "committed_metadata": None}
            topics = [{"name": self._topic, "partitions": [{"partition_index": 0, **position}]}]
            entity = build(
                request,
                group_id=self._group,
                generation_id_or_member_epoch=-1,
                member_id="",
                retention_time=_ALWAYS,
                topics=topics,
            )
        return encode_request(entity, 0, self._spec.process)

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        asked: _Asked = channel.tag
        try:
            _, answer = decode_response(*_APIS[asked.step], payload)
            error = 0 if asked.step == RAISE else int(answer.error_code)
            if asked.step == _FIND:
                self._is_found = not error
                return
            one = None if error else answer.topics[0].partitions[0]
        except (WireError, IndexError) as problem:
            self._done(channel, "info", t, failure=str(problem) or "empty answer")
            return
        error = error if one is None else int(one.error_code)
        seen = {} if one is None or asked.step == RAISE else {"offset": int(one.committed_offset)}
        outcome = "info" if error in _INDEFINITE else "fail" if error else "ok"
        self._done(channel, outcome, t, error=error, **seen)

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        self._done(channel, "info", t, failure=reason)

    def _about(self, channel: Channel, asked: _Asked) -> dict[str, Any]:
        return {"node": channel.node, "group": self._group, "step": asked.step}

    def _done(self, channel: Channel, outcome: str, t: int, **fields: Any) -> None:
        asked: _Asked = channel.tag
        if asked.step == _FIND:
            return
        about = {**self._about(channel, asked), "offset": asked.offset, **fields}
        self.recorder.complete("group_step", asked.op, outcome, asked.invoke_t, t, **about)

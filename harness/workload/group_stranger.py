"""Who commits for a group that it is no member of: every broker asked, on a clock, and all refuse.

A member of the past still believes in its generation, and commits (KIP-62: ILLEGAL_GENERATION keeps
it from putting a partition back that is another's by now); one that was thrown out has an id that
nobody knows (UNKNOWN_MEMBER_ID). Ids are asked for (DescribeGroups). In the name of a member of a
group that is stable it speaks of generation 0, which is over then, or of one that never comes;
before, a group may be of generation 0, whose members may commit. In the name of a member that there
never was it speaks of each of the next few, the present one among them. Whoever does not coordinate
the group says so. Each commit is a `commit` row of this process, and none may be `ok`.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.workload.lifecycle import Lifecycle
from harness.workload.links import Channel, Links
from harness.workload.pacing import Clock
from harness.workload.recorder import LiveRecorder
from harness.workload.spec import WorkloadError, WorkloadSpec
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request

COMMIT_VERSION: Final = 5
DESCRIBE_VERSION: Final = 1
NOBODY: Final = "a-member-that-never-was"
_GENERATIONS: Final = 12
"""So many are tried in turn: a group that lives for a run has hardly more."""
_NEVER: Final = 1_000_000
_CONNECT_S: Final = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topics``: partitions by topic; ``rate_per_s``: requests a second to each broker."""

    group: str
    topics: dict[str, int]
    rate_per_s: float = 8.0
    timeout_ms: int = 5_000

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("field 'params.topics': is empty; allowed: partitions by topic")
        if self.rate_per_s <= 0:
            raise ValueError("field 'params.rate_per_s': allowed: above 0")


class _Commit(NamedTuple):
    """In flight; ``op`` -1: a question for members."""

    op: int
    invoke_t: int
    topic: str
    partition: int


class GroupStranger:
    """Everything happens on the thread that calls `run`."""

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        self._spec, self._params = spec, params
        self._places = [(t, p) for t, count in params.topics.items() for p in range(count)]
        self._member = NOBODY
        """One that a coordinator has named, of a stable group."""
        self._op = 0
        self._turns: dict[int, int] = {}
        self._recorder: LiveRecorder | None = None
        self._links = Links(self._answered, self._lost)
        self._describe = encode_request(
            build(request_class(ApiKey.DESCRIBE_GROUPS, DESCRIBE_VERSION), groups=[params.group]),
            0,
            spec.process,
        )

    def run(self, recorder: LiveRecorder, life: Lifecycle) -> None:
        self._recorder = recorder
        channels = [self._links.add(n, self._spec.address(n)) for n in sorted(self._spec.bootstrap)]
        try:
            if not self._links.dial_all(_CONNECT_S, lambda: life.over):
                raise WorkloadError(f"workload {self._spec.process!r}: not every broker answers")
            life.ready()
            start = time.monotonic_ns()
            clocks = [Clock(self._params.rate_per_s, start, max_behind_ns=0) for _ in channels]
            while not life.over:
                now = time.monotonic_ns()
                for channel, clock in zip(channels, clocks, strict=True):
                    self._serve(channel, clock, now)
                self._links.step(min(clock.wait_s(time.monotonic_ns(), 0.05) for clock in clocks))
        finally:
            self._links.close()

    def _serve(self, channel: Channel, clock: Clock, now: int) -> None:
        if channel.state == "busy" and now - channel.tag.invoke_t > self._params.timeout_ms * 10**6:
            self._links.drop(channel, "timeout")
        if clock.take(now) is None or channel.state != "free":
            return
        turn = self._turns[channel.node] = self._turns.get(channel.node, -1) + 1
        if turn % 3 == 0:
            self._links.send(channel, self._describe, _Commit(-1, now, "", -1))
        elif turn % 3 == 1:
            self._commit(channel, turn, self._member, 0 if turn % 2 else _NEVER)
        else:
            self._commit(channel, turn, NOBODY, 1 + turn // 3 % _GENERATIONS)

    def _commit(self, channel: Channel, turn: int, member: str, generation: int) -> None:
        """To begin anew: whoever obeys shows it."""
        topic, partition = self._places[turn % len(self._places)]
        row = {"partition_index": partition, "committed_offset": 0, "committed_metadata": None}
        request = build(
            request_class(ApiKey.OFFSET_COMMIT, COMMIT_VERSION),
            group_id=self._params.group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[{"name": topic, "partitions": [row]}],
        )
        sent = _Commit(self._op, time.monotonic_ns(), topic, partition)
        self._op += 1
        assert self._recorder is not None
        place = {"topic": topic, "partition": partition, "offset": 0}
        self._recorder.invoke("commit", sent.op, sent.invoke_t, group=self._params.group, **place)
        self._links.send(channel, encode_request(request, 0, self._spec.process), sent)

    # ---- answers -----------------------------------------------------------------------------

    def _answered(self, channel: Channel, payload: bytes, t: int) -> None:
        sent: _Commit = channel.tag
        try:
            if sent.op < 0:
                _, answer = decode_response(ApiKey.DESCRIBE_GROUPS, DESCRIBE_VERSION, payload)
                self._described(answer)
                return
            _, answer = decode_response(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, payload)
            error = int(answer.topics[0].partitions[0].error_code)
        except (WireError, IndexError) as problem:
            self._done(channel, "info", t, failure=str(problem) or "empty answer")
            return
        self._done(channel, "fail" if error else "ok", t, error=error)

    def _described(self, answer: Any) -> None:
        for group in answer.groups:
            if not int(group.error_code) and group.group_state == "Stable" and group.members:
                self._member = str(group.members[0].member_id)

    def _lost(self, channel: Channel, reason: str, t: int) -> None:
        self._done(channel, "info", t, failure=reason)

    def _done(self, channel: Channel, outcome: str, t: int, **fields: Any) -> None:
        sent: _Commit = channel.tag
        if sent.op < 0:
            return
        assert self._recorder is not None
        place = {"topic": sent.topic, "partition": sent.partition, "offset": 0}
        place |= {"node": channel.node, "group": self._params.group}
        self._recorder.complete("commit", sent.op, outcome, sent.invoke_t, t, **place, **fields)

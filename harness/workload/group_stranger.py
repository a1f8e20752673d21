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

from harness.workload.asking import AskEach
from harness.workload.links import Channel
from harness.workload.spec import WorkloadSpec
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request

COMMIT_VERSION: Final = 5
DESCRIBE_VERSION: Final = 1
NOBODY: Final = "a-member-that-never-was"
_GENERATIONS: Final = 12
"""So many are tried in turn: a group that lives for a run has hardly more."""
_NEVER: Final = 1_000_000


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


class GroupStranger(AskEach):
    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._group = params.group
        self._places = [(t, p) for t, count in params.topics.items() for p in range(count)]
        self._member = NOBODY
        """One that a coordinator has named, of a stable group."""
        self._op = 0
        self._turns: dict[int, int] = {}
        self._describe = encode_request(
            build(request_class(ApiKey.DESCRIBE_GROUPS, DESCRIBE_VERSION), groups=[params.group]),
            0,
            spec.process,
        )

    def ask(self, channel: Channel) -> None:
        turn = self._turns[channel.node] = self._turns.get(channel.node, -1) + 1
        if turn % 3 == 0:
            asked = _Commit(-1, time.monotonic_ns(), "", -1)
            self._links.send(channel, self._describe, asked)
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
            group_id=self._group,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[{"name": topic, "partitions": [row]}],
        )
        sent = _Commit(self._op, time.monotonic_ns(), topic, partition)
        self._op += 1
        place = {"topic": topic, "partition": partition, "offset": 0}
        self.recorder.invoke("commit", sent.op, sent.invoke_t, group=self._group, **place)
        self._links.send(channel, encode_request(request, 0, self._spec.process), sent)

    # ---- answers -----------------------------------------------------------------------------

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
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

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        self._done(channel, "info", t, failure=reason)

    def _done(self, channel: Channel, outcome: str, t: int, **fields: Any) -> None:
        sent: _Commit = channel.tag
        if sent.op < 0:
            return
        place = {"topic": sent.topic, "partition": sent.partition, "offset": 0}
        place |= {"node": channel.node, "group": self._group}
        self.recorder.complete("commit", sent.op, outcome, sent.invoke_t, t, **place, **fields)

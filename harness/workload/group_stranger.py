"""Who commits for a group that it is no member of: every broker asked, on a clock, and all refuse.

A member of the past still believes in its generation, and commits (KIP-62: ILLEGAL_GENERATION keeps
it from putting a partition back that is another's by now); one that was thrown out has an id that
nobody knows (UNKNOWN_MEMBER_ID). Ids are asked for (DescribeGroups). In the name of a member of a
group that is stable it speaks of generation 0, which is over then, or of one that never comes;
before, a group may be of generation 0, whose members may commit. In the name of a member that there
never was it speaks of each of the next few, the present one among them. Whoever does not coordinate
the group says so. Each commit is a `commit` row of this process, and none may be `ok`.

It also asks, as any tool may (OffsetFetch), which offsets are kept: a member waits for the answer
to its commit before it asks for anything, so that nobody else would see what a coordinator says of
offsets that are not kept yet. Each offset told is a `committed` row. What it is told of a stable
group is a `group_step` row (step ``describe``); of ``statics``, too, groups whose members are all
one instance (KIP-345), as whoever coordinates them is to say. And every broker is asked who
coordinates the group (FindCoordinator, `coordinator` rows): a client asks whichever it likes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from harness.workload.asking import AskEach
from harness.workload.links import Channel
from harness.workload.member_words import of_instances
from harness.workload.spec import WorkloadSpec
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request

COMMIT_VERSION: Final = 5
DESCRIBE_VERSION: Final = 4
"""The first that tells of instances."""
OFFSETS_VERSION: Final = 5
FIND_VERSION: Final = 1
NOBODY: Final = "a-member-that-never-was"
_GENERATIONS: Final = 12
"""So many are tried in turn: a group that lives for a run has hardly more."""
_NEVER: Final = 1_000_000
_WHO, _MEMBERS = -2, -3
_STABLE: Final = "Stable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topics``: partitions by topic; ``rate_per_s``: requests a second to each broker;
    ``statics``: instances by group."""

    group: str
    topics: dict[str, int]
    rate_per_s: float = 13.0
    timeout_ms: int = 5_000
    statics: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("field 'params.topics': is empty; allowed: partitions by topic")


class _Commit(NamedTuple):
    """In flight; without a topic: a question for kept offsets, for the coordinator (partition
    `_WHO`), or for members (`_MEMBERS`)."""

    op: int
    invoke_t: int
    topic: str
    partition: int


class GroupStranger(AskEach):
    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._group, self._statics = params.group, params.statics
        self._places = [(t, p) for t, count in params.topics.items() for p in range(count)]
        self._member = NOBODY
        """One that a coordinator has named, of a stable group."""
        self._op = 0
        self._turns: dict[int, int] = {}
        self._describe = encode_request(
            build(
                request_class(ApiKey.DESCRIBE_GROUPS, DESCRIBE_VERSION),
                groups=[params.group, *params.statics],
            ),
            0,
            spec.process,
        )
        self._fetch = encode_request(
            build(
                request_class(ApiKey.OFFSET_FETCH, OFFSETS_VERSION),
                group_id=params.group,
                topics=[
                    {"name": topic, "partition_indexes": list(range(count))}
                    for topic, count in params.topics.items()
                ],
            ),
            0,
            spec.process,
        )
        self._find = encode_request(
            build(
                request_class(ApiKey.FIND_COORDINATOR, FIND_VERSION), key=params.group, key_type=0
            ),
            0,
            spec.process,
        )

    def ask(self, channel: Channel) -> None:
        turn = self._turns[channel.node] = self._turns.get(channel.node, -1) + 1
        now, number = time.monotonic_ns(), turn // 5  # of its kind
        if turn % 5 == 4:
            self._links.send(channel, self._find, _Commit(self._next_op(), now, "", _WHO))
        elif turn % 5 == 0:
            self._links.send(channel, self._describe, _Commit(self._next_op(), now, "", _MEMBERS))
        elif turn % 5 == 2:
            self._links.send(channel, self._fetch, _Commit(self._next_op(), now, "", -1))
        elif turn % 5 == 1:
            self._commit(channel, number, self._member, 0 if number % 2 else _NEVER)
        else:
            self._commit(channel, number, NOBODY, 1 + number % _GENERATIONS)

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
        sent = _Commit(self._next_op(), time.monotonic_ns(), topic, partition)
        place = {"topic": topic, "partition": partition, "offset": 0}
        self.recorder.invoke("commit", sent.op, sent.invoke_t, group=self._group, **place)
        self._links.send(channel, encode_request(request, 0, self._spec.process), sent)

    # ---- answers -----------------------------------------------------------------------------

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        sent: _Commit = channel.tag
        try:
            if sent.partition == _MEMBERS:
                _, answer = decode_response(ApiKey.DESCRIBE_GROUPS, DESCRIBE_VERSION, payload)
                self._described(channel, answer, t)
                return
            if sent.partition == _WHO:
                _, answer = decode_response(ApiKey.FIND_COORDINATOR, FIND_VERSION, payload)
                self._named(channel, answer, t)
                return
            if not sent.topic:
                _, answer = decode_response(ApiKey.OFFSET_FETCH, OFFSETS_VERSION, payload)
                self._told(channel, answer, t)
                return
            _, answer = decode_response(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, payload)
            error = int(answer.topics[0].partitions[0].error_code)
        except (WireError, IndexError) as problem:
            self._done(channel, "info", t, failure=str(problem) or "empty answer")
            return
        self._done(channel, "fail" if error else "ok", t, error=error)

    def _described(self, channel: Channel, answer: Any, t: int) -> None:
        op, invoke_t, _, _ = channel.tag
        for group in answer.groups:
            if int(group.error_code) or group.group_state != _STABLE or not group.members:
                continue
            name = str(group.group_id)
            if name == self._group:
                self._member = str(group.members[0].member_id)
            told = [bool(member.member_metadata) for member in group.members]
            if not any(member.member_assignment for member in group.members):
                told = [False] * len(told)
            about = {"node": channel.node, "group": name, "step": "describe", "error": 0}
            about |= {"offset": -1, "state": _STABLE, "untold": told.count(False)}
            if name in self._statics:
                about["otherwise"] = of_instances(group, self._statics[name])
                op = self._next_op()
            self.recorder.complete("group_step", op, "ok", invoke_t, t, **about)

    def _told(self, channel: Channel, answer: Any, t: int) -> None:
        if int(answer.error_code):
            return  # most often: it does not coordinate the group
        op, invoke_t, _, _ = channel.tag
        for topic in answer.topics:
            for one in topic.partitions:
                place = {"topic": str(topic.name), "partition": int(one.partition_index)}
                place |= {"node": channel.node, "group": self._group}
                offset, error = int(one.committed_offset), int(one.error_code)
                if not error:
                    self.recorder.complete(
                        "committed", op, "ok", invoke_t, t, offset=offset, **place
                    )

    def _named(self, channel: Channel, answer: Any, t: int) -> None:
        op, invoke_t, _, _ = channel.tag
        error, named = int(answer.error_code), int(answer.node_id)
        outcome = "fail" if error else "ok"
        who = {"node": channel.node, "group": self._group, "coordinator": named, "error": error}
        if not error:
            who["endpoint"] = f"{named}@{answer.host}:{answer.port}"
        self.recorder.complete("coordinator", op, outcome, invoke_t, t, **who)

    def _next_op(self) -> int:
        self._op += 1
        return self._op - 1

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        self._done(channel, "info", t, failure=reason)

    def _done(self, channel: Channel, outcome: str, t: int, **fields: Any) -> None:
        sent: _Commit = channel.tag
        if not sent.topic:
            return
        place = {"topic": sent.topic, "partition": sent.partition, "offset": 0}
        place |= {"node": channel.node, "group": self._group}
        self.recorder.complete("commit", sent.op, outcome, sent.invoke_t, t, **place, **fields)

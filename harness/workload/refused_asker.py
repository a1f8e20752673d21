"""Who asks every broker, on a clock, for what no broker can do, and is to be refused.

What an operator may get wrong, one request of each kind after the other (`IMPOSSIBLE`): a topic
that is there already, more replicas than there are brokers, one broker twice, names that are none,
partitions that go, moves to brokers that never were. The controller refuses each with an error of
its own; any other broker says that it is none, or refuses as well. Of one request the end is
missing: nobody can read it, and its connection is ended (Kafka's Processor.processException).
One is sent behind a fetch that waits for more than there is, once in the same packet and once a
moment later: on a connection a broker answers in the order in which it was asked (Kafka's
SocketServer mutes it meanwhile, so that the later one lies in the socket). One comes in two pieces,
the first of which is not even its size, alone and behind such a fetch: bytes arrive as they like.
And what producers may get wrong: a batch that is not what its checksum says, one that counts fewer
records than it has offsets, one that is larger than a topic takes (``max.message.bytes``), and an
acknowledgement by two replicas, which nobody gives any more. Who asks for no answer (acks=0) is
told of an error by the end of its connection alone (KafkaApis.handleProduceRequest), with
``aside`` also where the rest of what it sent is taken: sound batches, to each partition of a topic
that nobody else writes to, some of which any broker leads. A client that
is newer than its broker asks which versions that speaks (ApiVersions) in one that there is none of
yet: it can read no answer but one in version 0 (KIP-511; RequestContext.parseRequest).
Nothing else changes, so it can be asked for all the while, whatever goes on. Each is an
`admin_request` row with the error that is ``wanted`` of the controller, and none may be `ok`; what
is never answered shows as well, since others to the same broker are.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from harness.workload.asking import AskEach
from harness.workload.links import Channel
from harness.workload.spec import WorkloadSpec
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request
from nodes.wire.records import CRC_FROM, build_batch

STRANGER: Final = 999
"""A broker that there never is, and more brokers than there ever are."""
NEVER_MADE: Final = "a-topic-that-nobody-made"
_TIMEOUT_MS: Final = 1_000
"""What a request allows the controller: a refusal waits for nothing."""
OUT_OF_TURN: Final = "out-of-turn"
"""Why there is no answer to go by: it came before that of what was asked before."""
UNREADABLE: Final = "unreadable"
"""Why there is none: what came is no answer in the version that it was asked for in."""
BEHIND_MS: Final = 300
"""So long waits the fetch that a request is behind, where its broker leads the partition."""
LATER_NS: Final = 30_000_000
"""So long after the fetch it is sent, where it is not sent with it: both are not read in one go."""
_BEGINS: Final = 2
"""Of a request that comes in two pieces so many bytes are the first: not even its whole size."""
_FETCH: Final = (ApiKey.FETCH, 4)
_NEVER_THERE: Final = 2**31 - 1
_FETCHED: Final = 1
"""The fetch's correlation id; 0 is that of all else."""
_PRODUCE: Final = (ApiKey.PRODUCE, 7)
_COUNT_AT: Final = 57
"""Where a batch tells how many records it has; its checksum is of what follows `CRC_FROM`."""
_CRC_AT: Final = 17
MOST_BYTES: Final = 1_048_588
"""What its topic takes in one batch (max.message.bytes, by default); a batch that holds as many in
one record has more."""
_TOPIC_RESOURCE: Final = 2
_APPEND: Final = 2
_NEWEST: Final = 2**15 - 1
"""A version that no broker serves."""
_VERSION_AT: Final = 6
"""Where a frame says its version, behind its size and its API."""


class Impossible(NamedTuple):
    """``fields``: of the request, given a topic that exists, with a partition 0; ``errors``: of its
    answer; ``lacks``: so many bytes of its end are left out; ``behind``: a fetch that waits is sent
    before it, at once; ``begins``: so many bytes of it are sent at once, and the rest a moment
    later (None: all of it); ``claims``: the version that it says it is of, in place of its own, and
    is answered in the first one."""

    says: str
    api: ApiKey
    version: int
    wanted: int
    fields: Callable[[str], Mapping[str, Any]]
    errors: Callable[[Any], Iterable[int]]
    lacks: int = 0
    behind: bool = False
    begins: int | None = None
    claims: int | None = None

    @property
    def answered_in(self) -> int:
        return self.version if self.claims is None else 0

    def frames(self, topic: str, client_id: str) -> tuple[bytes, bytes]:
        """What is sent at once, and what a moment later."""
        own = self._own(topic, client_id)
        fetch = _waiting_fetch(topic, client_id) if self.behind else b""
        begin = len(own) if self.begins is None else self.begins
        return fetch + own[:begin], own[begin:]

    def _own(self, topic: str, client_id: str) -> bytes:
        entity = build(request_class(self.api, self.version), **self.fields(topic))
        frame = encode_request(entity, 0, client_id)
        if self.claims is not None:
            claimed = self.claims.to_bytes(2, "big")
            frame = frame[:_VERSION_AT] + claimed + frame[_VERSION_AT + len(claimed) :]
        size = len(frame) - self.lacks
        return (size - 4).to_bytes(4, "big") + frame[4:size]


def _waiting_fetch(topic: str, client_id: str) -> bytes:
    at = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
    entity = build(
        request_class(*_FETCH),
        replica_id=-1,
        max_wait=BEHIND_MS,
        min_bytes=_NEVER_THERE,
        max_bytes=_NEVER_THERE,  # Kafka waits for no more than this
        isolation_level=0,
        topics=[{"topic": topic, "partitions": [at]}],
    )
    return encode_request(entity, _FETCHED, client_id)


def _created(**topic: Any) -> Mapping[str, Any]:
    """By numbers that every release takes: to leave them to the broker is KIP-464, since 2.4."""
    made = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    named = {"name": NEVER_MADE, **topic}
    return {"topics": [{**made, **named}], "timeout": _TIMEOUT_MS, "validate_only": False}


def _moved(topic: str, replicas: list[int]) -> Mapping[str, Any]:
    one = {"partition_index": 0, "replicas": replicas}
    return {"topics": [{"name": topic, "partitions": [one]}], "timeout": _TIMEOUT_MS}


def _of_topics(answer: Any) -> Iterable[int]:
    return (topic.error_code for topic in answer.topics)


def _of_moves(answer: Any) -> Iterable[int]:
    yield answer.error_code
    yield from (one.error_code for topic in answer.responses for one in topic.partitions)


def _of_elections(answer: Any) -> Iterable[int]:
    yield answer.error_code
    for topic in answer.replica_election_results:
        yield from (one.error_code for one in topic.partition_result)


def _of_responses(answer: Any) -> Iterable[int]:
    return (one.error_code for one in answer.responses)


def _of_results(answer: Any) -> Iterable[int]:
    return (one.error_code for one in answer.results)


def _produced(topic: str, batch: bytes, acks: int = 1) -> Mapping[str, Any]:
    of = {"index": 0, "records": batch}
    data = [{"name": topic, "partition_data": [of]}]
    return {"transactional_id": None, "acks": acks, "timeout": _TIMEOUT_MS, "topic_data": data}


def _partly(aside: Mapping[str, int]) -> Impossible:
    """``aside``: a topic, and how many partitions it has."""

    def fields(topic: str) -> Mapping[str, Any]:
        found = dict(_produced(topic, _damaged(), 0))
        # Too short for a workload's: nobody looks for who sent it. What is old retention takes.
        now = _sound(b"aside", time.time_ns() // 1_000_000)
        for name, count in aside.items():
            of = [{"index": p, "records": now} for p in range(count)]
            found["topic_data"] += [{"name": name, "partition_data": of}]
        return found

    says = "a damaged batch beside sound ones, without an answer"
    return Impossible(says, *_PRODUCE, 2, fields, _of_produced)


def _of_produced(answer: Any) -> Iterable[int]:
    return (one.error_code for topic in answer.responses for one in topic.partition_responses)


def _sound(value: bytes = b"nobody sent this", time_ms: int = 0) -> bytes:
    return build_batch([(b"k%d" % n, value, time_ms) for n in range(2)])


def _damaged() -> bytes:
    batch = bytearray(_sound())
    batch[-2] ^= 0xFF
    return bytes(batch)


def _miscounted() -> bytes:
    """One record for two offsets, and a checksum that says the same."""
    batch = bytearray(_sound())
    batch[_COUNT_AT : _COUNT_AT + 4] = (1).to_bytes(4, "big")
    batch[_CRC_AT:CRC_FROM] = crc32c(bytes(batch[CRC_FROM:])).to_bytes(4, "big")
    return bytes(batch)


@cache
def _too_large() -> bytes:
    return build_batch([(b"k", bytes(MOST_BYTES), 0)])


def _beyond(topic: str) -> Mapping[str, Any]:
    one = {"partition_index": 0, "offset": 2**62}
    return {"topics": [{"name": topic, "partitions": [one]}], "timeout": _TIMEOUT_MS}


def _of_deleted(answer: Any) -> Iterable[int]:
    return (one.error_code for topic in answer.topics for one in topic.partitions)


def _twice(broker: int) -> list[Mapping[str, Any]]:
    return [{"partition_index": 0, "broker_ids": [broker, broker]}]


_CREATE: Final = (ApiKey.CREATE_TOPICS, 3)
_MOVE: Final = (ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0)
IMPOSSIBLE: Final = (
    Impossible("a topic again", *_CREATE, 36, lambda t: _created(name=t), _of_topics),
    Impossible("no legal name", *_CREATE, 17, lambda _: _created(name="a/b"), _of_topics),
    Impossible(
        "a topic without partitions",
        *_CREATE,
        37,
        lambda _: _created(num_partitions=0),
        _of_topics,
    ),
    Impossible(
        "too many replicas",
        *_CREATE,
        38,
        lambda _: _created(replication_factor=STRANGER),
        _of_topics,
    ),
    Impossible(
        "replicas on one broker",
        *_CREATE,
        39,
        lambda _: _created(num_partitions=-1, replication_factor=-1, assignments=_twice(1)),
        _of_topics,
    ),
    Impossible(
        "a config that is none",
        *_CREATE,
        40,
        lambda _: _created(configs=[{"name": "no.config", "value": "1"}]),
        _of_topics,
    ),
    Impossible(
        "the end of no topic",
        ApiKey.DELETE_TOPICS,
        3,
        3,
        lambda _: {"topic_names": [NEVER_MADE], "timeout": _TIMEOUT_MS},
        _of_responses,
    ),
    Impossible(
        "fewer partitions",
        ApiKey.CREATE_PARTITIONS,
        0,
        37,
        lambda t: {
            "topics": [{"name": t, "count": 1, "assignments": None}],
            "timeout": _TIMEOUT_MS,
            "validate_only": False,
        },
        _of_results,
    ),
    Impossible("a move to nobody", *_MOVE, 39, lambda t: _moved(t, [STRANGER]), _of_moves),
    Impossible("a move to one twice", *_MOVE, 39, lambda t: _moved(t, [1, 1]), _of_moves),
    Impossible("a move to nowhere", *_MOVE, 39, lambda t: _moved(t, []), _of_moves),
    Impossible(
        "an election for no partition",
        ApiKey.ELECT_LEADERS,
        2,
        3,
        lambda _: {
            "election_type": 0,
            "topic_partitions": [{"topic": NEVER_MADE, "partitions": [0]}],
            "timeout": _TIMEOUT_MS,
        },
        _of_elections,
    ),
    Impossible(
        "one more of what is no list",
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        0,
        40,
        lambda t: {
            "resources": [
                {
                    "resource_type": _TOPIC_RESOURCE,
                    "resource_name": t,
                    "configs": [
                        {"name": "retention.ms", "config_operation": _APPEND, "value": "1000000000"}
                    ],
                }
            ],
            "validate_only": False,
        },
        _of_responses,
    ),
    Impossible("a damaged batch", *_PRODUCE, 2, lambda t: _produced(t, _damaged()), _of_produced),
    Impossible(
        "fewer records than offsets",
        *_PRODUCE,
        87,
        lambda t: _produced(t, _miscounted()),
        _of_produced,
    ),
    Impossible("a large batch", *_PRODUCE, 10, lambda t: _produced(t, _too_large()), _of_produced),
    Impossible(
        "a log that begins beyond its end", ApiKey.DELETE_RECORDS, 0, 1, _beyond, _of_deleted
    ),
    Impossible("acks of two", *_PRODUCE, 21, lambda t: _produced(t, _sound(), 2), _of_produced),
    Impossible(
        "a damaged batch, without an answer",
        *_PRODUCE,
        2,
        lambda t: _produced(t, _damaged(), 0),
        _of_produced,
    ),
    Impossible(
        "the end of no topic, behind a fetch",
        ApiKey.DELETE_TOPICS,
        3,
        3,
        lambda _: {"topic_names": [NEVER_MADE], "timeout": _TIMEOUT_MS},
        _of_responses,
        behind=True,
    ),
    Impossible(
        "the end of no topic, a moment after a fetch",
        ApiKey.DELETE_TOPICS,
        3,
        3,
        lambda _: {"topic_names": [NEVER_MADE], "timeout": _TIMEOUT_MS},
        _of_responses,
        behind=True,
        begins=0,
    ),
    *(
        Impossible(
            f"the end of no topic, in two pieces{where}",
            ApiKey.DELETE_TOPICS,
            3,
            3,
            lambda _: {"topic_names": [NEVER_MADE], "timeout": _TIMEOUT_MS},
            _of_responses,
            behind=bool(where),
            begins=_BEGINS,
        )
        for where in ("", ", behind a fetch")
    ),
    Impossible(
        "a version that there is none of",
        ApiKey.API_VERSIONS,
        3,
        35,
        lambda _: {"client_software_name": "biplane", "client_software_version": "1"},
        lambda answer: (answer.error_code,),
        claims=_NEWEST,
    ),
    Impossible(
        "half a request",
        ApiKey.DELETE_RECORDS,
        0,
        42,
        lambda _: {"topics": [], "timeout": _TIMEOUT_MS},
        lambda _: (),
        lacks=3,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topic``: one that exists, with two partitions or more; ``rate_per_s``: requests a second to
    each broker; ``aside``: another topic, and how many partitions it has."""

    topic: str
    aside: dict[str, int] = field(default_factory=dict)
    rate_per_s: float = 10.0
    timeout_ms: int = 2_000


@dataclass(slots=True)
class _Asked:
    """In flight."""

    op: int
    invoke_t: int
    what: Impossible
    later: bytes = b""
    """What is to be sent yet."""
    after_fetch: bool = False
    """Of what is behind a fetch: that was answered."""
    out_of_turn: bool = False
    """So it was answered, and its row is written."""


class RefusedAsker(AskEach):
    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._all = (*IMPOSSIBLE, _partly(params.aside)) if params.aside else IMPOSSIBLE
        self._frames = [one.frames(params.topic, spec.process) for one in self._all]
        self._ops = 0
        self._turns: Counter[int] = Counter()
        """By broker: each is asked for all of it."""

    def ask(self, channel: Channel) -> None:
        number = self._turns[channel.node] % len(self._all)
        self._turns[channel.node] += 1
        at_once, later = self._frames[number]
        asked = _Asked(self._ops, time.monotonic_ns(), self._all[number], later)
        self._ops += 1
        about = self._about(channel, asked)
        self.recorder.invoke("admin_request", asked.op, asked.invoke_t, **about)
        answers = 2 if asked.what.behind else 1
        self._links.send(channel, at_once, asked, answers=answers)

    def waits(self, channel: Channel, now: int) -> None:
        asked: _Asked = channel.tag
        if asked.later and now - asked.invoke_t >= LATER_NS:
            later, asked.later = asked.later, b""
            self._links.send_more(channel, later)

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        what = channel.tag.what
        if what.behind:
            if int.from_bytes(payload[:4], "big") == _FETCHED:
                channel.tag.after_fetch = True
                return
            if not channel.tag.after_fetch:
                channel.tag.out_of_turn = True
                self._done(channel, "info", t, failure=OUT_OF_TURN)
                return
        try:
            _, answer = decode_response(what.api, what.answered_in, payload)
        except WireError:
            self._done(channel, "info", t, failure=UNREADABLE)
            return
        error = next((int(code) for code in what.errors(answer) if int(code)), 0)
        self._done(channel, "fail" if error else "ok", t, error=error)

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        if not channel.tag.out_of_turn:
            self._done(channel, "info", t, failure=reason)

    def _about(self, channel: Channel, asked: _Asked) -> dict[str, Any]:
        what = asked.what
        return {
            "node": channel.node,
            "api": what.api.name,
            "about": what.says,
            "wanted": what.wanted,
        }

    def _done(self, channel: Channel, outcome: str, t: int, **fields: Any) -> None:
        asked: _Asked = channel.tag
        about = self._about(channel, asked)
        self.recorder.complete(
            "admin_request", asked.op, outcome, asked.invoke_t, t, **about, **fields
        )

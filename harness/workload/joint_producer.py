"""A producer whose requests are for several partitions at once, as those of Kafka's own client are.

librdkafka sends one partition a request. Kafka's client puts whatever a broker leads into one; with
acks=all it is answered when the last of its partitions is, each with an error and an offset of its
own. Here each broker is sent, on a clock and over one connection, a record for every partition that
it is believed to lead: the newest leader epoch that any broker has told counts. Brokers are asked
for that now and then, and at once by who was answered that a partition is not led there: then what
it believed counts no more, and a topic that was made again may begin its leader epochs anew.

Nothing is sent twice: each row is what one append came to.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.workload.asking import AskEach
from harness.workload.links import Channel
from harness.workload.metadata_reader import VERSION as METADATA_VERSION
from harness.workload.metadata_reader import metadata_request
from harness.workload.outcomes import produce_outcome
from harness.workload.produce_frames import VERSION
from harness.workload.spec import WorkloadSpec
from harness.workload.values import MIN_BYTES, encode_key, encode_value, headers_for
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request
from nodes.wire.produce_codec import PartitionResult, decode_produce_response
from nodes.wire.records import build_batch

_ASK_EVERY: Final = 10
"""Of so many turns of a broker one asks for leaders."""
_MOVED: Final = frozenset({3, 5, 6})  # the partition is not (or no longer) led here


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topics``: partitions by topic; ``rate_per_s``: requests a second to each broker;
    ``ack_timeout_ms``: how long a broker is to wait for replication."""

    topics: dict[str, int]
    acks: int = -1
    rate_per_s: float = 10.0
    first_value: int = 0
    value_bytes: int = 64
    ack_timeout_ms: int = 5_000
    timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("field 'params.topics': is empty; allowed: partitions by topic")
        if self.acks not in (1, -1):  # with 0 there is no answer
            raise ValueError(f"field 'params.acks': {self.acks} is not allowed; allowed: 1, -1")
        if self.value_bytes < MIN_BYTES:
            raise ValueError(f"field value_bytes; allowed: at least {MIN_BYTES}")


class _Record(NamedTuple):
    """One partition's record in a request."""

    op: int
    topic: str
    partition: int
    value: int
    leader_epoch: int


class _Sent(NamedTuple):
    """A request in flight; without records: a question for leaders."""

    invoke_t: int
    records: tuple[_Record, ...]


class JointProducer(AskEach):
    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._params = params
        self._ask_frame = metadata_request(tuple(params.topics), spec.process)
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}
        """Partition -> (leader epoch, leader)."""
        self._turns: dict[int, int] = {}
        self._must_ask: set[int] = set(spec.bootstrap)
        self._op = 0

    def ask(self, channel: Channel) -> None:
        turn = self._turns[channel.node] = self._turns.get(channel.node, -1) + 1
        led = sorted(
            (tp, epoch) for tp, (epoch, leader) in self._leaders.items() if leader == channel.node
        )
        if channel.node in self._must_ask or not led or turn % _ASK_EVERY == 0:
            self._must_ask.discard(channel.node)
            self._links.send(channel, self._ask_frame, _Sent(time.monotonic_ns(), ()))
            return
        records = []
        for (topic, partition), epoch in led:
            value = self._params.first_value + self._op
            records.append(_Record(self._op, topic, partition, value, epoch))
            self._op += 1
        frame = _frame(self._params, records, self._spec.process)
        sent = _Sent(time.monotonic_ns(), tuple(records))
        for one in records:
            self.recorder.invoke("produce", one.op, sent.invoke_t, **self._place(channel, one))
        self._links.send(channel, frame, sent)

    def _place(self, channel: Channel, one: _Record) -> dict[str, Any]:
        return {
            "node": channel.node,
            "topic": one.topic,
            "partition": one.partition,
            "value": one.value,
            "acks": self._params.acks,
            "leader_epoch": one.leader_epoch,
        }

    # ---- answers -----------------------------------------------------------------------------

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        sent: _Sent = channel.tag
        if not sent.records:
            self._told(payload)
            return
        try:
            _, results = decode_produce_response(VERSION, payload)
        except WireError as problem:
            self._lost(channel, sent, str(problem), t)
            return
        told = {(result.topic, result.partition): result for result in results}
        for one in sent.records:
            result = told.get((one.topic, one.partition))
            if result is None:
                self._complete(channel, sent, one, "info", t, failure="not told")
            else:
                self._done(channel, sent, one, result, t)

    def _done(
        self, channel: Channel, sent: _Sent, one: _Record, result: PartitionResult, t: int
    ) -> None:
        self._complete(
            channel,
            sent,
            one,
            produce_outcome(result.error, self._params.acks),
            t,
            error=result.error,
            offset=result.base_offset if result.error == 0 else -1,
            log_append_time_ms=result.log_append_time_ms,
        )
        if result.error in _MOVED:
            self._must_ask.add(channel.node)
            if self._leaders.get((one.topic, one.partition)) == (one.leader_epoch, channel.node):
                del self._leaders[one.topic, one.partition]

    def _told(self, payload: bytes) -> None:
        try:
            _, answer = decode_response(ApiKey.METADATA, METADATA_VERSION, payload)
        except WireError:
            return
        for topic in answer.topics:
            for partition in topic.partitions:
                tp = (str(topic.name), int(partition.partition_index))
                known = (int(partition.leader_epoch), int(partition.leader_id))
                if known[1] in self._spec.bootstrap and known >= self._leaders.get(tp, (-1, -1)):
                    self._leaders[tp] = known

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        self._lost(channel, channel.tag, reason, t)

    def _lost(self, channel: Channel, sent: _Sent, reason: str, t: int) -> None:
        """Nobody knows what became of any of it. Others may lead by now."""
        self._must_ask.update(self._spec.bootstrap)
        for one in sent.records:
            self._complete(channel, sent, one, "info", t, failure=reason)

    def _complete(
        self, channel: Channel, sent: _Sent, one: _Record, outcome: str, t: int, **fields: Any
    ) -> None:
        place = self._place(channel, one)
        self.recorder.complete("produce", one.op, outcome, sent.invoke_t, t, **place, **fields)


def _frame(params: Params, records: list[_Record], client_id: str) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    topics: dict[str, list[dict[str, Any]]] = {}
    for one in records:
        held = (encode_key(one.value), encode_value(one.value, params.value_bytes), now_ms)
        batch = build_batch([held], headers=headers_for(params.value_bytes))
        topics.setdefault(one.topic, []).append({"index": one.partition, "records": batch})
    entity = build(
        request_class(ApiKey.PRODUCE, VERSION),
        acks=params.acks,
        timeout=params.ack_timeout_ms,
        topic_data=[{"name": name, "partition_data": rows} for name, rows in topics.items()],
    )
    return encode_request(entity, 0, client_id)

"""A producer whose requests are for several partitions at once, as those of Kafka's own client are.

librdkafka sends one partition a request. Kafka's client puts whatever a broker leads into one; with
acks=all it is answered when the last of its partitions is, each with an error and an offset of its
own. Here each broker is sent, on a clock and over one connection, a record for every partition that
it is believed to lead: the newest leader epoch that any broker has told counts. Brokers are asked
for that now and then, and at once by who was answered that a partition is not led there: then what
it believed counts no more, and a topic that was made again may begin its leader epochs anew.

With ``strays`` every other request also has a record for a partition that another broker is
believed to lead, as that of a client that has not heard of a move: it is refused by itself, and the
others are waited for all the same.

With ``raises`` it is an idempotent producer of a kind of its own, with a producer id for each
partition (InitProducerId). It raises its producer epoch itself and begins anew with sequence 0, as
Kafka's client does that does not know what became of a batch (KIP-360): then, and after so many
batches, so that brokers remember batches of both epochs that have the same sequence.

With ``erases`` one of so many records has no value: where a topic is compacted that stays for
``delete.retention.ms`` after a compaction first saw it, which is a day, so that whoever reads late
hears of it, too.

With ``leaves`` it goes on under another producer id as soon as one has had a record in a second
producer epoch, which has no value. Where such records are kept for a moment only, compaction leaves
nothing of that batch but the batch: the last of a producer stays (`checkers.promises.log_files`).

With ``repeats`` (and ``raises``) every so many turns of a broker one batch is sent once more that
was acknowledged, one of the last five of its producer and epoch, as by a client whose connection
was lost before the answer came: whoever leads by now is to know it, and to say where it is (KIP-98;
`repeated` rows). Else nothing is sent twice: each row is what one append came to.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

from harness.workload.asking import AskEach
from harness.workload.links import Channel
from harness.workload.metadata_reader import VERSION as METADATA_VERSION
from harness.workload.metadata_reader import metadata_request
from harness.workload.outcomes import produce_outcome
from harness.workload.produce_frames import VERSION
from harness.workload.spec import WorkloadSpec
from harness.workload.values import MIN_BYTES, NO_VALUE, encode_key, encode_value, headers_for
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request
from nodes.wire.produce_codec import PartitionResult, decode_produce_response
from nodes.wire.records import build_batch

_ASK_EVERY: Final = 10
"""Of so many turns of a broker one asks for leaders."""
_NAME: Final = (ApiKey.INIT_PRODUCER_ID, 0)
_NO_TIME: Final = timedelta(milliseconds=1)
"""There are no transactions; but none is the longest that one may take."""
_STRAY: Final = -1
"""Whoever may take it, in whichever leader epoch."""
_LAST_EPOCH: Final = 30_000
"""Then it asks for another id: there are no more than 32,767 of one."""
_LEFT_EPOCH: Final = 1
"""The same with ``leaves``."""
_MOVED: Final = frozenset({3, 5, 6})  # the partition is not (or no longer) led here
_REMEMBERED: Final = 5
"""Batches of a producer that brokers know again (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topics``: partitions by topic; ``rate_per_s``: requests a second to each broker;
    ``ack_timeout_ms``: how long a broker is to wait for replication; ``strays``, ``raises`` (0: no
    producer ids), ``erases`` (0: none), ``leaves`` and ``repeats`` (0: none; both with
    ``raises``): see above."""

    topics: dict[str, int]
    acks: int = -1
    rate_per_s: float = 10.0
    first_value: int = 0
    value_bytes: int = 64
    ack_timeout_ms: int = 5_000
    strays: bool = False
    raises: int = 0
    erases: int = 0
    leaves: bool = False
    repeats: int = 0
    timeout_ms: int = 10_000

    @property
    def last_epoch(self) -> int:
        return _LEFT_EPOCH if self.leaves else _LAST_EPOCH

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("field 'params.topics': is empty; allowed: partitions by topic")
        if self.acks not in (1, -1):  # with 0 there is no answer
            raise ValueError(f"field 'params.acks': {self.acks} is not allowed; allowed: 1, -1")
        if self.value_bytes < MIN_BYTES:
            raise ValueError(f"field value_bytes; allowed: at least {MIN_BYTES}")
        for name in ("raises", "erases", "repeats"):
            if (number := getattr(self, name)) < 0:
                raise ValueError(f"field 'params.{name}': {number} is not allowed; allowed: >= 0")
        for name in ("leaves", "repeats"):
            if getattr(self, name) and not self.raises:
                raise ValueError(f"field 'params.{name}': allowed: with raises above 0")


class _Written(NamedTuple):
    """As what a batch of one record is sent."""

    producer_id: int
    producer_epoch: int
    sequence: int


class _Producer:
    """Of one partition; the batch that was sent last, and whether that is known to be there;
    `told`: of its epoch what was acknowledged last, in order."""

    def __init__(self, producer_id: int, producer_epoch: int) -> None:
        self.last = _Written(producer_id, producer_epoch, -1)
        self.is_known = True
        self.told: deque[_Told] = deque(maxlen=_REMEMBERED)

    def next(self, raises: int) -> _Written:
        last = self.last
        if self.is_known and last.sequence + 1 < raises:
            self.last = last._replace(sequence=last.sequence + 1)
        else:
            self.last = _Written(last.producer_id, last.producer_epoch + 1, 0)
            self.told.clear()
        self.is_known = False
        return self.last


class _Record(NamedTuple):
    """One partition's record in a request."""

    op: int
    topic: str
    partition: int
    value: int
    leader_epoch: int
    """`_STRAY`: of a partition that it does not lead, as far as is known."""
    written: _Written | None


class _Told(NamedTuple):
    """A record that was acknowledged: when it was sent (ns), and where it is."""

    record: _Record
    invoke_t: int
    offset: int


class _Again(NamedTuple):
    """`first` sent once more, as the one record of a request; ``later``: batches since."""

    op: int
    first: _Told
    later: int
    leader_epoch: int


class _Sent(NamedTuple):
    """A request in flight; without records: a question for leaders, or for the producer id of a
    partition."""

    invoke_t: int
    records: tuple[_Record, ...]
    named: tuple[str, int] | None = None
    again: _Again | None = None


class JointProducer(AskEach):
    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._params = params
        self._ask_frame = metadata_request(tuple(params.topics), spec.process)
        self._leaders: dict[tuple[str, int], tuple[int, int]] = {}
        """Partition -> (leader epoch, leader)."""
        self._producers: dict[tuple[str, int], _Producer] = {}
        self._turns: dict[int, int] = {}
        self._must_ask: set[int] = set(spec.bootstrap)
        self._op = self._repeats = 0

    def ask(self, channel: Channel) -> None:
        turn = self._turns[channel.node] = self._turns.get(channel.node, -1) + 1
        led = sorted(
            (tp, epoch) for tp, (epoch, leader) in self._leaders.items() if leader == channel.node
        )
        if channel.node in self._must_ask or not led or turn % _ASK_EVERY == 0:
            self._must_ask.discard(channel.node)
            self._links.send(channel, self._ask_frame, _Sent(time.monotonic_ns(), ()))
            return
        nameless = [tp for tp, _ in led if self._params.raises and tp not in self._producers]
        if nameless:
            sent = _Sent(time.monotonic_ns(), (), nameless[0])
            self._links.send(channel, _name_frame(self._spec.process), sent)
            return
        if self._params.repeats and turn % self._params.repeats == 0:
            again = self._due(led)
            if again is not None:
                self._send_again(channel, again)
                return
        records = [self._record(tp, epoch) for tp, epoch in led]
        if self._params.strays and turn % 2:
            elsewhere = sorted(self._leaders.keys() - {tp for tp, _ in led})
            if elsewhere:
                records.append(self._record(elsewhere[turn // 2 % len(elsewhere)], _STRAY))
        frame = _frame(self._params, records, self._spec.process)
        sent = _Sent(time.monotonic_ns(), tuple(records))
        for one in records:
            self.recorder.invoke("produce", one.op, sent.invoke_t, **self._place(channel, one))
        self._links.send(channel, frame, sent)

    def _record(self, tp: tuple[str, int], leader_epoch: int) -> _Record:
        value = self._params.first_value + self._op
        producer = None if leader_epoch == _STRAY else self._producers.get(tp)
        written = None if producer is None else producer.next(self._params.raises)
        record = _Record(self._op, *tp, value, leader_epoch, written)
        self._op += 1
        return record

    def _due(self, led: Sequence[tuple[tuple[str, int], int]]) -> _Again | None:
        """Of partitions (with their leader epochs) that a broker is believed to lead, and of what
        is remembered, each in its turn."""
        self._repeats += 1
        tp, epoch = led[self._repeats % len(led)]
        producer = self._producers.get(tp)
        if producer is None or not producer.is_known or not producer.told:
            return None
        later = self._repeats // len(led) % len(producer.told)
        self._op += 1
        return _Again(self._op - 1, producer.told[-1 - later], later, epoch)

    def _send_again(self, channel: Channel, again: _Again) -> None:
        sent = _Sent(time.monotonic_ns(), (), again=again)
        self.recorder.invoke("repeated", again.op, sent.invoke_t, **_repeat(channel, again))
        frame = _frame(self._params, [again.first.record], self._spec.process)
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
        if sent.named is not None:
            self._named(sent.named, payload)
            return
        if sent.again is None and not sent.records:
            self._told(payload)
            return
        try:
            _, results = decode_produce_response(VERSION, payload)
        except WireError as problem:
            self._lost(channel, sent, str(problem), t)
            return
        told = {(result.topic, result.partition): result for result in results}
        if sent.again is not None:
            first = sent.again.first.record
            self._repeated(channel, sent, sent.again, told.get((first.topic, first.partition)), t)
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
        producer = self._producers.get((one.topic, one.partition))
        if producer is not None and producer.last == one.written:
            producer.is_known = result.error == 0
            if producer.is_known:
                producer.told.append(_Told(one, sent.invoke_t, result.base_offset))
            if one.written.producer_epoch >= self._params.last_epoch:
                del self._producers[one.topic, one.partition]
        if result.error in _MOVED and one.leader_epoch != _STRAY:
            self._moved((one.topic, one.partition), one.leader_epoch, channel.node)

    def _moved(self, tp: tuple[str, int], leader_epoch: int, node: int) -> None:
        self._must_ask.add(node)
        if self._leaders.get(tp) == (leader_epoch, node):
            del self._leaders[tp]

    def _repeated(
        self, channel: Channel, sent: _Sent, again: _Again, result: PartitionResult | None, t: int
    ) -> None:
        row = _repeat(channel, again)
        if result is None:
            row["failure"], outcome = "not told", "info"
        else:
            outcome = produce_outcome(result.error, self._params.acks)
            row["error"] = result.error
            row["offset"] = result.base_offset if result.error == 0 else -1
            if result.error in _MOVED:
                first = again.first.record
                self._moved((first.topic, first.partition), again.leader_epoch, channel.node)
        self.recorder.complete("repeated", again.op, outcome, sent.invoke_t, t, **row)

    def _named(self, tp: tuple[str, int], payload: bytes) -> None:
        try:
            _, answer = decode_response(*_NAME, payload)
        except WireError:
            return
        if not answer.error_code:
            self._producers[tp] = _Producer(int(answer.producer_id), int(answer.producer_epoch))

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
        if sent.again is not None:
            row = _repeat(channel, sent.again) | {"failure": reason}
            self.recorder.complete("repeated", sent.again.op, "info", sent.invoke_t, t, **row)
        for one in sent.records:
            self._complete(channel, sent, one, "info", t, failure=reason)

    def _complete(
        self, channel: Channel, sent: _Sent, one: _Record, outcome: str, t: int, **fields: Any
    ) -> None:
        place = self._place(channel, one)
        self.recorder.complete("produce", one.op, outcome, sent.invoke_t, t, **place, **fields)


def _name_frame(client_id: str) -> bytes:
    fields = {"transactional_id": None, "transaction_timeout": _NO_TIME}
    return encode_request(build(request_class(*_NAME), **fields), 0, client_id)


def _repeat(channel: Channel, again: _Again) -> dict[str, Any]:
    first = again.first
    return {
        "node": channel.node,
        "topic": first.record.topic,
        "partition": first.record.partition,
        "value": first.record.value,
        "leader_epoch": again.leader_epoch,
        "first_t": first.invoke_t,
        "first_offset": first.offset,
        "later": again.later,
    }


def _is_last(one: _Record, params: Params) -> bool:
    return one.written is not None and one.written.producer_epoch >= params.last_epoch


def _frame(params: Params, records: list[_Record], client_id: str) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    topics: dict[str, list[dict[str, Any]]] = {}
    for one in records:
        erases = params.erases and one.value % params.erases == 0
        erases = erases or (params.leaves and _is_last(one, params))
        size_bytes = NO_VALUE if erases else params.value_bytes
        held = (encode_key(one.value), encode_value(one.value, size_bytes), now_ms)
        as_whom = {}
        if one.written is not None:
            producer_id, producer_epoch, sequence = one.written
            as_whom = {
                **{"producer_id": producer_id, "producer_epoch": producer_epoch},
                "base_sequence": sequence,
            }
        batch = build_batch([held], headers=headers_for(size_bytes), **as_whom)
        topics.setdefault(one.topic, []).append({"index": one.partition, "records": batch})
    entity = build(
        request_class(ApiKey.PRODUCE, VERSION),
        acks=params.acks,
        timeout=params.ack_timeout_ms,
        topic_data=[{"name": name, "partition_data": rows} for name, rows in topics.items()],
    )
    return encode_request(entity, 0, client_id)

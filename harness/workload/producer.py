"""The realistic producer: librdkafka, one record an operation, on a clock.

Retries are off by default, so that one operation is at most one append by each leader: librdkafka
counts it as no retry when it sends again what was answered NOT_LEADER_OR_FOLLOWER, although a
leader says so, too, of what it has appended and was demoted before acks=all was met. Two copies by
one leader are the broker's doing; the raw producer (`direct_producer`) sends once indeed. With
``retries`` above 0 an error is only what the *last* attempt met, so every error becomes `info`.
With ``idempotent`` it retries as often as it takes, and is promised that each record lands once, in
order (KIP-98). Where a broker refuses the sequence that must come next, librdkafka gives the
producer up for good: nobody can keep that promise any more. The records of the refused partition
that are under way have the broker's error then, and nothing more is offered.
"""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Final

import confluent_kafka

from harness.workload.lifecycle import Lifecycle
from harness.workload.outcomes import produce_outcome
from harness.workload.pacing import Clock, is_busy
from harness.workload.recorder import LiveRecorder
from harness.workload.sent import EVERY_MS, Sent
from harness.workload.spec import WorkloadError, WorkloadSpec
from harness.workload.values import MIN_BYTES, encode_key, encode_value, headers_for

_CONNECT_S: Final = 20.0
_FLUSH_S: Final = 10.0
_LOG_APPEND_TIME: Final = 2
UNANSWERED: Final = "unanswered"
"""What becomes of a record that was handed to its connection, and asked for no answer."""
_REFUSED: Final = re.compile(r"ProduceRequest for (?P<topic>\S+) \[(?P<partition>\d+)\]")
"""In the words of librdkafka: which partition's records were refused for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topics``: partitions by topic, taken in turn. ``client``: librdkafka settings on top.
    ``idle_ms``: it offers nothing for so long, after each ``busy_ms`` (`pacing.is_busy`)."""

    topics: dict[str, int]
    acks: int = -1
    rate_per_s: float = 200.0
    busy_ms: int = 0
    idle_ms: int = 0
    first_value: int = 0
    value_bytes: int = 64
    timeout_ms: int = 10_000
    linger_ms: float = 0.0
    retries: int = 0
    idempotent: bool = False
    max_unanswered: int = 10_000
    client: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.acks not in (0, 1, -1):
            raise ValueError(f"field 'params.acks': {self.acks} is not allowed; allowed: 0, 1, -1")
        if self.value_bytes < MIN_BYTES:
            raise ValueError(
                f"field 'params.value_bytes': {self.value_bytes} is not allowed; "
                f"allowed: at least {MIN_BYTES}"
            )
        if self.idempotent and (self.acks != -1 or self.retries):
            raise ValueError("field 'params.idempotent': allowed: with acks -1, without retries")
        if min(self.busy_ms, self.idle_ms) < 0 or (self.idle_ms and not self.busy_ms):
            raise ValueError("field 'params.idle_ms': allowed: 0, or with busy_ms above 0")
        if not self.topics:
            raise ValueError("field 'params.topics': is empty; allowed: partitions by topic")


class Producer:
    """Everything happens on the thread that calls `run`; delivery reports too (in poll)."""

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        self._spec, self._params = spec, params
        self._partitions = [(t, p) for t, count in params.topics.items() for p in range(count)]
        self._unanswered = 0
        self._sent = Sent()
        self._refused: tuple[str, int, int] | None = None
        """Of which partition, and with which error, it was given up."""

    def run(self, recorder: LiveRecorder, life: Lifecycle) -> None:
        params = self._params
        client = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._spec.bootstrap_servers,
                "client.id": self._spec.process,
                "acks": params.acks,
                **_sending(params),
                "message.timeout.ms": params.timeout_ms,
                "request.timeout.ms": params.timeout_ms,
                "linger.ms": params.linger_ms,
                "topic.metadata.refresh.interval.ms": 5_000,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 3,
                "stats_cb": self._sent.told,
                "statistics.interval.ms": EVERY_MS,
                **params.client,
            }
        )
        try:
            client.list_topics(timeout=_CONNECT_S)
        except confluent_kafka.KafkaException as error:
            raise WorkloadError(f"workload {self._spec.process!r}: {error}") from None
        life.ready()
        clock = Clock(params.rate_per_s, time.monotonic_ns())
        op = 0
        while not life.over:
            if self._refused is not None:
                self._poll(client, 0.05)
                continue
            if not is_busy(time.monotonic_ns(), params.busy_ms, params.idle_ms):
                self._poll(client, 0.02)
                clock = Clock(params.rate_per_s, time.monotonic_ns())  # a pause is no backlog
                continue
            planned = clock.take(time.monotonic_ns())
            if planned is None or self._unanswered >= params.max_unanswered:
                wait_s = clock.wait_s(time.monotonic_ns(), 0.05) if planned is None else 0.001
                self._poll(client, wait_s)
                continue
            self._offer(client, recorder, op)
            op += 1
            self._poll(client, 0)
        if self._refused is None:
            client.flush(_FLUSH_S)  # what is unanswered after that stays an invocation: info

    def _poll(self, client: Any, timeout_s: float) -> None:
        try:
            client.poll(timeout_s)
        except confluent_kafka.KafkaException as raised:
            error = raised.args[0]
            if not error.fatal():
                raise
            found = _REFUSED.search(error.str())
            place = (found["topic"], int(found["partition"])) if found else ("", -1)
            self._refused = (*place, error.code())
            print(f"given up: {error.str()}", file=sys.stderr)

    def _offer(self, client: Any, recorder: LiveRecorder, op: int) -> None:
        params = self._params
        topic, partition = self._partitions[op % len(self._partitions)]
        value = params.first_value + op
        invoke_t = time.monotonic_ns()
        row = {"topic": topic, "partition": partition, "value": value, "acks": params.acks}

        def delivered(error: Any, message: Any) -> None:
            self._delivered(recorder, op, invoke_t, row, error, message)

        recorder.invoke("produce", op, invoke_t, **row)
        self._unanswered += 1
        try:
            client.produce(
                topic,
                partition=partition,
                key=encode_key(value),
                value=encode_value(value, params.value_bytes),
                headers=headers_for(params.value_bytes),
                on_delivery=delivered,
            )
        except (BufferError, confluent_kafka.KafkaException) as error:
            # Never sent: the client's own queue is full, or it was told that there is no such topic
            # (any more).
            full = isinstance(error, BufferError)
            why = "queue full" if full else error.args[0].name()
            self._unanswered -= 1
            recorder.complete(
                "produce", op, "fail", invoke_t, time.monotonic_ns(), failure=why, **row
            )

    def _delivered(
        self,
        recorder: LiveRecorder,
        op: int,
        invoke_t: int,
        row: dict[str, Any],
        error: Any,
        message: Any,
    ) -> None:
        t = time.monotonic_ns()
        self._unanswered -= 1
        if error is None:
            kind, append_time_ms = message.timestamp()
            recorder.complete(
                "produce",
                op,
                produce_outcome(0, self._params.acks),
                invoke_t,
                t,
                error=0 if self._params.acks != 0 else None,
                failure=None if self._params.acks != 0 else UNANSWERED,
                offset=message.offset() if self._params.acks != 0 else -1,
                log_append_time_ms=append_time_ms if kind == _LOG_APPEND_TIME else -1,
                **row,
            )
            return
        code, failure = error.code(), error.name()
        outcome = "info"
        if self._refused is not None:
            if self._refused[:2] == (row["topic"], row["partition"]):
                code = self._refused[2]  # what is purged from its queue may have been sent before
        elif code == confluent_kafka.KafkaError._PURGE_QUEUE:
            outcome = "fail"  # never left the client
        elif code > 0 and self._params.retries == 0 and not self._params.idempotent:
            outcome = produce_outcome(code, self._params.acks)
        if code < 0:  # the client's own word: no broker answered
            failure = self._sent.failure(failure, row["topic"], row["partition"], invoke_t)
        recorder.complete(
            "produce",
            op,
            outcome,
            invoke_t,
            t,
            error=code if code > 0 else None,
            failure=failure,
            **row,
        )


def _sending(params: Params) -> dict[str, Any]:
    """How often a record is sent. Idempotence brings its own number of retries: very many."""
    if params.idempotent:
        return {"enable.idempotence": True}
    return {"enable.idempotence": False, "message.send.max.retries": params.retries}

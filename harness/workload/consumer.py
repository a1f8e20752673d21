"""The realistic consumer: librdkafka with assigned partitions, from their start, no group. With
``late_ms`` it comes so much later and starts at their end, as a tail reader does.

When it is to end it polls on until nothing has come for a while: who wrote has ended before it, and
what was acknowledged last is to be given to it like all the rest.

Every record delivered is a `fetch` row; a poll that delivered none is one row with a null offset.
The rows of one poll share its number. Positions are librdkafka's own: after an error it goes on by
itself, and an offset out of range resets it to the earliest (a rewind that the checkers can see).
What it waits for in vain is written down as well (`harness.workload.waiting`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final

import confluent_kafka

from harness.workload.lifecycle import Lifecycle
from harness.workload.recorder import LiveRecorder
from harness.workload.spec import WorkloadError, WorkloadSpec
from harness.workload.values import decode, is_whole
from harness.workload.waiting import EVERY_MS, Waiting

_CONNECT_S: Final = 20.0
_DRAINED_NS: Final = 2_000_000_000
_DRAIN_NS: Final = 5_000_000_000
"""For no longer, whatever comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topics``: partitions by topic. ``client``: librdkafka settings on top."""

    topics: dict[str, int]
    late_ms: int | None = None
    poll_ms: int = 200
    max_records: int = 500
    fetch_wait_ms: int = 100
    client: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("field 'params.topics': is empty; allowed: partitions by topic")
        if self.late_ms is not None and self.late_ms < 0:
            raise ValueError("field 'params.late_ms': allowed: null, or at least 0")


class Consumer:
    """Everything happens on the thread that calls `run`."""

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        self._spec, self._params = spec, params

    def run(self, recorder: LiveRecorder, life: Lifecycle) -> None:
        params = self._params
        waiting = Waiting(recorder)
        client = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._spec.bootstrap_servers,
                "client.id": self._spec.process,
                "group.id": self._spec.process,  # the client insists on one; it is never joined
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted",
                "check.crcs": True,
                "fetch.wait.max.ms": params.fetch_wait_ms,
                "fetch.error.backoff.ms": 100,
                "socket.timeout.ms": 10_000,  # else an answer that was lost holds it up for 60 s
                "topic.metadata.refresh.interval.ms": 5_000,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 3,
                "stats_cb": waiting.told,
                "statistics.interval.ms": EVERY_MS,
                **params.client,
            }
        )
        try:
            client.list_topics(timeout=_CONNECT_S)
        except confluent_kafka.KafkaException as error:
            raise WorkloadError(f"workload {self._spec.process!r}: {error}") from None
        begin = confluent_kafka.OFFSET_BEGINNING
        if params.late_ms is not None:
            begin = confluent_kafka.OFFSET_END
            life.ready()
            life.stopping.wait(params.late_ms / 1000)
        client.assign(
            [
                confluent_kafka.TopicPartition(topic, partition, begin)
                for topic, count in params.topics.items()
                for partition in range(count)
            ]
        )
        life.ready()
        poll = 0
        try:
            given_ns, over_ns = time.monotonic_ns(), None
            while True:
                now = time.monotonic_ns()
                if life.over:
                    over_ns = over_ns or now
                    if now - given_ns > _DRAINED_NS or now - over_ns > _DRAIN_NS:
                        break
                # The first record ends the wait; the rest of the poll is what has come with it.
                first = client.poll(params.poll_ms / 1000)
                messages = [] if first is None else [first, *client.consume(params.max_records, 0)]
                record_poll(recorder, poll, now, messages)
                for message in messages:
                    if message.error() is None:
                        waiting.given(message.topic(), message.partition())
                given_ns = time.monotonic_ns() if messages else given_ns
                poll += 1
        finally:
            client.close()


def record_poll(recorder: LiveRecorder, poll: int, invoke_t: int, messages: list[Any]) -> None:
    """The `fetch` rows of one poll of librdkafka's, which ends now."""
    t = time.monotonic_ns()
    if not messages:
        recorder.complete("fetch", poll, "ok", invoke_t, t, poll=poll)
        return
    for message in messages:
        error = message.error()
        if error is not None:
            code = error.code()
            # What is no partition's error (a coordinator's) comes with a number all the same.
            partition = None if message.topic() is None else message.partition()
            recorder.complete(
                "fetch",
                poll,
                "fail" if code > 0 else "info",
                invoke_t,
                t,
                poll=poll,
                topic=message.topic(),
                partition=partition,
                error=code if code > 0 else None,
                failure=error.name(),
            )
            continue
        recorder.complete(
            "fetch",
            poll,
            "ok",
            invoke_t,
            t,
            poll=poll,
            topic=message.topic(),
            partition=message.partition(),
            offset=message.offset(),
            value=decode(message.key(), message.value()),
            whole=is_whole(message.key(), message.value(), message.headers()),
            leader_epoch=message.leader_epoch(),
        )

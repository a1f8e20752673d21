"""A member of a consumer group: librdkafka, subscribed, offsets committed by hand after each poll.

What it was given is `fetch` rows, as of a consumer without a group; what it asked the coordinator
to keep, `commit` rows; what it was given and what was taken from it, `assignment` rows. It commits
only what it has recorded (at least once): a record that nobody recorded was never given to anyone.

With ``rejoin_ms`` it leaves the group so long after it was first given something and joins it anew,
so that the others are given its partitions and must go on where it was. Before each commit it asks
the coordinator what it has kept (`committed` rows): afterwards nobody could tell whether a new
coordinator had it. At its end it asks for every partition of its topics.

With ``gone_ms`` it is gone for good so long after it was first given something, as a process that
was killed: it does not tell the coordinator, which has to find out (it is a static member, KIP-345:
librdkafka lets others leave). Until its session is over the others wait for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import confluent_kafka

from harness.workload.consumer import record_poll
from harness.workload.lifecycle import Lifecycle
from harness.workload.recorder import LiveRecorder
from harness.workload.spec import WorkloadError, WorkloadSpec

_CONNECT_S: Final = 20.0
_ASK_S: Final = 10.0
_LOOK_S: Final = 0.05
_INSTANCE_ID: Final = "group.instance.id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topics``: partitions by topic. ``client``: librdkafka settings on top. ``gather_ms``: for
    so long each poll goes on after its first record, so that what it gives, and what is committed
    after it, is of several partitions. ``commit_ms``: it commits no more often than that; what it
    was given meanwhile it commits then, unless its partitions were taken from it."""

    group: str
    topics: dict[str, int]
    rejoin_ms: int | None = None
    gone_ms: int | None = None
    poll_ms: int = 200
    gather_ms: int = 0
    commit_ms: int = 0
    max_records: int = 200
    session_timeout_ms: int = 6_000
    client: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.topics:
            raise ValueError("field 'params.topics': is empty; allowed: partitions by topic")
        if self.rejoin_ms is not None and self.rejoin_ms < 500:
            raise ValueError("field 'params.rejoin_ms': allowed: null, or at least 500")
        if self.gone_ms is not None and (self.gone_ms < 500 or self.rejoin_ms is not None):
            allowed = "null, or at least 500, without rejoin_ms"
            raise ValueError(f"field 'params.gone_ms': allowed: {allowed}")


class GroupConsumer:
    """Everything happens on the thread that calls `run`; callbacks too (in poll and close)."""

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        self._spec, self._params = spec, params
        self._polls = 0
        self._ops = 0
        self._following: dict[tuple[str, int], tuple[int, int]] = {}
        """What is to be committed next: positions, and the leader epochs of the records before
        them (KIP-320), by partition."""
        self._keeps_epochs = False
        """Whether any coordinator told of a leader epoch with a position: then all keep them."""
        self._held: dict[tuple[str, int], None] = {}
        self._committed_t = 0.0

    def run(self, recorder: LiveRecorder, life: Lifecycle) -> None:
        ready = False
        while not life.over:
            client = self._client()
            try:
                client.list_topics(timeout=_CONNECT_S)
            except confluent_kafka.KafkaException as error:
                if not ready:
                    raise WorkloadError(f"workload {self._spec.process!r}: {error}") from None
            if not ready:
                life.ready()
                ready = True
            try:
                self._take_part(client, recorder, life)
                if life.over and self._params.gone_ms is None:
                    topics = self._params.topics.items()
                    self._ask(client, recorder, [(t, p) for t, n in topics for p in range(n)])
            finally:
                client.close()
                self._let_go(recorder)
            while self._params.gone_ms is not None and not life.over:
                time.sleep(_LOOK_S)

    def _client(self) -> Any:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self._spec.bootstrap_servers,
                "client.id": self._spec.process,
                "group.id": self._params.group,
                "session.timeout.ms": self._params.session_timeout_ms,
                "heartbeat.interval.ms": self._params.session_timeout_ms // 10,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_uncommitted",
                "check.crcs": True,
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 100,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "log_level": 3,
                **({} if self._params.gone_ms is None else {_INSTANCE_ID: self._spec.process}),
                **self._params.client,
            }
        )

    def _take_part(self, client: Any, recorder: LiveRecorder, life: Lifecycle) -> None:
        """Until it is time to leave the group, or the end."""

        gone_ms = self._params.gone_ms
        stays_ms = self._params.rejoin_ms if gone_ms is None else gone_ms
        end: float | None = None

        def told(event: str) -> Any:
            def tell(_client: Any, partitions: list[Any]) -> None:
                nonlocal end
                if event == "assigned" and end is None and stays_ms is not None:
                    # From its first assignment on: a group may take long to come about.
                    end = time.monotonic() + stays_ms / 1000
                for one in partitions:
                    place = one.topic, one.partition
                    if event == "assigned":
                        self._held[place] = None
                    else:
                        self._held.pop(place, None)
                        self._following.pop(place, None)
                    self._tell(recorder, event, *place)

            return tell

        client.subscribe(
            list(self._params.topics),
            on_assign=told("assigned"),
            on_revoke=told("revoked"),
            on_lost=told("lost"),
        )
        while not life.over and (end is None or time.monotonic() < end):
            invoke_t = time.monotonic_ns()
            first = client.poll(self._params.poll_ms / 1000)
            self._take(recorder, invoke_t, [] if first is None else [first])
            if first is not None:
                # Partitions may be given anew within: what came before that is told before it.
                invoke_t = time.monotonic_ns()
                gather_s = self._params.gather_ms / 1000
                rest = client.consume(self._params.max_records, gather_s)
                if rest:
                    self._take(recorder, invoke_t, rest)
            now = time.monotonic()
            if self._following and now - self._committed_t >= self._params.commit_ms / 1000:
                self._committed_t = now
                self._commit(client, recorder)

    def _let_go(self, recorder: LiveRecorder) -> None:
        """What a closed client still had: librdkafka says nothing of it where another took its
        place (FENCED_INSTANCE_ID, KIP-345), as one does that joined again unanswered."""
        for place in list(self._held):
            del self._held[place]
            self._tell(recorder, "revoked", *place)

    def _tell(self, recorder: LiveRecorder, event: str, topic: str, partition: int) -> None:
        place = {"topic": topic, "partition": partition}
        recorder.event("assignment", group=self._params.group, event=event, **place)

    def _take(self, recorder: LiveRecorder, invoke_t: int, messages: list[Any]) -> None:
        """What one call of the client gave."""
        record_poll(recorder, self._polls, invoke_t, messages)
        self._polls += 1
        for message in messages:
            if message.error() is None:
                place = message.topic(), message.partition()
                epoch = message.leader_epoch()
                self._following[place] = message.offset() + 1, -1 if epoch is None else epoch

    def _commit(self, client: Any, recorder: LiveRecorder) -> None:
        following, self._following = self._following, {}
        offsets = [
            confluent_kafka.TopicPartition(topic, partition, offset, note(offset, epoch), epoch)
            for (topic, partition), (offset, epoch) in following.items()
        ]
        self._ask(client, recorder, following)
        op, invoke_t = self._next_op(), time.monotonic_ns()
        outcome, error, failure, done = "ok", None, None, offsets
        try:
            done = client.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException as raised:
            code = raised.args[0].code()
            # Only an answer says that nothing was kept; anything else may have been.
            outcome = "fail" if code > 0 and code not in _INDEFINITE else "info"
            error, failure = (code if code > 0 else None), raised.args[0].name()
        t = time.monotonic_ns()
        for wanted, one in zip(offsets, done, strict=True):
            own = one.error
            recorder.complete(
                "commit",
                op,
                "info" if own is not None else outcome,
                invoke_t,
                t,
                group=self._params.group,
                topic=wanted.topic,
                partition=wanted.partition,
                offset=wanted.offset,
                error=error,
                failure=own.name() if own is not None else failure,
            )

    def _ask(self, client: Any, recorder: LiveRecorder, places: Iterable[tuple[str, int]]) -> None:
        wanted = [confluent_kafka.TopicPartition(*place) for place in places]
        op, invoke_t = self._next_op(), time.monotonic_ns()
        try:
            answers = client.committed(wanted, timeout=_ASK_S)
        except confluent_kafka.KafkaException as error:
            recorder.complete(
                "committed",
                op,
                "info",
                invoke_t,
                time.monotonic_ns(),
                group=self._params.group,
                failure=error.args[0].name(),
            )
            return
        self._keeps_epochs |= any(epoch_of(one) >= 0 for one in answers)
        for one in answers:
            recorder.complete(
                "committed",
                op,
                "ok" if one.error is None else "info",
                invoke_t,
                time.monotonic_ns(),
                group=self._params.group,
                topic=one.topic,
                partition=one.partition,
                offset=max(one.offset, -1),
                whole=one.offset < 0 or comes_back_whole(one, self._keeps_epochs),
                failure=None if one.error is None else one.error.name(),
            )

    def _next_op(self) -> int:
        """Polls count by themselves; these come after any number of them."""
        self._ops += 1
        return 1_000_000_000 + self._ops


def note(offset: int, leader_epoch: int) -> str:
    """What is committed with a position, as its metadata."""
    return f"{offset} after {leader_epoch}"


def comes_back_whole(kept: Any, keeps_epochs: bool) -> bool:
    """Whether a position comes back with what was committed with it; a release that keeps no leader
    epochs (before 2.1) tells of none, ever."""
    epoch = epoch_of(kept)
    if epoch < 0 and not keeps_epochs:
        return str(kept.metadata).startswith(f"{kept.offset} after ")
    return bool(kept.metadata == note(kept.offset, epoch))


def epoch_of(kept: Any) -> int:
    return -1 if kept.leader_epoch is None else int(kept.leader_epoch)


_INDEFINITE: Final = frozenset({7, 13, 16, 41})
"""REQUEST_TIMED_OUT, NETWORK_EXCEPTION, NOT_COORDINATOR, NOT_CONTROLLER: the offset may be kept."""

"""The producer that shows acks=1 loss: it keeps talking to one broker until that broker refuses.

Open loop over many raw connections, one record a request. It stays with its broker until the answer
is NOT_LEADER_OR_FOLLOWER (or its connections break), then asks the brokers in turn for metadata
until one of them names a leader of a newer epoch, and follows. Who is elected may be the last to
hear of it: a second later it follows one of the same epoch as well. Client libraries do the same,
but batch, pipeline and refresh on timers of their own, which hides when a demoted leader took its
last record (reference: real parts, section 8).

More connections than rate x latency are needed for the loop to stay open; ticks that find no free
connection are dropped and counted in the process's log.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.workload.lifecycle import Lifecycle
from harness.workload.links import Channel, Links
from harness.workload.metadata_reader import VERSION as METADATA_VERSION
from harness.workload.metadata_reader import metadata_request
from harness.workload.outcomes import produce_outcome
from harness.workload.pacing import Clock
from harness.workload.produce_frames import VERSION, ProduceFrames
from harness.workload.recorder import LiveRecorder
from harness.workload.spec import WorkloadError, WorkloadSpec
from harness.workload.values import MIN_BYTES
from nodes.wire.apis import ApiKey
from nodes.wire.codec import WireError, decode_response
from nodes.wire.produce_codec import decode_produce_response

_CONNECT_S: Final = 30.0
_DRAIN_NS: Final = 2_000_000_000
_SCAN_NS: Final = 50_000_000
_HEARD_NS: Final = 1_000_000_000
_MOVED: Final = frozenset({3, 5, 6})  # the partition is not (or no longer) led here


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``target``: the broker to begin with, null for the leader of the moment. ``patience_ms``: how
    long it waits for a broker that refuses it, or is gone, to lead again, before it goes on with
    another."""

    topic: str
    partition: int = 0
    target: int | None = None
    patience_ms: int = 0
    acks: int = 1
    rate_per_s: float = 500.0
    connections: int = 64
    first_value: int = 0
    value_bytes: int = 64
    timeout_ms: int = 10_000
    """After so long without an answer it gives a connection up."""
    ack_timeout_ms: int | None = None
    """How long the broker is to wait for replication (null: ``timeout_ms``)."""
    refresh_ms: int = 20

    def __post_init__(self) -> None:
        if self.acks not in (1, -1):  # with 0 there is no answer to follow the leader by
            raise ValueError(f"field 'params.acks': {self.acks} is not allowed; allowed: 1, -1")
        if self.value_bytes < MIN_BYTES or self.connections < 1 or self.rate_per_s <= 0:
            raise ValueError(
                f"fields value_bytes, connections, rate_per_s; allowed: at least {MIN_BYTES}, "
                "at least 1, above 0"
            )


class _Produce(NamedTuple):
    """A request in flight."""

    op: int
    invoke_t: int
    value: int
    leader_epoch: int


class DirectProducer:
    """Everything happens on the thread that calls `run`."""

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        if params.target is not None and params.target not in spec.bootstrap:
            raise WorkloadError(
                f"workload {spec.process!r}, field 'params.target': {params.target} is not "
                f"allowed; allowed: {', '.join(map(str, spec.bootstrap))}"
            )
        self._spec, self._params = spec, params
        self._frames = ProduceFrames(
            params.topic,
            params.partition,
            acks=params.acks,
            timeout_ms=params.ack_timeout_ms or params.timeout_ms,
            value_bytes=params.value_bytes,
            client_id=spec.process,
        )
        self._ask = metadata_request((params.topic,), spec.process)
        self._links = Links(self._answered, self._lost)
        self._recorder: LiveRecorder | None = None
        self._free: dict[int, deque[Channel]] = {node: deque() for node in spec.bootstrap}
        self._data: dict[int, list[Channel]] = {}
        self._askers: deque[Channel] = deque()
        self.leader = -1
        self.leader_epoch = -1
        self._newer_than: int | None = None  # while refreshing: the epoch to get beyond
        self._next_ask_ns = 0
        self._patient_until_ns = 0
        self._same_from_ns = 0
        self._op = 0
        self._no_connection = 0

    def run(self, recorder: LiveRecorder, life: Lifecycle) -> None:
        self._recorder = recorder
        params = self._params
        for node in sorted(self._spec.bootstrap):
            address = self._spec.address(node)
            self._askers.append(self._links.add(node, address))
            self._data[node] = [self._links.add(node, address) for _ in range(params.connections)]
        try:
            if not self._links.dial_all(_CONNECT_S, lambda: life.over):
                raise WorkloadError(f"workload {self._spec.process!r}: not every broker answers")
            self._find_first_leader(life)
            life.ready()
            clock = Clock(params.rate_per_s, time.monotonic_ns())
            scan_ns = 0
            while not life.over:
                now = time.monotonic_ns()
                if now >= scan_ns:
                    self._scan(now)
                    scan_ns = now + _SCAN_NS
                if self._newer_than is not None:
                    self._ask_on(now)
                while clock.take(now) is not None:
                    self._offer()
                wait_s = 0.002 if self._newer_than is not None else 0.02
                self._links.step(clock.wait_s(time.monotonic_ns(), wait_s))
            self._drain()
            self._say_dropped(clock)
        finally:
            self._links.close()

    def _say_dropped(self, clock: Clock) -> None:
        if self._no_connection or clock.dropped:
            print(
                f"{self._no_connection} ticks found no free connection, "
                f"{clock.dropped} came too late to be sent",
                file=sys.stderr,
            )

    def _find_first_leader(self, life: Lifecycle) -> None:
        self._newer_than = -1
        deadline = time.monotonic() + _CONNECT_S
        while self._newer_than is not None and not life.over:
            self._ask_on(time.monotonic_ns())
            self._links.step(0.01)
            if time.monotonic() > deadline:
                raise WorkloadError(
                    f"workload {self._spec.process!r}: no leader of {self._params.topic}-"
                    f"{self._params.partition} is known"
                )
        if self._params.target is not None:
            self.leader = self._params.target

    # -- producing ------------------------------------------------------------------------------

    def _offer(self) -> None:
        """One record on a free connection to the broker that is believed to lead."""
        if self._newer_than is not None:
            return
        channel = self._take_free(self.leader)
        if channel is None:
            self._no_connection += 1
            return
        assert self._recorder is not None
        op, params = self._op, self._params
        self._op += 1
        value = params.first_value + op
        frame = self._frames.frame(value, time.time_ns() // 1_000_000)
        invoke_t = time.monotonic_ns()
        self._recorder.invoke(
            "produce",
            op,
            invoke_t,
            node=channel.node,
            topic=params.topic,
            partition=params.partition,
            value=value,
            acks=params.acks,
            leader_epoch=self.leader_epoch,
        )
        self._links.send(channel, frame, _Produce(op, invoke_t, value, self.leader_epoch))

    def _take_free(self, node: int) -> Channel | None:
        free = self._free[node]
        while free:
            channel = free.popleft()
            if channel.state == "free":
                return channel
        # Connections that were dialled (again) since the last look are not in the queue yet.
        free.extend(channel for channel in self._data[node] if channel.state == "free")
        return free.popleft() if free else None

    def _scan(self, now: int) -> None:
        """Give up on answers that take too long; look for a leader when all its ways are down."""
        limit_ns = self._params.timeout_ms * 1_000_000
        for channel in self._links.channels:
            if channel.state == "busy" and now - channel.tag.invoke_t > limit_ns:
                self._links.drop(channel, "timeout")
        if self._newer_than is None and all(
            channel.state in ("down", "dialling") for channel in self._data[self.leader]
        ):
            # It may lead still (or again) when it is back: the epoch need not be a newer one.
            self._refresh(self.leader_epoch - 1)

    # -- following the leader ---------------------------------------------------------------------

    def _refresh(self, newer_than: int) -> None:
        """Stop producing until a broker names a leader of an epoch above ``newer_than``, or in a
        while of that one."""
        now = time.monotonic_ns()
        self._newer_than = newer_than
        self._next_ask_ns = 0
        self._patient_until_ns = now + self._params.patience_ms * 1_000_000
        self._same_from_ns = now + _HEARD_NS

    def _ask_on(self, now: int) -> None:
        if now < self._next_ask_ns:
            return
        self._next_ask_ns = now + self._params.refresh_ms * 1_000_000
        for _ in range(len(self._askers)):
            self._askers.rotate(-1)
            asker = self._askers[0]
            if asker.state == "free":
                self._links.send(asker, self._ask, _Produce(-1, now, -1, -1))
                return

    def _told(self, payload: bytes) -> None:
        try:
            _, answer = decode_response(ApiKey.METADATA, METADATA_VERSION, payload)
        except WireError:
            return
        for topic in answer.topics:
            for partition in topic.partitions:
                if topic.name != self._params.topic or (
                    int(partition.partition_index) != self._params.partition
                ):
                    continue
                leader, leader_epoch = int(partition.leader_id), int(partition.leader_epoch)
                now = time.monotonic_ns()
                if (
                    self._newer_than is not None
                    and leader in self._data
                    and (leader == self.leader or now >= self._patient_until_ns)
                    and leader_epoch + (now >= self._same_from_ns) > self._newer_than
                ):
                    self.leader, self.leader_epoch = leader, leader_epoch
                    self._newer_than = None

    # -- what came back ---------------------------------------------------------------------------

    def _answered(self, channel: Channel, payload: bytes, t: int) -> None:
        sent: _Produce = channel.tag
        if sent.op < 0:
            self._told(payload)
            return
        self._free[channel.node].append(channel)
        try:
            _, results = decode_produce_response(VERSION, payload)
            result = results[0]
        except (WireError, IndexError) as error:
            self._complete(channel, sent, "info", t, failure=str(error) or "empty answer")
            return
        self._complete(
            channel,
            sent,
            produce_outcome(result.error, self._params.acks),
            t,
            error=result.error,
            offset=result.base_offset if result.error == 0 else -1,
            log_append_time_ms=result.log_append_time_ms,
        )
        # An answer to a request from before the last move says nothing about the leader of now.
        current = channel.node == self.leader and sent.leader_epoch == self.leader_epoch
        if result.error in _MOVED and current and self._newer_than is None:
            self._refresh(self.leader_epoch)

    def _lost(self, channel: Channel, reason: str, t: int) -> None:
        sent: _Produce = channel.tag
        if sent.op >= 0:
            self._complete(channel, sent, "info", t, failure=reason)

    def _complete(
        self, channel: Channel, sent: _Produce, outcome: str, t: int, **fields: Any
    ) -> None:
        assert self._recorder is not None
        params = self._params
        self._recorder.complete(
            "produce",
            sent.op,
            outcome,
            sent.invoke_t,
            t,
            node=channel.node,
            topic=params.topic,
            partition=params.partition,
            value=sent.value,
            acks=params.acks,
            leader_epoch=sent.leader_epoch,
            **fields,
        )

    def _drain(self) -> None:
        """Wait a little for the answers that are under way; the rest stay invocations (info)."""
        end = time.monotonic_ns() + _DRAIN_NS
        while time.monotonic_ns() < end and any(
            channel.state == "busy" and channel.tag.op >= 0 for channel in self._links.channels
        ):
            self._links.step(0.01)

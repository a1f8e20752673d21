"""Who is told what: every broker asked for the topics' metadata on a clock, each on its own way.

Reads go to each broker by itself (a client library would ask whichever it likes), over one
connection a broker. A read that is still unanswered when the next is due delays it: a broker that
answers late is seen late, as any client would see it. After ``timeout_ms`` the read is `info` and
the connection made anew.

Every answer leaves a row for each topic that was asked for: one a partition, or one without a
partition that says how the topic was not told. Topics may be named that do not exist yet or any
more: what brokers say of those is evidence as well.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from harness.workload.lifecycle import Lifecycle
from harness.workload.links import Channel, Links
from harness.workload.pacing import Clock
from harness.workload.recorder import LiveRecorder
from harness.workload.spec import WorkloadError, WorkloadSpec
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import WireError, build, decode_response, encode_request

VERSION: Final = 7  # the first that tells leader epochs (Kafka 2.1)
_CONNECT_S: Final = 20.0
_TELLING: Final = (0, 5, 9, 72)


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topics`` under test; ``rate_per_s`` reads a second of each broker."""

    topics: tuple[str, ...]
    rate_per_s: float = 20.0
    timeout_ms: int = 10_000

    def __post_init__(self) -> None:
        if self.rate_per_s <= 0:
            raise ValueError("field 'params.rate_per_s': allowed: above 0")


def metadata_request(topics: tuple[str, ...], client_id: str) -> bytes:
    """A Metadata request that never creates a topic."""
    request = build(
        request_class(ApiKey.METADATA, VERSION),
        topics=[{"name": topic} for topic in topics],
        allow_auto_topic_creation=False,
    )
    return encode_request(request, 0, client_id)


class MetadataReader:
    """Everything happens on the thread that calls `run`."""

    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        self._spec, self._params = spec, params
        self._frame = metadata_request(params.topics, spec.process)
        self._reads = 0
        self._recorder: LiveRecorder | None = None
        self._links = Links(self._answered, self._lost)

    def run(self, recorder: LiveRecorder, life: Lifecycle) -> None:
        self._recorder = recorder
        channels = [
            self._links.add(node, self._spec.address(node)) for node in sorted(self._spec.bootstrap)
        ]
        try:
            if not self._links.dial_all(_CONNECT_S, lambda: life.over):
                raise WorkloadError(f"workload {self._spec.process!r}: not every broker answers")
            life.ready()
            start = time.monotonic_ns()
            # Brokers are asked in turn, not all at once.
            period_ns = int(1e9 / self._params.rate_per_s)
            clocks = [
                Clock(
                    self._params.rate_per_s, start + period_ns * i // len(channels), max_behind_ns=0
                )
                for i in range(len(channels))
            ]
            while not life.over:
                now = time.monotonic_ns()
                for channel, clock in zip(channels, clocks, strict=True):
                    self._serve(channel, clock, now)
                self._links.step(min(clock.wait_s(time.monotonic_ns(), 0.05) for clock in clocks))
        finally:
            self._links.close()

    def _serve(self, channel: Channel, clock: Clock, now: int) -> None:
        if channel.state == "busy":
            _, invoke_t = channel.tag
            if now - invoke_t > self._params.timeout_ms * 1_000_000:
                self._links.drop(channel, "timeout")
        if clock.take(now) is None or channel.state != "free":
            return
        assert self._recorder is not None
        read = self._reads
        self._reads += 1
        invoke_t = time.monotonic_ns()
        self._recorder.invoke("metadata", read, invoke_t, node=channel.node, read=read)
        self._links.send(channel, self._frame, (read, invoke_t))

    def _answered(self, channel: Channel, payload: bytes, t: int) -> None:
        read, invoke_t = channel.tag
        assert self._recorder is not None
        try:
            _, answer = decode_response(ApiKey.METADATA, VERSION, payload)
        except WireError as error:
            self._recorder.complete(
                "metadata",
                read,
                "info",
                invoke_t,
                t,
                node=channel.node,
                read=read,
                failure=str(error),
            )
            return
        named = {str(topic.name): topic for topic in answer.topics}
        whole: dict[str, Any] = {"controller_id": int(answer.controller_id)}
        once = {"brokers": sorted(int(broker.node_id) for broker in answer.brokers)}
        for name in self._params.topics:
            self._topic(channel, t, {**whole, **once}, name, named.get(name))
            once = {}

    def _topic(
        self, channel: Channel, t: int, whole: dict[str, Any], name: str, topic: Any | None
    ) -> None:
        """What the answer says of one topic that was asked for: of its partitions, or that it is
        not known, or (which no broker should do) nothing. ``whole``: what it says besides."""
        read, invoke_t = channel.tag
        common: dict[str, Any] = {"node": channel.node, "read": read, "topic": name, **whole}
        assert self._recorder is not None
        complete = self._recorder.complete
        if topic is None:
            why = "not named"
            complete("metadata", read, "fail", invoke_t, t, error=0, failure=why, **common)
        elif not topic.partitions:
            error = int(topic.error_code)
            why = "no partition was told"
            complete("metadata", read, "fail", invoke_t, t, error=error, failure=why, **common)
        for partition in () if topic is None else topic.partitions:
            error = int(partition.error_code)
            complete(
                "metadata",
                read,
                # LEADER_NOT_AVAILABLE (5), REPLICA_NOT_AVAILABLE (9) and LISTENER_NOT_FOUND (72)
                # come with what the broker knows
                "ok" if error in _TELLING else "fail",
                invoke_t,
                t,
                error=error,
                partition=int(partition.partition_index),
                leader=int(partition.leader_id),
                leader_epoch=int(partition.leader_epoch),
                isr=[int(replica) for replica in partition.isr_nodes],
                **common,
            )
            common.pop("brokers", None)

    def _lost(self, channel: Channel, reason: str, t: int) -> None:
        read, invoke_t = channel.tag
        assert self._recorder is not None
        self._recorder.complete(
            "metadata", read, "info", invoke_t, t, node=channel.node, read=read, failure=reason
        )

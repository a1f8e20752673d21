"""Who is told what: every broker asked for the topics' metadata on a clock, each on its own way.

A read that is lost (`harness.workload.asking`) is `info`.

Every answer leaves a row for each topic that was asked for: one a partition, or one without a
partition that says how the topic was not told. Topics may be named that do not exist yet or any
more: what brokers say of those is evidence as well.
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

VERSION: Final = 7  # the first that tells leader epochs (Kafka 2.1)
_TELLING: Final = (0, 5, 9, 72)


@dataclass(frozen=True, slots=True, kw_only=True)
class Params:
    """``topics`` under test; ``rate_per_s`` reads a second of each broker."""

    topics: tuple[str, ...]
    rate_per_s: float = 20.0
    timeout_ms: int = 10_000


def metadata_request(topics: tuple[str, ...], client_id: str) -> bytes:
    """A Metadata request that never creates a topic."""
    request = build(
        request_class(ApiKey.METADATA, VERSION),
        topics=[{"name": topic} for topic in topics],
        allow_auto_topic_creation=False,
    )
    return encode_request(request, 0, client_id)


class _Read(NamedTuple):
    """In flight."""

    read: int
    invoke_t: int


class MetadataReader(AskEach):
    def __init__(self, spec: WorkloadSpec, params: Params) -> None:
        super().__init__(spec, params)
        self._topics = params.topics
        self._frame = metadata_request(params.topics, spec.process)
        self._reads = 0

    def ask(self, channel: Channel) -> None:
        sent = _Read(self._reads, time.monotonic_ns())
        self._reads += 1
        self.recorder.invoke(
            "metadata", sent.read, sent.invoke_t, node=channel.node, read=sent.read
        )
        self._links.send(channel, self._frame, sent)

    def answered(self, channel: Channel, payload: bytes, t: int) -> None:
        read, invoke_t = channel.tag
        try:
            _, answer = decode_response(ApiKey.METADATA, VERSION, payload)
        except WireError as error:
            self.recorder.complete(
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
        once: dict[str, Any] = {
            "brokers": sorted(int(broker.node_id) for broker in answer.brokers),
            "endpoints": sorted(f"{b.node_id}@{b.host}:{b.port}" for b in answer.brokers),
            "asked_at": "{}:{}".format(*channel.address),
        }
        for name in self._topics:
            self._topic(channel, t, {**whole, **once}, name, named.get(name))
            once = {}

    def _topic(
        self, channel: Channel, t: int, whole: dict[str, Any], name: str, topic: Any | None
    ) -> None:
        """What the answer says of one topic that was asked for: of its partitions, or that it is
        not known, or (which no broker should do) nothing. ``whole``: what it says besides."""
        read, invoke_t = channel.tag
        common: dict[str, Any] = {"node": channel.node, "read": read, "topic": name, **whole}
        complete = self.recorder.complete
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
                replicas=[int(replica) for replica in partition.replica_nodes],
                offline=[int(replica) for replica in partition.offline_replicas],
                **common,
            )
            for name_of_once in ("brokers", "endpoints", "asked_at"):
                common.pop(name_of_once, None)

    def lost(self, channel: Channel, reason: str, t: int) -> None:
        read, invoke_t = channel.tag
        self.recorder.complete(
            "metadata", read, "info", invoke_t, t, node=channel.node, read=read, failure=reason
        )

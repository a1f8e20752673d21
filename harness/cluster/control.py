"""Speaks as a controller: LeaderAndIsr 7, UpdateMetadata 8 and StopReplica 4, the versions that a
Kafka 3.9 controller sends, with whatever epochs the caller says.

Requests go through the proxy of the chosen link, as a real controller's do. Each goes over a
connection of its own with a client id of its own, so that the receiving broker's trace can be tied
to it. An answer that does not come is an answer too (`ControlAnswer.failure`): the request may have
been applied.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from faults.protocol import ControlAnswer, Link, Links, PartitionState
from harness.cluster import state
from harness.cluster.ask import request
from harness.cluster.view import StateView
from nodes.wire.apis import ApiKey
from nodes.wire.client import Connection, ConnectionFailed, RequestTimedOut
from nodes.wire.codec import WireError

PartitionErrors = Mapping[tuple[str, int], int]


class ControlClient:
    """Implements `faults.protocol.ControlRequests`. Thread-safe."""

    def __init__(
        self,
        view: StateView,
        links: Links,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._view = view
        self._links = links
        self._now_ns = now_ns
        self._numbers: Final = itertools.count(1)

    def leader_and_isr(
        self,
        node: int,
        link: Link,
        *,
        controller_id: int,
        controller_epoch: int,
        broker_epoch: int,
        states: Sequence[PartitionState],
        timeout_s: float = 5.0,
    ) -> ControlAnswer:
        ids = {topic.name: topic.topic_id for topic in self._view.topics()}
        leaders = {s.leader for s in states}
        entity = request(
            ApiKey.LEADER_AND_ISR,
            7,
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            type_=0,
            topic_states=[
                {
                    "topic_name": topic,
                    "topic_id": state.topic_uuid(ids.get(topic)),
                    "partition_states": [
                        {
                            **_common(s),
                            "partition_epoch": s.partition_epoch,
                            "adding_replicas": [],
                            "removing_replicas": [],
                            "is_new": False,
                        }
                        for s in mine
                    ],
                }
                for topic, mine in _by_topic(states).items()
            ],
            live_leaders=[
                {"broker_id": r.node, "host_name": e.host, "port": e.port}
                for r in self._view.registrations().values()
                if r.node in leaders
                for e in r.endpoints[:1]
            ],
        )
        names = {state.topic_uuid(topic_id): name for name, topic_id in ids.items()}

        def errors(answer: Any) -> PartitionErrors:
            return {
                (names.get(topic.topic_id, str(topic.topic_id)), p.partition_index): int(
                    p.error_code
                )
                for topic in answer.topics
                for p in topic.partition_errors
            }

        return self._send(node, link, entity, errors, timeout_s)

    def update_metadata(
        self,
        node: int,
        link: Link,
        *,
        controller_id: int,
        controller_epoch: int,
        broker_epoch: int,
        states: Sequence[PartitionState],
        timeout_s: float = 5.0,
    ) -> ControlAnswer:
        ids = {topic.name: topic.topic_id for topic in self._view.topics()}
        entity = request(
            ApiKey.UPDATE_METADATA,
            8,
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=[
                {
                    "topic_name": topic,
                    "topic_id": state.topic_uuid(ids.get(topic)),
                    "partition_states": [
                        {**_common(s), "zk_version": s.partition_epoch, "offline_replicas": []}
                        for s in mine
                    ],
                }
                for topic, mine in _by_topic(states).items()
            ],
            live_brokers=[
                {
                    "id_": r.node,
                    "rack": r.rack,
                    "endpoints": [
                        {
                            "port": e.port,
                            "host": e.host,
                            "listener": e.listener,
                            "security_protocol": e.security_protocol,
                        }
                        for e in r.endpoints
                    ],
                }
                for r in self._view.registrations().values()
            ],
        )
        return self._send(node, link, entity, lambda _: {}, timeout_s)

    def stop_replica(
        self,
        node: int,
        link: Link,
        *,
        controller_id: int,
        controller_epoch: int,
        broker_epoch: int,
        states: Sequence[PartitionState],
        delete: bool,
        timeout_s: float = 5.0,
    ) -> ControlAnswer:
        entity = request(
            ApiKey.STOP_REPLICA,
            4,
            controller_id=controller_id,
            controller_epoch=controller_epoch,
            broker_epoch=broker_epoch,
            topic_states=[
                {
                    "topic_name": topic,
                    "partition_states": [
                        {
                            "partition_index": s.partition,
                            "leader_epoch": s.leader_epoch,
                            "delete_partition": delete,
                        }
                        for s in mine
                    ],
                }
                for topic, mine in _by_topic(states).items()
            ],
        )

        def errors(answer: Any) -> PartitionErrors:
            return {
                (p.topic_name, p.partition_index): int(p.error_code)
                for p in answer.partition_errors
            }

        return self._send(node, link, entity, errors, timeout_s)

    def _send(
        self,
        node: int,
        link: Link,
        entity: Any,
        errors: Callable[[Any], PartitionErrors],
        timeout_s: float,
    ) -> ControlAnswer:
        client_id = f"biplane-forger-{next(self._numbers)}"
        host, port = self._links.address(node, link)
        error: int | None = None
        failure: str | None = None
        partition_errors: PartitionErrors = {}
        invoke_t = self._now_ns()
        with Connection(host, port, client_id, timeout_s) as connection:
            try:
                answer = connection.request(entity)
                error, partition_errors = int(answer.error_code), errors(answer)
            except RequestTimedOut:
                failure = "timeout"
            except ConnectionFailed:
                failure = "disconnect"
            except WireError as e:
                failure = f"malformed answer: {e}"
            correlation_id = connection.last_correlation_id
        return ControlAnswer(
            invoke_t=invoke_t,
            t=self._now_ns(),
            error=error,
            partition_errors=partition_errors,
            failure=failure,
            correlation_id=correlation_id,
            client_id=client_id,
        )


def _common(s: PartitionState) -> dict[str, Any]:
    return {
        "partition_index": s.partition,
        "controller_epoch": s.controller_epoch,
        "leader": s.leader,
        "leader_epoch": s.leader_epoch,
        "isr": list(s.isr),
        "replicas": list(s.replicas),
    }


def _by_topic(states: Sequence[PartitionState]) -> Mapping[str, list[PartitionState]]:
    grouped: dict[str, list[PartitionState]] = defaultdict(list)
    for s in states:
        grouped[s.topic].append(s)
    return grouped

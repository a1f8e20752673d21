"""Speaks as a controller (see `control_requests`), with whatever epochs the caller says.

Requests go through the proxy of the chosen link, as a real controller's do. Each goes over a
connection of its own with a client id of its own, so that the receiving broker's trace can be tied
to it. An answer that does not come is an answer too (`ControlAnswer.failure`): the request may have
been applied.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from checkers.history.schema import FORGER
from faults.protocol import ControlAnswer, Link, Links, PartitionState
from harness.cluster import control_requests, state
from harness.cluster.control_requests import Sender
from harness.cluster.view import StateView
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
        sender = _sender(controller_id, controller_epoch, broker_epoch)
        ids, registrations = self._topic_ids(), self._view.registrations()
        entity = control_requests.leader_and_isr(sender, states, ids, registrations)
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
        sender = _sender(controller_id, controller_epoch, broker_epoch)
        ids, registrations = self._topic_ids(), self._view.registrations()
        entity = control_requests.update_metadata(sender, states, ids, registrations)
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
        sender = _sender(controller_id, controller_epoch, broker_epoch)
        entity = control_requests.stop_replica(sender, states, delete=delete)

        def errors(answer: Any) -> PartitionErrors:
            return {
                (p.topic_name, p.partition_index): int(p.error_code)
                for p in answer.partition_errors
            }

        return self._send(node, link, entity, errors, timeout_s)

    def controlled_shutdown(
        self, node: int, link: Link, *, broker: int, broker_epoch: int, timeout_s: float = 5.0
    ) -> ControlAnswer:
        entity = control_requests.controlled_shutdown(broker, broker_epoch)
        return self._send(node, link, entity, lambda _: {}, timeout_s)

    def _topic_ids(self) -> dict[str, str | None]:
        return {topic.name: topic.topic_id for topic in self._view.topics()}

    def _send(
        self,
        node: int,
        link: Link,
        entity: Any,
        errors: Callable[[Any], PartitionErrors],
        timeout_s: float,
    ) -> ControlAnswer:
        client_id = f"{FORGER}{next(self._numbers)}"
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


def _sender(controller_id: int, controller_epoch: int, broker_epoch: int) -> Sender:
    return Sender(
        controller_id=controller_id, controller_epoch=controller_epoch, broker_epoch=broker_epoch
    )

"""What controllers tell brokers, and what brokers tell the controller.

LeaderAndIsr, StopReplica and UpdateMetadata are first held against this broker's own epoch: a
request meant for its previous life is refused with STALE_BROKER_EPOCH before anything is looked at
(-1 says "any"). The controller epoch and the leader epochs are ReplicaManager's to judge, under its
lock. Nothing here asks which listener a request came in on: KIP-291 separates queues, it guards
nothing (reference sheet, section 5).

Each of the three leaves one `control_request` event once its response is in the socket, with the
times of its whole way through this broker. `handled_t` is taken here, when the answer is ready: the
response may be sent before the handler thread has come back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from nodes.api.answers import answer, frame_of
from nodes.api.topic_names import OFFSETS_TOPIC
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.replication.control_requests import stop_states
from nodes.wire.apis import ApiKey

if TYPE_CHECKING:
    from nodes.api.delayed import DelayedOperations
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

log = logging.getLogger("kafka.server.KafkaApis")

Row = dict[str, Any]


class ControlApis:
    """Stateless; runs on any handler thread."""

    def __init__(self, services: Services, delayed: DelayedOperations) -> None:
        self._services = services
        self._delayed = delayed

    # ---- from the controller ---------------------------------------------------------------------

    def leader_and_isr(self, request: Request) -> None:
        body, own = request.body, self._services.broker_epoch()
        found: dict[tuple[str, int], int] = {}
        if self._is_stale(request, own):
            error = int(Errors.STALE_BROKER_EPOCH)
        else:
            result = self._services.replica_manager.become_leader_or_follower(
                request.correlation_id, body
            )
            error = int(result.error)
            found = {(e.topic, e.partition): int(e.error) for e in result.partition_errors}

        def errors(topic: str, partition: int) -> int:
            # A partition that nothing is said of shares the request's fate.
            return found.get((topic, partition), error)

        frame = frame_of(request, _leader_and_isr_answer(request, error, errors))
        self._finish(request, frame, own, error, lambda: _leader_rows(body, errors))

    def stop_replica(self, request: Request) -> None:
        body, own = request.body, self._services.broker_epoch()
        found: dict[tuple[str, int], int] = {}
        if self._is_stale(request, own):
            error = int(Errors.STALE_BROKER_EPOCH)
        else:
            result = self._services.replica_manager.stop_replicas(request.correlation_id, body)
            error = int(result.error)
            found = {(e.topic, e.partition): int(e.error) for e in result.partition_errors}
            for state in stop_states(body):
                # Who is only stopped is still the leader, if it was: nobody would elect it anew.
                if state.tp.topic == OFFSETS_TOPIC and state.delete and not found[state.tp]:
                    self._services.groups.on_resignation(state.tp.partition)
        # A request refused as a whole is answered without a list of partitions.
        fields = {
            "error_code": error,
            "partition_errors": [
                {"topic_name": topic, "partition_index": partition, "error_code": code}
                for (topic, partition), code in found.items()
                if not error
            ],
        }
        self._finish(
            request, frame_of(request, fields), own, error, lambda: _stop_rows(body, found, error)
        )

    def update_metadata(self, request: Request) -> None:
        body, own = request.body, self._services.broker_epoch()
        if self._is_stale(request, own):
            error = int(Errors.STALE_BROKER_EPOCH)
        else:
            result = self._services.replica_manager.maybe_update_metadata_cache(
                request.correlation_id, body
            )
            error = int(result.error)
            if result.deleted:
                self._services.groups.on_partitions_deleted(result.deleted)
            if not error:
                self._delayed.check(str(topic.topic_name) for topic in body.topic_states)
        frame = frame_of(request, {"error_code": error})
        self._finish(request, frame, own, error, lambda: _metadata_rows(body, error))

    def _is_stale(self, request: Request, own: int) -> bool:
        body = request.body
        stale = self._services.replica_manager.rules.broker_epoch_is_stale(
            int(body.broker_epoch), own
        )
        if stale:
            log.info(
                "[KafkaApi-%d] Received %s request with broker epoch %d smaller than the current "
                "broker epoch %d from controller %d with epoch %d.",
                self._services.config.broker_id,
                ApiKey(request.api_key).display_name,
                body.broker_epoch,
                own,
                body.controller_id,
                body.controller_epoch,
            )
        return stale

    def _finish(
        self,
        request: Request,
        frame: bytes,
        own_broker_epoch: int,
        error: int,
        rows: Callable[[], list[Row]],
    ) -> None:
        trace = self._services.trace
        if trace.enabled:
            handled_ns = self._services.now_ns()
            body = request.body

            def on_sent(sent_ns: int) -> None:
                trace.event(
                    "control_request",
                    t=sent_ns,
                    api=ApiKey(request.api_key).name,
                    version=request.api_version,
                    correlation_id=request.correlation_id,
                    client_id=request.client_id,
                    plane=request.plane,
                    listener=request.listener,
                    controller_id=int(body.controller_id),
                    controller_epoch=int(body.controller_epoch),
                    broker_epoch=int(body.broker_epoch),
                    own_broker_epoch=own_broker_epoch,
                    receive_t=request.receive_ns,
                    enqueue_t=request.enqueue_ns,
                    dequeue_t=request.dequeue_ns,
                    handled_t=handled_ns,
                    error=error,
                    partitions=rows(),
                )

            request.on_sent = on_sent
        request.respond(frame)

    # ---- to the controller -----------------------------------------------------------------------

    def controlled_shutdown(self, request: Request) -> None:
        body = request.body
        # Version 0 knows no broker epochs: -1 lets it pass, as for any request without one.
        broker_epoch = int(getattr(body, "broker_epoch", -1))

        def respond(error: Errors, remaining: Collection[TopicPartition]) -> None:
            answer(
                request,
                error_code=error,
                remaining_partitions=[
                    {"topic_name": tp.topic, "partition_index": tp.partition} for tp in remaining
                ],
            )

        self._services.controller.controlled_shutdown(int(body.broker_id), broker_epoch, respond)

    def alter_partition(self, request: Request) -> None:
        controller = self._services.controller
        if not controller.is_active:
            answer(request, error_code=Errors.NOT_CONTROLLER, topics=[])
            return

        def respond(fields: Mapping[str, Any]) -> None:
            answer(request, **fields)

        controller.alter_partitions(request.body, respond)


def _leader_and_isr_answer(
    request: Request, error: int, errors: Callable[[str, int], int]
) -> Mapping[str, Any]:
    """Partition errors lie under the topic's id from version 5 on (those of all that have none
    together, unless the request is refused), flat with its name before."""
    rows = [
        (topic, {"partition_index": p.partition_index, "error_code": code})
        for topic in request.body.topic_states
        for p in topic.partition_states
        for code in [errors(str(topic.topic_name), int(p.partition_index))]
    ]
    if not error:  # of what is named twice one row
        named = {(str(t.topic_name), row["partition_index"]): (t, row) for t, row in rows}
        rows = list(named.values())
    if request.api_version >= 5:
        grouped: dict[Any, Row] = {}
        for topic, row in rows:
            key = topic.topic_name if error else topic.topic_id
            found = grouped.setdefault(key, {"topic_id": topic.topic_id, "partition_errors": []})
            found["partition_errors"].append(row)
        return {"error_code": error, "topics": list(grouped.values())}
    flat = [{"topic_name": topic.topic_name, **row} for topic, row in rows]
    return {"error_code": error, "partition_errors": flat}


def _leader_rows(body: Any, errors: Callable[[str, int], int]) -> list[Row]:
    return [
        {
            "topic": str(topic.topic_name),
            "partition": int(p.partition_index),
            "leader": int(p.leader),
            "leader_epoch": int(p.leader_epoch),
            "error": errors(str(topic.topic_name), int(p.partition_index)),
        }
        for topic in body.topic_states
        for p in topic.partition_states
    ]


def _metadata_rows(body: Any, error: int) -> list[Row]:
    return _leader_rows(body, lambda _topic, _partition: error)


def _stop_rows(body: Any, found: Mapping[tuple[str, int], int], error: int) -> list[Row]:
    """Versions 1 and 2 name partitions without leader epochs."""
    rows: list[tuple[str, int, int | None]] = []
    for topic in getattr(body, "topic_states", ()):
        name = str(topic.topic_name)
        rows += [
            (name, int(p.partition_index), int(p.leader_epoch)) for p in topic.partition_states
        ]
    for topic in getattr(body, "topics", ()):
        rows += [(str(topic.name), int(p), None) for p in topic.partition_indexes]
    return [
        {
            "topic": topic,
            "partition": partition,
            "leader": None,
            "leader_epoch": leader_epoch,
            "error": found.get((topic, partition), error),
        }
        for topic, partition, leader_epoch in rows
    ]

"""Leadership on request: ElectLeaders, and the reassignment of replicas.

All three are the controller's work; any other broker answers NOT_CONTROLLER. An election is
answered when this broker's metadata shows the new leaders, or after the request's timeout,
whichever is first (Kafka's DelayedElectLeader).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from nodes.api.answers import answer, by_topic, millis
from nodes.api.failures import fail
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition

if TYPE_CHECKING:
    from nodes.api.delayed import DelayedOperations
    from nodes.api.services import Services
    from nodes.controller.results import Result
    from nodes.core.assignment import ReplicaAssignment
    from nodes.network.request_channel import Request

PREFERRED: Final = 0
UNCLEAN: Final = 1


class ElectionApis:
    """Stateless; runs on handler threads, its callbacks on the controller's event thread."""

    def __init__(self, services: Services, delayed: DelayedOperations) -> None:
        self._services = services
        self._delayed = delayed

    # ---- ElectLeaders ----------------------------------------------------------------------------

    def elect_leaders(self, request: Request) -> None:
        body = request.body
        # Version 0 can only ask for the preferred leader.
        election_type = int(getattr(body, "election_type", PREFERRED))
        if election_type not in (PREFERRED, UNCLEAN):
            fail(request, Errors.INVALID_REQUEST, f"Unknown election type {election_type}")
            return
        asked_for_all = body.topic_partitions is None
        if asked_for_all:
            topics = self._services.metadata_cache.topics()
            partitions = [TopicPartition(t, p) for t, states in topics.items() for p in states]
        else:
            partitions = [
                TopicPartition(str(t.topic), int(p))
                for t in body.topic_partitions
                for p in t.partitions
            ]
        if not self._services.controller.is_active:
            results = dict.fromkeys(partitions, (Errors.NOT_CONTROLLER, None))
            _answer_elections(request, {} if asked_for_all else results, Errors.NOT_CONTROLLER)
            return

        def respond(results: Mapping[TopicPartition, Result]) -> None:
            elected = {tp: result.leader for tp, result in results.items() if not result.error}

            def finish() -> None:
                rows = {
                    tp: (Errors.REQUEST_TIMED_OUT, None)
                    if tp in elected and not self._is_led(tp, elected[tp])
                    else (result.error, result.message)
                    for tp, result in results.items()
                    # Who asks for every partition hears only of those where something happened.
                    if not (asked_for_all and result.error == Errors.ELECTION_NOT_NEEDED)
                }
                _answer_elections(request, rows)

            self._delayed.wait(
                {tp.topic for tp in elected},
                millis(body.timeout),
                lambda: all(self._is_led(tp, leader) for tp, leader in elected.items()),
                finish,
            )

        self._services.controller.elect_leaders(election_type, partitions, respond)

    def _is_led(self, tp: TopicPartition, leader: int) -> bool:
        """Whether this broker's metadata shows the elected leader."""
        state = self._services.metadata_cache.partition_state(tp.topic, tp.partition)
        return state is not None and state.leader == leader

    # ---- reassignment ----------------------------------------------------------------------------

    def alter_reassignments(self, request: Request) -> None:
        if not self._services.controller.is_active:
            answer(request, error_code=Errors.NOT_CONTROLLER, responses=[])
            return
        reassignments = {
            TopicPartition(str(topic.name), int(p.partition_index)): (
                None if p.replicas is None else tuple(int(r) for r in p.replicas)
            )
            for topic in request.body.topics
            for p in topic.partitions
        }

        def respond(error: Errors, results: Mapping[TopicPartition, Result]) -> None:
            grouped = by_topic(
                (
                    tp.topic,
                    {
                        "partition_index": tp.partition,
                        "error_code": result.error,
                        "error_message": result.message,
                    },
                )
                for tp, result in results.items()
                if not error
            )
            answer(
                request,
                error_code=error,
                responses=[{"name": t, "partitions": rows} for t, rows in grouped.items()],
            )

        self._services.controller.alter_reassignments(reassignments, respond)

    def list_reassignments(self, request: Request) -> None:
        if not self._services.controller.is_active:
            answer(request, error_code=Errors.NOT_CONTROLLER, topics=[])
            return
        asked = request.body.topics
        partitions = (
            None
            if asked is None
            else [
                TopicPartition(str(topic.name), int(p))
                for topic in asked
                for p in topic.partition_indexes
            ]
        )

        def respond(error: Errors, found: Mapping[TopicPartition, ReplicaAssignment]) -> None:
            grouped = by_topic(
                (
                    tp.topic,
                    {
                        "partition_index": tp.partition,
                        "replicas": assignment.replicas,
                        "adding_replicas": assignment.adding_replicas,
                        "removing_replicas": assignment.removing_replicas,
                    },
                )
                for tp, assignment in found.items()
            )
            answer(
                request,
                error_code=error,
                topics=[{"name": t, "partitions": rows} for t, rows in grouped.items()],
            )

        self._services.controller.list_reassignments(partitions, respond)


def _answer_elections(
    request: Request,
    results: Mapping[TopicPartition, tuple[Errors, str | None]],
    error: Errors = Errors.NONE,
) -> None:
    grouped: dict[str, list[dict[str, Any]]] = by_topic(
        (
            tp.topic,
            {"partition_id": tp.partition, "error_code": code, "error_message": message},
        )
        for tp, (code, message) in results.items()
    )
    answer(
        request,
        error_code=error,
        replica_election_results=[
            {"topic": topic, "partition_result": rows} for topic, rows in grouped.items()
        ],
    )

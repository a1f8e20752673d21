"""ISR changes that leaders ask for (AlterPartition, KIP-497).

The rule for one partition is `nodes.core.proposed_isr`. What is accepted is written over the
partition epoch that the leader had seen, with its leader epoch unchanged; all brokers are told by
UpdateMetadata; and since a replica that joins an ISR may be the last that a reassignment waited
for, those are looked at afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from nodes.controller.event_manager import ControllerState, Event
from nodes.controller.parts import Parts
from nodes.controller.reassignment import Reassignments
from nodes.core.errors import Errors
from nodes.core.leader_and_isr import LeaderAndIsr
from nodes.core.proposed_isr import judge_proposal
from nodes.core.types import TopicPartition

log = logging.getLogger("kafka.controller.KafkaController")

Respond = Callable[[dict[str, Any]], None]


class AlterPartitions:
    """Event thread only, but for `alter`, which enqueues."""

    def __init__(self, parts: Parts, reassignments: Reassignments) -> None:
        self._parts = parts
        self._reassignments = reassignments

    def alter(self, request: Any, respond: Respond) -> None:
        """Any thread. `respond` gets the fields of an AlterPartitionResponse."""

        def run() -> None:
            answered = False

            def once(fields: dict[str, Any]) -> None:
                nonlocal answered
                answered = True
                respond(fields)

            try:
                self._alter(request, once)
            finally:
                if not answered:
                    respond(_refusal(Errors.UNKNOWN_SERVER_ERROR))

        # Kafka lets a dropped AlterPartition time out; the leader is better served by an answer.
        self._parts.put(
            Event(
                "AlterPartitionReceived",
                ControllerState.ISR_CHANGE,
                run,
                lambda: respond(_refusal(Errors.NOT_CONTROLLER)),
            )
        )

    def _alter(self, request: Any, respond: Respond) -> None:
        context = self._parts.context
        if not self._parts.is_active():
            respond(_refusal(Errors.NOT_CONTROLLER))
            return
        if context.broker_epochs.get(request.broker_id) != request.broker_epoch:
            log.info("Ignoring AlterPartition of broker %d: stale broker epoch", request.broker_id)
            respond(_refusal(Errors.STALE_BROKER_EPOCH))
            return
        results: dict[TopicPartition, LeaderAndIsr | Errors] = {}
        accepted: dict[TopicPartition, LeaderAndIsr] = {}
        topics = []
        for topic in request.topics:
            name = context.topic_names.get(topic.topic_id)
            if name is None:
                topics.append(_unknown_topic(topic))
                continue
            for partition in topic.partitions:
                tp = TopicPartition(name, int(partition.partition_index))
                proposed = _proposed(int(request.broker_id), partition)
                info = context.partition_leadership_info(tp)
                current = None if info is None else info.leader_and_isr
                verdict = judge_proposal(proposed, current, context.live_broker_ids)
                if verdict is None:
                    accepted[tp] = proposed
                else:
                    results[tp] = verdict
        results |= self._write(accepted)
        self._parts.send_update_metadata(context.live_or_shutting_down_broker_ids, [*results])
        by_topic: dict[str, list[dict[str, Any]]] = {}
        for tp, result in results.items():
            by_topic.setdefault(tp.topic, []).append(_partition_fields(tp, result))
        topics += [
            {"topic_id": context.topic_ids.get(name), "partitions": partitions}
            for name, partitions in by_topic.items()
        ]
        respond({"throttle_time": 0, "error_code": 0, "topics": topics})
        for tp, result in results.items():
            if isinstance(result, LeaderAndIsr):
                self._reassignments.maybe_complete(tp)

    def _write(
        self, accepted: dict[TopicPartition, LeaderAndIsr]
    ) -> dict[TopicPartition, LeaderAndIsr | Errors]:
        results: dict[TopicPartition, LeaderAndIsr | Errors] = {}
        written = self._parts.states.update(accepted)
        for tp, state in written.states.items():
            results[tp] = state.leader_and_isr
        for tp in written.retry:
            results[tp] = Errors.INVALID_UPDATE_VERSION
        for tp, error in written.errors.items():
            log.error("Failed to update ISR for partition %s: %r", tp, error)
            results[tp] = Errors.UNKNOWN_SERVER_ERROR
        return results


def _proposed(broker_id: int, partition: Any) -> LeaderAndIsr:
    """The proposal of one partition, of request version 2 (bare ids) or 3 (with broker epochs)."""
    if hasattr(partition, "new_isr_with_epochs"):
        isr = tuple(int(broker.broker_id) for broker in partition.new_isr_with_epochs)
    else:
        isr = tuple(int(broker) for broker in partition.new_isr)
    return LeaderAndIsr(
        leader=broker_id,
        isr=isr,
        leader_epoch=int(partition.leader_epoch),
        partition_epoch=int(partition.partition_epoch),
        leader_recovery_state=int(partition.leader_recovery_state),
    )


def _partition_fields(tp: TopicPartition, result: LeaderAndIsr | Errors) -> dict[str, Any]:
    if isinstance(result, Errors):
        return {"partition_index": tp.partition, "error_code": int(result)}
    return {
        "partition_index": tp.partition,
        "error_code": 0,
        "leader_id": result.leader,
        "leader_epoch": result.leader_epoch,
        "isr": list(result.isr),
        "leader_recovery_state": result.leader_recovery_state,
        "partition_epoch": result.partition_epoch,
    }


def _unknown_topic(topic: Any) -> dict[str, Any]:
    return {
        "topic_id": topic.topic_id,
        "partitions": [
            {"partition_index": p.partition_index, "error_code": int(Errors.UNKNOWN_TOPIC_ID)}
            for p in topic.partitions
        ],
    }


def _refusal(error: Errors) -> dict[str, Any]:
    return {"throttle_time": 0, "error_code": int(error), "topics": []}

"""A broker asks to be relieved before it stops (ControlledShutdown, the controller's side).

From then on it counts as shutting down: it leads nothing new, and elections and ISRs leave it out.
What it leads goes to others; of what it follows it is told to stop, and taken out of the ISRs. The
answer lists what it still leads, because nobody else was in sync; it may ask again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from nodes.controller.context import PartitionAndReplica
from nodes.controller.event_manager import ControllerState, Event
from nodes.controller.partition_machine import CONTROLLED_SHUTDOWN
from nodes.controller.parts import Parts
from nodes.core.errors import ApiError, Errors
from nodes.core.partition_state_machine import PartitionState
from nodes.core.replica_state_machine import ReplicaState
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition

log = logging.getLogger("kafka.controller.KafkaController")

Respond = Callable[[Errors, Collection[TopicPartition]], None]


class ControlledShutdowns:
    """Event thread only, but for `shut_down`, which enqueues."""

    def __init__(self, parts: Parts, rules: Rules = RULES) -> None:
        self._parts = parts
        self._rules = rules

    def shut_down(self, broker_id: int, broker_epoch: int, respond: Respond) -> None:
        """Any thread. `broker_epoch` -1: not checked."""

        def run() -> None:
            try:
                remaining = self._shut_down(broker_id, broker_epoch)
            except ApiError as error:
                respond(error.error, ())
            except Exception:
                respond(Errors.UNKNOWN_SERVER_ERROR, ())
                raise
            else:
                respond(Errors.NONE, remaining)

        self._parts.put(
            Event(
                f"ControlledShutdown({broker_id})",
                ControllerState.CONTROLLED_SHUTDOWN,
                run,
                lambda: respond(Errors.STALE_CONTROLLER_EPOCH, ()),
            )
        )

    def _shut_down(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        parts, context = self._parts, self._parts.context
        if not parts.is_active():
            raise ApiError(Errors.STALE_CONTROLLER_EPOCH, "Controller moved to another broker")
        if broker_id not in context.broker_epochs:
            # Kafka trips where it has an epoch to compare, and nothing to compare it with.
            trips = broker_epoch != -1
            error = Errors.UNKNOWN_SERVER_ERROR if trips else Errors.BROKER_NOT_AVAILABLE
            raise ApiError(error, f"Broker id {broker_id} does not exist.")
        if broker_epoch != -1 and broker_epoch < context.broker_epochs[broker_id]:
            raise ApiError(
                Errors.STALE_BROKER_EPOCH,
                f"Broker {broker_id} has epoch {context.broker_epochs[broker_id]}",
            )
        log.info("[Controller id=%d] Shutting down broker %d", parts.config.broker_id, broker_id)
        context.shutting_down_broker_ids.add(broker_id)
        led: list[TopicPartition] = []
        followed: list[TopicPartition] = []
        for tp in context.partitions_on_broker(broker_id):
            if (
                len(context.partition_replica_assignment(tp)) > 1
                and context.partition_leadership_info(tp) is not None
                and not context.is_topic_queued_up_for_deletion(tp.topic)
            ):
                (led if context.leader_of(tp) == broker_id else followed).append(tp)
        remains = context.partition_leaders_on_broker
        counted = None if self._rules.counts_what_remains() else remains(broker_id)
        if not self._rules.hands_over():
            led = []
        parts.partitions.handle_state_changes(led, PartitionState.ONLINE, CONTROLLED_SHUTDOWN)
        parts.batch.new_batch()
        for tp in followed:
            parts.batch.add_stop_replica([broker_id], tp, delete=False)
        parts.batch.send()
        parts.replicas.handle_state_changes(
            [PartitionAndReplica(tp, broker_id) for tp in followed], ReplicaState.OFFLINE
        )
        if not self._rules.hands_over():
            return []
        return remains(broker_id) if counted is None else counted

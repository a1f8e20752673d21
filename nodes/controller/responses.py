"""What brokers answer to the controller's requests, and what follows from it.

Answers arrive on send threads and become events. An error at the top of an answer is only logged:
a broker that refuses (STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH) knows of a newer controller or
lives a newer life, and the watches will tell us so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from nodes.controller.context import PartitionAndReplica
from nodes.controller.event_manager import ControllerState, Event
from nodes.controller.parts import Parts
from nodes.core.batching import StopReplicaEntry
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.state_change_log import StateChangeLog, data
from nodes.wire.apis import ApiKey


class Responses:
    """`on_response` on send threads; the rest on the event thread."""

    def __init__(
        self,
        parts: Parts,
        on_replicas_become_offline: Callable[[Collection[PartitionAndReplica]], None],
    ) -> None:
        self._parts = parts
        self._log = StateChangeLog(f"[Controller id={parts.config.broker_id}] ")
        self._on_replicas_become_offline = on_replicas_become_offline

    def on_response(
        self, api_key: int, broker_id: int, response: Any, said: Mapping[TopicPartition, Any]
    ) -> None:
        """`said`: what the request had told about each partition."""
        error = int(response.error_code.value)
        if error and api_key != ApiKey.STOP_REPLICA and self._parts.is_active():
            self._log.error(
                "Received error %s in %s response %s from broker %d",
                _name_of(error),
                ApiKey(api_key).display_name,
                data(response, f"{type(response).__name__}Data"),
                broker_id,
            )
        if api_key == ApiKey.LEADER_AND_ISR and not error:
            self._parts.put(
                Event(
                    "LeaderAndIsrResponseReceived",
                    ControllerState.LEADER_AND_ISR_RESPONSE_RECEIVED,
                    lambda: self._on_leader_and_isr(broker_id, response),
                )
            )
        elif api_key == ApiKey.STOP_REPLICA:
            deleting = _deleting(said)
            if deleting:
                self._parts.put(
                    Event(
                        "TopicDeletionStopReplicaResponseReceived",
                        ControllerState.TOPIC_DELETION,
                        lambda: self._on_stop_replica(broker_id, error, response, deleting),
                    )
                )

    def _on_leader_and_isr(self, broker_id: int, response: Any) -> None:
        """A replica whose log directory has failed is as good as dead."""
        context = self._parts.context
        if not self._parts.is_active():
            return
        offline, online = set(), set()
        for topic in response.topics:
            name = context.topic_names.get(topic.topic_id)
            for partition in topic.partition_errors if name is not None else ():
                tp = TopicPartition(str(name), int(partition.partition_index))
                error = int(partition.error_code.value)
                if error == Errors.KAFKA_STORAGE_ERROR:
                    offline.add(tp)
                elif error == Errors.NONE:
                    online.add(tp)
        previous = context.replicas_on_offline_dirs.get(broker_id, set())
        current = (previous - online) | offline
        context.replicas_on_offline_dirs[broker_id] = current
        if current - previous:
            self._log.info(
                "Mark replicas %s on broker %d as offline",
                ",".join(f"{tp.topic}-{tp.partition}" for tp in sorted(current - previous)),
                broker_id,
            )
            self._on_replicas_become_offline(
                [PartitionAndReplica(tp, broker_id) for tp in sorted(current - previous)]
            )

    def _on_stop_replica(
        self, broker_id: int, error: int, response: Any, deleting: frozenset[TopicPartition]
    ) -> None:
        """Count deleted replicas. Only topics being deleted count, not reassignments' leavings."""
        context = self._parts.context
        if not self._parts.is_active():
            return
        failed: list[PartitionAndReplica] = []
        deleted: list[PartitionAndReplica] = []
        for partition in response.partition_errors:
            tp = TopicPartition(str(partition.topic_name), int(partition.partition_index))
            if tp not in deleting or tp.topic not in context.topics_with_deletion_started:
                continue
            replica = PartitionAndReplica(tp, broker_id)
            (failed if error or int(partition.error_code.value) else deleted).append(replica)
        self._parts.deletions.fail(failed)
        if deleted:
            self._parts.deletions.complete(deleted)


def _name_of(error: int) -> str:
    try:
        return Errors(error).name
    except ValueError:
        return str(error)


def _deleting(said: Mapping[TopicPartition, Any]) -> frozenset[TopicPartition]:
    return frozenset(
        tp for tp, entry in said.items() if isinstance(entry, StopReplicaEntry) and entry.delete
    )

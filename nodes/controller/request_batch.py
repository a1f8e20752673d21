"""Turns a batch into requests and puts them on the channels (Kafka's ControllerBrokerRequestBatch).

Order matters per broker: LeaderAndIsr, then UpdateMetadata, then StopReplica, so that a broker
learns its own role before its clients can see it, and stops last. Every request carries the broker
epoch under which its receiver registered: a broker that has bounced refuses what was meant for its
previous life (KIP-380).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from nodes.config import BrokerConfig
from nodes.controller.channel_manager import ControllerChannelManager
from nodes.controller.context import ControllerContext
from nodes.controller.send_thread import QueueItem
from nodes.core.batching import (
    Batch,
    BatchBuilder,
    LeaderAndIsrEntry,
    StopReplicaEntry,
    UpdateMetadataEntry,
)
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition
from nodes.state_change_log import StateChangeLog, data, of_controller
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import build

SECURITY_PROTOCOL_IDS: Final[Mapping[str, int]] = {
    "PLAINTEXT": 0,
    "SSL": 1,
    "SASL_PLAINTEXT": 2,
    "SASL_SSL": 3,
}
_LEADER_AND_ISR: Final = request_class(ApiKey.LEADER_AND_ISR, 7)
_UPDATE_METADATA: Final = request_class(ApiKey.UPDATE_METADATA, 8)
_STOP_REPLICA: Final = request_class(ApiKey.STOP_REPLICA, 4)

OnResponse = Callable[[int, int, Any, Mapping[TopicPartition, Any]], None]
"""(api key, broker id, response, what the request said per partition); on a send thread."""


class ControllerRequestBatch(BatchBuilder):
    """`send` sends what was added since `new_batch`. Event thread only."""

    def __init__(
        self,
        config: BrokerConfig,
        context: ControllerContext,
        channels: ControllerChannelManager,
        on_response: OnResponse,
        rules: Rules = RULES,
        *,
        now_ns: Callable[[], int],
    ) -> None:
        super().__init__(context, tells_all_of_elections=rules.tells_all_of_elections())
        self._config = config
        self._context = context
        self._channels = channels
        self._on_response = on_response
        self._now_ns = now_ns

    def send(self) -> None:
        batch = self.take()
        log = of_controller(self._config.broker_id, self._context.controller_epoch)
        self._send_leader_and_isr(batch, log)
        self._send_update_metadata(batch, log)
        self._send_stop_replica(batch, log)

    def _put(
        self,
        broker_id: int,
        entity: Any,
        entries: Mapping[TopicPartition, Any],
        partitions: list[dict[str, Any]],
        partition_epochs: list[int] | None = None,
    ) -> None:
        api_key = entity.__api_key__

        def on_response(response: Any) -> None:
            self._on_response(api_key, broker_id, response, entries)

        item = QueueItem(entity, on_response, self._now_ns(), partitions, partition_epochs)
        self._channels.send(broker_id, item)

    def _is_registered(self, broker_id: int) -> bool:
        return broker_id in self._context.broker_epochs

    def _header(self, broker_id: int) -> dict[str, Any]:
        return {
            "controller_id": self._config.broker_id,
            "controller_epoch": self._context.controller_epoch,
            "broker_epoch": self._context.broker_epochs.get(broker_id, -1),
        }

    def _topic_states(
        self, states: Iterable[tuple[TopicPartition, dict[str, Any]]], *, with_ids: bool
    ) -> list[dict[str, Any]]:
        topics: dict[str, dict[str, Any]] = {}
        for tp, state in states:
            topic = topics.get(tp.topic)
            if topic is None:
                topic = topics[tp.topic] = {"topic_name": tp.topic, "partition_states": []}
                if with_ids:
                    topic["topic_id"] = self._context.topic_ids.get(tp.topic)
            topic["partition_states"].append({"partition_index": tp.partition, **state})
        return list(topics.values())

    # ---- the three requests ----------------------------------------------------------------------

    def _send_leader_and_isr(self, batch: Batch, log: StateChangeLog) -> None:
        for broker_id, entries in batch.leader_and_isr.items():
            if not self._is_registered(broker_id):
                continue
            entity = build(
                _LEADER_AND_ISR,
                **self._header(broker_id),
                topic_states=self._topic_states(
                    ((tp, _leader_and_isr_state(entry)) for tp, entry in entries.items()),
                    with_ids=True,
                ),
                live_leaders=self._live_leaders(
                    {entry.state.leader_and_isr.leader for entry in entries.values()}
                ),
            )
            _log_leader_and_isr(log, broker_id, entity)
            self._put(broker_id, entity, entries, _traced(entries), _partition_epochs(entries))

    def _live_leaders(self, leader_ids: set[int]) -> list[dict[str, Any]]:
        leaders = []
        for broker_id in sorted(leader_ids):
            broker = self._context.live_brokers.get(broker_id)
            endpoint = broker and broker.endpoint(self._config.inter_broker_listener_name)
            if endpoint:
                leaders.append(
                    {"broker_id": broker_id, "host_name": endpoint.host, "port": endpoint.port}
                )
        return leaders

    def _send_update_metadata(self, batch: Batch, log: StateChangeLog) -> None:
        entries = batch.update_metadata
        receivers = sorted(filter(self._is_registered, batch.update_metadata_brokers))
        if not receivers:
            return
        log.info(
            "Sending UpdateMetadata request to brokers %s for %d partitions",
            f"Set({', '.join(map(str, receivers))})",
            len(entries),
        )
        entity = build(
            _UPDATE_METADATA,
            **self._header(receivers[0]),
            topic_states=self._topic_states(
                ((tp, _update_metadata_state(entry)) for tp, entry in entries.items()),
                with_ids=True,
            ),
            live_brokers=self._live_brokers(),
        )
        traced = _traced(entries), _partition_epochs(entries)
        for broker_id in receivers:
            broker_epoch = self._context.broker_epochs[broker_id]
            own = dataclasses.replace(entity, broker_epoch=broker_epoch)
            self._put(broker_id, own, entries, *traced)

    def _live_brokers(self) -> list[dict[str, Any]]:
        return [
            {
                "id_": broker.id,
                "endpoints": [
                    {
                        "port": endpoint.port,
                        "host": endpoint.host,
                        "listener": endpoint.listener,
                        "security_protocol": SECURITY_PROTOCOL_IDS[endpoint.security_protocol],
                    }
                    for endpoint in broker.endpoints
                ],
                "rack": broker.rack,
            }
            for _, broker in sorted(self._context.live_brokers.items())
        ]

    def _send_stop_replica(self, batch: Batch, log: StateChangeLog) -> None:
        for broker_id, entries in batch.stop_replica.items():
            if not self._is_registered(broker_id):
                continue
            entity = build(
                _STOP_REPLICA,
                **self._header(broker_id),
                topic_states=self._topic_states(
                    (
                        (tp, {"leader_epoch": e.leader_epoch, "delete_partition": e.delete})
                        for tp, e in entries.items()
                    ),
                    with_ids=False,
                ),
            )
            traced = [
                _traced_partition(tp, None, entry.leader_epoch) for tp, entry in entries.items()
            ]
            _log_stop_replica(log, broker_id, entity)
            self._put(broker_id, entity, entries, traced)


def _log_leader_and_isr(log: StateChangeLog, broker_id: int, entity: Any) -> None:
    leading = partitions = 0
    for topic in entity.topic_states:
        for state in topic.partition_states:
            leads = state.leader == broker_id
            leading, partitions = leading + leads, partitions + 1
            if log.traces:
                log.trace(
                    "Sending %s LeaderAndIsr request %s to broker %d for partition %s-%d",
                    "become-leader" if leads else "become-follower",
                    data(state, topicName=topic.topic_name),
                    broker_id,
                    topic.topic_name,
                    state.partition_index,
                )
    log.info(
        "Sending LeaderAndIsr request to broker %d with %d become-leader and %d become-follower "
        "partitions",
        broker_id,
        leading,
        partitions - leading,
    )


def _log_stop_replica(log: StateChangeLog, broker_id: int, entity: Any) -> None:
    replicas = 0
    for topic in entity.topic_states:
        replicas += len(topic.partition_states)
        for state in topic.partition_states if log.traces else ():
            log.trace(
                "Sending StopReplica request %s to broker %d for partition %s-%d",
                data(state),
                broker_id,
                topic.topic_name,
                state.partition_index,
            )
    log.info("Sending StopReplica request for %d replicas to broker %d", replicas, broker_id)


def _leader_and_isr_state(entry: LeaderAndIsrEntry) -> dict[str, Any]:
    state = entry.state.leader_and_isr
    return {
        "controller_epoch": entry.state.controller_epoch,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "partition_epoch": state.partition_epoch,
        "replicas": list(entry.assignment.replicas),
        "adding_replicas": list(entry.assignment.adding_replicas),
        "removing_replicas": list(entry.assignment.removing_replicas),
        "is_new": entry.is_new,
        "leader_recovery_state": state.leader_recovery_state,
    }


def _update_metadata_state(entry: UpdateMetadataEntry) -> dict[str, Any]:
    state = entry.state.leader_and_isr
    return {
        "controller_epoch": entry.state.controller_epoch,
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "zk_version": state.partition_epoch,
        "replicas": list(entry.replicas),
        "offline_replicas": list(entry.offline_replicas),
    }


_Entries = Mapping[TopicPartition, LeaderAndIsrEntry] | Mapping[TopicPartition, UpdateMetadataEntry]


def _partition_epochs(entries: _Entries) -> list[int]:
    return [entry.state.leader_and_isr.partition_epoch for entry in entries.values()]


def _traced(entries: _Entries) -> list[dict[str, Any]]:
    return [
        _traced_partition(
            tp, entry.state.leader_and_isr.leader, entry.state.leader_and_isr.leader_epoch
        )
        for tp, entry in entries.items()
    ]


def _traced_partition(tp: TopicPartition, leader: int | None, leader_epoch: int) -> dict[str, Any]:
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "leader": leader,
        "leader_epoch": leader_epoch,
    }


__all__ = ["SECURITY_PROTOCOL_IDS", "ControllerRequestBatch", "OnResponse", "StopReplicaEntry"]

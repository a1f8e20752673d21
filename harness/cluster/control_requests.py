"""The requests that a Kafka 3.9 controller sends, built from what ZooKeeper says.

Pure: epochs, partitions' states and registrations in, wire entities out. Whoever sends one decides
what is true in it: probers tell brokers what they know already, forgers lie about an epoch.
Versions are those that a 3.9 controller speaks. Follows kafka.controller.ControllerChannelManager.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from faults.protocol import PartitionState
from harness.cluster.ask import request
from harness.cluster.state import Registration, topic_uuid
from nodes.wire.apis import ApiKey

VERSIONS: Final[Mapping[ApiKey, int]] = {
    ApiKey.LEADER_AND_ISR: 7,
    ApiKey.UPDATE_METADATA: 8,
    ApiKey.STOP_REPLICA: 4,
    ApiKey.CONTROLLED_SHUTDOWN: 3,
}
_INCREMENTAL: Final = 0
"""LeaderAndIsr's type: partitions that it does not name stay as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """For whom a request speaks, and to which life of the broker (``broker_epoch``)."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int

    def fields(self) -> dict[str, int]:
        return {
            "controller_id": self.controller_id,
            "controller_epoch": self.controller_epoch,
            "broker_epoch": self.broker_epoch,
        }


def leader_and_isr(
    sender: Sender,
    states: Sequence[PartitionState],
    topic_ids: Mapping[str, str | None],
    registrations: Mapping[int, Registration],
) -> Any:
    """Live leaders are named by their first endpoint, as far as they are registered."""
    leaders = {s.leader for s in states}
    return _request(
        ApiKey.LEADER_AND_ISR,
        sender,
        type_=_INCREMENTAL,
        topic_states=[
            {
                "topic_name": topic,
                "topic_id": topic_uuid(topic_ids.get(topic)),
                "partition_states": [
                    {
                        **_state(s),
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
            {"broker_id": node, "host_name": r.endpoints[0].host, "port": r.endpoints[0].port}
            for node, r in sorted(registrations.items())
            if node in leaders and r.endpoints
        ],
    )


def update_metadata(
    sender: Sender,
    states: Sequence[PartitionState],
    topic_ids: Mapping[str, str | None],
    registrations: Mapping[int, Registration],
) -> Any:
    """The registered brokers are the live ones; a replica on another one is offline."""
    return _request(
        ApiKey.UPDATE_METADATA,
        sender,
        topic_states=[
            {
                "topic_name": topic,
                "topic_id": topic_uuid(topic_ids.get(topic)),
                "partition_states": [
                    {
                        **_state(s),
                        "zk_version": s.partition_epoch,
                        "offline_replicas": [r for r in s.replicas if r not in registrations],
                    }
                    for s in mine
                ],
            }
            for topic, mine in _by_topic(states).items()
        ],
        live_brokers=[
            {
                "id_": node,
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
            for node, r in sorted(registrations.items())
        ],
    )


def stop_replica(sender: Sender, states: Sequence[PartitionState], *, delete: bool) -> Any:
    return _request(
        ApiKey.STOP_REPLICA,
        sender,
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


def controlled_shutdown(broker: int, broker_epoch: int) -> Any:
    """A broker's, to its controller."""
    api = ApiKey.CONTROLLED_SHUTDOWN
    return request(api, VERSIONS[api], broker_id=broker, broker_epoch=broker_epoch)


def _request(api: ApiKey, sender: Sender, /, **fields: Any) -> Any:
    return request(api, VERSIONS[api], **sender.fields(), **fields)


def _state(s: PartitionState) -> dict[str, Any]:
    """What LeaderAndIsr and UpdateMetadata both say of a partition."""
    return {
        "partition_index": s.partition,
        "controller_epoch": s.controller_epoch,
        "leader": s.leader,
        "leader_epoch": s.leader_epoch,
        "isr": list(s.isr),
        "replicas": list(s.replicas),
    }


def _by_topic(states: Sequence[PartitionState]) -> dict[str, list[PartitionState]]:
    grouped: dict[str, list[PartitionState]] = {}
    for s in states:
        grouped.setdefault(s.topic, []).append(s)
    return grouped

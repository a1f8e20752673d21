"""What controllers and clients say to brokers, and what is read off the answers."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import build
from nodes.wire.records import build_batch

NOT_LEADER = 6


def request(api: ApiKey, version: int, /, **fields: Any) -> Any:
    return build(request_class(api, version), **fields)


def metadata(*topics: str) -> Any:
    names = [{"name": topic} for topic in topics]
    return request(ApiKey.METADATA, 5, topics=names, allow_auto_topic_creation=False)


def api_versions() -> Any:
    return request(ApiKey.API_VERSIONS, 0)


def produce(topic: str, acks: int = 1, partition: int = 0) -> Any:
    batch = build_batch([(None, b"v", 1)])
    return request(
        ApiKey.PRODUCE,
        7,
        acks=acks,
        timeout=30_000,
        topic_data=[{"name": topic, "partition_data": [{"index": partition, "records": batch}]}],
    )


def produce_error(response: Any) -> int:
    return int(response.responses[0].partition_responses[0].error_code)


def leader_told(response: Any) -> int:
    """Of a Metadata answer's first partition."""
    return int(response.topics[0].partitions[0].leader_id)


@dataclass(frozen=True, slots=True)
class Sender:
    """A controller's epoch; -1 as broker epoch stands for any."""

    controller_id: int = 1
    controller_epoch: int = 1
    broker_epoch: int = -1

    def fields(self) -> dict[str, int]:
        return {
            "controller_id": self.controller_id,
            "controller_epoch": self.controller_epoch,
            "broker_epoch": self.broker_epoch,
        }


ANY = Sender()


def topic_id(topic: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_URL, topic)


def leader_and_isr(
    topic: str,
    leader: int,
    leader_epoch: int,
    *,
    isr: Sequence[int] = (1, 2),
    partitions: int = 1,
    sender: Sender = ANY,
) -> Any:
    return request(
        ApiKey.LEADER_AND_ISR,
        7,
        **sender.fields(),
        type_=0,
        topic_states=[
            {
                "topic_name": topic,
                "topic_id": topic_id(topic),
                "partition_states": [
                    {
                        "partition_index": p,
                        "controller_epoch": sender.controller_epoch,
                        "leader": leader,
                        "leader_epoch": leader_epoch,
                        "isr": list(isr),
                        "partition_epoch": leader_epoch,
                        "replicas": [1, 2],
                        "adding_replicas": [],
                        "removing_replicas": [],
                    }
                    for p in range(partitions)
                ],
            }
        ],
        live_leaders=[],
    )


def update_metadata(
    brokers: Mapping[int, Sequence[tuple[str, int]]],
    topic: str | None = None,
    leader: int = 1,
    leader_epoch: int = 0,
    *,
    sender: Sender = ANY,
) -> Any:
    """`brokers`: id -> (listener, port) pairs on loopback."""
    states = [] if topic is None else [topic]
    return request(
        ApiKey.UPDATE_METADATA,
        8,
        **sender.fields(),
        topic_states=[
            {
                "topic_name": name,
                "topic_id": topic_id(name),
                "partition_states": [
                    {
                        "partition_index": 0,
                        "controller_epoch": sender.controller_epoch,
                        "leader": leader,
                        "leader_epoch": leader_epoch,
                        "isr": [1, 2],
                        "zk_version": leader_epoch,
                        "replicas": [1, 2],
                        "offline_replicas": [],
                    }
                ],
            }
            for name in states
        ],
        live_brokers=[
            {
                "id_": broker,
                "rack": None,
                "endpoints": [
                    {
                        "port": port,
                        "host": "127.0.0.1",
                        "listener": listener,
                        "security_protocol": 0,
                    }
                    for listener, port in endpoints
                ],
            }
            for broker, endpoints in brokers.items()
        ],
    )


def stop_replica(
    topic: str, leader_epoch: int = -2, *, delete: bool = True, sender: Sender = ANY
) -> Any:
    return request(
        ApiKey.STOP_REPLICA,
        4,
        **sender.fields(),
        topic_states=[
            {
                "topic_name": topic,
                "partition_states": [
                    {
                        "partition_index": 0,
                        "leader_epoch": leader_epoch,
                        "delete_partition": delete,
                    }
                ],
            }
        ],
    )

"""ZooKeeper's content as Kafka writes it: where znodes lie, and what their JSON says.

Pure: bytes in, values out. Paths here are below the chroot. Follows kafka.zk.ZkData.
"""

from __future__ import annotations

import base64
import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from faults.protocol import PartitionState

BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
TOPIC_CONFIGS: Final = "/config/topics"
CLUSTER_ID: Final = "/cluster/id"
CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
_STATE_PATH: Final = re.compile(r"/brokers/topics/([^/]+)/partitions/(\d+)/state$")

# Wire codes of org.apache.kafka.common.security.auth.SecurityProtocol.
SECURITY_PROTOCOLS: Final[Mapping[str, int]] = {
    "PLAINTEXT": 0,
    "SSL": 1,
    "SASL_PLAINTEXT": 2,
    "SASL_SSL": 3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One advertised listener."""

    listener: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A broker as registered; its epoch is the znode's czxid."""

    node: int
    broker_epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic's assignment."""

    name: str
    topic_id: str | None
    replicas: Mapping[int, tuple[int, ...]]
    moving: bool
    """A reassignment has not finished."""
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """By partition that is moved, the replicas that are yet to come; perhaps none."""
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """The same of those that are yet to go."""


def broker_path(node: int) -> str:
    return f"{BROKER_IDS}/{node}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def parse_state_path(path: str) -> tuple[str, int] | None:
    """(topic, partition) of a path that ends in a partition's state znode."""
    match = _STATE_PATH.search(path)
    return (match[1], int(match[2])) if match else None


def parse_topic(name: str, data: bytes) -> Topic:
    content = json.loads(data)
    adding, removing = (content.get(f"{what}_replicas") or {} for what in ("adding", "removing"))
    moved = {p for of in (adding, removing) for p, replicas in of.items() if replicas}
    return Topic(
        name=name,
        topic_id=content.get("topic_id"),
        replicas={int(p): tuple(r) for p, r in content["partitions"].items()},
        moving=bool(moved),
        adding={int(p): tuple(adding.get(p) or ()) for p in moved},
        removing={int(p): tuple(removing.get(p) or ()) for p in moved},
    )


def parse_partition(
    topic: str, partition: int, data: bytes, znode_version: int, replicas: tuple[int, ...]
) -> PartitionState:
    content = json.loads(data)
    return PartitionState(
        topic=topic,
        partition=partition,
        leader=content["leader"],
        leader_epoch=content["leader_epoch"],
        isr=tuple(content["isr"]),
        replicas=replicas,
        controller_epoch=content["controller_epoch"],
        partition_epoch=znode_version,
    )


def parse_registration(node: int, data: bytes, czxid: int) -> Registration:
    content = json.loads(data)
    protocols = content.get("listener_security_protocol_map", {})
    endpoints = []
    for text in content["endpoints"]:
        listener, _, address = text.partition("://")
        host, _, port = address.rpartition(":")
        endpoints.append(
            Endpoint(
                listener=listener,
                host=host.strip("[]"),
                port=int(port),
                security_protocol=SECURITY_PROTOCOLS.get(protocols.get(listener, "PLAINTEXT"), 0),
            )
        )
    return Registration(
        node=node, broker_epoch=czxid, endpoints=tuple(endpoints), rack=content.get("rack")
    )


def parse_reassignment(data: bytes) -> set[str]:
    """The topics that are named in ``/admin/reassign_partitions``."""
    return {str(each["topic"]) for each in json.loads(data).get("partitions", ())}


def parse_settings(data: bytes) -> dict[str, str]:
    """What is set for a topic itself, below ``/config/topics``."""
    return {str(k): str(v) for k, v in json.loads(data).get("config", {}).items()}


def parse_cluster_id(data: bytes) -> str:
    return str(json.loads(data)["id"])


def parse_controller(data: bytes) -> int:
    return int(json.loads(data)["brokerid"])


def topic_uuid(topic_id: str | None) -> uuid.UUID | None:
    """Kafka prints ids as 22 characters of URL-safe base64 without padding."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(topic_id + "==")) if topic_id else None


def topic_id_of(topic_uuid: uuid.UUID) -> str:
    """The other way round."""
    return base64.urlsafe_b64encode(topic_uuid.bytes).decode().rstrip("=")

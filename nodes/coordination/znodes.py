"""Where Kafka keeps what in ZooKeeper, and how each znode reads (Kafka's ZkData).

Paths and JSON are Kafka's, to the letter of what its brokers and tools read; one pair of functions
``encode_x`` / ``decode_x`` per kind of znode. Everything here is pure.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson

from nodes.core.assignment import ReplicaAssignment
from nodes.core.brokers import Broker, EndPoint
from nodes.core.leader_and_isr import RECOVERED, LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.topic_names import is_legal, is_legal_partition
from nodes.core.types import TopicPartition

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
DELETE_TOPICS: Final = "/admin/delete_topics"
REASSIGN_PARTITIONS: Final = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION: Final = "/admin/preferred_replica_election"
ISR_CHANGE_NOTIFICATION: Final = "/isr_change_notification"
LOG_DIR_EVENTS: Final = "/log_dir_event_notification"
CONFIG_CHANGES: Final = "/config/changes"
CLUSTER_ID: Final = "/cluster/id"

PERSISTENT_PATHS: Final = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    "/brokers/seqid",
    ISR_CHANGE_NOTIFICATION,
    "/latest_producer_id_block",
    LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
)
"""Made by the first broker of a cluster."""

_CONNECTION_STRING: Final = re.compile(r"^(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)$")
INITIAL_CONTROLLER_EPOCH: Final = 0


def broker_id_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(tp: TopicPartition) -> str:
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}"


def state_path(tp: TopicPartition) -> str:
    return f"{TOPICS}/{tp.topic}/partitions/{tp.partition}/state"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


def config_path(entity_type: str, name: str) -> str:
    return f"/config/{entity_type}/{name}"


# ---- controller ----------------------------------------------------------------------------------


def encode_controller(broker_id: int, now_ms: int) -> bytes:
    return orjson.dumps(
        {
            "version": 2,
            "brokerid": broker_id,
            "timestamp": str(now_ms),
            "kraftControllerEpoch": -1,
        }
    )


def decode_controller(data: bytes) -> int:
    return int(orjson.loads(data)["brokerid"])


def encode_controller_epoch(controller_epoch: int) -> bytes:
    return str(controller_epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    return int(data)


# ---- brokers -------------------------------------------------------------------------------------


def encode_broker(broker: Broker, *, jmx_port: int, now_ms: int) -> bytes:
    """`host` and `port` are for ancient clients, which know PLAINTEXT only."""
    plaintext = next((e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"), None)
    registration: dict[str, Any] = {
        "features": {},
        "listener_security_protocol_map": {
            e.listener: e.security_protocol for e in broker.endpoints
        },
        "endpoints": [e.connection_string for e in broker.endpoints],
        "jmx_port": jmx_port,
        "port": -1 if plaintext is None else plaintext.port,
        "host": None if plaintext is None else plaintext.host,
        "version": 5,
        "timestamp": str(now_ms),
    }
    if broker.rack is not None:
        registration["rack"] = broker.rack
    return orjson.dumps(registration)


def decode_broker(broker_id: int, data: bytes) -> Broker:
    registration = orjson.loads(data)
    protocols = registration.get("listener_security_protocol_map") or {}
    endpoints = []
    for connection_string in registration["endpoints"]:
        match = _CONNECTION_STRING.match(connection_string)
        if match is None:
            raise ValueError(
                f"{broker_id_path(broker_id)}: field 'endpoints': {connection_string!r} is not of "
                "the form NAME://host:port"
            )
        listener, host, port = (str(part) for part in match.groups())
        protocol = str(protocols.get(listener, listener))
        endpoints.append(EndPoint(listener, protocol, host, int(port)))
    return Broker(broker_id, tuple(endpoints), registration.get("rack"))


# ---- topics --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TopicIdReplicaAssignment:
    """A topic's znode. The id is None for topics made by brokers before Kafka 2.8."""

    topic: str
    topic_id: UUID | None
    assignment: Mapping[TopicPartition, ReplicaAssignment]


def encode_topic_id(topic_id: UUID) -> str:
    """Kafka prints a Uuid as unpadded URL-safe base64."""
    return base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode()


def decode_topic_id(text: str) -> UUID:
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def encode_topic(
    topic_id: UUID | None, assignment: Mapping[TopicPartition, ReplicaAssignment]
) -> bytes:
    znode: dict[str, Any] = {
        "removing_replicas": {
            str(tp.partition): list(a.removing_replicas)
            for tp, a in assignment.items()
            if a.removing_replicas
        },
        "partitions": {str(tp.partition): list(a.replicas) for tp, a in assignment.items()},
        "adding_replicas": {
            str(tp.partition): list(a.adding_replicas)
            for tp, a in assignment.items()
            if a.adding_replicas
        },
        "version": 3,
    }
    if topic_id is not None:
        znode["topic_id"] = encode_topic_id(topic_id)
    return orjson.dumps(znode)


def decode_topic(topic: str, data: bytes) -> TopicIdReplicaAssignment:
    """Partitions that there cannot be (negative ones) are left out."""
    znode = orjson.loads(data)
    adding = znode.get("adding_replicas") or {}
    removing = znode.get("removing_replicas") or {}
    assignment = {
        tp: ReplicaAssignment(
            tuple(replicas),
            tuple(adding.get(partition, ())),
            tuple(removing.get(partition, ())),
        )
        for partition, replicas in (znode.get("partitions") or {}).items()
        if is_legal_partition(tp := TopicPartition(topic, int(partition)))
    }
    topic_id = znode.get("topic_id")
    return TopicIdReplicaAssignment(
        topic, None if topic_id is None else decode_topic_id(topic_id), assignment
    )


def encode_state(state: LeaderIsrAndControllerEpoch) -> bytes:
    leader_and_isr = state.leader_and_isr
    znode: dict[str, Any] = {
        "controller_epoch": state.controller_epoch,
        "leader": leader_and_isr.leader,
        "version": 1,
        "leader_epoch": leader_and_isr.leader_epoch,
        "isr": list(leader_and_isr.isr),
    }
    if leader_and_isr.leader_recovery_state != RECOVERED:
        znode["leader_recovery_state"] = leader_and_isr.leader_recovery_state
    return orjson.dumps(znode)


def decode_state(data: bytes, zk_version: int) -> LeaderIsrAndControllerEpoch:
    """`zk_version` is the znode's version: the partition epoch."""
    znode = orjson.loads(data)
    return LeaderIsrAndControllerEpoch(
        LeaderAndIsr(
            leader=znode["leader"],
            isr=tuple(znode["isr"]),
            leader_epoch=znode["leader_epoch"],
            partition_epoch=zk_version,
            leader_recovery_state=znode.get("leader_recovery_state", RECOVERED),
        ),
        controller_epoch=znode["controller_epoch"],
    )


# ---- configurations, cluster, admin --------------------------------------------------------------


def encode_config(configs: Mapping[str, str]) -> bytes:
    return orjson.dumps({"version": 1, "config": dict(configs)})


def decode_config(data: bytes | None) -> dict[str, str]:
    if not data:
        return {}
    return {str(k): str(v) for k, v in (orjson.loads(data).get("config") or {}).items()}


def encode_config_change(entity_path: str) -> bytes:
    return orjson.dumps({"version": 2, "entity_path": entity_path})


def decode_config_change(data: bytes | None) -> tuple[str, str] | None:
    """(entity type, name) of a notification; None when it is not about one entity.

    Version 1 spells the two apart. Names of users and clients may hold slashes, topics cannot. A
    name that cannot be a path of znodes is about nothing: to ask for it would fail each time.
    """
    try:
        change = orjson.loads(data or b"")
        path = str(change.get("entity_path") or f"{change['entity_type']}/{change['entity_name']}")
    except (ValueError, KeyError, AttributeError):
        return None
    entity_type, _, name = path.partition("/")
    if entity_type == "topics" and not is_legal(name):
        return None
    if "\0" in path or not {"", ".", ".."}.isdisjoint([entity_type, *name.split("/")]):
        return None
    return entity_type, name


def encode_cluster_id(cluster_id: str) -> bytes:
    return orjson.dumps({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    return str(orjson.loads(data)["id"])


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """`/admin/preferred_replica_election`, and the notifications of ISR changes."""
    listed = [{"topic": tp.topic, "partition": tp.partition} for tp in partitions]
    return orjson.dumps({"version": 1, "partitions": listed})


def decode_partitions(data: bytes) -> set[TopicPartition]:
    listed = orjson.loads(data)["partitions"]
    return {TopicPartition(entry["topic"], int(entry["partition"])) for entry in listed}


def encode_log_dir_event(broker_id: int) -> bytes:
    """Below `/log_dir_event_notification`; the event is a failure, the only one that there is."""
    return orjson.dumps({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(data: bytes) -> int | None:
    """The broker; None when it cannot be read."""
    try:
        return int(orjson.loads(data)["broker"])
    except (ValueError, TypeError, KeyError):
        return None


def encode_reassignment(reassignment: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    """`/admin/reassign_partitions`."""
    listed = [
        {"topic": tp.topic, "partition": tp.partition, "replicas": list(replicas)}
        for tp, replicas in reassignment.items()
    ]
    return orjson.dumps({"version": 1, "partitions": listed})


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    return {
        TopicPartition(entry["topic"], int(entry["partition"])): tuple(entry["replicas"])
        for entry in orjson.loads(data)["partitions"]
    }

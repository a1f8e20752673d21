"""UpdateMetadata (key 6): the controller tells every broker where partitions and brokers are.

Flexible from version 6; version 7 adds topic ids, version 8 the KRaft flag and the tagged type of
KIP-866. `zk_version` is the version of the partition's state znode.
"""

from __future__ import annotations

from nodes.wire.entities.schema import Field, MessagePair, Struct

_PARTITION_STATE = Struct(
    "UpdateMetadataPartitionState",
    (
        Field("partition_index", "int32"),
        Field("controller_epoch", "int32"),
        Field("leader", "int32"),
        Field("leader_epoch", "int32"),
        Field("isr", "int32", many=True),
        Field("zk_version", "int32"),
        Field("replicas", "int32", many=True),
        Field("offline_replicas", "int32", many=True),
    ),
)
_TOPIC_STATE = Struct(
    "UpdateMetadataTopicState",
    (
        Field("topic_name", "string"),
        Field("topic_id", "uuid", since=7),
        Field("partition_states", _PARTITION_STATE, many=True),
    ),
)
_ENDPOINT = Struct(
    "UpdateMetadataEndpoint",
    (
        Field("port", "int32"),
        Field("host", "string"),
        Field("listener", "string"),
        Field("security_protocol", "int16"),
    ),
)
_BROKER = Struct(
    "UpdateMetadataBroker",
    (
        Field("id_", "int32"),
        Field("endpoints", _ENDPOINT, many=True),
        Field("rack", "string", nullable=True),
    ),
)
_REQUEST = Struct(
    "UpdateMetadataRequest",
    (
        Field("controller_id", "int32"),
        Field("is_k_raft_controller", "bool", since=8, default=False),
        Field("type_", "int8", since=8, default=0, tag=0),
        Field("controller_epoch", "int32"),
        Field("broker_epoch", "int64", default=-1),
        Field("topic_states", _TOPIC_STATE, many=True),
        Field("live_brokers", _BROKER, many=True),
    ),
)
_RESPONSE = Struct("UpdateMetadataResponse", (Field("error_code", "error_code"),))

MESSAGE = MessagePair(6, 5, 8, 6, _REQUEST, _RESPONSE)

"""StopReplica (key 5): the controller tells a broker to stop, and perhaps delete, replicas.

Three layouts: version 1 and 2 name topics with bare partition numbers and one delete flag for all;
version 3 gives each partition its leader epoch and its own flag; version 4 adds the KRaft flag.
"""

from __future__ import annotations

from nodes.wire.entities.schema import Field, MessagePair, Struct

_TOPIC_V1 = Struct(
    "StopReplicaTopicV1",
    (Field("name", "string"), Field("partition_indexes", "int32", many=True)),
)
_PARTITION_STATE = Struct(
    "StopReplicaPartitionState",
    (
        Field("partition_index", "int32"),
        Field("leader_epoch", "int32", default=-1),
        Field("delete_partition", "bool"),
    ),
)
_TOPIC_STATE = Struct(
    "StopReplicaTopicState",
    (
        Field("topic_name", "string"),
        Field("partition_states", _PARTITION_STATE, many=True),
    ),
)
_REQUEST = Struct(
    "StopReplicaRequest",
    (
        Field("controller_id", "int32"),
        Field("is_k_raft_controller", "bool", since=4, default=False),
        Field("controller_epoch", "int32"),
        Field("broker_epoch", "int64", default=-1),
        Field("delete_partitions", "bool", until=2),
        Field("topics", _TOPIC_V1, until=2, many=True),
        Field("topic_states", _TOPIC_STATE, since=3, many=True),
    ),
)
_PARTITION_ERROR = Struct(
    "StopReplicaPartitionError",
    (
        Field("topic_name", "string"),
        Field("partition_index", "int32"),
        Field("error_code", "error_code"),
    ),
)
_RESPONSE = Struct(
    "StopReplicaResponse",
    (
        Field("error_code", "error_code"),
        Field("partition_errors", _PARTITION_ERROR, many=True),
    ),
)

MESSAGE = MessagePair(5, 1, 4, 2, _REQUEST, _RESPONSE)

"""LeaderAndIsr (key 4): the controller tells a broker which replicas lead and which follow.

Version 5 adds topic ids (and names topics by id in the response) and the request's type, version 6
the leader's recovery state, version 7 the KRaft flag of KIP-866. `partition_epoch` is the version
of the partition's state znode.
"""

from __future__ import annotations

from nodes.wire.entities.schema import Field, MessagePair, Struct

_PARTITION_STATE = Struct(
    "LeaderAndIsrPartitionState",
    (
        Field("partition_index", "int32"),
        Field("controller_epoch", "int32"),
        Field("leader", "int32"),
        Field("leader_epoch", "int32"),
        Field("isr", "int32", many=True),
        Field("partition_epoch", "int32"),
        Field("replicas", "int32", many=True),
        Field("adding_replicas", "int32", since=3, many=True),
        Field("removing_replicas", "int32", since=3, many=True),
        Field("is_new", "bool", since=1, default=False),
        Field("leader_recovery_state", "int8", since=6, default=0),
    ),
)
_TOPIC_STATE = Struct(
    "LeaderAndIsrTopicState",
    (
        Field("topic_name", "string"),
        Field("topic_id", "uuid", since=5),
        Field("partition_states", _PARTITION_STATE, many=True),
    ),
)
_LIVE_LEADER = Struct(
    "LeaderAndIsrLiveLeader",
    (Field("broker_id", "int32"), Field("host_name", "string"), Field("port", "int32")),
)
_REQUEST = Struct(
    "LeaderAndIsrRequest",
    (
        Field("controller_id", "int32"),
        Field("is_k_raft_controller", "bool", since=7, default=False),
        Field("controller_epoch", "int32"),
        Field("broker_epoch", "int64", default=-1),
        Field("type_", "int8", since=5),
        Field("topic_states", _TOPIC_STATE, many=True),
        Field("live_leaders", _LIVE_LEADER, many=True),
    ),
)
_PARTITION_ERROR = Struct(
    "LeaderAndIsrPartitionError",
    (
        Field("topic_name", "string", until=4),
        Field("partition_index", "int32"),
        Field("error_code", "error_code"),
    ),
)
_TOPIC_ERROR = Struct(
    "LeaderAndIsrTopicError",
    (Field("topic_id", "uuid"), Field("partition_errors", _PARTITION_ERROR, many=True)),
)
_RESPONSE = Struct(
    "LeaderAndIsrResponse",
    (
        Field("error_code", "error_code"),
        Field("partition_errors", _PARTITION_ERROR, until=4, many=True),
        Field("topics", _TOPIC_ERROR, since=5, many=True),
    ),
)

MESSAGE = MessagePair(4, 4, 7, 4, _REQUEST, _RESPONSE)

"""ControlledShutdown (key 7): a broker asks the controller to move its leaders away.

Version 2 adds the broker epoch (KIP-380), version 3 is flexible. Version 0 is the only request of
the protocol whose header has no client id.
"""

from __future__ import annotations

from nodes.wire.entities.schema import Field, MessagePair, Struct

_REQUEST = Struct(
    "ControlledShutdownRequest",
    (Field("broker_id", "int32"), Field("broker_epoch", "int64", since=2, default=-1)),
)
_REMAINING_PARTITION = Struct(
    "RemainingPartition",
    (Field("topic_name", "string"), Field("partition_index", "int32")),
)
_RESPONSE = Struct(
    "ControlledShutdownResponse",
    (
        Field("error_code", "error_code"),
        Field("remaining_partitions", _REMAINING_PARTITION, many=True),
    ),
)

MESSAGE = MessagePair(7, 0, 3, 3, _REQUEST, _RESPONSE)

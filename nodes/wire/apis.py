"""Which APIs and versions a node serves, and which dataclass each of them is.

Versions follow Apache Kafka 3.9's ranges, cut where a newer version means a feature that a node
does not have (Fetch 13 and later address topics by id only). Offering the old ends of the ranges
is what lets old and foreign clients in. Most entities are kio's; the four APIs between controller
and brokers that kio no longer has are declared in `nodes.wire.entities`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema

from nodes.wire.entities import MESSAGES
from nodes.wire.entities.plain import plain


class ApiKey(IntEnum):
    """Kafka's API keys (org.apache.kafka.common.protocol.ApiKeys), those served."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    ALTER_PARTITION = 56
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61

    @property
    def display_name(self) -> str:
        """The name as Kafka's metrics and documentation spell it (``LeaderAndIsr``)."""
        return "".join(word.capitalize() for word in self.name.split("_"))


#: Lowest and highest version served, both inclusive.
SUPPORTED: Final[Mapping[ApiKey, tuple[int, int]]] = MappingProxyType(
    {
        ApiKey.PRODUCE: (3, 11),
        ApiKey.FETCH: (4, 13),
        ApiKey.LIST_OFFSETS: (1, 7),
        ApiKey.METADATA: (0, 12),
        ApiKey.LEADER_AND_ISR: (4, 7),
        ApiKey.STOP_REPLICA: (1, 4),
        ApiKey.UPDATE_METADATA: (5, 8),
        ApiKey.CONTROLLED_SHUTDOWN: (0, 3),
        ApiKey.OFFSET_COMMIT: (2, 8),
        ApiKey.OFFSET_FETCH: (1, 8),
        ApiKey.FIND_COORDINATOR: (0, 4),
        ApiKey.JOIN_GROUP: (0, 9),
        ApiKey.HEARTBEAT: (0, 4),
        ApiKey.LEAVE_GROUP: (0, 5),
        ApiKey.SYNC_GROUP: (0, 5),
        ApiKey.DESCRIBE_GROUPS: (0, 5),
        ApiKey.LIST_GROUPS: (0, 4),
        ApiKey.API_VERSIONS: (0, 4),
        ApiKey.CREATE_TOPICS: (2, 7),
        ApiKey.DELETE_TOPICS: (1, 6),
        ApiKey.DELETE_RECORDS: (0, 2),
        ApiKey.INIT_PRODUCER_ID: (0, 4),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
        ApiKey.DESCRIBE_ACLS: (1, 3),
        ApiKey.CREATE_ACLS: (1, 3),
        ApiKey.DELETE_ACLS: (1, 3),
        ApiKey.DESCRIBE_CONFIGS: (1, 4),
        ApiKey.ALTER_CONFIGS: (0, 2),
        ApiKey.DESCRIBE_LOG_DIRS: (1, 4),
        ApiKey.CREATE_PARTITIONS: (0, 3),
        ApiKey.DELETE_GROUPS: (0, 2),
        ApiKey.ELECT_LEADERS: (0, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
        ApiKey.OFFSET_DELETE: (0, 0),
        ApiKey.ALTER_PARTITION: (2, 3),
        ApiKey.DESCRIBE_CLUSTER: (0, 1),
        ApiKey.DESCRIBE_PRODUCERS: (0, 0),
    }
)


def is_supported(api_key: int, version: int) -> bool:
    """Whether a request of that key and version may be parsed."""
    bounds = SUPPORTED.get(api_key)  # type: ignore[call-overload]
    return bounds is not None and bounds[0] <= version <= bounds[1]


@cache
def request_class(api: int, version: int) -> Any:
    """The request dataclass of a served API version; KeyError for any other."""
    if not is_supported(api, version):
        raise KeyError((api, version))
    message = MESSAGES.get(api)
    return message.request(version) if message else plain(load_request_schema(api, version))


@cache
def response_class(api: int, version: int) -> Any:
    """The response dataclass of a served API version; KeyError for any other."""
    if not is_supported(api, version):
        raise KeyError((api, version))
    message = MESSAGES.get(api)
    return message.response(version) if message else load_response_schema(api, version)


def request_header_version(api: int, version: int) -> int:
    """Request header version by Kafka's rule: ControlledShutdown 0 alone has no client id."""
    if api == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if request_class(api, version).__flexible__ else 1


def response_header_version(api: int, version: int) -> int:
    """Response header version; ApiVersions stays at 0 because its reader may not know ours."""
    if api == ApiKey.API_VERSIONS:
        return 0
    return 1 if response_class(api, version).__flexible__ else 0

"""A plausible body for every API: what each version has of it is filled in, the rest left out."""

from __future__ import annotations

from typing import Any

from nodes.wire.apis import ApiKey
from nodes.wire.records import build_batch

BATCH = build_batch([(None, b"v", 1_700_000_000_000)])
PARTITIONS = {"partitions": [{"partition_index": 0}]}
STATE = {"partition_index": 0, "leader": 1, "leader_epoch": 1, "isr": [1], "replicas": [1]}

BODIES: dict[ApiKey, dict[str, Any]] = {
    ApiKey.PRODUCE: {
        "transactional_id": None,
        "acks": 1,
        "timeout": 1000,
        "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": BATCH}]}],
    },
    ApiKey.FETCH: {
        "replica_id": -1,
        "max_wait": 0,
        "topics": [{"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 100}]}],
    },
    ApiKey.LIST_OFFSETS: {
        "replica_id": -1,
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "timestamp": -1}]}],
    },
    ApiKey.METADATA: {"topics": [{"name": "t"}]},
    ApiKey.LEADER_AND_ISR: {
        "controller_id": 1,
        "controller_epoch": 1,
        "topic_states": [{"topic_name": "t", "partition_states": [STATE]}],
    },
    ApiKey.STOP_REPLICA: {"controller_id": 1, "controller_epoch": 1},
    ApiKey.UPDATE_METADATA: {"controller_id": 1, "controller_epoch": 1},
    ApiKey.CONTROLLED_SHUTDOWN: {"broker_id": 1},
    ApiKey.OFFSET_COMMIT: {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": "t", **PARTITIONS}],
    },
    ApiKey.OFFSET_FETCH: {},
    ApiKey.FIND_COORDINATOR: {},
    ApiKey.JOIN_GROUP: {"group_id": "g", "session_timeout": 5000},
    ApiKey.HEARTBEAT: {"group_id": "g"},
    ApiKey.LEAVE_GROUP: {"group_id": "g"},
    ApiKey.SYNC_GROUP: {"group_id": "g"},
    ApiKey.DESCRIBE_GROUPS: {"groups": ["g"]},
    ApiKey.API_VERSIONS: {},
    ApiKey.CREATE_TOPICS: {"topics": [{"name": "new"}], "timeout": 1000},
    ApiKey.DELETE_TOPICS: {"timeout": 1000},
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {
        "topics": [{"topic": "t", "partitions": [{"partition": 0, "leader_epoch": 0}]}]
    },
    ApiKey.DESCRIBE_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": "t"}]},
    ApiKey.CREATE_PARTITIONS: {"topics": [{"name": "t", "count": 3}], "timeout": 1000},
    ApiKey.ELECT_LEADERS: {
        "topic_partitions": [{"topic": "t", "partitions": [0]}],
        "timeout": 1000,
    },
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}]
    },
    ApiKey.ALTER_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": "t"}]},
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {"resources": [{"resource_type": 2, "resource_name": "t"}]},
    ApiKey.DELETE_RECORDS: {
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}],
        "timeout": 1000,
    },
    ApiKey.DELETE_GROUPS: {"groups_names": ["g"]},
    ApiKey.OFFSET_DELETE: {"group_id": "g"},
    ApiKey.CREATE_ACLS: {"creations": [{}]},
    ApiKey.DELETE_ACLS: {"filters": [{}]},
    ApiKey.DESCRIBE_PRODUCERS: {"topics": [{"name": "t", "partition_indexes": [0]}]},
}

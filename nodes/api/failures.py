"""What to answer when a whole request failed (Kafka's `getErrorResponse` of each request).

Most APIs have a top-level error; the older ones have room only beside each topic or partition, so
the request is echoed with the error in every place. A Produce with acks=0 has no answer at all: the
connection is closed, which is how its client learns of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from nodes.api.answers import answer
from nodes.wire.apis import ApiKey

if TYPE_CHECKING:
    from nodes.network.request_channel import Request

Fields = dict[str, Any]


def fail(request: Request, error: int, message: str | None = None) -> None:
    """Answer `request` with `error` wherever its API has a place for one, else close."""
    make = _BUILDERS.get(request.api_key)
    if request.api_key == ApiKey.PRODUCE and request.body.acks == 0:
        request.errors = (error,)
        request.close_connection()
    elif make is None:
        answer(request, error_code=error)
    else:
        answer(request, **make(request, error, message))


def _partitions(rows: Iterable[Any], index: str, error: int, **more: Any) -> list[Fields]:
    return [{index: _index_of(row), "error_code": error, **more} for row in rows]


def _index_of(row: Any) -> int:
    if isinstance(row, int):
        return row
    for name in ("partition_index", "partition", "index"):
        value = getattr(row, name, None)
        if value is not None:
            return int(value)
    raise TypeError(f"no partition index in {type(row).__name__}")


def _produce(request: Request, error: int, _: str | None) -> Fields:
    return {
        "responses": [
            {
                "name": topic.name,
                "partition_responses": _partitions(
                    topic.partition_data, "index", error, base_offset=-1
                ),
            }
            for topic in request.body.topic_data
        ]
    }


def _fetch(request: Request, error: int, _: str | None) -> Fields:
    """Top level from version 7 on, where clients read it; per partition before."""
    if request.api_version >= 7:
        return {"error_code": error, "session_id": request.body.session_id, "responses": []}
    return {
        "responses": [
            {
                "topic": topic.topic,
                "partitions": _partitions(
                    topic.partitions, "partition_index", error, high_watermark=-1, records=None
                ),
            }
            for topic in request.body.topics
        ]
    }


def _list_offsets(request: Request, error: int, _: str | None) -> Fields:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": _partitions(
                    topic.partitions, "partition_index", error, timestamp=-1, offset=-1
                ),
            }
            for topic in request.body.topics
        ]
    }


def _metadata(request: Request, error: int, _: str | None) -> Fields:
    topics: list[Fields] = [
        {
            "error_code": error,
            "name": "" if topic.name is None and request.api_version < 12 else topic.name,
            "topic_id": getattr(topic, "topic_id", None),
            "is_internal": False,
            "partitions": [],
        }
        for topic in request.body.topics or ()
    ]
    return {"brokers": [], "cluster_id": None, "controller_id": -1, "topics": topics}


def _offset_for_leader_epoch(request: Request, error: int, _: str | None) -> Fields:
    return {
        "topics": [
            {"topic": topic.topic, "partitions": _partitions(topic.partitions, "partition", error)}
            for topic in request.body.topics
        ]
    }


def _create_topics(request: Request, error: int, message: str | None) -> Fields:
    return {
        "topics": [
            {"name": t.name, "error_code": error, "error_message": message}
            for t in request.body.topics
        ]
    }


def _delete_topics(request: Request, error: int, message: str | None) -> Fields:
    body = request.body
    if request.api_version >= 6:
        rows = [{"name": t.name, "topic_id": t.topic_id} for t in body.topics]
    else:
        rows = [{"name": name} for name in body.topic_names]
    return {"responses": [{**row, "error_code": error, "error_message": message} for row in rows]}


def _create_partitions(request: Request, error: int, message: str | None) -> Fields:
    return {
        "results": [
            {"name": t.name, "error_code": error, "error_message": message}
            for t in request.body.topics
        ]
    }


def _describe_configs(request: Request, error: int, message: str | None) -> Fields:
    return {
        "results": [
            {
                "error_code": error,
                "error_message": message,
                "resource_type": r.resource_type,
                "resource_name": r.resource_name,
                "configs": [],
            }
            for r in request.body.resources
        ]
    }


def _elect_leaders(request: Request, error: int, message: str | None) -> Fields:
    return {
        "error_code": error,
        "replica_election_results": [
            {
                "topic": t.topic,
                "partition_result": [
                    {"partition_id": p, "error_code": error, "error_message": message}
                    for p in t.partitions
                ],
            }
            for t in request.body.topic_partitions or ()
        ],
    }


def _leader_and_isr(request: Request, error: int, _: str | None) -> Fields:
    rows = [(t, p.partition_index) for t in request.body.topic_states for p in t.partition_states]
    if request.api_version >= 5:
        return {
            "error_code": error,
            "topics": [
                {
                    "topic_id": t.topic_id,
                    "partition_errors": _partitions(t.partition_states, "partition_index", error),
                }
                for t in request.body.topic_states
            ],
        }
    return {
        "error_code": error,
        "partition_errors": [
            {"topic_name": t.topic_name, "partition_index": p, "error_code": error} for t, p in rows
        ],
    }


def _offset_commit(request: Request, error: int, _: str | None) -> Fields:
    return {
        "topics": [
            {"name": t.name, "partitions": _partitions(t.partitions, "partition_index", error)}
            for t in request.body.topics
        ]
    }


def _offset_fetch(request: Request, error: int, _: str | None) -> Fields:
    body = request.body
    if request.api_version >= 8:
        groups = [{"group_id": g.group_id, "topics": [], "error_code": error} for g in body.groups]
        return {"groups": groups}
    if request.api_version >= 2:
        return {"topics": [], "error_code": error}
    return {
        "topics": [
            {
                "name": t.name,
                "partitions": _partitions(
                    t.partition_indexes,
                    "partition_index",
                    error,
                    committed_offset=-1,
                    metadata="",
                ),
            }
            for t in body.topics
        ]
    }


def _find_coordinator(request: Request, error: int, message: str | None) -> Fields:
    nowhere: Fields = {
        "node_id": -1,
        "host": "",
        "port": -1,
        "error_code": error,
        "error_message": message,
    }
    if request.api_version < 4:
        return nowhere
    return {"coordinators": [{"key": key, **nowhere} for key in request.body.coordinator_keys]}


def _init_producer_id(_: Request, error: int, __: str | None) -> Fields:
    return {"error_code": error, "producer_id": -1, "producer_epoch": -1}


def _join_group(request: Request, error: int, _: str | None) -> Fields:
    return {
        "error_code": error,
        "generation_id": -1,
        "protocol_type": None,
        "protocol_name": None if request.api_version >= 7 else "",
        "leader": "",
        "member_id": "",
        "members": [],
    }


def _describe_groups(request: Request, error: int, _: str | None) -> Fields:
    return {
        "groups": [
            {
                "error_code": error,
                "group_id": group,
                "group_state": "",
                "protocol_type": "",
                "protocol_data": "",
                "members": [],
            }
            for group in request.body.groups
        ]
    }


def _alter_configs(request: Request, error: int, message: str | None) -> Fields:
    return {
        "responses": [
            {
                "error_code": error,
                "error_message": message,
                "resource_type": r.resource_type,
                "resource_name": r.resource_name,
            }
            for r in request.body.resources
        ]
    }


def _delete_records(request: Request, error: int, _: str | None) -> Fields:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": _partitions(
                    topic.partitions, "partition_index", error, low_watermark=-1
                ),
            }
            for topic in request.body.topics
        ]
    }


def _delete_groups(request: Request, error: int, _: str | None) -> Fields:
    return {"results": [{"group_id": g, "error_code": error} for g in request.body.groups_names]}


def _describe_producers(request: Request, error: int, message: str | None) -> Fields:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": _partitions(
                    topic.partition_indexes, "partition_index", error, error_message=message
                ),
            }
            for topic in request.body.topics
        ]
    }


def _create_acls(request: Request, error: int, message: str | None) -> Fields:
    row = {"error_code": error, "error_message": message}
    return {"results": [row for _ in request.body.creations]}


def _delete_acls(request: Request, error: int, message: str | None) -> Fields:
    row: Fields = {"error_code": error, "error_message": message, "matching_acls": []}
    return {"filter_results": [row for _ in request.body.filters]}


def _describe_log_dirs(_: Request, error: int, __: str | None) -> Fields:
    """Beside a nameless directory, as versions before 3 have no other place."""
    return {"error_code": error, "results": [{"error_code": error, "log_dir": "", "topics": []}]}


def _top_level(_: Request, error: int, message: str | None) -> Fields:
    return {"error_code": error, "error_message": message}


_BUILDERS: Final[dict[int, Callable[[Request, int, str | None], Fields]]] = {
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _offset_for_leader_epoch,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DESCRIBE_CONFIGS: _describe_configs,
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.LEADER_AND_ISR: _leader_and_isr,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.DESCRIBE_GROUPS: _describe_groups,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _top_level,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: _top_level,
    ApiKey.DESCRIBE_CLUSTER: _top_level,
    ApiKey.DESCRIBE_ACLS: _top_level,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.DESCRIBE_LOG_DIRS: _describe_log_dirs,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.DELETE_RECORDS: _delete_records,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
}
"""APIs whose error is more than a top-level `error_code`."""

"""Every version of every API that is offered is answered, with its own layout, and so is every
failure: a client that negotiated a version can rely on both."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.api.failures import fail
from nodes.core.errors import Errors
from nodes.wire.apis import SUPPORTED, ApiKey, request_class
from nodes.wire.codec import build, decode_response
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

EVERY = [
    pytest.param(api, version, id=f"{api.name}-{version}")
    for api, (low, high) in SUPPORTED.items()
    for version in range(low, high + 1)
]


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_is_answered(
    node: Any, api: ApiKey, version: int, caplog: pytest.LogCaptureFixture
) -> None:
    node.lead("t")
    with caplog.at_level(logging.ERROR):
        answer = node.call(api, version, **BODIES.get(api, {}))
    assert not caplog.records
    assert "unknown_server_error" not in repr(answer)


@pytest.mark.parametrize(("api", "version"), EVERY)
def test_a_failure_has_a_place(api: ApiKey, version: int) -> None:
    frames: list[bytes] = []
    body = build(request_class(api, version), **BODIES.get(api, {}))
    request: Any = SimpleNamespace(
        api_key=int(api),
        api_version=version,
        correlation_id=-7,
        body=body,
        respond=frames.append,
    )
    fail(request, Errors.UNKNOWN_SERVER_ERROR, "why")
    (frame,) = frames
    correlation_id, answer = decode_response(api, version, frame[4:])
    assert correlation_id == -7
    # Lists that the body leaves empty have no row to carry the error.
    if api not in (ApiKey.DELETE_TOPICS, ApiKey.OFFSET_FETCH, ApiKey.FIND_COORDINATOR):
        assert "unknown_server_error" in repr(answer)


def test_an_unexpected_error_is_answered_and_logged(
    node: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(node.manager, "list_offset", broken)
    monkeypatch.setattr(node.admin, "delete_topics", broken)
    node.lead("t")
    answer = node.call(ApiKey.LIST_OFFSETS, 5, **BODIES[ApiKey.LIST_OFFSETS])
    assert answer.topics[0].partitions[0].error_code == Errors.UNKNOWN_SERVER_ERROR
    answer = node.call(ApiKey.DELETE_TOPICS, 5, topic_names=["t"])
    assert answer.responses[0].error_code == Errors.UNKNOWN_SERVER_ERROR
    assert "a bug" in caplog.text


def test_no_answer_possible_closes_the_connection(
    node: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodes.api.apis.fail", lambda *_: 1 / 0)
    monkeypatch.setattr(node.manager, "list_offset", lambda *_: 1 / 0)
    node.lead("t")
    reply = node.send(ApiKey.LIST_OFFSETS, 5, **BODIES[ApiKey.LIST_OFFSETS])
    assert reply.wait() is None

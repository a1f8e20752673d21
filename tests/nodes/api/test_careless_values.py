"""A lawful request of each API in which one value is not: an extreme number, another name, bytes
that are none, a list that is empty or far too long. Each is answered (or its connection is closed)
without an error in the broker's log, whatever the answer says.

Left out: numbers of partitions, which the stand-in for ZooKeeper here would make, and waits.
"""

from __future__ import annotations

import copy
import logging
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from nodes.wire.apis import SUPPORTED, ApiKey, request_class
from nodes.wire.codec import build, encode_request
from tests.integration.fuzzing import _MORE
from tests.nodes.api.bodies import BATCH, BODIES

_FAR: Final = 2**31 - 1
INTEGERS: Final = (-(2**63), -(2**31), -(2**15), -5, -4, -3, -2, -1, 0, 1, 100, 2**15 - 1, _FAR,
                   2**63 - 1)  # fmt: skip
STRINGS: Final = ("", ".", "..", "/etc/x", "a" * 249, "a" * 5000, "t-0", "\0", "é", "a b",
                  "unknown", "__consumer_offsets", "t.deadbeef-delete", None)  # fmt: skip
BYTES: Final = (
    b"",
    b"\0",
    b"\xff" * 61,
    BATCH[:60],
    BATCH[:-1],
    BATCH + BATCH,
    BATCH[:8] + b"\x7f\xff\xff\xff" + BATCH[12:],  # its length
    BATCH[:8] + b"\xff\xff\xff\xff" + BATCH[12:],
    BATCH[:57] + b"\x7f\xff\xff\xff" + BATCH[61:],  # its number of records
    None,
)
MAY_WAIT: Final = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.PRODUCE, ApiKey.ELECT_LEADERS)
_WAITS: Final = frozenset({"timeout", "max_wait", "rebalance_timeout", "session_timeout"})
_COUNTS: Final = frozenset({"num_partitions", "count"})
_CONTROLLER: Final = {"controller_id": 1, "controller_epoch": 1, "broker_epoch": 100}
_STATE: Final = {"partition_index": 0, "controller_epoch": 1, "leader": 1, "leader_epoch": 1,
                 "isr": [1], "replicas": [1]}  # fmt: skip

DEEPER: Final[dict[ApiKey, dict[str, Any]]] = {
    ApiKey.FETCH: {
        "replica_id": -1, "max_wait": 0, "min_bytes": 1, "max_bytes": 1000, "isolation_level": 0,
        "session_id": 0, "session_epoch": -1, "rack_id": "",
        "topics": [{"topic": "t", "partitions": [
            {"partition": 0, "fetch_offset": 0, "log_start_offset": -1, "current_leader_epoch": 0,
             "last_fetched_epoch": -1, "partition_max_bytes": 100}]}],
        "forgotten_topics_data": [{"topic": "t", "partitions": [0]}],
    },
    ApiKey.LIST_OFFSETS: {
        "replica_id": -1, "isolation_level": 0,
        "topics": [{"name": "t", "partitions": [
            {"partition_index": 0, "current_leader_epoch": 0, "timestamp": -1}]}],
    },
    ApiKey.LEADER_AND_ISR: {
        **_CONTROLLER, "type_": 0, "live_leaders": [{"broker_id": 1, "host_name": "h", "port": 1}],
        "topic_states": [{"topic_name": "t", "partition_states": [
            {**_STATE, "partition_epoch": 3, "adding_replicas": [], "removing_replicas": [],
             "is_new": False, "leader_recovery_state": 0}]}],
    },
    ApiKey.STOP_REPLICA: {
        **_CONTROLLER,
        "topic_states": [{"topic_name": "t", "partition_states": [
            {"partition_index": 0, "leader_epoch": 5, "delete_partition": False}]}],
    },
    ApiKey.UPDATE_METADATA: {
        **_CONTROLLER,
        "topic_states": [{"topic_name": "t", "partition_states": [
            {**_STATE, "zk_version": 1, "offline_replicas": []}]}],
        "live_brokers": [{"id_": 1, "rack": "r", "endpoints": [
            {"port": 1, "host": "h", "listener": "PLAINTEXT", "security_protocol": 0}]}],
    },
    ApiKey.OFFSET_COMMIT: {
        "group_id": "g", "generation_id_or_member_epoch": -1, "member_id": "",
        "group_instance_id": None, "retention_time": -1,
        "topics": [{"name": "t", "partitions": [
            {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": 0,
             "committed_metadata": "m"}]}],
    },
    ApiKey.DELETE_RECORDS: {
        "timeout": 10,
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "offset": 0}]}],
    },
    ApiKey.INIT_PRODUCER_ID: {
        "transactional_id": None, "transaction_timeout": 1000, "producer_id": -1,
        "producer_epoch": -1,
    },
    ApiKey.DESCRIBE_CONFIGS: {
        "resources": [{"resource_type": 2, "resource_name": "t",
                       "configuration_keys": ["retention.ms"]}],
        "include_synonyms": True, "include_documentation": True,
    },
    ApiKey.ALTER_CONFIGS: {
        "resources": [{"resource_type": 2, "resource_name": "t",
                       "configs": [{"name": "retention.ms", "value": "1"}]}],
        "validate_only": False,
    },
    ApiKey.INCREMENTAL_ALTER_CONFIGS: {
        "resources": [{"resource_type": 2, "resource_name": "t", "configs": [
            {"name": "retention.ms", "config_operation": 0, "value": "1"}]}],
        "validate_only": False,
    },
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: {
        "timeout": 10,
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
    },
    ApiKey.LIST_PARTITION_REASSIGNMENTS: {
        "timeout": 10, "topics": [{"name": "t", "partition_indexes": [0]}],
    },
    ApiKey.DESCRIBE_PRODUCERS: {"topics": [{"name": "t", "partition_indexes": [0]}]},
    ApiKey.HEARTBEAT: {"group_id": "g", "generation_id": 1, "member_id": "m",
                       "group_instance_id": None},
    ApiKey.LEAVE_GROUP: {
        "group_id": "g", "member_id": "m",
        "members": [{"member_id": "m", "group_instance_id": None}],
    },
    ApiKey.DELETE_GROUPS: {"groups_names": ["g"]},
    ApiKey.ALTER_PARTITION: {
        "broker_id": 1, "broker_epoch": 100,
        "topics": [{"topic_id": uuid.UUID(int=77), "partitions": [
            {"partition_index": 0, "leader_epoch": 0, "new_isr": [1], "partition_epoch": 0,
             "new_isr_with_epochs": [{"broker_id": 1, "broker_epoch": 100}],
             "leader_recovery_state": 0}]}],
    },
}  # fmt: skip


def body_of(api: ApiKey) -> dict[str, Any]:
    return DEEPER.get(api) or _MORE.get(api) or BODIES.get(api) or {}


def careless(body: Any) -> Iterator[Any]:
    """The body with one value changed, in every way and place."""
    for path, value in _places(body):
        for other in _others(path, value):
            changed = copy.deepcopy(body)
            place = changed
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = other
            yield changed


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if path:
        yield path, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _places(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _places(inner, (*path, index))


def _others(path: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    if path[-1] in _WAITS | _COUNTS:
        return ()
    match value:
        case bool():
            return (not value,)
        case int():
            return INTEGERS
        case str():
            return STRINGS
        case bytes():
            return BYTES
        case list():
            return ([], value * 2, value * 300, None)
        case _:
            return ("x",)


def sendable(api: ApiKey, version: int, body: Any) -> bool:
    """Whether the protocol has a place for these values."""
    try:
        encode_request(build(request_class(api, version), **body), 1, "tester")
    except Exception:
        return False
    return True


@pytest.mark.parametrize("api", list(SUPPORTED), ids=lambda api: api.name)
def test_each_is_answered_and_none_is_a_bug(
    make_node: Callable[..., Any], api: ApiKey, caplog: pytest.LogCaptureFixture
) -> None:
    node = make_node()
    node.lead("t")
    sent = 0
    for version in sorted(set(SUPPORTED[api])):
        for body in careless(body_of(api)):
            if not sendable(api, version, body):
                continue
            sent += 1
            with caplog.at_level(logging.ERROR):
                reply = node.send(api, version, **body)
            assert not caplog.records, body
            if api not in MAY_WAIT:
                reply.wait()
    assert sent > 5 or len(list(careless(body_of(api)))) < 20, "the body does not fit the API"

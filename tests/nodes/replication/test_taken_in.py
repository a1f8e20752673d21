"""Every field of a controller's requests as a broker takes them in, whatever their version is."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from nodes.core.types import TopicPartition
from nodes.replication.control_requests import (
    StopState,
    leader_and_isr_states,
    metadata_partitions,
    metadata_rows,
    stop_states,
)
from nodes.replication.model import LeaderAndIsrState
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.build import build

ID = UUID(int=5)


@pytest.mark.parametrize("version", range(4, 8))
@pytest.mark.parametrize("topic_id", [ID, None])
def test_leader_and_isr(version: int, topic_id: UUID | None) -> None:
    """Topic ids are told from version 5 on."""
    row: dict[str, Any] = {
        "partition_index": 11,
        "controller_epoch": 12,
        "leader": 13,
        "leader_epoch": 14,
        "isr": [15, 16],
        "partition_epoch": 17,
        "replicas": [18, 19],
        "adding_replicas": [20],
        "removing_replicas": [21, 22],
    }
    topic: dict[str, Any] = {"topic_name": "t", "partition_states": [row, row | {"leader": 3}]}
    if version >= 5:
        topic["topic_id"] = topic_id
    fields: dict[str, Any] = {"type_": 0} if version >= 5 else {}
    request = build(
        request_class(ApiKey.LEADER_AND_ISR, version),
        controller_id=1,
        controller_epoch=2,
        broker_epoch=3,
        topic_states=[topic],
        live_leaders=[],
        **fields,
    )
    first, second = leader_and_isr_states(request)
    assert first == LeaderAndIsrState(
        tp=TopicPartition("t", 11),
        topic_id=topic_id if version >= 5 else None,
        controller_epoch=12,
        leader=13,
        leader_epoch=14,
        isr=(15, 16),
        partition_epoch=17,
        replicas=(18, 19),
        adding_replicas=(20,),
        removing_replicas=(21, 22),
    )
    assert second.leader == 3


@pytest.mark.parametrize("delete", [True, False])
def test_stop_replica(delete: bool) -> None:
    """Before version 3 without epochs, and all or nothing is deleted."""
    header = {"controller_id": 1, "controller_epoch": 2, "broker_epoch": 3}
    of_two = build(
        request_class(ApiKey.STOP_REPLICA, 2),
        **header,
        delete_partitions=delete,
        topics=[
            {"name": "t", "partition_indexes": [4, 5]},
            {"name": "u", "partition_indexes": [6]},
        ],
    )
    assert list(stop_states(of_two)) == [
        StopState(TopicPartition(t, p), -1, delete) for t, p in (("t", 4), ("t", 5), ("u", 6))
    ]
    rows = [
        {"partition_index": 4, "leader_epoch": 7, "delete_partition": delete},
        {"partition_index": 5, "leader_epoch": -2, "delete_partition": not delete},
    ]
    for version in (3, 4):
        request = build(
            request_class(ApiKey.STOP_REPLICA, version),
            **header,
            topic_states=[{"topic_name": "t", "partition_states": rows}],
        )
        assert list(stop_states(request)) == [
            StopState(TopicPartition("t", 4), 7, delete),
            StopState(TopicPartition("t", 5), -2, not delete),
        ]


@pytest.mark.parametrize("version", range(5, 9))
def test_update_metadata(version: int) -> None:
    """What is traced is who told it, not who decided it."""
    row = {
        "partition_index": 11,
        "controller_epoch": 12,
        "leader": 13,
        "leader_epoch": 14,
        "isr": [15],
        "zk_version": 16,
        "replicas": [17],
        "offline_replicas": [18],
    }
    topic: dict[str, Any] = {"topic_name": "t", "partition_states": [row]}
    request = build(
        request_class(ApiKey.UPDATE_METADATA, version),
        controller_id=1,
        controller_epoch=2,
        broker_epoch=3,
        topic_states=[topic | ({"topic_id": ID} if version >= 7 else {})],
        live_brokers=[],
    )
    assert list(metadata_partitions(request)) == [TopicPartition("t", 11)]
    assert list(metadata_rows(request)) == [
        {"topic": "t", "partition": 11, "leader": 13, "leader_epoch": 14, "controller_epoch": 2}
    ]

"""Every field of every request that a broker sends to another on its own account: a follower's
Fetch and ListOffsets (RemoteLeaderEndPoint), a leader's AlterPartition (AlterPartitionManager), a
leaving broker's ControlledShutdown (KafkaServer)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from nodes.config import BrokerConfig
from nodes.controller import shutdown
from nodes.core.brokers import Broker, EndPoint
from nodes.core.isr import committed
from nodes.core.types import TopicPartition
from nodes.replication import leader_endpoint
from nodes.replication.alter_partition import AlterPartitionManager
from nodes.replication.leader_endpoint import RemoteLeader
from nodes.replication.model import FetchPartitionRequest
from nodes.replication.partition import IsrAnswer, IsrProposal
from nodes.wire.apis import ApiKey, request_class, response_class
from nodes.wire.build import build

ONE, TWO = UUID(int=1), UUID(int=2)


class Wire:
    """In place of connections: keeps what is asked, answers what the test says."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.dialled: list[tuple[Any, ...]] = []
        self.dials_s: list[float] = []
        self.fields: dict[str, Any] = {}

    def __call__(self, *endpoint: Any) -> Wire:
        self.dialled.append(endpoint)
        return self

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: Any) -> None: ...

    def connect(self, timeout_s: float) -> None:
        self.dials_s.append(timeout_s)

    def request(self, entity: Any) -> Any:
        self.asked.append(entity)
        answer = response_class(entity.__api_key__, entity.__version__)
        return build(answer, **self.fields)

    def close(self) -> None: ...


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    wire = Wire()
    monkeypatch.setattr(leader_endpoint, "Connection", wire)
    monkeypatch.setattr(shutdown, "Connection", wire)
    return wire


@pytest.fixture
def config() -> BrokerConfig:
    """No two numbers are the same."""
    return BrokerConfig.from_properties(
        {
            "broker.id": "3",
            "zookeeper.connect": "unused:1",
            "replica.fetch.wait.max.ms": "11",
            "replica.fetch.min.bytes": "12",
            "replica.fetch.response.max.bytes": "13",
            "replica.fetch.max.bytes": "14",
            "replica.socket.timeout.ms": "15000",
            "controller.socket.timeout.ms": "16000",
            "request.timeout.ms": "17000",
        }
    )


def test_a_followers_fetch(wire: Wire, config: BrokerConfig) -> None:
    """Version 12: by the last fetched epoch, without topic ids and sessions."""
    wire.fields = {"responses": []}
    leader = RemoteLeader(config, 9, 4, lambda i: (f"h{i}", 90))
    asked = [
        (TopicPartition("t", 1), FetchPartitionRequest(21, 22, 23, 24, 25)),
        (TopicPartition("u", 0), FetchPartitionRequest(31, 32, 33, 34, 35)),
        (TopicPartition("t", 2), FetchPartitionRequest(41, 42, 43, 44, 45)),
    ]
    leader.fetch(asked)

    def row(partition: int, first: int) -> dict[str, int]:
        return {
            "partition": partition,
            "fetch_offset": first,
            "log_start_offset": first + 1,
            "partition_max_bytes": first + 2,
            "current_leader_epoch": first + 3,
            "last_fetched_epoch": first + 4,
        }

    assert wire.asked == [
        build(
            request_class(ApiKey.FETCH, 12),
            cluster_id=None,
            replica_id=3,
            max_wait=11,
            min_bytes=12,
            max_bytes=13,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[
                {"topic": "t", "partitions": [row(1, 21), row(2, 41)]},
                {"topic": "u", "partitions": [row(0, 31)]},
            ],
            forgotten_topics_data=[],
            rack_id="",
        )
    ]
    assert wire.dialled == [("h9", 90, "broker-3-fetcher-4", 15.0)]


@pytest.mark.parametrize(("method", "timestamp"), [("latest_offset", -1), ("earliest_offset", -2)])
def test_a_followers_list_offsets(
    wire: Wire, config: BrokerConfig, method: str, timestamp: int
) -> None:
    """As a replica, or it would be told of what is committed only."""
    answer = {"partition_index": 1, "error_code": 0, "timestamp": -1, "offset": 77}
    wire.fields = {"topics": [{"name": "t", "partitions": [answer | {"leader_epoch": 6}]}]}
    leader = RemoteLeader(config, 9, 4, lambda i: (f"h{i}", 90))
    assert getattr(leader, method)(TopicPartition("t", 1), 5) == (0, -1, 77, 6)
    asked = {"partition_index": 1, "current_leader_epoch": 5, "timestamp": timestamp}
    assert wire.asked == [
        build(
            request_class(ApiKey.LIST_OFFSETS, 7),
            replica_id=3,
            isolation_level=0,
            topics=[{"name": "t", "partitions": [asked]}],
        )
    ]


def proposal(topic_id: UUID, leader_epoch: int, isr: tuple[int, ...]) -> IsrProposal:
    return IsrProposal(topic_id, leader_epoch, leader_epoch + 10, isr, committed(isr))


def test_a_leaders_alter_partition_until_each_is_answered(wire: Wire) -> None:
    """All that wait go together; what the controller says nothing of is asked again, the others
    not; a broker epoch is that of the moment, and nobody's else is known."""
    epochs = iter([51, 52, 53])
    manager = AlterPartitionManager(3, wire, lambda: next(epochs))
    answers: dict[str, IsrAnswer] = {}
    tps = {"a": TopicPartition("t", 1), "b": TopicPartition("u", 0), "c": TopicPartition("t", 2)}
    proposals = {
        "a": proposal(ONE, 4, (1, 2)),
        "b": proposal(TWO, 5, (3,)),
        "c": proposal(ONE, 6, (2, 1)),
    }
    for name, tp in tps.items():
        assert manager.submit(tp, proposals[name], lambda a, n=name: answers.update({n: a}))
    assert not manager.submit(tps["a"], proposals["a"], lambda _: None)

    def row(partition: int, of: IsrProposal) -> dict[str, Any]:
        return {
            "partition_index": partition,
            "leader_epoch": of.leader_epoch,
            "partition_epoch": of.partition_epoch,
            "leader_recovery_state": 0,
            "new_isr_with_epochs": [{"broker_id": i, "broker_epoch": -1} for i in of.isr],
        }

    def whole(broker_epoch: int, *topics: tuple[UUID, list[dict[str, Any]]]) -> Any:
        return build(
            request_class(ApiKey.ALTER_PARTITION, 3),
            broker_id=3,
            broker_epoch=broker_epoch,
            topics=[{"topic_id": i, "partitions": rows} for i, rows in topics],
        )

    def told(partition: int, error: int, epoch: int, isr: list[int]) -> dict[str, Any]:
        return {
            "partition_index": partition,
            "error_code": error,
            "leader_id": 3,
            "leader_epoch": epoch,
            "partition_epoch": epoch + 11,
            "isr": isr,
            "leader_recovery_state": 0,
        }

    wire.fields = {"error_code": 77, "topics": []}
    assert not manager._send(dict(manager._pending))
    assert answers == {}
    wire.fields = {
        "error_code": 0,
        "topics": [{"topic_id": ONE, "partitions": [told(2, 0, 6, [2, 1]), told(1, 95, -1, [])]}],
    }
    assert not manager._send(dict(manager._pending)), "one is not answered"
    assert answers == {"a": IsrAnswer(95, -1, 10, ()), "c": IsrAnswer(0, 6, 17, (2, 1))}
    wire.fields = {
        "error_code": 0,
        "topics": [{"topic_id": TWO, "partitions": [told(0, 0, 5, [3])]}],
    }
    assert manager._send(dict(manager._pending))
    assert answers["b"] == IsrAnswer(0, 5, 16, (3,))
    assert not manager._pending
    all_three = (
        (ONE, [row(1, proposals["a"]), row(2, proposals["c"])]),
        (TWO, [row(0, proposals["b"])]),
    )
    assert wire.asked == [
        whole(51, *all_three),
        whole(52, *all_three),
        whole(53, (TWO, [row(0, proposals["b"])])),
    ]
    assert manager.submit(tps["a"], proposals["a"], lambda _: None), "it may be asked again"


class Zoo:
    is_connected = True

    def get_controller_id(self) -> int:
        return 8

    def get_broker(self, broker_id: int) -> Broker:
        endpoints = (
            EndPoint("CONTROLLER", "PLAINTEXT", "wrong", 1),
            EndPoint("PLAINTEXT", "PLAINTEXT", f"h{broker_id}", 80),
        )
        return Broker(broker_id, endpoints)


def test_a_leaving_brokers_controlled_shutdown(wire: Wire, config: BrokerConfig) -> None:
    zoo: Any = Zoo()
    wire.fields = {"error_code": 0, "remaining_partitions": []}
    assert shutdown.controlled_shutdown(config, zoo, lambda: 61)
    assert wire.asked == [
        build(request_class(ApiKey.CONTROLLED_SHUTDOWN, 3), broker_id=3, broker_epoch=61)
    ]
    assert (wire.dialled, wire.dials_s) == ([("h8", 80, "3", 17.0)], [16.0])

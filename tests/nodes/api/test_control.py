"""Requests between controller and broker: fencing as a real 3.9 does it, and the evidence left."""

from __future__ import annotations

import dataclasses
import itertools
import logging
import uuid
from typing import Any

import pytest

from checkers.history import problem_with
from nodes.core.errors import Errors
from nodes.groups.coordinator import GroupCoordinator
from nodes.groups.store import OFFSETS_TOPIC
from nodes.wire.apis import ApiKey

STALE_BROKER = Errors.STALE_BROKER_EPOCH
STALE_CONTROLLER = Errors.STALE_CONTROLLER_EPOCH


def partition_errors(answer: Any) -> list[int]:
    return [int(p.error_code) for topic in answer.topics for p in topic.partition_errors]


class TestLeaderAndIsr:
    @pytest.mark.parametrize(
        ("changes", "error", "partition_error"),
        [
            ({"controller_epoch": 0}, STALE_CONTROLLER, STALE_CONTROLLER),
            ({"broker_epoch": 99}, STALE_BROKER, STALE_BROKER),
            ({"broker_epoch": 99, "controller_epoch": 0}, STALE_BROKER, STALE_BROKER),
            ({"broker_epoch": 101}, 0, 0),
            ({"broker_epoch": -1}, 0, 0),
            ({"controller_id": 77}, 0, 0),
            ({"controller_epoch": 11}, 0, 0),
            ({"topic_id": uuid.UUID(int=9)}, 0, Errors.INCONSISTENT_TOPIC_ID),
        ],
    )
    def test_fencing(
        self, node: Any, changes: dict[str, Any], error: int, partition_error: int
    ) -> None:
        node.lead("t", topic_id=uuid.UUID(int=1))
        fields = {"topic_id": uuid.UUID(int=1)} | changes
        answer = node.leader_and_isr("t", [(0, 1, 1)], **fields)
        assert answer.error_code == error
        assert partition_errors(answer) == [partition_error]

    @pytest.mark.parametrize(("leader_epoch", "error"), [(4, 11), (5, 11), (6, 0)])
    def test_leader_epochs(self, node: Any, leader_epoch: int, error: int) -> None:
        node.lead("t", leader_epoch=5)
        answer = node.leader_and_isr("t", [(0, 2, leader_epoch)])
        assert answer.error_code == 0
        assert partition_errors(answer) == [error]

    def test_version_4_names_topics(self, node: Any) -> None:
        answer = node.leader_and_isr("t", [(0, 1, 0), (1, 1, 0)], version=4)
        rows = [
            (p.topic_name, p.partition_index, int(p.error_code)) for p in answer.partition_errors
        ]
        assert rows == [("t", 0, 0), ("t", 1, 0)]

    @pytest.mark.parametrize("version", [5, 6, 7])
    def test_later_versions_have_ids(self, node: Any, version: int) -> None:
        """From version 5 on (KIP-516): errors lie under the topic's id."""
        topic_id = uuid.UUID(int=7)
        answer = node.leader_and_isr("t", [(0, 1, 0)], version=version, topic_id=topic_id)
        assert [topic.topic_id for topic in answer.topics] == [topic_id]
        assert partition_errors(answer) == [0]

    @pytest.mark.parametrize(
        ("version", "changes", "answered"),
        [
            (7, {}, [[0, 0, 0]]),
            (4, {}, [0, 0, 0]),
            (7, {"controller_epoch": 0}, [[11, 11, 11], [11]]),
            (4, {"controller_epoch": 0}, [11, 11, 11, 11]),
        ],
    )
    def test_each_partition_is_answered_once(
        self, node: Any, version: int, changes: dict[str, Any], answered: list[Any]
    ) -> None:
        """Those of all topics without an id together, and one that is named twice once; a request
        that is refused row by row (LeaderAndIsrRequest.getErrorResponse)."""
        node.lead("other")
        state = {"leader": 1, "leader_epoch": 1, "isr": [1], "replicas": [1]}
        state |= {"controller_epoch": 1, "partition_epoch": 1}
        topics = [
            {
                "topic_name": name,
                "partition_states": [{"partition_index": i, **state} for i in indexes],
            }
            for name, indexes in (("t", [0, 1, 1]), ("u", [0]))
        ]
        answer = node.leader_and_isr("t", [], version=version, topic_states=topics, **changes)
        if version == 4:
            assert [int(p.error_code) for p in answer.partition_errors] == answered
        else:
            rows = [[int(p.error_code) for p in topic.partition_errors] for topic in answer.topics]
            assert rows == answered

    def test_an_order_for_an_earlier_life_says_which(
        self, node: Any, caplog: pytest.LogCaptureFixture
    ) -> None:
        """KafkaApis.isBrokerEpochStale: both broker epochs, and who sent it."""
        with caplog.at_level("INFO", "kafka.server.KafkaApis"):
            node.leader_and_isr("t", [(0, 1, 0)], broker_epoch=99, controller_epoch=4)
        assert (
            "[KafkaApi-1] Received LeaderAndIsr request with broker epoch 99 smaller than the "
            "current broker epoch 100 from controller 1 with epoch 4."
        ) in caplog.messages

    def test_a_later_controller_fences_the_earlier(self, node: Any) -> None:
        node.leader_and_isr("t", [(0, 1, 0)], controller_epoch=11)
        answer = node.leader_and_isr("t", [(0, 1, 1)], controller_epoch=10)
        assert answer.error_code == STALE_CONTROLLER


class TestUpdateMetadata:
    @pytest.mark.parametrize(
        ("changes", "error"),
        [
            ({"controller_epoch": 0}, STALE_CONTROLLER),
            ({"broker_epoch": 99}, STALE_BROKER),
            ({"broker_epoch": -1}, 0),
        ],
    )
    def test_fencing(
        self, node: Any, topic_state: Any, changes: dict[str, Any], error: int
    ) -> None:
        node.lead("t")
        answer = node.update_metadata([topic_state("t", [(0, 2, 5)])], **changes)
        assert answer.error_code == error
        state = node.cache.partition_state("t", 0)
        assert state.leader_epoch == (0 if error else 5)

    @pytest.mark.parametrize(
        "changes", [{"controller_epoch": 0}, {"broker_epoch": 99}, {"broker_epoch": 100}]
    )
    def test_stale_news_of_brokers_is_none(self, node: Any, changes: dict[str, Any]) -> None:
        """Also where nothing is said of partitions."""
        node.lead("t")
        before = set(node.cache.alive_brokers())
        stale = changes.get("broker_epoch") != 100
        answer = node.update_metadata([], live_brokers=[node.own_broker()], **changes)
        assert bool(answer.error_code) == stale
        assert before == {1, 2}
        assert set(node.cache.alive_brokers()) == (before if stale else {1})

    def test_groups_forget_what_was_deleted(
        self, node: Any, topic_state: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """KafkaApis.handleUpdateMetadataRequest: offsets of partitions that are no more are gone,
        and nothing is said of others."""
        heard: list[list[tuple[str, int]]] = []
        monkeypatch.setattr(
            GroupCoordinator, "on_partitions_deleted", lambda _, tps: heard.append(list(tps))
        )
        node.lead("t")
        heard.clear()
        node.update_metadata([topic_state("t", [(0, 2, 5), (1, -2, 0)])])
        assert heard == [[("t", 1)]]


class TestStopReplica:
    @staticmethod
    def stop(node: Any, leader_epoch: int = 5, **changes: Any) -> Any:
        rows = [{"partition_index": 0, "leader_epoch": leader_epoch, "delete_partition": False}]
        fields: dict[str, Any] = {
            "controller_id": 1,
            "controller_epoch": 1,
            "broker_epoch": 100,
            "topic_states": [{"topic_name": "t", "partition_states": rows}],
        }
        return node.call(ApiKey.STOP_REPLICA, 4, **(fields | changes))

    @pytest.mark.parametrize(
        ("leader_epoch", "error"),
        [(4, Errors.FENCED_LEADER_EPOCH), (5, 0), (6, 0), (-1, 0), (-2, 0)],
    )
    def test_leader_epochs(self, node: Any, leader_epoch: int, error: int) -> None:
        node.lead("t", leader_epoch=5)
        answer = self.stop(node, leader_epoch)
        assert answer.error_code == 0
        assert [int(p.error_code) for p in answer.partition_errors] == [error]

    @pytest.mark.parametrize(
        ("leader_epoch", "delete", "code"),
        [(5, True, Errors.NOT_COORDINATOR), (5, False, 0), (4, True, 0)],
    )
    def test_who_loses_the_groups_partition_coordinates_no_more(
        self, node: Any, wait_until: Any, leader_epoch: int, delete: bool, code: int
    ) -> None:
        """Unless the order is stale, or leaves the partition where it is
        (KafkaApis.handleStopReplicaRequest)."""
        node.lead(OFFSETS_TOPIC, leader_epoch=5)
        coordinates = {"group_id": "g", "topics": None}

        def error() -> int:
            return int(node.call(ApiKey.OFFSET_FETCH, 5, **coordinates).error_code)

        wait_until(lambda: error() == 0)
        rows = [{"partition_index": 0, "leader_epoch": leader_epoch, "delete_partition": delete}]
        self.stop(node, topic_states=[{"topic_name": OFFSETS_TOPIC, "partition_states": rows}])
        assert error() == code

    @pytest.mark.parametrize(
        ("changes", "error"),
        [({"controller_epoch": 0}, STALE_CONTROLLER), ({"broker_epoch": 99}, STALE_BROKER)],
    )
    def test_fencing(self, node: Any, changes: dict[str, Any], error: int) -> None:
        node.lead("t", leader_epoch=5)
        answer = self.stop(node, **changes)
        assert answer.error_code == error
        assert answer.partition_errors == ()

    def test_old_layout(self, node: Any) -> None:
        node.lead("t")
        answer = node.call(
            ApiKey.STOP_REPLICA,
            1,
            controller_id=1,
            controller_epoch=1,
            broker_epoch=100,
            delete_partitions=True,
            topics=[{"name": "t", "partition_indexes": [0]}],
        )
        assert [p.error_code for p in answer.partition_errors] == [0]
        (row,) = [r for r in node.trace("control_request") if r["api"] == "STOP_REPLICA"]
        assert row["partitions"][0]["leader_epoch"] is None


@pytest.mark.parametrize("broker_epoch", [-1, 99, 100, 101])
def test_only_what_is_for_a_former_life_is_said_to_be(
    node: Any, caplog: pytest.LogCaptureFixture, broker_epoch: int
) -> None:
    """KafkaApis.isBrokerEpochStale, of all three, with both epochs."""
    with caplog.at_level(logging.INFO, "kafka.server.KafkaApis"):
        node.leader_and_isr("t", [(0, 1, 2)], broker_epoch=broker_epoch)
        node.update_metadata([], broker_epoch=broker_epoch)
        TestStopReplica.stop(node, 2, broker_epoch=broker_epoch)
    said = [r.getMessage() for r in caplog.records]
    assert said == [
        f"[KafkaApi-1] Received {api} request with broker epoch 99 smaller than the current "
        "broker epoch 100 from controller 1 with epoch 1."
        for api in ("LeaderAndIsr", "UpdateMetadata", "StopReplica")
        if broker_epoch == 99
    ]


class TestTrace:
    def test_every_controller_request_leaves_its_whole_way(self, node: Any) -> None:
        node.lead("t", leader_epoch=3)
        node.leader_and_isr("t", [(0, 1, 2)], broker_epoch=7)
        TestStopReplica.stop(node, 2)
        rows = node.trace("control_request")
        for row in rows:
            assert problem_with(row) is None
            assert row["receive_t"] <= row["handled_t"] < row["t"]
            assert row["own_broker_epoch"] == 100
        _, applied, told, refused, stopped = rows
        assert [r["api"] for r in rows] == [
            "UPDATE_METADATA",
            "LEADER_AND_ISR",
            "UPDATE_METADATA",
            "LEADER_AND_ISR",
            "STOP_REPLICA",
        ]
        shown = {"topic": "t", "partition": 0, "leader": 1, "leader_epoch": 3, "error": 0}
        assert applied["partitions"] == told["partitions"] == [shown]
        assert (refused["error"], refused["broker_epoch"]) == (77, 7)
        assert refused["partitions"][0]["error"] == 77
        assert stopped["error"] == 0
        assert stopped["partitions"][0]["error"] == Errors.FENCED_LEADER_EPOCH
        assert applied["client_id"] == "tester"
        assert (applied["plane"], applied["listener"]) == ("data", "PLAINTEXT")

    def test_each_time_is_its_own(self, node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        """When it was read, when there was room for it, when a handler took it up: the wait for
        room is what KIP-291 is about, and has to be told from the wait in the queue."""
        handle = node.apis.handle

        def noted(request: Any) -> None:
            request.receive_ns, request.enqueue_ns, request.dequeue_ns = 11, 22, 33
            handle(request)

        monkeypatch.setattr(node.apis, "handle", noted)
        node.lead("t")
        TestStopReplica.stop(node, 2)
        rows = node.trace("control_request")[-3:]
        assert len({row["api"] for row in rows}) == 3
        for row in rows:
            assert (row["receive_t"], row["enqueue_t"], row["dequeue_t"]) == (11, 22, 33)
            assert (row["controller_id"], row["controller_epoch"]) == (1, 1)

    def test_the_own_epoch_is_the_one_it_was_held_against(
        self, node: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The broker may have registered anew before its answer has left."""
        own = itertools.count(100)
        control = node.apis._handlers[ApiKey.STOP_REPLICA].__self__
        later = dataclasses.replace(control._services, broker_epoch=lambda: next(own))
        monkeypatch.setattr(control, "_services", later)
        for epoch in (100, 101):
            TestStopReplica.stop(node)
            assert node.trace("control_request")[-1]["own_broker_epoch"] == epoch

    def test_it_is_the_listener_that_it_came_in_on(self, node: Any) -> None:
        TestStopReplica.stop(node, listener="CONTROLLER")
        assert node.trace("control_request")[-1]["listener"] == "CONTROLLER"


class TestToTheController:
    def test_controlled_shutdown(self, node: Any) -> None:
        answer = node.call(ApiKey.CONTROLLED_SHUTDOWN, 3, broker_id=2, broker_epoch=55)
        rows = [(p.topic_name, p.partition_index) for p in answer.remaining_partitions]
        assert (answer.error_code, rows) == (0, [("t", 3), ("t", 4), ("u", 0)])
        node.call(ApiKey.CONTROLLED_SHUTDOWN, 1, broker_id=2)
        assert [call[1] for call in node.admin.calls] == [(2, 55), (2, -1)]

    def test_alter_partition(self, node: Any) -> None:
        fields = {"broker_id": 1, "broker_epoch": 100, "topics": []}
        assert node.call(ApiKey.ALTER_PARTITION, 3, **fields).error_code == 0
        node.admin.is_active = False
        answer = node.call(ApiKey.ALTER_PARTITION, 3, **fields)
        assert answer.error_code == Errors.NOT_CONTROLLER

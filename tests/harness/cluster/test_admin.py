"""What an administrator does in ZooKeeper itself."""

from __future__ import annotations

import json
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.client import KazooClient

from faults.protocol import FaultFailed, Link
from harness.cluster.admin import ClusterAdmin
from harness.cluster.ask import NoAnswer

_CONTROLLER = "/kafka/controller"


def test_a_controller_is_removed_and_may_be_gone_already(zookeeper: str) -> None:
    nothing: Any = None
    with closing(KazooClient(zookeeper)) as client:
        client.start()
        try:
            client.create(_CONTROLLER, b"{}", makepath=True)
            admin = ClusterAdmin(nothing, nothing, client)
            admin.remove_controller()
            assert client.exists(_CONTROLLER) is None
            admin.remove_controller()
        finally:
            client.stop()


def test_without_zookeeper_there_is_nothing_to_remove() -> None:
    nothing: Any = None
    with pytest.raises(FaultFailed, match="no ZooKeeper"):
        ClusterAdmin(nothing, nothing).remove_controller()


def test_a_topic_grows_by_its_znode(zookeeper: str) -> None:
    nothing: Any = None
    path = "/kafka/brokers/topics/grown"
    with closing(KazooClient(zookeeper)) as client:
        client.start()
        try:
            told = {"version": 3, "topic_id": "id", "partitions": {"0": [1]}, "adding_replicas": {}}
            client.create(path, json.dumps(told).encode(), makepath=True)
            admin = ClusterAdmin(nothing, nothing, client)
            admin.write_partitions("grown", {1: (2, 1), 2: [3]})
            assert json.loads(client.get(path)[0]) == {
                **told, "partitions": {"0": [1], "1": [2, 1], "2": [3]}
            }  # fmt: skip
            with pytest.raises(FaultFailed, match="writing partitions of gone"):
                admin.write_partitions("gone", {0: [1]})
        finally:
            client.delete(path)
            client.stop()
    with pytest.raises(FaultFailed, match="no ZooKeeper"):
        ClusterAdmin(nothing, nothing).write_partitions("t", {0: [1]})


@pytest.mark.parametrize("error", [0, 42])
def test_a_brokers_own_config_is_asked_of_itself(
    monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    asked: list[tuple[Any, Any]] = []

    def ask(address: Any, entity: Any, _timeout_s: float) -> Any:
        asked.append((address, entity))
        row = SimpleNamespace(error_code=error, error_message="Cannot update: Set(n)")
        return SimpleNamespace(responses=[row])

    monkeypatch.setattr("harness.cluster.admin.ask", ask)
    nothing: Any = None
    links: Any = SimpleNamespace(address=lambda node, link, direct: (f"node-{node}", link, direct))
    admin = ClusterAdmin(nothing, links)
    if error:
        with pytest.raises(FaultFailed, match=r"INVALID_REQUEST \(Cannot update: Set\(n\)\)"):
            admin.set_broker_config(2, "n", "v")
    else:
        admin.set_broker_config(2, "n", "v")
    ((address, entity),) = asked
    assert address == ("node-2", Link.CLIENT, True)
    ((resource,), (config,)) = entity.resources, entity.resources[0].configs
    assert (int(resource.resource_type), resource.resource_name) == (4, "2")  # BROKER
    assert (config.name, int(config.config_operation), config.value) == ("n", 0, "v")  # SET


@pytest.mark.parametrize("errors", [[-1, -1, 0], [None, -1, 0], [-1, 42], [0]])
def test_a_broker_that_has_just_come_back_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, errors: list[int | None]
) -> None:
    answers = iter(errors)

    def ask(*_: Any) -> Any:
        error = next(answers)
        if error is None:
            raise NoAnswer("connection refused")
        return SimpleNamespace(responses=[SimpleNamespace(error_code=error, error_message="no")])

    monkeypatch.setattr("harness.cluster.admin.ask", ask)
    monkeypatch.setattr("harness.cluster.admin._PAUSE_S", 0.001)
    nothing: Any = None
    links: Any = SimpleNamespace(address=lambda *_, direct: ("node", direct))
    admin = ClusterAdmin(nothing, links)
    if errors[-1]:
        with pytest.raises(FaultFailed, match="setting n of broker 2: INVALID_REQUEST"):
            admin.set_broker_config(2, "n", "v")
    else:
        admin.set_broker_config(2, "n", "v")
    assert next(answers, "none") == "none"


@pytest.mark.parametrize(("error", "says"), [(-1, "UNKNOWN_SERVER_ERROR"), (None, "refused")])
def test_a_broker_that_does_not_come_back_is_given_up(
    monkeypatch: pytest.MonkeyPatch, error: int | None, says: str
) -> None:
    def ask(*_: Any) -> Any:
        if error is None:
            raise NoAnswer("connection refused")
        return SimpleNamespace(responses=[SimpleNamespace(error_code=error, error_message="no")])

    monkeypatch.setattr("harness.cluster.admin.ask", ask)
    monkeypatch.setattr("harness.cluster.admin._PAUSE_S", 0.001)
    monkeypatch.setattr("harness.cluster.admin._TIMEOUT_S", 0.02)
    nothing: Any = None
    links: Any = SimpleNamespace(address=lambda *_, direct: ("node", direct))
    with pytest.raises(FaultFailed, match=says):
        ClusterAdmin(nothing, links).set_broker_config(2, "n", "v")


@pytest.mark.parametrize(
    ("rows", "value"), [([("m", "1"), ("n", "2")], "2"), ([], None), ([("n", None)], None)]
)
def test_what_a_broker_has_is_asked_of_itself(
    monkeypatch: pytest.MonkeyPatch, rows: list[tuple[str, Any]], value: str | None
) -> None:
    asked: list[Any] = []

    def ask(_address: Any, entity: Any, _timeout_s: float) -> Any:
        asked.append(entity)
        configs = [SimpleNamespace(name=name, value=of) for name, of in rows]
        return SimpleNamespace(results=[SimpleNamespace(error_code=0, configs=configs)])

    monkeypatch.setattr("harness.cluster.admin.ask", ask)
    nothing: Any = None
    links: Any = SimpleNamespace(address=lambda node, link, direct: (f"node-{node}", link, direct))
    assert ClusterAdmin(nothing, links).broker_config(2, "n") == value
    ((resource,),) = [entity.resources for entity in asked]
    assert (int(resource.resource_type), resource.resource_name) == (4, "2")  # BROKER
    assert resource.configuration_keys == ("n",)


def test_a_broker_that_does_not_tell_is_a_fault_that_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = SimpleNamespace(error_code=42, error_message="no", configs=[])
    monkeypatch.setattr("harness.cluster.admin.ask", lambda *_: SimpleNamespace(results=[row]))
    nothing: Any = None
    links: Any = SimpleNamespace(address=lambda node, link, direct: (f"node-{node}", link, direct))
    with pytest.raises(FaultFailed, match=r"reading n of broker 2: INVALID_REQUEST \(no\)"):
        ClusterAdmin(nothing, links).broker_config(2, "n")


@pytest.mark.parametrize("error", [0, 1])
def test_records_are_deleted_by_their_leader(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    asked: list[tuple[Any, Any]] = []

    def ask(address: Any, entity: Any, _timeout_s: float) -> Any:
        asked.append((address, entity))
        row = SimpleNamespace(partition_index=1, error_code=error)
        return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=[row])])

    monkeypatch.setattr("harness.cluster.admin.ask", ask)
    nothing: Any = None
    links: Any = SimpleNamespace(address=lambda node, link, direct: (f"node-{node}", link, direct))
    admin = ClusterAdmin(nothing, links)
    if error:
        with pytest.raises(FaultFailed, match=r"records of t-1: OFFSET_OUT_OF_RANGE$"):
            admin.delete_records(2, "t", 1, 30)
    else:
        admin.delete_records(2, "t", 1, 30)
    ((address, entity),) = asked
    assert address == ("node-2", Link.CLIENT, True)
    ((topic,), (row,)) = entity.topics, entity.topics[0].partitions
    assert (topic.name, int(row.partition_index), int(row.offset)) == ("t", 1, 30)


SESSION_ENDED, NOT_CONTROLLER, INVALID_CONFIG = -1, 41, 40


@pytest.mark.parametrize("errors", [[0], [INVALID_CONFIG], [SESSION_ENDED, NOT_CONTROLLER, 0]])
def test_the_configs_of_a_topic_are_changed_by_its_controller(
    monkeypatch: pytest.MonkeyPatch, errors: list[int]
) -> None:
    asked: list[tuple[Any, Any]] = []
    answers = iter(errors)

    def ask(address: Any, entity: Any, _timeout_s: float) -> Any:
        asked.append((address, entity))
        error = next(answers)
        row = SimpleNamespace(resource_name="t", error_code=error, error_message="no such config")
        return SimpleNamespace(responses=[row])

    monkeypatch.setattr("harness.cluster.admin.ask", ask)
    view: Any = SimpleNamespace(controller=lambda: 3)
    links: Any = SimpleNamespace(address=lambda node, link, direct: (f"node-{node}", link, direct))
    admin = ClusterAdmin(view, links)
    if errors[-1]:
        with pytest.raises(FaultFailed, match=r"topic t: t: INVALID_CONFIG \(no such config\)"):
            admin.alter_topic_configs("t", {"min.insync.replicas": "2"})
    else:
        admin.alter_topic_configs("t", {"min.insync.replicas": "2"})
    assert len(asked) == len(errors)
    address, entity = asked[-1]
    assert address == ("node-3", Link.CLIENT, True)
    ((resource,), (config,)) = entity.resources, entity.resources[0].configs
    assert (int(resource.resource_type), resource.resource_name) == (2, "t")  # TOPIC
    assert (config.name, config.value) == ("min.insync.replicas", "2")

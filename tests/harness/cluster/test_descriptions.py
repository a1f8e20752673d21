"""What is written down of what an operator is told, beside what is so."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest

from faults.protocol import Capability, FaultFailed, Link
from harness.cluster import descriptions
from harness.cluster.ask import NoAnswer
from harness.cluster.descriptions import Truth, Values, check_takes_part, compared
from harness.cluster.errors import StateUnreadable
from harness.cluster.state import parse_topic
from harness.cluster.view import ZookeeperView
from nodes.wire.apis import ApiKey, response_class
from nodes.wire.build import build

METADATA, CONFIGS = ApiKey.METADATA, ApiKey.DESCRIBE_CONFIGS


def rows(
    api: ApiKey, told: Values, before: Truth, after: Truth | None = None
) -> dict[tuple[str, str], tuple[str | None, str | None, bool]]:
    found = compared(api, told, before, before if after is None else after)
    return {(row["name"], row["key"]): (row["told"], row["truth"], row["known"]) for row in found}


def test_told_beside_its_truth() -> None:
    told = {("", "broker 1"): "a:1", ("t-0", "replicas"): "[1]"}
    truth: Truth = {METADATA: {("", "broker 1"): "a:2", ("t-0", "replicas"): "[1]"}}
    assert rows(METADATA, told, truth) == {
        ("", "broker 1"): ("a:1", "a:2", True),
        ("t-0", "replicas"): ("[1]", "[1]", True),
    }


def test_what_changed_meanwhile_has_no_truth() -> None:
    told = {("", "controller"): "1"}
    before, after = ({METADATA: {("", "controller"): node}} for node in "12")
    assert rows(METADATA, told, before, after) == {("", "controller"): ("1", None, False)}


def test_what_zookeeper_holds_and_nobody_tells() -> None:
    truth: Truth = {CONFIGS: {("t", "min.insync.replicas"): "2"}}
    assert rows(CONFIGS, {}, truth) == {("t", "min.insync.replicas"): (None, "2", True)}


def test_what_is_told_and_zookeeper_does_not_hold() -> None:
    """Settings it holds whole; of offline replicas it may say nothing."""
    held: Truth = {CONFIGS: {("t", "a"): "1"}, METADATA: {("", "brokers"): "[1]"}}
    assert rows(CONFIGS, {("t", "a"): "1", ("t", "b"): "2"}, held)["t", "b"] == ("2", None, True)
    assert rows(CONFIGS, {("t", "b"): "2"}, {CONFIGS: {}}) == {("t", "b"): ("2", None, True)}
    assert rows(CONFIGS, {("t", "b"): "2"}, held, {}) == {
        ("t", "a"): (None, None, False),
        ("t", "b"): ("2", None, False),
    }
    told = {("", "brokers"): "[1, 2]", ("t-0", "offline replicas"): "[2]"}
    found = rows(METADATA, told, held)
    assert found["", "brokers"] == ("[1, 2]", "[1]", True)
    assert found["t-0", "offline replicas"] == ("[2]", None, False)


def test_a_topic_that_is_not_named_is_left_to_those_who_asked_as_clients() -> None:
    truth: Truth = {METADATA: {("t-0", "replicas"): "[1]", ("", "cluster id"): "x"}}
    assert rows(METADATA, {}, truth) == {("", "cluster id"): (None, "x", True)}


def test_who_names_a_topic_tells_all_of_it() -> None:
    """A broker may have forgotten its id, and know its partitions still."""
    told = {("t", "is internal"): "False", ("t-0", "replicas"): "[1]"}
    whole: Values = {**told, ("t", "topic id"): "x", ("t-1", "replicas"): "[2]"}
    found = rows(METADATA, told, {METADATA: whole})
    assert found.pop(("t", "topic id")) == (None, "x", True)
    assert found == {key: (value, value, True) for key, value in told.items()}


def test_without_zookeeper_nothing_is_known() -> None:
    assert rows(METADATA, {("", "broker 1"): "a:1"}, {}) == {("", "broker 1"): ("a:1", None, False)}


def view(live: list[int], controller: int | None) -> Any:
    return SimpleNamespace(live_brokers=lambda: live, controller=lambda: controller)


def test_who_hears_of_nothing_is_held_to_nothing() -> None:
    check_takes_part(view([1, 2], 2), 1)
    with pytest.raises(StateUnreadable, match="not registered"):
        check_takes_part(view([2], 2), 1)
    with pytest.raises(StateUnreadable, match="no controller"):
        check_takes_part(view([1, 2], None), 1)


class _Moving:
    """A cluster whose controller is asked what moves."""

    def __init__(self, view: Any) -> None:
        self.view = view
        self.node_ids = [1]
        self.nodes = SimpleNamespace(is_running=lambda _node: True)
        self.asked: list[int] = []
        self.rows: list[dict[str, Any]] = []

    def address(self, node: int, *_: Any, **__: Any) -> tuple[str, int]:
        self.asked.append(node)
        return "127.0.0.1", 9092

    def record(self, kind: str, **fields: Any) -> None:
        assert kind == "described"
        self.rows.append(fields)


@pytest.mark.parametrize(
    ("controller", "served", "told", "rows"),
    [
        (2, [ApiKey.LIST_PARTITION_REASSIGNMENTS], "['t']", [("called-off", "['t']", None)]),
        (2, [ApiKey.LIST_PARTITION_REASSIGNMENTS], NoAnswer("timeout"), [(None, None, "timeout")]),
        (2, [ApiKey.METADATA], "['t']", []),
        (None, [ApiKey.LIST_PARTITION_REASSIGNMENTS], "['t']", []),
    ],
)
def test_who_is_asked_what_moves_is_the_controller(
    monkeypatch: pytest.MonkeyPatch,
    controller: int | None,
    served: list[ApiKey],
    told: str | NoAnswer,
    rows: list[tuple[str | None, str | None, str | None]],
) -> None:
    def described(*_: Any) -> list[dict[str, Any]]:
        if isinstance(told, NoAnswer):
            raise told
        return [{"name": "", "key": "topics that move", "told": told, "known": True}]

    monkeypatch.setattr(descriptions, "_served", lambda _address: served)
    monkeypatch.setattr(descriptions, "_described", described)
    view = create_autospec(ZookeeperView, instance=True)
    view.controller.return_value = controller
    cluster = _Moving(view)
    descriptions.record_moves(cluster, "called-off")  # type: ignore[arg-type]
    found = [(row.get("name"), row.get("told"), row.get("error")) for row in cluster.rows]
    assert found == rows
    assert set(cluster.asked) <= {2}


def test_two_partitions_that_move_at_once_are_two_things(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"name": f"t-{p}", "key": "move", "told": "", "known": True} for p in (0, 1)]
    monkeypatch.setattr(descriptions, "_served", lambda _: [ApiKey.LIST_PARTITION_REASSIGNMENTS])
    monkeypatch.setattr(descriptions, "_described", lambda *_: rows)
    view = create_autospec(ZookeeperView, instance=True)
    view.controller.return_value = 2
    cluster = _Moving(view)
    descriptions.record_moves(cluster, "called-off")  # type: ignore[arg-type]
    assert [row["key"] for row in cluster.rows] == ["t-0 move", "t-1 move"]


@pytest.mark.parametrize(
    ("api", "led", "known"),
    [
        (ApiKey.DESCRIBE_PRODUCERS, [{"t": [0]}, {"t": [0]}], True),
        (ApiKey.DESCRIBE_PRODUCERS, [{"t": [0]}, {}], False),
        (ApiKey.DESCRIBE_PRODUCERS, [{}, {}], False),
        (ApiKey.LIST_GROUPS, [{"t": [0]}, {"t": [0]}], False),
    ],
)
def test_who_refuses_what_it_led_all_the_while_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, api: ApiKey, led: list[dict[str, list[int]]], known: bool
) -> None:
    def refused(*_: Any) -> None:
        raise NoAnswer("NOT_LEADER_OR_FOLLOWER")

    view = create_autospec(ZookeeperView, instance=True)
    view.partitions.return_value = []
    cluster = _Moving(view)
    monkeypatch.setattr(descriptions, "record_gauges", lambda *_: None)
    monkeypatch.setattr(descriptions, "_served", lambda _address: [api])
    monkeypatch.setattr(descriptions, "check_takes_part", lambda *_: None)
    monkeypatch.setattr(descriptions, "_truth", lambda *_: {})
    monkeypatch.setattr(descriptions, "_led", lambda *_: led.pop(0))
    monkeypatch.setattr(descriptions, "_ask", refused)
    descriptions.record_descriptions(cluster, ())  # type: ignore[arg-type]
    (row,) = cluster.rows
    assert (row["error"], row["known"]) == ("NOT_LEADER_OR_FOLLOWER", known)


class _Twice:
    """A cluster of one broker, which is at one place for clients and at another for brokers."""

    def __init__(self) -> None:
        self.view = create_autospec(ZookeeperView, instance=True)
        self.view.cluster_id.return_value = "c"
        self.view.controller.return_value = 1
        self.view.live_brokers.return_value = [1]
        self.view.topics.return_value = self.view.partitions.return_value = []
        self.view.pending.return_value = []
        places = [SimpleNamespace(host="h", port=port) for port in (1, 2)]
        self.view.registrations.return_value = {1: SimpleNamespace(endpoints=places, rack=None)}
        self.capabilities: set[Capability] = set()

    def address(self, _node: int, link: Link, **_: Any) -> tuple[str, int]:
        return "h", 1 if link is Link.CLIENT else 2


@pytest.mark.parametrize("told_of_brokers", ["h:2", "h:1"])
@pytest.mark.parametrize("api", [METADATA, ApiKey.DESCRIBE_CLUSTER])
def test_where_brokers_are_is_asked_by_the_listener_of_brokers_too(
    monkeypatch: pytest.MonkeyPatch, api: ApiKey, told_of_brokers: str
) -> None:
    def told(address: tuple[str, int], *_: Any) -> Values:
        at = "h:1" if address == ("h", 1) else told_of_brokers
        whole = {"cluster id": "c", "controller": "1", "brokers": "[1]", "broker 1": at}
        return {("", key): value for key, value in whole.items()}

    monkeypatch.setattr(descriptions, "_ask", lambda *asked: told(*asked).items())
    found = {row["key"]: row for row in descriptions._described(_Twice(), 1, api, ())}  # type: ignore[arg-type]
    assert (found["broker 1"]["told"], found["broker 1"]["truth"]) == ("h:1", "h:1")
    row = found["broker 1, among brokers"]
    assert (row["told"], row["truth"], row["known"]) == (told_of_brokers, "h:2", True)
    assert len(found) == 5


def test_who_is_reached_by_one_listener_alone_is_asked_by_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Once(_Twice):
        def __init__(self) -> None:
            super().__init__()
            self.view = view([1], 1)
            self.view.partitions = lambda: []

        def address(self, node: int, link: Link, **_: Any) -> tuple[str, int]:
            if link is not Link.CLIENT:
                raise FaultFailed(f"node {node} has no {link} link")
            return "h", 1

    monkeypatch.setattr(descriptions, "_ask", lambda *_: {("", "broker 1"): "h:1"}.items())
    (row,) = descriptions._described(Once(), 1, METADATA, ())  # type: ignore[arg-type]
    assert (row["told"], row["known"]) == ("h:1", False)


@pytest.mark.parametrize(
    ("value", "source", "synonyms", "told"),
    [
        ("2", 4, [("num.io.threads", "2", 4), ("num.io.threads", "8", 5)], "2"),
        ("9", 2, [("num.io.threads", "9", 2), ("num.io.threads", "2", 4)], "2"),
        ("7", 4, [("num.io.threads", "2", 4)], "7, by its synonyms ['2']"),
        ("8", 5, [("num.io.threads", "8", 5)], "8, by its synonyms []"),
        ("9", 2, [("num.io.threads", "9", 2)], None),
        ("2", 4, [("num.threads", "2", 4)], "2, by its synonyms []"),
    ],
)
def test_what_a_broker_says_that_its_file_has(
    value: str, source: int, synonyms: list[tuple[str, str, int]], told: str | None
) -> None:
    rows = [{"name": name, "value": said, "source": of} for name, said, of in synonyms]
    config = {"name": "num.io.threads", "value": value, "config_source": source, "synonyms": rows}
    answer = build(response_class(ApiKey.DESCRIBE_CONFIGS, 1), results=[{"configs": [config]}])
    assert descriptions._of_the_file(answer.results[0].configs[0]) == told


def test_the_settings_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("broker.id=1\nlisteners=A://h:1,B://h:2\n\nempty=\nmap=A:PLAINTEXT\n")
    assert descriptions._settings(file) == {
        **{"broker.id": "1", "listeners": "A://h:1,B://h:2", "map": "A:PLAINTEXT"},
    }


MOVED = {"partitions": {"0": [1, 2, 3], "1": [1, 2]}, "adding_replicas": {"0": [3]}}


def test_where_partitions_are_moved_to() -> None:
    """By the topic's znode, and as a controller lists it."""
    znode = {**MOVED, "removing_replicas": {"0": [2], "1": []}}
    view = create_autospec(ZookeeperView, instance=True)
    view.topics.return_value = [parse_topic("t", json.dumps(znode).encode())]
    row = {"partition_index": 0, "replicas": [1, 2, 3], "adding_replicas": [3]}
    answer = build(
        response_class(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0),
        topics=[{"name": "t", "partitions": [{**row, "removing_replicas": [2]}]}],
    )
    says = {("t-0", "move"): "on [1, 2, 3], to come [3], to go [2]"}
    assert dict(descriptions._of_moves(view)) == says
    assert dict(descriptions._reassignments(answer)) == {("", "topics that move"): "['t']", **says}


def test_a_move_that_is_none_is_one_too_many() -> None:
    moves = ApiKey.LIST_PARTITION_REASSIGNMENTS
    listed = {("", "topics that move"): "['t']", ("t-0", "move"): "a", ("t-1", "move"): "b"}
    held: Truth = {moves: {("", "topics that move"): "['t']", ("t-0", "move"): "a"}}
    assert rows(moves, listed, held)["t-1", "move"] == ("b", None, True)
    assert rows(moves, listed, {})["t-1", "move"] == ("b", None, False)


def test_a_new_producer_id_has_an_epoch_and_no_truth_of_its_own() -> None:
    ids = ApiKey.INIT_PRODUCER_ID
    answer = build(response_class(ids, 0), producer_id=4000, producer_epoch=1)
    told = dict(descriptions._producer_id(answer))
    found = rows(ids, told, {ids: {("", "its epoch"): "0"}})
    assert found == {
        ("", "its epoch"): ("1", "0", True),
        ("", "new producer id"): ("4000", None, False),
    }

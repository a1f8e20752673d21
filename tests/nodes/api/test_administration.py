"""Topics, elections, reassignments, configs and producer ids."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from nodes.api.delayed import DelayedOperations
from nodes.api.topic_names import is_legal
from nodes.controller.results import Result
from nodes.coordination.admin import TopicResult
from nodes.coordination.producer_ids import ProducerIdManager
from nodes.core.deadlines import SLACK
from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.groups.timer import Timer
from nodes.wire.apis import ApiKey


def create(node: Any, *names: str, version: int = 7, **more: Any) -> Any:
    topics = [{"name": n, "num_partitions": 2, "replication_factor": 1} for n in names]
    fields: dict[str, Any] = {"topics": topics, "timeout": 5000}
    return node.call(ApiKey.CREATE_TOPICS, version, **(fields | more))


class TestCreateTopics:
    def test_answers_when_it_can_be_seen(self, node: Any) -> None:
        (topic,) = create(node, "new").topics
        assert (topic.error_code, topic.num_partitions, topic.replication_factor) == (0, 2, 1)
        assert topic.topic_id == node.cache.topic_id("new")
        assert "retention.ms" in {config.name for config in topic.configs}
        assert len(node.cache.snapshot.topics["new"]) == 2

    def test_waits_until_the_timeout(self, node: Any) -> None:
        node.admin.propagates = False
        (topic,) = create(node, "new", timeout=30).topics
        assert topic.error_code == Errors.REQUEST_TIMED_OUT
        assert topic.num_partitions == -1
        (topic,) = create(node, "new", timeout=0).topics
        assert topic.error_code == Errors.REQUEST_TIMED_OUT

    def test_is_released_by_the_update_that_shows_it(self, node: Any) -> None:
        node.admin.propagates = False
        reply = node.send(
            ApiKey.CREATE_TOPICS, 2, timeout=600_000, topics=[{"name": "new", "num_partitions": 1}]
        )
        node.lead("other")
        assert not reply.is_done
        node.lead("new")
        assert reply.wait()

    def test_refusals(self, node: Any) -> None:
        answer = create(node, "twice", "twice", "ok", "__cluster_metadata")
        errors = {t.name: int(t.error_code) for t in answer.topics}
        assert errors == {"twice": 42, "ok": 0, "__cluster_metadata": 42}
        (topic,) = create(node, "ok").topics
        assert topic.error_code == Errors.TOPIC_ALREADY_EXISTS
        node.admin.is_active = False
        (topic,) = create(node, "x").topics
        assert topic.error_code == Errors.NOT_CONTROLLER

    def test_validate_only(self, node: Any) -> None:
        (topic,) = create(node, "new", validate_only=True).topics
        assert (topic.error_code, topic.num_partitions) == (0, 2)
        assert not node.cache.contains("new")


class TestOtherTopicRequests:
    def test_delete(self, node: Any) -> None:
        create(node, "a", "b")
        topic_id = node.cache.topic_id("b")
        topics = [{"name": "a"}, {"name": None, "topic_id": topic_id}, {"name": "nope"}]
        answer = node.call(ApiKey.DELETE_TOPICS, 6, topics=topics, timeout=1000)
        rows = [(t.name, int(t.error_code)) for t in answer.responses]
        assert rows == [("a", 0), ("b", 0), ("nope", 3)]
        assert not node.cache.topics()

    def test_delete_times_out(self, node: Any) -> None:
        create(node, "a")
        node.admin.propagates = False
        answer = node.call(ApiKey.DELETE_TOPICS, 1, topic_names=["a"], timeout=30)
        assert answer.responses[0].error_code == Errors.REQUEST_TIMED_OUT

    def test_delete_refusals(self, make_node: Any) -> None:
        node = make_node(**{"delete.topic.enable": "false"})
        for version, error in ((1, 42), (3, 73)):
            answer = node.call(ApiKey.DELETE_TOPICS, version, topic_names=["a"], timeout=30)
            assert answer.responses[0].error_code == error
        node.admin.is_active = False
        answer = node.call(ApiKey.DELETE_TOPICS, 1, topic_names=["a"], timeout=30)
        assert answer.responses[0].error_code == Errors.NOT_CONTROLLER

    def test_create_partitions(self, node: Any) -> None:
        create(node, "a")
        topics = [{"name": n, "count": 5} for n in ("a", "nope", "queued", "dup", "dup")]
        answer = node.call(ApiKey.CREATE_PARTITIONS, 3, topics=topics, timeout=1000)
        errors = {r.name: int(r.error_code) for r in answer.results}
        assert errors == {"a": 0, "nope": 3, "queued": 17, "dup": 42}
        assert len(node.cache.snapshot.topics["a"]) == 5

    @pytest.mark.parametrize(
        ("name", "legal"),
        [
            *((name, True) for name in ("a", "a.b-c_D9", "x" * 249)),
            *((name, False) for name in ("", ".", "..", "a/b", "é", "x" * 250)),
        ],
    )
    def test_names(self, name: str, legal: bool) -> None:
        assert is_legal(name) is legal


class TestElections:
    def test_of_some_partitions(self, node: Any) -> None:
        create(node, "a")
        topics = [{"topic": "a", "partitions": [0, 1]}]
        answer = node.call(ApiKey.ELECT_LEADERS, 2, topic_partitions=topics, timeout=1000)
        (topic,) = answer.replica_election_results
        rows = [(p.partition_id, int(p.error_code)) for p in topic.partition_result]
        assert rows == [(0, 0), (1, Errors.ELECTION_NOT_NEEDED)]

    def test_of_all_partitions_names_only_what_happened(self, node: Any) -> None:
        create(node, "a")
        answer = node.call(ApiKey.ELECT_LEADERS, 1, topic_partitions=None, timeout=1000)
        (topic,) = answer.replica_election_results
        assert [p.partition_id for p in topic.partition_result] == [0]

    def test_waits_for_the_leader_to_be_seen(self, node: Any) -> None:
        node.lead("a", leader=2)
        fields = {"topic_partitions": [{"topic": "a", "partitions": [0]}]}
        answer = node.call(ApiKey.ELECT_LEADERS, 2, timeout=20, **fields)
        (topic,) = answer.replica_election_results
        assert topic.partition_result[0].error_code == Errors.REQUEST_TIMED_OUT
        reply = node.send(ApiKey.ELECT_LEADERS, 2, timeout=600_000, **fields)
        assert not reply.is_done
        node.lead("a", leader=1, leader_epoch=1)
        assert reply.wait()

    def test_elsewhere(self, node: Any) -> None:
        node.admin.is_active = False
        topics = [{"topic": "a", "partitions": [0]}]
        answer = node.call(ApiKey.ELECT_LEADERS, 2, topic_partitions=topics)
        assert answer.error_code == Errors.NOT_CONTROLLER
        for api, topics in (
            (ApiKey.ALTER_PARTITION_REASSIGNMENTS, []),
            (ApiKey.LIST_PARTITION_REASSIGNMENTS, None),
        ):
            assert node.call(api, 0, topics=topics).error_code == Errors.NOT_CONTROLLER

    def test_reassignments(self, node: Any) -> None:
        partitions = [
            {"partition_index": 0, "replicas": [1, 2]},
            {"partition_index": 1, "replicas": None},
        ]
        answer = node.call(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            topics=[{"name": "a", "partitions": partitions}],
        )
        (topic,) = answer.responses
        assert [p.error_code for p in topic.partitions] == [0, 0]
        ((_, reassignments),) = node.admin.calls
        assert list(reassignments.values()) == [(1, 2), None]
        answer = node.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, topics=None)
        (partition,) = answer.topics[0].partitions
        assert (partition.replicas, partition.adding_replicas) == ((1, 2), (2,))


def test_why_it_was_refused_is_told(node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the controller or ZooKeeper's side says of a topic or partition goes to whoever asked,
    as it is; of what was done nothing is said."""
    create(node, "a", "b")
    fine, refused = (Errors.NONE, None), (Errors.POLICY_VIOLATION, "because of this")
    result = TopicResult(error=refused[0], message=refused[1])
    per_topic = {"a": TopicResult(assignment={0: (1,)}), "b": result}

    def said(rows: Any) -> list[tuple[int, str | None]]:
        return [(int(row.error_code), row.error_message) for row in rows]

    monkeypatch.setattr(node.admin, "create_topics", lambda *_, **__: per_topic)
    answer = node.call(
        ApiKey.CREATE_TOPICS,
        7,
        topics=[{"name": n, "num_partitions": 1, "replication_factor": 1} for n in per_topic],
        timeout=1000,
    )
    assert said(answer.topics) == [fine, refused]
    monkeypatch.setattr(node.admin, "create_partitions", lambda topic, *_, **__: per_topic[topic])
    topics = [{"name": n, "count": 1, "assignments": None} for n in per_topic]
    answer = node.call(ApiKey.CREATE_PARTITIONS, 3, topics=topics, timeout=1000)
    assert said(answer.results) == [fine, refused]
    monkeypatch.setattr(node.admin, "delete_topics", lambda _: {"b": result})
    answer = node.call(ApiKey.DELETE_TOPICS, 5, topic_names=["b"], timeout=1000)
    assert said(answer.responses) == [refused]
    results = {
        TopicPartition("a", 0): Result(leader=1),
        TopicPartition("b", 0): Result(*refused),
    }
    monkeypatch.setattr(node.admin, "elect_leaders", lambda *args: args[-1](results))
    asked = [{"topic": n, "partitions": [0]} for n in per_topic]
    answer = node.call(ApiKey.ELECT_LEADERS, 2, topic_partitions=asked, timeout=1000)
    rows = [p for topic in answer.replica_election_results for p in topic.partition_result]
    assert said(rows) == [fine, refused]
    monkeypatch.setattr(
        node.admin, "alter_reassignments", lambda _, respond: respond(Errors.NONE, results)
    )
    asked = [
        {"name": n, "partitions": [{"partition_index": 0, "replicas": [1]}]} for n in per_topic
    ]
    answer = node.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, topics=asked)
    assert said(p for topic in answer.responses for p in topic.partitions) == [fine, refused]


class TestDescribeConfigs:
    @staticmethod
    def describe(node: Any, kind: int, name: str, keys: Any = None, **more: Any) -> Any:
        resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
        return node.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource], **more).results[0]

    def test_topic(self, node: Any) -> None:
        create(node, "a")
        node.admin.configs["a"] = {"retention.ms": "5"}
        result = self.describe(node, 2, "a", ["retention.ms", "segment.bytes"])
        rows = {c.name: (c.value, int(c.config_source)) for c in result.configs}
        assert rows == {"retention.ms": ("5", 1), "segment.bytes": ("1073741824", 5)}
        result = self.describe(node, 2, "a", ["retention.ms"], include_synonyms=True)
        names = [s.name for s in result.configs[0].synonyms]
        assert names == ["retention.ms", "log.retention.ms"]

    def test_broker(self, node: Any) -> None:
        result = self.describe(node, 4, "1", ["broker.id", "listeners", "log.dirs"])
        rows = {c.name: (c.value, c.read_only) for c in result.configs}
        assert rows["broker.id"] == ("1", True)
        assert rows["listeners"][0].startswith("PLAINTEXT://")
        assert not self.describe(node, 4, "").configs

    @pytest.mark.parametrize(
        ("kind", "name", "error"),
        [(2, "nope", 3), (2, "a/b", 17), (4, "2", 42), (8, "1", 42)],
    )
    def test_refusals(self, node: Any, kind: int, name: str, error: int) -> None:
        result = self.describe(node, kind, name)
        assert result.error_code == error
        assert result.error_message


class TestApiVersions:
    def test_needs_a_sane_client_name(self, node: Any) -> None:
        good = {"client_software_name": "a-b.c", "client_software_version": "1"}
        assert node.call(ApiKey.API_VERSIONS, 3, **good).error_code == 0
        bad = good | {"client_software_name": "-x"}
        assert node.call(ApiKey.API_VERSIONS, 3, **bad).error_code == Errors.INVALID_REQUEST


class _Nodes:
    """Two brokers' view of one znode; `race` lets another writer come in between."""

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.version = 0
        self.race: Any = None

    def get_data_and_version(self, path: str) -> tuple[bytes | None, int]:
        found = self.data, self.version
        race, self.race = self.race, None
        if race:
            race()
        return found

    def conditional_update_path(self, path: str, data: bytes, expected_version: int) -> int | None:
        if expected_version != self.version:
            return None
        self.data, self.version = data, self.version + 1
        return self.version


class TestProducerIds:
    def test_are_unique_over_brokers_and_races(self) -> None:
        nodes = _Nodes()
        one, other = ProducerIdManager(1, nodes), ProducerIdManager(2, nodes)
        nodes.race = other.generate
        given = {m.generate() for _ in range(1500) for m in (one, other)}
        assert len(given) == 3000
        assert max(given) < 4000

    def test_over_the_wire(self, node: Any) -> None:
        ids = [
            node.call(ApiKey.INIT_PRODUCER_ID, v, transactional_id=None).producer_id for v in (0, 4)
        ]
        assert ids == [0, 1]
        fields = {"transactional_id": None, "producer_id": 5, "producer_epoch": -1}
        assert node.call(ApiKey.INIT_PRODUCER_ID, 3, **fields).error_code == Errors.INVALID_REQUEST
        assert node.call(ApiKey.INIT_PRODUCER_ID, 3, transactional_id="x").error_code == 53

    def test_zookeeper_errors_are_retriable(self) -> None:
        class Broken(_Nodes):
            def get_data_and_version(self, path: str) -> tuple[bytes | None, int]:
                from nodes.coordination.errors import SessionExpired

                raise SessionExpired

        with pytest.raises(ApiError) as caught:
            ProducerIdManager(1, Broken()).generate()
        assert caught.value.error == Errors.COORDINATOR_NOT_AVAILABLE


class TestDelayedOperations:
    def test_finishes_once(self) -> None:
        timer = Timer("test")
        delayed = DelayedOperations(timer)
        state = {"complete": False}
        finished: list[int] = []
        done = threading.Event()

        def finish() -> None:
            finished.append(1)
            done.set()

        delayed.wait(["a", "b"], 60_000, lambda: state["complete"], finish)
        delayed.check(["a"])
        assert not finished
        state["complete"] = True
        delayed.check(["c"])
        assert not finished
        delayed.check(["a", "b"])
        assert finished == [1]
        assert delayed.is_empty
        done.clear()
        delayed.wait(["a"], 1, lambda: False, done.set)
        assert done.wait(30)
        delayed.wait(["a"], 60_000, lambda: False, finish)
        delayed.finish_all()
        assert finished == [1, 1]
        timer.shutdown()

    def test_what_was_answered_is_kept_nowhere(self) -> None:
        """However long its client would have waited."""
        timer = Timer("test")
        delayed = DelayedOperations(timer)
        most, shown = 0, set[int]()
        for number in range(5_000):
            delayed.wait(["t"], 2**31 - 1, partial(shown.__contains__, number), lambda: None)
            shown.add(number)
            delayed.check(["t"])
            most = max(most, timer.entries)
        assert delayed.is_empty
        assert timer.size == 0
        assert most <= 2 + SLACK
        timer.shutdown()

"""What operators do to configs, records, groups and log directories."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.wire.apis import ApiKey
from nodes.wire.records import build_batch

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
AGE = "retention.ms"


def produce(node: Any, topic: str, count: int, partition: int = 0) -> None:
    for _ in range(count):
        batch = build_batch([(b"k", b"v", 1_700_000_000_000)])
        node.manager.append_single(TopicPartition(topic, partition), batch, 1, 1000, check)


def check(result: Any) -> None:
    assert not result.error


class TestAlterConfigs:
    @staticmethod
    def incremental(
        node: Any, kind: int, name: str, *rows: tuple[str, int, str | None], **more: Any
    ) -> Any:
        configs = [{"name": n, "config_operation": o, "value": v} for n, o, v in rows]
        resource = {"resource_type": kind, "resource_name": name, "configs": configs}
        answer = node.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], **more)
        return answer.responses[0]

    def test_of_a_topic(self, node: Any) -> None:
        node.lead("a")
        node.admin.configs["a"] = {"segment.bytes": "5000", "retention.bytes": "7"}
        rows = [
            ("retention.ms", SET, "5"),
            ("segment.bytes", DELETE, None),
            ("cleanup.policy", APPEND, "compact"),
        ]
        assert not self.incremental(node, TOPIC, "a", *rows).error_code
        assert node.admin.configs["a"] == {
            "retention.bytes": "7",
            "retention.ms": "5",
            "cleanup.policy": "delete,compact",
        }
        assert not self.incremental(
            node, TOPIC, "a", ("cleanup.policy", SUBTRACT, "delete")
        ).error_code
        assert node.admin.configs["a"]["cleanup.policy"] == "compact"

    @pytest.mark.parametrize("api", [ApiKey.INCREMENTAL_ALTER_CONFIGS, ApiKey.ALTER_CONFIGS])
    @pytest.mark.parametrize(
        ("kind", "name", "config"),
        [
            (TOPIC, "a", "retention.ms"),
            (BROKER, "1", "leader.replication.throttled.rate"),
            (BROKER, "", "follower.replication.throttled.rate"),
        ],
    )
    def test_only_to_see_whether_it_would_do(
        self, node: Any, api: ApiKey, kind: int, name: str, config: str
    ) -> None:
        """Of a topic, of a broker, of all brokers: nothing is kept."""
        node.lead("a")
        row = {"name": config, "value": "5"}
        if api is ApiKey.INCREMENTAL_ALTER_CONFIGS:
            row["config_operation"] = SET
        resource = {"resource_type": kind, "resource_name": name, "configs": [row]}
        for validate_only in (True, False):
            answer = node.call(api, 1, resources=[resource], validate_only=validate_only)
            assert not answer.responses[0].error_code
            kept = [c for c in node.admin.configs.values() if c.get(config) == "5"]
            assert len(kept) == (not validate_only)

    @pytest.mark.parametrize(
        ("kind", "name", "rows", "error", "message"),
        [
            (TOPIC, "nope", [(AGE, SET, "5")], 3, "The topic 'nope' does not exist."),
            (TOPIC, "a/b", [], 17, "Topic name 'a/b' is illegal"),
            (TOPIC, "a", [(AGE, SET, "bad")], 40, None),
            (
                TOPIC,
                "a",
                [(AGE, SET, None), ("segment.ms", SET, None)],
                42,
                "Null value not supported for : retention.ms, segment.ms",
            ),
            (
                TOPIC,
                "a",
                [(AGE, SET, "1"), (AGE, DELETE, None)],
                42,
                "Error due to duplicate config keys",
            ),
            (
                TOPIC,
                "a",
                [(AGE, APPEND, "1")],
                40,
                "Config value append is not allowed for config key: retention.ms",
            ),
            (
                TOPIC,
                "a",
                [(AGE, SUBTRACT, "1")],
                40,
                "Config value subtract is not allowed for config key: retention.ms",
            ),
            (TOPIC, "a", [(AGE, 9, "1")], 42, "Unknown operations type 9"),
            (BROKER, "2", [], 42, "Unexpected broker id, expected 1, but received 2"),
            (BROKER, "x", [], 42, "Node id must be an integer, but it is: x"),
            (BROKER, " 1", [], 42, "Node id must be an integer, but it is:  1"),
            (
                BROKER,
                "1",
                [("num.io.threads", SET, "1")],
                42,
                "Cannot update these configs dynamically: Set(num.io.threads)",
            ),
            (BROKER, "1", [("leader.replication.throttled.rate", SET, "much")], 42, None),
            (8, "1", [], 42, "Unknown resource type 8"),
        ],
    )
    def test_refusals(
        self, node: Any, kind: int, name: str, rows: Any, error: int, message: str | None
    ) -> None:
        """In Kafka's words (ConfigAdminManager), where Kafka has any."""
        node.lead("a")
        result = self.incremental(node, kind, name, *rows)
        assert result.error_code == error
        assert result.error_message
        assert message in (None, result.error_message)
        assert not node.admin.configs

    def test_the_same_resource_twice(self, node: Any) -> None:
        node.lead("a")
        resources = [{"resource_type": TOPIC, "resource_name": "a"}] * 2
        answer = node.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, resources=resources)
        assert {r.error_code for r in answer.responses} == {Errors.INVALID_REQUEST}

    def test_all_at_once(self, node: Any) -> None:
        node.lead("a")
        node.admin.configs["a"] = {"segment.bytes": "5000"}
        configs = [{"name": "retention.ms", "value": "5"}]
        resource = {"resource_type": TOPIC, "resource_name": "a", "configs": configs}
        answer = node.call(ApiKey.ALTER_CONFIGS, 2, resources=[resource])
        assert not answer.responses[0].error_code
        assert node.admin.configs["a"] == {"retention.ms": "5"}

    def test_throttles_of_brokers_are_kept_and_shown(self, node: Any) -> None:
        rate = "leader.replication.throttled.rate"
        for name in ("", "1"):
            row = (rate, SET, f"10{name}")
            assert not self.incremental(node, BROKER, name, row).error_code
            resource = {"resource_type": BROKER, "resource_name": name, "configuration_keys": None}
            answer = node.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource])
            shown = [c for c in answer.results[0].configs if c.name == rate]
            assert [(c.value, c.config_source, c.read_only) for c in shown] == [
                (f"10{name}", 2 if name else 3, False)
            ]
        assert not self.incremental(node, BROKER, "1", (rate, DELETE, None)).error_code
        assert node.admin.configs["broker 1"] == {}


class TestDeleteRecords:
    @staticmethod
    def delete(node: Any, topic: str, offset: int, partition: int = 0) -> tuple[int, int]:
        partitions = [{"partition_index": partition, "offset": offset}]
        topics = [{"name": topic, "partitions": partitions}]
        answer = node.call(ApiKey.DELETE_RECORDS, 2, topics=topics, timeout=5000)
        (row,) = answer.topics[0].partitions
        return int(row.error_code), row.low_watermark

    def test_the_log_begins_later(self, node: Any) -> None:
        node.lead("a")
        produce(node, "a", 5)
        assert self.delete(node, "a", 2) == (0, 2)
        assert self.delete(node, "a", 1) == (0, 2)
        found = node.manager.list_offset(TopicPartition("a", 0), -2, -1, 0, -1)
        assert found.offset == 2
        assert self.delete(node, "a", -1) == (0, 5)

    def test_refusals(self, node: Any) -> None:
        node.lead("a")
        produce(node, "a", 5)
        assert self.delete(node, "a", 6) == (Errors.OFFSET_OUT_OF_RANGE, -1)
        assert self.delete(node, "a", -2) == (Errors.OFFSET_OUT_OF_RANGE, -1)
        assert self.delete(node, "a", 0, 9) == (Errors.UNKNOWN_TOPIC_OR_PARTITION, -1)
        node.lead("__consumer_offsets")
        assert self.delete(node, "__consumer_offsets", 0) == (Errors.INVALID_TOPIC_EXCEPTION, -1)
        node.manager.update_topic_config("a", {"cleanup.policy": "compact"})
        assert self.delete(node, "a", 1) == (Errors.POLICY_VIOLATION, -1)
        node.lead("b", leader=2)
        assert self.delete(node, "b", 0) == (Errors.NOT_LEADER_OR_FOLLOWER, -1)


class TestDescribeLogDirs:
    def test_sizes(self, node: Any) -> None:
        node.lead("a", 2)
        produce(node, "a", 3, partition=1)
        (directory,) = node.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=None).results
        assert directory.log_dir == str(node.log_manager.log_dirs[0])
        (topic,) = directory.topics
        sizes = {p.partition_index: p.partition_size for p in topic.partitions}
        assert sizes[0] == 0
        assert sizes[1] > 0
        assert 0 < directory.usable_bytes <= directory.total_bytes

    def test_of_one_partition(self, node: Any) -> None:
        node.lead("a", 2)
        topics = [{"topic": "a", "partitions": [1]}]
        (directory,) = node.call(ApiKey.DESCRIBE_LOG_DIRS, 2, topics=topics).results
        assert [p.partition_index for t in directory.topics for p in t.partitions] == [1]


class TestDescribeProducers:
    def test_who_writes(self, node: Any) -> None:
        node.lead("a")
        batch = build_batch(
            [(b"k", b"v", 1_700_000_000_000)], producer_id=7, producer_epoch=1, base_sequence=0
        )
        node.manager.append_single(TopicPartition("a", 0), batch, 1, 1000, check)
        topics = [{"name": "a", "partition_indexes": [0, 5]}]
        (topic,) = node.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics).topics
        known, unknown = topic.partitions
        (producer,) = known.active_producers
        found = (producer.producer_id, producer.producer_epoch, producer.last_sequence)
        assert found == (7, 1, 0)
        assert unknown.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION

    @pytest.mark.parametrize("name", ["", "..", "a/b", "a" * 250])
    def test_no_name_of_a_topic(self, node: Any, name: str) -> None:
        topics = [{"name": name, "partition_indexes": [0]}]
        (topic,) = node.call(ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics).topics
        assert topic.partitions[0].error_code == Errors.INVALID_TOPIC_EXCEPTION


def test_no_authorizer(node: Any) -> None:
    answer = node.call(ApiKey.DESCRIBE_ACLS, 3)
    assert answer.error_code == Errors.SECURITY_DISABLED
    answer = node.call(ApiKey.CREATE_ACLS, 3, creations=[{}, {}])
    assert [r.error_code for r in answer.results] == [Errors.SECURITY_DISABLED] * 2

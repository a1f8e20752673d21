"""Metadata answers, their cache, and the metadata cache beneath."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.replication.metadata_cache import MetadataCache
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import build

ID = uuid.UUID(int=5)


def metadata(node: Any, version: int, *names: str, **more: Any) -> Any:
    topics = [{"name": name} for name in names]
    return node.call(ApiKey.METADATA, version, topics=topics, **more)


class TestAnswers:
    def test_all_topics(self, node: Any) -> None:
        node.lead("t", topic_id=ID)
        node.lead("u")
        assert {t.name for t in node.call(ApiKey.METADATA, 0, topics=[]).topics} == {"t", "u"}
        assert {t.name for t in node.call(ApiKey.METADATA, 9, topics=None).topics} == {"t", "u"}
        assert not node.call(ApiKey.METADATA, 9, topics=[]).topics

    def test_cluster(self, node: Any) -> None:
        answer = node.call(
            ApiKey.METADATA, 10, topics=[], include_cluster_authorized_operations=True
        )
        assert answer.cluster_id == "c_-uSTeR_Id22characters"
        assert answer.controller_id == 1
        assert answer.cluster_authorized_operations == 8096
        assert [(b.node_id, b.port, b.rack) for b in answer.brokers] == [
            (1, 9092, "r1"),
            (2, 9094, None),
        ]

    def test_tells_the_listener_that_was_asked(self, node: Any) -> None:
        node.lead("t", leader=2)
        answer = metadata(node, 9, "t", listener="CONTROLLER")
        assert [(b.node_id, b.port) for b in answer.brokers] == [(1, 9093)]
        (partition,) = answer.topics[0].partitions
        assert (partition.leader_id, partition.error_code) == (-1, 72)
        (partition,) = metadata(node, 5, "t", listener="CONTROLLER").topics[0].partitions
        assert partition.error_code == Errors.LEADER_NOT_AVAILABLE

    def test_dead_leader_and_replicas(self, node: Any) -> None:
        node.live_brokers = [node.own_broker()]
        node.lead("t", leader=2, leader_epoch=4)
        (partition,) = metadata(node, 9, "t").topics[0].partitions
        assert partition.error_code == Errors.LEADER_NOT_AVAILABLE
        assert (partition.leader_id, partition.leader_epoch) == (-1, 4)
        assert partition.replica_nodes == (1, 2)
        (partition,) = metadata(node, 0, "t").topics[0].partitions
        assert partition.replica_nodes == (1,)

    def test_by_topic_id(self, node: Any) -> None:
        node.lead("t", topic_id=ID)
        unknown = uuid.UUID(int=6)
        topics = [{"name": None, "topic_id": i} for i in (ID, unknown)]
        answer = node.call(ApiKey.METADATA, 12, topics=topics)
        assert [(t.name, t.topic_id, int(t.error_code)) for t in answer.topics] == [
            (None, unknown, 100),
            ("t", ID, 0),
        ]
        answer = node.call(ApiKey.METADATA, 11, topics=topics[:1])
        assert answer.topics[0].error_code == Errors.INVALID_REQUEST

    def test_unknown_and_illegal(self, node: Any) -> None:
        answer = metadata(node, 9, "nope", "a/b", allow_auto_topic_creation=False)
        assert [int(t.error_code) for t in answer.topics] == [3, 17]
        assert not node.cache.topics()

    def test_auto_creation(self, node: Any) -> None:
        (topic,) = metadata(node, 9, "new").topics
        assert topic.error_code == Errors.LEADER_NOT_AVAILABLE
        (topic,) = metadata(node, 9, "new").topics
        assert topic.error_code == 0

    def test_auto_creation_can_be_off(self, make_node: Callable[..., Any]) -> None:
        node = make_node(**{"auto.create.topics.enable": "false"})
        (topic,) = metadata(node, 1, "new").topics
        assert topic.error_code == Errors.UNKNOWN_TOPIC_OR_PARTITION
        assert not node.cache.topics()

    def test_cached_answers_are_the_same_and_go_with_the_snapshot(self, node: Any) -> None:
        node.lead("t", 3)
        first = node.send(ApiKey.METADATA, 9, topics=None).wait()
        again = node.send(ApiKey.METADATA, 9, topics=None).wait()
        assert first[:4] + first[8:] == again[:4] + again[8:]
        assert first[4:8] != again[4:8]  # the correlation id
        assert len(node.cache.snapshot.encoded) == 1
        node.lead("t", 3, leader=2, leader_epoch=1)
        assert metadata(node, 9, "t").topics[0].partitions[0].leader_id == 2

    def test_the_answers_cache_is_bounded(self, node: Any) -> None:
        node.lead("t")
        for i in range(300):
            node.call(ApiKey.METADATA, 9, topics=None, listener=f"L{i}")
        assert len(node.cache.snapshot.encoded) <= 256

    def test_internal(self, node: Any) -> None:
        node.lead("__consumer_offsets")
        assert metadata(node, 9, "__consumer_offsets").topics[0].is_internal

    def test_describe_cluster(self, node: Any) -> None:
        answer = node.call(
            ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=1, include_cluster_authorized_operations=True
        )
        assert (answer.cluster_id, answer.controller_id) == ("c_-uSTeR_Id22characters", 1)
        assert [(b.broker_id, b.host, b.port, b.rack) for b in answer.brokers] == [
            (1, "127.0.0.1", 9092, "r1"),
            (2, "127.0.0.1", 9094, None),
        ]
        assert node.call(ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=2).error_code == 114


@pytest.mark.parametrize("version", [0, 1, 4, 5, 9, 12])
def test_each_fact_of_a_partition_is_told(node: Any, topic_state: Any, version: int) -> None:
    """What the controller said of it: replicas, who is in sync, who is down (from version 5 on), in
    its order."""
    state = topic_state("t", [(0, 2, 7)], ID)
    state["partition_states"][0] |= {
        "replicas": [3, 2, 1], "isr": [2, 1], "offline_replicas": [3],
    }  # fmt: skip
    node.update_metadata([state])
    (partition,) = metadata(node, version, "t").topics[0].partitions
    assert (partition.partition_index, partition.leader_id) == (0, 2)
    gone = [] if version else [3]
    assert list(partition.replica_nodes) == [r for r in (3, 2, 1) if r not in gone]
    assert list(partition.isr_nodes) == [2, 1]
    assert partition.error_code == (0 if version else Errors.REPLICA_NOT_AVAILABLE)
    if version >= 5:
        assert list(partition.offline_replicas) == [3]
    if version >= 7:
        assert partition.leader_epoch == 7


def test_every_question_has_an_answer_of_its_own(node: Any) -> None:
    """Though answers are kept: other topics, the same ones in another order, all of them, none."""
    for name in "abc":
        node.lead(name)
    for _ in range(2):
        for names in (["a"], ["b"], ["a", "b"], ["b", "a"], ["a", "c"], [], ["c", "c", "a"]):
            found = [topic.name for topic in metadata(node, 9, *names).topics]
            assert found == list(dict.fromkeys(names))
        answer = node.call(ApiKey.METADATA, 9, topics=None)
        assert [topic.name for topic in answer.topics] == ["a", "b", "c"]


def bits(*codes: int) -> int:
    return sum(1 << code for code in codes)


READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = range(3, 10)
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(10, 13)
"""AclOperation's codes."""
OF_CLUSTER = bits(
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
)
OF_TOPIC = bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
NOT_ASKED = -(2**31)


@pytest.mark.parametrize("of_topics", [False, True])
@pytest.mark.parametrize("of_cluster", [False, True])
def test_what_one_may_do_is_said_when_it_is_asked(
    node: Any, of_cluster: bool, of_topics: bool
) -> None:
    """AclEntry.supportedOperations: everything, as there is no authorizer. One after the other, so
    that no kept answer is given to another question."""
    node.lead("t")
    for version in (8, 9, 10):
        answer = node.call(
            ApiKey.METADATA,
            version,
            topics=[{"name": "t"}, {"name": "nope"}],
            allow_auto_topic_creation=False,
            include_cluster_authorized_operations=of_cluster,
            include_topic_authorized_operations=of_topics,
        )
        found = {t.name: t.topic_authorized_operations for t in answer.topics}
        assert found == dict.fromkeys(("t", "nope"), OF_TOPIC if of_topics else NOT_ASKED)
        assert answer.cluster_authorized_operations == (OF_CLUSTER if of_cluster else NOT_ASKED)
    for version in (0, 1):
        answer = node.call(
            ApiKey.DESCRIBE_CLUSTER, version, include_cluster_authorized_operations=of_cluster
        )
        assert answer.cluster_authorized_operations == (OF_CLUSTER if of_cluster else NOT_ASKED)


WANTED_CONTROLLERS = (
    "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
    "CONTROLLER"
)


@pytest.mark.parametrize(
    ("endpoint_type", "error", "message"),
    [
        (1, 0, None),
        (2, 114, WANTED_CONTROLLERS),
        (0, 115, "Unsupported endpoint type 0"),
        (3, 115, "Unsupported endpoint type 3"),
    ],
)
def test_who_looks_for_controllers_asks_at_the_wrong_place(
    node: Any, endpoint_type: int, error: int, message: str | None
) -> None:
    """KIP-919: MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE."""
    answer = node.call(ApiKey.DESCRIBE_CLUSTER, 1, endpoint_type=endpoint_type)
    assert (answer.error_code, answer.error_message) == (error, message)
    assert answer.endpoint_type == 1
    assert (answer.cluster_id, answer.controller_id, len(answer.brokers)) == (
        ("", -1, 0) if error else ("c_-uSTeR_Id22characters", 1, 2)
    )


class TestCache:
    @staticmethod
    def update(version: int = 8, controller_id: int = 1, **fields: Any) -> Any:
        defaults = {"controller_id": controller_id, "controller_epoch": 1}
        return build(request_class(ApiKey.UPDATE_METADATA, version), **(defaults | fields))

    def test_partial_updates_add_up(self, topic_state: Any) -> None:
        cache = MetadataCache(1)
        assert cache.update(self.update(topic_states=[topic_state("t", [(0, 1, 0)], ID)])) == []
        before = cache.snapshot
        cache.update(self.update(topic_states=[topic_state("t", [(1, 2, 7)], ID)]))
        assert sorted(cache.topics()["t"]) == [0, 1]
        assert cache.partition_state("t", 1).leader_epoch == 7  # type: ignore[union-attr]
        assert sorted(before.topics["t"]) == [0]  # a snapshot that is being read stays
        assert cache.snapshot.version == before.version + 1
        assert (cache.topic_id("t"), cache.topic_name(ID)) == (ID, "t")

    def test_deletion(self, topic_state: Any) -> None:
        cache = MetadataCache(1)
        cache.update(self.update(topic_states=[topic_state("t", [(0, 1, 0), (1, 1, 0)], ID)]))
        deleted = cache.update(self.update(topic_states=[topic_state("t", [(0, -2, 0)], ID)]))
        assert deleted == [TopicPartition("t", 0)]
        assert len(cache.snapshot.topics["t"]) == 1
        assert cache.topic_id("t") == ID
        cache.update(self.update(topic_states=[topic_state("t", [(1, -2, 0)], ID)]))
        assert not cache.contains("t")
        assert cache.topic_id("t") is None
        assert cache.topic_name(ID) is None

    def test_brokers_are_replaced_as_a_whole(self, node: Any) -> None:
        assert node.cache.broker_endpoint(2, "PLAINTEXT") == ("127.0.0.1", 9094)
        assert node.cache.broker_endpoint(2, "CONTROLLER") is None
        node.live_brokers = [node.own_broker()]
        node.update_metadata([])
        assert not node.cache.is_alive(2)

    @pytest.mark.parametrize("version", [5, 6])
    def test_versions_without_ids_take_them_away(self, version: int, topic_state: Any) -> None:
        cache = MetadataCache(1)
        cache.update(self.update(topic_states=[topic_state("t", [(0, 1, 0)], ID)]))
        cache.update(self.update(version, topic_states=[topic_state("t", [(0, 1, 1)])]))
        assert cache.topic_id("t") is None
        assert cache.contains("t")

    def test_no_controller(self) -> None:
        cache = MetadataCache(1)
        cache.update(self.update(controller_id=-3))
        assert cache.controller_id == -1


def test_what_is_said_of_a_missing_topic_is_not_kept(node: Any) -> None:
    """Each time it is asked for, its creation is tried again: the first may have failed."""
    node.admin.propagates = False
    asked: list[str] = []
    create = node.admin.create_topics

    def create_topics(topics: Any, **more: Any) -> Any:
        asked.extend(topic.name for topic in topics)
        return create(topics, **more)

    node.admin.create_topics = create_topics
    for number in range(1, 4):
        answer = node.call(ApiKey.METADATA, 8, topics=[{"name": "missing"}])
        assert [(t.name, int(t.error_code)) for t in answer.topics] == [("missing", 5)]
        assert asked == ["missing"] * number

"""AdminManager's validation and what it writes."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from uuid import UUID

import pytest

from nodes.coordination.admin import AdminManager, NewTopic
from nodes.core.assignment import ReplicaAssignment
from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from tests.nodes.coordination.conftest import SERVER

TOPIC_ID = UUID(int=1)


@pytest.fixture
def connect(connect_to_either):
    return connect_to_either


@pytest.fixture
def admin(zk):
    def validate(configs):
        if "bad" in configs:
            raise ApiError(Errors.INVALID_CONFIG, "bad")

    config = SimpleNamespace(
        num_partitions=2, default_replication_factor=3, delete_topic_enable=True
    )
    return AdminManager(
        config,
        zk,
        alive_brokers=lambda: {1: None, 2: None, 3: None},
        validate_configs=validate,
        rng=Random(1),
        new_topic_id=lambda: TOPIC_ID,
    )


def create(admin, name="t", **fields):
    return admin.create_topics([NewTopic(name=name, **fields)])[name]


def test_defaults(admin, zk):
    result = create(admin, configs={"retention.ms": "9"})
    assert (result.error, result.topic_id) == (Errors.NONE, TOPIC_ID)
    found = zk.get_replica_assignment_and_topic_id_for_topics(["t"])[0]
    assert found.topic_id == TOPIC_ID
    assert {tp.partition: a.replicas for tp, a in found.assignment.items()} == result.assignment
    assert all(sorted(r) == [1, 2, 3] for r in result.assignment.values())
    assert zk.get_topic_configs("t") == {"retention.ms": "9"}


def test_assignment_given(admin, zk):
    assert create(admin, assignments={0: [3, 1], 1: [1, 2]}).error == Errors.NONE
    assert zk.get_full_replica_assignment_for_topic("t") == {
        TopicPartition("t", 0): ReplicaAssignment((3, 1)),
        TopicPartition("t", 1): ReplicaAssignment((1, 2)),
    }


BAD_NAME = Errors.INVALID_TOPIC_EXCEPTION
BAD_ASSIGNMENT = Errors.INVALID_REPLICA_ASSIGNMENT
NAME = "Topic name is invalid: "


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"name": ""}, BAD_NAME, f"{NAME}the empty string is not allowed"),
        ({"name": "."}, BAD_NAME, f"{NAME}'.' is not allowed"),
        ({"name": ".."}, BAD_NAME, f"{NAME}'..' is not allowed"),
        (
            {"name": "a b"},
            BAD_NAME,
            f"{NAME}'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'",
        ),
        (
            {"name": "x" * 250},
            BAD_NAME,
            f"{NAME}the length of '{'x' * 250}' is longer than the max allowed length 249",
        ),
        (
            {"num_partitions": 0},
            Errors.INVALID_PARTITIONS,
            "Number of partitions must be larger than 0.",
        ),
        (
            {"replication_factor": 4},
            Errors.INVALID_REPLICATION_FACTOR,
            "Replication factor: 4 larger than available brokers: 3.",
        ),
        (
            {"replication_factor": 0},
            Errors.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0.",
        ),
        (
            {"assignments": {0: [1]}, "num_partitions": 1},
            Errors.INVALID_REQUEST,
            "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot "
            "be used at the same time.",
        ),
        (
            {"assignments": {0: [1, 1]}},
            BAD_ASSIGNMENT,
            "Duplicate replica assignment found: {0: (1, 1)}",
        ),
        (
            {"assignments": {0: [1], 1: [1, 2]}},
            BAD_ASSIGNMENT,
            "All partitions should have the same number of replicas",
        ),
        (
            {"assignments": {1: [1]}},
            BAD_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        ({"assignments": {0: []}}, BAD_ASSIGNMENT, "Cannot have replication factor of 0"),
        ({"configs": {"bad": "1"}}, Errors.INVALID_CONFIG, "bad"),
        (
            {"configs": {"retention.ms": None, "a": None}},
            Errors.INVALID_CONFIG,
            "Null value not supported for topic configs: a,retention.ms",
        ),
        (
            {"num_partitions": 2**31 - 1},
            Errors.POLICY_VIOLATION,
            "2147483647 partitions are more than a topic can have.",
        ),
        ({"num_partitions": 90_000}, Errors.POLICY_VIOLATION, None),
        (
            {"assignments": {p: range(200) for p in range(2000)}},
            Errors.POLICY_VIOLATION,
            None,
        ),
    ],
)
def test_refusals(admin, zk, fields, error, message):
    """In Kafka's words, where Kafka has any."""
    result = create(admin, **{"name": "t", **fields})
    assert result.error == error
    assert result.message
    assert message in (None, result.message)
    assert zk.get_all_topics_in_cluster() == set()


def test_existing_colliding_and_dying_topics(admin, zk):
    assert create(admin, "a.b").error == Errors.NONE
    assert create(admin, "a.b").error == Errors.TOPIC_ALREADY_EXISTS
    assert create(admin, "a_b").error == Errors.INVALID_TOPIC_EXCEPTION
    assert admin.delete_topics(["a.b", "nope"])["a.b"].error == Errors.NONE
    assert admin.delete_topics(["a.b"])["a.b"].error == Errors.NONE
    assert admin.delete_topics(["nope"])["nope"].error == Errors.UNKNOWN_TOPIC_OR_PARTITION
    assert zk.get_topic_deletions() == {"a.b"}
    assert create(admin, "a.b").error == Errors.TOPIC_ALREADY_EXISTS


def test_validate_only_writes_nothing(admin, zk):
    result = admin.create_topics([NewTopic(name="t")], validate_only=True)["t"]
    assert (result.error, len(result.assignment)) == (Errors.NONE, 2)
    assert not zk.topic_exists("t")


def test_create_partitions(admin, zk):
    create(admin, assignments={0: [2, 3]})
    topic = "Topic currently has 1 partitions, which is higher than the requested 0."
    for name, count, error, message in (
        ("t", 1, Errors.INVALID_PARTITIONS, "Topic already has 1 partitions."),
        ("t", 0, Errors.INVALID_PARTITIONS, topic),
        ("x", 2, Errors.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'x' does not exist."),
    ):
        refused = admin.create_partitions(name, count, None)
        assert (refused.error, refused.message) == (error, message)
    for name in ("", "..", "../t", "t/partitions", "t/partitions/0/state"):  # no path but its own
        assert admin.create_partitions(name, 2, None).error == Errors.INVALID_TOPIC_EXCEPTION
    other = (
        "Inconsistent replication factor between partitions, partition 0 has 2 while partitions "
    )
    for assignment, message in (
        ([[9, 1], [8, 2]], "Unknown broker(s) in replica assignment: 8, 9."),
        ([[1, 2]], "Increasing the number of partitions by 2 but 1 assignments provided."),
        ([[1, 2], []], "Cannot have replication factor of 0 for partition id 2."),
        (
            [[1, 2], [3, 3]],
            "Duplicate brokers not allowed in replica assignment: 3, 3 for partition id 2.",
        ),
        ([[1], [1, 2, 3]], f"{other}[1, 2] have replication factors [1, 3], respectively."),
        ([[2, 1], [1]], f"{other}[2] have replication factors [1], respectively."),
    ):
        refused = admin.create_partitions("t", 3, assignment)
        assert (refused.error, refused.message) == (BAD_ASSIGNMENT, message)
    assert admin.create_partitions("t", 2, [[1, 2]]).assignment == {0: (2, 3), 1: (1, 2)}
    grown = admin.create_partitions("t", 4, None)
    assert (grown.error, grown.topic_id, len(grown.assignment)) == (Errors.NONE, TOPIC_ID, 4)
    assert len(zk.get_full_replica_assignment_for_topic("t")) == 4
    # AdminZkClient.addPartitions: round robin goes on from the first partition's first replica,
    # or, where no live broker has an id as high, from the first broker.
    assert grown.assignment == {0: (2, 3), 1: (1, 2), 2: (1, 3), 3: (2, 3)}
    create(admin, "u", assignments={0: [9, 1]})
    assert admin.create_partitions("u", 3, None).assignment == {0: (9, 1), 1: (2, 3), 2: (3, 1)}
    moving = ReplicaAssignment((1, 2), (1,))
    zk.set_topic_assignment("t", TOPIC_ID, {TopicPartition("t", 0): moving})
    refused = admin.create_partitions("t", 9, None)
    text = "A partition reassignment is in progress for the topic 't'."
    assert (refused.error, refused.message) == (Errors.REASSIGNMENT_IN_PROGRESS, text)


def test_configs(admin, zk):
    assert admin.alter_topic_configs("t", {}).error == Errors.UNKNOWN_TOPIC_OR_PARTITION
    create(admin)
    assert admin.alter_topic_configs("t", {"bad": ""}).error == Errors.INVALID_CONFIG
    assert admin.alter_topic_configs("t", {"retention.ms": "1"}).error == Errors.NONE
    assert admin.topic_configs("t") == {"retention.ms": "1"}
    assert len(zk.get_children("/config/changes")) == 1


@pytest.mark.parametrize("connect_to_either", [SERVER], indirect=True)
def test_growing_beyond_what_zookeeper_keeps(admin, zk):
    create(admin)
    for count in (90_000, 2**31 - 1):
        result = admin.create_partitions("t", count, None)
        assert result.error == Errors.POLICY_VIOLATION
    assert len(zk.get_full_replica_assignment_for_topic("t")) == 2


@pytest.mark.parametrize("connect_to_either", [SERVER], indirect=True)
def test_altering_beyond_what_zookeeper_keeps(admin, zk):
    create(admin)
    result = admin.alter_topic_configs("t", {"leader.replication.throttled.replicas": "x" * 2**20})
    assert result.error == Errors.POLICY_VIOLATION
    assert zk.is_connected
    assert admin.alter_topic_configs("t", {"a": "1"}).error == Errors.NONE
    assert admin.topic_configs("t") == {"a": "1"}


def test_brokers_configs(admin, zk):
    assert admin.broker_configs("1") == {}
    assert admin.alter_broker_configs("1", {"a": "1"}, validate_only=True).error == Errors.NONE
    assert admin.broker_configs("1") == {}
    admin.alter_broker_configs("1", {"a": "1"})
    assert admin.broker_configs("1") == {"a": "1"}
    assert admin.broker_configs("<default>") == {}
    (notification,) = zk.watch_config_changes()
    assert zk.get_config_change(notification) == ("brokers", "1")

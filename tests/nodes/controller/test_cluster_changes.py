"""Brokers and topics that change in unusual ways, and what the controller's gauges say of it
(KafkaController's onBrokerStartup, onBrokerUpdate, onReplicasBecomeOffline,
processPartitionModifications; TopicDeletionManager)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from nodes.coordination import znodes
from nodes.core.assignment import ReplicaAssignment
from nodes.core.brokers import EndPoint
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.wire.apis import ApiKey

T0 = TopicPartition("t", 0)
GAUGES = "kafka.controller:type=KafkaController,name="


@pytest.fixture
def trio(world: Any, wait_until: Any) -> tuple[Any, dict[int, Any]]:
    """A controller (1) and two brokers."""
    node = world.node(1)
    brokers = {1: node.fake, 2: world.broker(2), 3: world.broker(3)}
    node.controller.startup()
    wait_until(lambda: node.controller.is_active)
    return node, brokers


def told_alive(broker: Any) -> list[set[int]]:
    """The live brokers of each UpdateMetadata that it got."""
    return [{b.id_ for b in u.live_brokers} for u in broker.of(ApiKey.UPDATE_METADATA)]


# ---- brokers -------------------------------------------------------------------------------------


def test_a_broker_that_had_nothing_is_missed_all_the_same(
    world: Any, wait_until: Any, trio: Any
) -> None:
    """No election and no StopReplica tells the others: UpdateMetadata without partitions does."""
    _, brokers = trio
    wait_until(lambda: {1, 2, 3} in told_alive(brokers[2]))
    brokers[3].zk.close()
    wait_until(lambda: told_alive(brokers[2])[-1] == {1, 2})


def test_a_broker_that_led_something_is_missed_once(world: Any, wait_until: Any, trio: Any) -> None:
    """The twin: who is told of a new leader is told of who is left with it, and not once more."""
    _, brokers = trio
    world.create_topic("t", (3, 2))
    wait_until(lambda: world.state(T0) == (3, 0, (3, 2)))
    wait_until(lambda: brokers[2].metadata(T0))
    before = len(brokers[2].of(ApiKey.UPDATE_METADATA))
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0) == (2, 1, (2,)))
    (marker,) = world.create_topic("marker", (2,))
    wait_until(lambda: brokers[2].metadata(marker))
    told = brokers[2].of(ApiKey.UPDATE_METADATA)[before:]
    assert all(u.topic_states for u in told)
    assert told_alive(brokers[2])[-1] == {1, 2}


def test_new_brokers_are_told_of_everything_and_others_of_them(
    world: Any, wait_until: Any, trio: Any
) -> None:
    """Those that were there are told of no partition again."""
    _, brokers = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: brokers[2].metadata(T0))
    before = len(brokers[2].of(ApiKey.UPDATE_METADATA))
    new = world.broker(4)
    wait_until(lambda: new.metadata(T0))
    wait_until(lambda: told_alive(brokers[2])[-1] == {1, 2, 3, 4})
    assert [len(u.topic_states) for u in brokers[2].of(ApiKey.UPDATE_METADATA)[before:]] == [0]


def test_an_endpoint_that_changes_is_told_to_all(world: Any, wait_until: Any, trio: Any) -> None:
    """A broker may register other endpoints while it lives; its epoch stays, so that it did not
    bounce: nothing is elected, and its channel stays. So of brokers that came later."""
    node, brokers = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 3)))
    late = world.broker(4)
    wait_until(lambda: {1, 2, 3, 4} in told_alive(brokers[3]))
    channels = dict(node.controller._parts.channels._threads)
    assert channels.keys() == {1, 2, 3, 4}

    def ports(told: Any, of: int) -> set[int]:
        newest = told.of(ApiKey.UPDATE_METADATA)[-1]
        (own,) = (b for b in newest.live_brokers if b.id_ == of)
        return {e.port for e in own.endpoints}

    for changed in (brokers[2], late):
        old = changed.broker
        for port in (9, 10):
            added = EndPoint("NEW", "PLAINTEXT", "127.0.0.1", port)
            moved = dataclasses.replace(old, endpoints=(*old.endpoints, added))
            data = znodes.encode_broker(moved, jmx_port=-1, now_ms=1)
            world.admin.set_or_create(znodes.broker_id_path(changed.id), data)
            for told in (*brokers.values(), late):
                expected = {changed.port, port}
                wait_until(lambda t=told, c=changed.id, e=expected: ports(t, c) == e)
    assert world.state(T0) == (2, 0, (2, 3))
    assert node.controller._parts.channels._threads == channels
    assert node.controller.is_active


def test_a_registration_that_says_the_same_again_is_told_to_nobody(
    world: Any, wait_until: Any, trio: Any
) -> None:
    """KafkaController.processBrokerModification: only other endpoints are news, neither a later
    timestamp nor another rack."""
    _, brokers = trio
    wait_until(lambda: {1, 2, 3} in told_alive(brokers[3]))
    before = len(brokers[3].of(ApiKey.UPDATE_METADATA))
    for number, rack in enumerate((None, "r", None)):
        same = dataclasses.replace(brokers[2].broker, rack=rack)
        data = znodes.encode_broker(same, jmx_port=-1, now_ms=number)
        world.admin.set_or_create(znodes.broker_id_path(2), data)
    (marker,) = world.create_topic("marker", (3,))
    wait_until(lambda: brokers[3].metadata(marker))
    told = brokers[3].of(ApiKey.UPDATE_METADATA)[before:]
    assert [len(u.topic_states) for u in told] == [1]


def test_a_disk_that_failed_may_be_mended_by_a_restart(
    world: Any, wait_until: Any, trio: Any
) -> None:
    """What is known of a broker's failed log directories ends with its registration."""
    node, brokers = trio
    brokers[2].partition_error = int(Errors.KAFKA_STORAGE_ERROR)
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) == (3, 1, (3,)))
    assert node.controller._context.replicas_on_offline_dirs[2] == {T0}
    brokers[2].zk.close()
    wait_until(lambda: not node.controller._context.replicas_on_offline_dirs.get(2))
    back = world.broker(2)
    wait_until(lambda: back.leader_and_isr(T0))
    wait_until(lambda: tuple(back.metadata(T0)[-1].offline_replicas) == ())


def test_a_replica_that_was_offline_and_answers_is_online_again(
    world: Any, wait_until: Any, trio: Any
) -> None:
    """An answer without the storage error takes a replica off the list."""
    node, brokers = trio
    brokers[2].partition_error = int(Errors.KAFKA_STORAGE_ERROR)
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) == (3, 1, (3,)))
    brokers[2].partition_error = 0
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0)[0] == -1)
    context, batch = node.controller._context, node.controller._parts.batch

    def tell() -> None:
        moved = context.partition_full_replica_assignment(T0)
        batch.add_leader_and_isr([2], T0, context.leadership[T0], moved, is_new=False)
        batch.send()

    node.controller._put_change("Tell", tell)
    wait_until(lambda: not context.replicas_on_offline_dirs.get(2))


# ---- topics --------------------------------------------------------------------------------------


def test_a_topic_without_an_id_is_given_one(world: Any, wait_until: Any, trio: Any) -> None:
    """Made by a tool of before Kafka 2.8 (setTopicIds): the id is in ZooKeeper, and brokers are
    told the same."""
    _, brokers = trio
    data = znodes.encode_topic(None, {T0: ReplicaAssignment((2, 3))})
    world.admin.set_or_create(znodes.topic_path("t"), data)
    wait_until(lambda: brokers[2].leader_and_isr(T0))
    found = world.admin.get_replica_assignment_and_topic_id_for_topics(["t"])[0]
    assert found.topic_id is not None
    assert found.assignment == {T0: ReplicaAssignment((2, 3))}
    told = {t.topic_id for r in brokers[2].of(ApiKey.LEADER_AND_ISR) for t in r.topic_states}
    assert told == {found.topic_id}


def halted(world: Any, wait_until: Any, node: Any, brokers: dict[int, Any]) -> None:
    """Topic t is to be deleted, which waits for broker 3."""
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 3)))
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0) == (2, 1, (2,)))
    world.admin.create_delete_topic_path("t")
    wait_until(lambda: any(s.delete_partition for s in brokers[2].stops(T0)))
    wait_until(lambda: node.metrics.value(f"{GAUGES}TopicsIneligibleToDeleteCount") == 1)


def test_dying_topics_do_not_grow(world: Any, wait_until: Any, trio: Any) -> None:
    """Partitions that are added to one are taken out of its znode again."""
    node, brokers = trio
    halted(world, wait_until, node, brokers)
    found = world.admin.get_replica_assignment_and_topic_id_for_topics(["t"])[0]
    grown = {**found.assignment, TopicPartition("t", 1): ReplicaAssignment((2, 1))}
    world.admin.set_topic_assignment("t", found.topic_id, grown)
    wait_until(
        lambda: world.admin.get_full_replica_assignment_for_topic("t") == dict(found.assignment)
    )
    assert world.state(TopicPartition("t", 1)) is None


def test_what_the_gauges_say_of_deletions(world: Any, wait_until: Any, trio: Any) -> None:
    """While both brokers are silent: nothing has been deleted, and nothing is ineligible."""
    node, brokers = trio

    def shown() -> tuple[float, ...]:
        names = (
            "TopicsToDeleteCount", "ReplicasToDeleteCount",
            "TopicsIneligibleToDeleteCount", "ReplicasIneligibleToDeleteCount",
        )  # fmt: skip
        return tuple(node.metrics.value(GAUGES + name) for name in names)

    world.create_topic("t", (2, 3), (2, 3), (3, 2))
    wait_until(lambda: node.metrics.value(f"{GAUGES}GlobalPartitionCount") == 3)
    assert node.metrics.value(f"{GAUGES}GlobalTopicCount") == 1
    assert shown() == (0, 0, 0, 0)
    for broker in (brokers[2], brokers[3]):
        broker.hold()
    world.admin.create_delete_topic_path("t")
    wait_until(lambda: shown() == (1, 6, 0, 0))
    brokers[2].release()
    wait_until(lambda: shown() == (1, 3, 0, 0))
    assert node.metrics.value(f"{GAUGES}OfflinePartitionsCount") == 0, "they are not missed"
    brokers[3].release()
    wait_until(lambda: shown() == (0, 0, 0, 0))
    assert node.metrics.value(f"{GAUGES}GlobalPartitionCount") == 0


def test_a_deletion_goes_backwards_through_zookeeper(
    world: Any, wait_until: Any, trio: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic, its configs, and last the wish: a controller that fails in between leaves enough
    for its successor to know of it (TopicDeletionManager.completeDeleteTopic)."""
    node, _ = trio
    steps: list[str] = []

    def note(name: str) -> None:
        real = getattr(node.zk, name)

        def noted(*args: Any) -> None:
            steps.append(name)
            real(*args)

        monkeypatch.setattr(node.zk, name, noted)

    for name in ("delete_topic_znode", "delete_topic_configs", "delete_topic_deletions"):
        note(name)
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    world.admin.create_delete_topic_path("t")
    wait_until(lambda: not world.admin.get_topic_deletions())
    assert steps == ["delete_topic_znode", "delete_topic_configs", "delete_topic_deletions"]


@pytest.mark.parametrize("at_start", [True, False])
def test_without_deletion_the_wish_is_forgotten(
    world: Any, wait_until: Any, at_start: bool
) -> None:
    """``delete.topic.enable=false``: the topic stays."""
    node = world.node(1, **{"delete.topic.enable": "false"})
    world.broker(2)
    world.create_topic("t", (2,))
    if at_start:
        world.admin.create_delete_topic_path("t")
    node.controller.startup()
    wait_until(lambda: world.state(T0) == (2, 0, (2,)))
    if not at_start:
        world.admin.create_delete_topic_path("t")
    wait_until(lambda: not world.admin.get_topic_deletions())
    assert world.admin.topic_exists("t")
    assert not node.metrics.value(f"{GAUGES}TopicsToDeleteCount")


def test_a_refusal_of_a_whole_order_deletes_nothing(world: Any, wait_until: Any, trio: Any) -> None:
    """Whatever its answer says of partitions (TopicDeletionStopReplicaResponseReceived)."""
    node, brokers = trio
    answer = brokers[2]._answer

    def refuse(api_key: int, entity: Any) -> Any:
        fields = answer(api_key, entity)
        if api_key == ApiKey.STOP_REPLICA:
            fields["error_code"] = int(Errors.STALE_BROKER_EPOCH)
        return fields

    brokers[2]._answer = refuse
    world.create_topic("t", (2,))
    wait_until(lambda: world.state(T0))
    world.admin.create_delete_topic_path("t")
    wait_until(lambda: node.metrics.value(f"{GAUGES}TopicsIneligibleToDeleteCount") == 1)
    assert world.admin.topic_exists("t")

"""The controller against a real ZooKeeper and brokers that speak the real protocol."""

from __future__ import annotations

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import build

T0 = TopicPartition("t", 0)


def started(world, *others: int, controller_id: int = 1, **configs):
    """A started controller node and the other brokers."""
    node = world.node(controller_id, **configs)
    brokers = {controller_id: node.fake} | {i: world.broker(i) for i in others}
    node.controller.startup()
    return node, brokers


def test_election_tells_everybody_who_lives(world, wait_until):
    node, brokers = started(world, 2)
    wait_until(lambda: all(b.of(ApiKey.UPDATE_METADATA) for b in brokers.values()))
    assert node.controller.is_active
    assert node.controller.controller_epoch == 1
    update = brokers[2].of(ApiKey.UPDATE_METADATA)[0]
    assert (update.controller_id, update.controller_epoch) == (1, 1)
    assert update.broker_epoch == world.admin.get_all_broker_and_epochs_in_cluster()[2][1]
    assert [b.id_ for b in update.live_brokers] == [1, 2]
    assert update.live_brokers[1].endpoints[0].port == brokers[2].port
    header = brokers[2].requests[0][0]
    assert (header.api_version, header.client_id, header.correlation_id) == (8, "1", 0)
    events = [(row["event"], row["controller_epoch"]) for row in node.trace("controller")]
    assert events == [("elected", 1)]
    assert node.metrics.value("kafka.controller:type=KafkaController,name=ActiveControllerCount")


def test_only_one_of_several_is_elected_and_the_next_takes_over(world, wait_until):
    nodes = [world.node(i) for i in (1, 2, 3)]
    for node in nodes:
        node.controller.startup()
    wait_until(lambda: any(n.controller.is_active for n in nodes))
    wait_until(lambda: all(n.controller.active_controller_id > 0 for n in nodes))
    (first,) = [n for n in nodes if n.controller.is_active]
    first.controller.shutdown()
    first.zk.close()
    rest = [n for n in nodes if n is not first]
    wait_until(lambda: any(n.controller.is_active for n in rest))
    (second,) = [n for n in rest if n.controller.is_active]
    assert second.controller.controller_epoch == 2
    assert first.trace("controller")[-1]["event"] == "resigned"
    wait_until(lambda: all(n.controller.active_controller_id == second.fake.id for n in rest))


def test_new_topic_gets_leaders_and_all_brokers_hear(world, wait_until):
    node, brokers = started(world, 2, 3)
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (2, 1), (9, 3))
    t1 = TopicPartition("t", 1)
    wait_until(lambda: brokers[3].metadata(t1) and brokers[3].metadata(T0))
    assert world.state(T0) == (2, 0, (2, 1))
    assert world.state(t1) == (3, 0, (3,)), "only live replicas are in the first ISR"
    wait_until(lambda: brokers[2].leader_and_isr(T0) and brokers[1].leader_and_isr(T0))
    wait_until(lambda: brokers[2].metadata(T0))
    told = brokers[2].leader_and_isr(T0)[0]
    assert (told.leader, told.leader_epoch, told.is_new) == (2, 0, True)
    assert tuple(told.replicas) == (2, 1)
    assert not brokers[3].leader_and_isr(T0)
    kinds = [header.api_key for header, _ in brokers[2].requests]
    assert kinds.index(ApiKey.LEADER_AND_ISR) < len(kinds) - 1, "UpdateMetadata follows"
    rows = node.trace("leadership")
    assert {(r["topic"], r["partition"], r["leader"], r["source"]) for r in rows} == {
        ("t", 0, 2, "controller"),
        ("t", 1, 3, "controller"),
    }

    def control(kind):
        return {r["correlation_id"]: r for r in node.trace(kind) if r["to"] == 2}

    wait_until(lambda: control("control_response").keys() == control("control_send").keys())
    sends, answers = control("control_send").values(), control("control_response")
    assert all(answers[s["correlation_id"]]["error"] == 0 for s in sends)
    assert all(s["enqueue_t"] <= s["t"] <= answers[s["correlation_id"]]["t"] for s in sends)


def test_dead_leader_is_replaced_and_returns_as_follower(world, wait_until):
    node, brokers = started(world, 2, 3)
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (2, 3, 1))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 3, 1)))
    brokers[2].zk.close()
    wait_until(lambda: world.state(T0) == (3, 1, (3, 1)))
    wait_until(lambda: brokers[3].leaders_told(T0) == [2, 3])
    wait_until(lambda: brokers[1].metadata(T0)[-1].leader == 3)
    assert tuple(brokers[1].metadata(T0)[-1].offline_replicas) == (2,)

    back = world.broker(2)
    wait_until(lambda: back.leader_and_isr(T0))
    first = back.requests[0][1]
    assert [b.id_ for b in first.live_brokers] == [1, 2, 3], "first of all it learns everything"
    assert back.metadata(T0)[0].leader == 3
    assert back.leader_and_isr(T0)[-1].leader == 3
    assert world.state(T0) == (3, 1, (3, 1))


def test_last_of_the_isr_stays_in_it_and_leads_again(world, wait_until):
    node, brokers = started(world, 2)
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (2,))
    wait_until(lambda: world.state(T0) == (2, 0, (2,)))
    brokers[2].zk.close()
    wait_until(lambda: world.state(T0) == (-1, 1, (2,)))
    name = "kafka.controller:type=KafkaController,name=OfflinePartitionsCount"
    wait_until(lambda: node.metrics.value(name) == 1)
    world.broker(2)
    wait_until(lambda: world.state(T0) == (2, 2, (2,)))
    wait_until(lambda: node.metrics.value(name) == 0)


def test_unclean_election_only_where_the_topic_allows_it(world, wait_until):
    node, brokers = started(world, 2, 3)
    wait_until(lambda: node.controller.is_active)
    world.admin.set_or_create_entity_configs(
        "topics", "loose", {"unclean.leader.election.enable": "true"}
    )
    (strict,) = world.create_topic("strict", (2, 3))
    (loose,) = world.create_topic("loose", (2, 3))
    wait_until(lambda: world.state(loose) and world.state(strict))
    brokers[3].zk.close()
    wait_until(lambda: world.state(loose) == (2, 1, (2,)) == world.state(strict))
    brokers[2].zk.close()
    wait_until(lambda: world.state(strict) == (-1, 2, (2,)))
    world.broker(3)
    wait_until(lambda: world.state(loose)[0] == 3)
    assert world.state(loose)[2] == (3,)
    assert world.state(strict)[0] == -1
    raw = world.admin.get_topic_partition_states([loose])[loose].leader_and_isr
    assert raw.leader_recovery_state == 1
    # An operator who allows it afterwards need not wait for another broker to come or go.
    world.admin.set_or_create_entity_configs(
        "topics", "strict", {"unclean.leader.election.enable": "true"}
    )
    node.controller.enable_topic_unclean_leader_election("loose")
    node.controller.enable_topic_unclean_leader_election("strict")
    wait_until(lambda: world.state(strict)[0] == 3)
    assert world.state(loose)[0] == 3


def test_bounced_broker_is_treated_as_failed_and_started(world, wait_until):
    node, brokers = started(world, 2)
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (2, 1))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 1)))
    old = brokers[2]
    node.fake.hold()  # nothing to do with it: the event thread must not depend on answers
    old.zk.delete_recursive("/brokers/ids/2")
    new_epoch = old.zk.register_broker(old.broker)
    wait_until(lambda: world.state(T0)[0] == 1)
    told = ApiKey.LEADER_AND_ISR
    wait_until(lambda: any(r.broker_epoch == new_epoch for r in old.of(told)))
    node.fake.release()


def test_controlled_shutdown_moves_leaders(world, wait_until, ask):
    node, brokers = started(world, 2, 3)
    wait_until(lambda: node.controller.is_active)
    alone = TopicPartition("alone", 0)
    followed = TopicPartition("followed", 0)
    world.create_topic("t", (2, 3))
    world.create_topic("alone", (2,))
    world.create_topic("followed", (3, 2))
    wait_until(lambda: world.state(T0) and world.state(alone) and world.state(followed))
    epoch = world.admin.get_all_broker_and_epochs_in_cluster()[2][1]
    shut_down = node.controller.controlled_shutdown
    assert ask(shut_down, 2, epoch - 1) == (Errors.STALE_BROKER_EPOCH, ())
    assert ask(shut_down, 7, -1) == (Errors.BROKER_NOT_AVAILABLE, ())
    error, remaining = ask(shut_down, 2, epoch)
    assert (error, list(remaining)) == (Errors.NONE, [])
    assert world.state(T0) == (3, 1, (3,))
    assert world.state(followed) == (3, 1, (3,))
    assert world.state(alone) == (2, 0, (2,)), "nobody else has it"
    wait_until(lambda: brokers[2].stops(followed))
    assert not brokers[2].stops(followed)[0].delete_partition
    wait_until(lambda: brokers[3].leaders_told(T0) == [2, 3])
    wait_until(lambda: brokers[2].leaders_told(T0) == [2, 3])


def test_not_controller_answers(world, wait_until, ask):
    first, second = world.node(1), world.node(2)
    first.controller.startup()
    wait_until(lambda: first.controller.is_active)
    second.controller.startup()
    wait_until(lambda: second.controller.active_controller_id == 1)
    other = second.controller
    assert ask(other.controlled_shutdown, 1, -1)[0] == Errors.STALE_CONTROLLER_EPOCH
    assert ask(other.elect_leaders, 0, [T0])[T0].error == Errors.NOT_CONTROLLER
    assert ask(other.alter_reassignments, {T0: [1]})[0] == Errors.NOT_CONTROLLER
    assert ask(other.list_reassignments, None)[0] == Errors.NOT_CONTROLLER
    request = build(request_class(ApiKey.ALTER_PARTITION, 3), broker_id=1, topics=[])
    assert ask(other.alter_partitions, request)["error_code"] == Errors.NOT_CONTROLLER
    assert other.controller_epoch == 0


def test_failover_keeps_leader_epochs_and_elects_for_the_dead(world, wait_until):
    first = world.node(1)
    first.controller.startup()
    wait_until(lambda: first.controller.is_active)
    stays = world.broker(3)
    world.create_topic("t", (3, 2))
    led_by_controller = TopicPartition("led", 0)
    world.create_topic("led", (1, 3))
    wait_until(lambda: world.state(T0) == (3, 0, (3,)) and world.state(led_by_controller))
    second = world.node(2)
    second.controller.startup()
    first.controller.shutdown()
    first.zk.close()
    wait_until(lambda: second.controller.is_active)
    wait_until(lambda: world.state(led_by_controller) == (3, 2, (3,)))
    told = ApiKey.LEADER_AND_ISR
    wait_until(lambda: any(r.controller_epoch == 2 for r in stays.of(told)))
    assert world.state(T0) == (3, 0, (3,)), "not touched"
    wait_until(lambda: second.fake.leader_and_isr(T0))


def test_stopped_broker_gets_the_same_request_until_it_answers(world, wait_until):
    node, brokers = started(world, 2)
    wait_until(lambda: node.controller.is_active)
    wait_until(lambda: brokers[2].of(ApiKey.UPDATE_METADATA))
    brokers[2].hold()
    world.create_topic("t", (2, 1))
    wait_until(lambda: brokers[2].leader_and_isr(T0))
    brokers[2].drop_connections()
    wait_until(lambda: len(brokers[2].leader_and_isr(T0)) == 2)
    assert len(brokers[2].metadata(T0)) == 0, "nothing overtakes"
    brokers[2].release()
    wait_until(lambda: brokers[2].metadata(T0))
    sends = [r for r in node.trace("control_send") if r["to"] == 2 and r["api"] == "LEADER_AND_ISR"]
    assert [s["attempt"] for s in sends] == [1, 2]
    assert sends[0]["enqueue_t"] == sends[1]["enqueue_t"]
    assert sends[0]["correlation_id"] < sends[1]["correlation_id"]
    failed = [r for r in node.trace("control_response") if r["failure"]]
    assert [r["failure"] for r in failed] == ["disconnect"]

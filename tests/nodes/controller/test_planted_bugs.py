"""Planted bugs in the controller: what each does that it should not."""

from __future__ import annotations

import socket
import time
from threading import Event

import pytest

from nodes.controller.event_manager import ControllerState
from nodes.controller.event_manager import Event as QueuedEvent
from nodes.controller.send_thread import QueueItem, RequestSendThread
from nodes.core.brokers import EndPoint
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.metrics import Histogram
from nodes.mutants import rules_with
from nodes.trace import Trace
from nodes.wire.apis import ApiKey
from tests.kip291.requests import update_metadata
from tests.nodes.controller.test_controller import started
from tests.nodes.controller.test_topics import alter_request

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize(("names", "isr"), [((), (3, 1)), (("leave-the-dead-in-sync",), (3, 2, 1))])
def test_who_is_in_sync_when_a_follower_dies(world, wait_until, names, isr):
    node, brokers = started(world, 2, 3, rules=rules_with(names))
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (3, 2, 1))
    wait_until(lambda: world.state(T0) == (3, 0, (3, 2, 1)))
    brokers[2].zk.close()
    wait_until(lambda: world.state(T0) == (3, 1, isr))


@pytest.mark.parametrize(("names", "leader"), [((), 3), (("stop-without-handing-over",), 2)])
def test_who_leads_when_a_broker_may_stop(world, wait_until, ask, names, leader):
    node, _ = started(world, 2, 3, rules=rules_with(names))
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 3)))
    assert ask(node.controller.controlled_shutdown, 2, -1) == (Errors.NONE, [])
    assert world.state(T0)[0] == leader


@pytest.mark.parametrize(
    ("names", "then"), [((), (1, 1, (1,))), (("take-a-bounce-for-a-start",), (2, 0, (2, 1)))]
)
def test_who_leads_what_a_bounced_broker_led(world, wait_until, names, then):
    node, brokers = started(world, 2, rules=rules_with(names))
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (2, 1))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 1)))
    bounced, looks = brokers[2], Event()
    away = QueuedEvent("Away", ControllerState.IDLE, looks.wait)
    node.controller._events.put(away)  # it finds both at once
    bounced.zk.delete_recursive("/brokers/ids/2")
    epoch = bounced.zk.register_broker(bounced.broker)
    looks.set()
    told = ApiKey.UPDATE_METADATA
    wait_until(lambda: any(r.broker_epoch == epoch for r in bounced.of(told)))
    assert world.state(T0) == then


@pytest.mark.parametrize(("names", "isr"), [((), (3,)), (("keep-who-stops-in-sync",), (2, 3))])
def test_who_is_in_sync_when_a_leader_may_stop(world, wait_until, ask, names, isr):
    node, _ = started(world, 2, 3, rules=rules_with(names))
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 3)))
    assert ask(node.controller.controlled_shutdown, 2, -1) == (Errors.NONE, [])
    assert world.state(T0) == (3, 1, isr)


@pytest.mark.parametrize(("names", "isr"), [((), (3, 1)), (("make-with-the-dead",), (3, 2, 1))])
def test_who_is_in_sync_in_what_is_made(world, wait_until, names, isr):
    node, brokers = started(world, 2, 3, rules=rules_with(names))
    wait_until(lambda: node.controller.is_active)
    brokers[2].zk.close()
    wait_until(lambda: 2 not in node.controller._context.live_broker_ids)
    world.create_topic("t", (3, 2, 1))
    wait_until(lambda: world.state(T0) == (3, 0, isr))


@pytest.mark.parametrize("names", [(), ("forget-deletions-at-failover",)])
def test_what_becomes_of_deletions_under_way(world, wait_until, names):
    """One that its controller could not end goes on once another is elected."""
    node, brokers = started(world, 2)
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (2,))
    wait_until(lambda: world.state(T0))
    brokers[2].stop_error = int(Errors.KAFKA_STORAGE_ERROR)
    world.admin.create_delete_topic_path("t")
    wait_until(lambda: any(stop.delete_partition for stop in brokers[2].stops(T0)))
    brokers[2].stop_error = 0
    second, _ = started(world, controller_id=4, rules=rules_with(names))
    node.controller.shutdown()
    node.zk.close()
    wait_until(lambda: second.controller.is_active)
    world.create_topic("another", (2,))
    wait_until(lambda: world.state(TopicPartition("another", 0)))
    if names:
        assert world.admin.topic_exists("t")
    else:
        wait_until(lambda: not world.admin.topic_exists("t"))


@pytest.mark.parametrize("names", [(), ("leave-deletions-to-others",)])
def test_what_becomes_of_a_deletion_that_waits_for_who_comes_back(world, wait_until, names):
    node, brokers = started(world, 2, 3, rules=rules_with(names))
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0) == (2, 1, (2,)))
    world.admin.create_delete_topic_path("t")
    wait_until(lambda: any(stop.delete_partition for stop in brokers[2].stops(T0)))
    world.broker(3)
    wait_until(lambda: 3 in node.controller._context.live_broker_ids)
    if not names:
        wait_until(lambda: not world.admin.topic_exists("t"))
        return
    world.create_topic("another", (2, 3))
    wait_until(lambda: world.state(TopicPartition("another", 0)))
    assert world.admin.topic_exists("t")


@pytest.mark.parametrize("names", [(), ("halt-deletions-for-good",)])
def test_what_becomes_of_a_deletion_that_waits_for_a_move(world, wait_until, ask, names):
    node, brokers = started(world, 2, 3, rules=rules_with(names))
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    assert ask(node.controller.alter_reassignments, {T0: [1, 3]})[1][T0].error == Errors.NONE
    world.admin.create_delete_topic_path("t")
    wait_until(lambda: "t" in node.controller._context.topics_ineligible_for_deletion)
    assert world.admin.topic_exists("t")
    request = alter_request(world, 2, T0, [2, 3, 1], leader_epoch=1, partition_epoch=1)
    assert ask(node.controller.alter_partitions, request)["error_code"] == 0
    if not names:
        wait_until(lambda: not world.admin.topic_exists("t"))
        return
    wait_until(lambda: any(s.delete_partition for s in brokers[2].stops(T0)))
    world.create_topic("another", (2, 3))
    wait_until(lambda: world.state(TopicPartition("another", 0)))
    assert world.admin.topic_exists("t")


@pytest.mark.parametrize("names", [(), ("leave-who-never-led-alone",)])
def test_who_leads_a_new_partition_as_its_only_replica_comes(world, wait_until, names):
    node, brokers = started(world, 2, rules=rules_with(names))
    wait_until(lambda: brokers[2].of(ApiKey.UPDATE_METADATA))  # it has read what there is
    world.create_topic("t", (3,))
    world.create_topic("another", (2,))
    wait_until(lambda: world.state(TopicPartition("another", 0)))
    assert world.state(T0) is None
    world.broker(3)
    wait_until(lambda: 3 in node.controller._context.live_broker_ids)
    if not names:
        wait_until(lambda: world.state(T0) == (3, 0, (3,)))
        return
    world.create_topic("later", (3,))
    wait_until(lambda: world.state(TopicPartition("later", 0)))
    assert world.state(T0) is None


@pytest.mark.parametrize(("names", "leader"), [((), 3), (("ignore-what-is-allowed",), -1)])
def test_who_leads_when_an_unclean_election_is_allowed(world, wait_until, names, leader):
    node, brokers = started(world, 2, 3, rules=rules_with(names))
    wait_until(lambda: node.controller.is_active)
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 3)))
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0) == (2, 1, (2,)))
    brokers[2].zk.close()
    wait_until(lambda: world.state(T0)[0] == -1)
    world.broker(3)
    wait_until(lambda: 3 in node.controller._context.live_broker_ids)
    allowed = {"unclean.leader.election.enable": "true"}
    world.admin.set_or_create_entity_configs("topics", "t", allowed)
    node.controller.enable_topic_unclean_leader_election("t")
    world.create_topic("later", (3,))
    wait_until(lambda: world.state(TopicPartition("later", 0)))
    assert world.state(T0)[0] == leader


@pytest.mark.parametrize(("names", "waits"), [((), False), (("wait-for-who-is-given-up",), True)])
def test_who_is_given_up_with_a_request_under_way(names, waits):
    """It hangs: it takes the connection, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as hung:
        carrier = RequestSendThread(
            1,
            2,
            EndPoint("CONTROLLER", "PLAINTEXT", *hung.getsockname()),
            request_timeout_ms=1_500,
            socket_timeout_ms=1_500,
            trace=Trace(None, 1, 1),
            queue_time_ms=Histogram(),
            now_ns=time.monotonic_ns,
            gives_up_requests=rules_with(names).gives_up_requests(),
        )
        carrier.start()
        carrier.put(QueueItem(update_metadata({}), lambda _: None, time.monotonic_ns(), []))
        connection, _ = hung.accept()
        with connection:
            assert connection.recv(1)  # it is under way
            begun_ns = time.monotonic_ns()
            carrier.shutdown()
    assert (time.monotonic_ns() - begun_ns > 1_000_000_000) is waits

"""ControlledShutdown at the controller (KafkaController.doControlledShutdown, KIP-380)."""

from __future__ import annotations

import dataclasses
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.controller.controlled_shutdown import ControlledShutdowns
from nodes.controller.event_manager import ControllerState, Event
from nodes.coordination import znodes
from nodes.core.brokers import EndPoint
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.wire.apis import ApiKey

T0 = TopicPartition("t", 0)


@pytest.fixture
def trio(world: Any, wait_until: Any) -> tuple[Any, dict[int, Any]]:
    """A controller (1) and two brokers."""
    node = world.node(1)
    brokers = {1: node.fake, 2: world.broker(2), 3: world.broker(3)}
    node.controller.startup()
    wait_until(lambda: node.controller.is_active)
    return node, brokers


def epoch_of(world: Any, broker_id: int) -> int:
    epoch: int = world.admin.get_all_broker_and_epochs_in_cluster()[broker_id][1]
    return epoch


@pytest.mark.parametrize("ahead", [None, 0, 1])
def test_any_broker_epoch_but_an_older_one_will_do(
    world: Any, ask: Any, trio: Any, ahead: int | None
) -> None:
    """-1 is of a broker that knows no epochs (version 0); a newer one is of a registration that
    the controller has not seen yet."""
    node, _ = trio
    epoch = -1 if ahead is None else epoch_of(world, 2) + ahead
    assert ask(node.controller.controlled_shutdown, 2, epoch) == (Errors.NONE, [])


def test_what_nobody_else_can_lead_is_listed(
    world: Any, wait_until: Any, ask: Any, trio: Any
) -> None:
    """A partition of which the other replica is not in sync stays with the broker, which is to ask
    again; one without other replicas is none that could be moved, and is not listed."""
    node, brokers = trio
    alone = TopicPartition("alone", 0)
    world.create_topic("alone", (2,))
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) and world.state(alone))
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0) == (2, 1, (2,)))
    error, remaining = ask(node.controller.controlled_shutdown, 2, -1)
    assert (error, list(remaining)) == (Errors.NONE, [T0])
    assert world.state(T0) == (2, 1, (2,))
    assert not brokers[2].stops(T0)
    assert not brokers[2].stops(alone)


def test_followers_are_stopped_once_before_they_leave_the_in_sync_set(
    world: Any, wait_until: Any, ask: Any, trio: Any
) -> None:
    """Their logs stay: nothing is deleted."""
    node, brokers = trio
    world.create_topic("t", (3, 2))
    wait_until(lambda: world.state(T0) == (3, 0, (3, 2)))
    assert ask(node.controller.controlled_shutdown, 2, -1) == (Errors.NONE, [])
    assert world.state(T0) == (3, 1, (3,))
    wait_until(lambda: len(brokers[2].stops(T0)) == 2)
    assert [s.delete_partition for s in brokers[2].stops(T0)] == [False, False]
    wait_until(lambda: tuple(brokers[3].leader_and_isr(T0)[-1].isr) == (3,))


def test_dying_topics_do_not_hold_anybody_up(
    world: Any, wait_until: Any, ask: Any, trio: Any
) -> None:
    """Whose deletion waits for a replica that is down is not moved any more."""
    node, brokers = trio
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0))
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0) == (2, 1, (2,)))
    world.admin.create_delete_topic_path("t")
    gauge = "kafka.controller:type=KafkaController,name=TopicsIneligibleToDeleteCount"
    wait_until(lambda: node.metrics.value(gauge) == 1)
    assert ask(node.controller.controlled_shutdown, 2, -1) == (Errors.NONE, [])


def test_who_is_leaving_leads_nothing_new(world: Any, wait_until: Any, ask: Any, trio: Any) -> None:
    """It is still told of everything; and when it comes back it is a broker like others."""
    node, brokers = trio
    assert ask(node.controller.controlled_shutdown, 2, -1) == (Errors.NONE, [])
    (t0,) = world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(t0) == (3, 0, (3,)))
    wait_until(lambda: brokers[2].metadata(t0))
    gauges = "kafka.controller:type=KafkaController,name="
    assert node.metrics.value(f"{gauges}ActiveBrokerCount") == 3, "it is registered"
    brokers[2].zk.close()
    wait_until(lambda: node.metrics.value(f"{gauges}ActiveBrokerCount") == 2)
    world.broker(2)
    wait_until(lambda: node.metrics.value(f"{gauges}ActiveBrokerCount") == 3)
    (u0,) = world.create_topic("u", (2, 3))
    wait_until(lambda: world.state(u0) == (2, 0, (2, 3)))


def changes_an_endpoint(world: Any, brokers: Any) -> None:
    old = brokers[3].broker
    moved = dataclasses.replace(
        old, endpoints=(*old.endpoints, EndPoint("NEW", "PLAINTEXT", "127.0.0.1", 9))
    )
    data = znodes.encode_broker(moved, jmx_port=-1, now_ms=1)
    world.admin.set_or_create(znodes.broker_id_path(3), data)


NEWS = {
    "another endpoint": changes_an_endpoint,
    "a new broker": lambda world, _: world.broker(4),
    "a dead broker": lambda _, brokers: brokers[3].zk.close(),
    "a new topic": lambda world, _: world.create_topic("u", (3, 1)),
    "a dying topic": lambda world, _: world.admin.create_delete_topic_path("t"),
}


@pytest.mark.parametrize("news", NEWS)
def test_who_is_leaving_is_told_whatever_others_are(
    world: Any, wait_until: Any, ask: Any, trio: Any, news: str
) -> None:
    """UpdateMetadata goes to liveOrShuttingDownBrokerIds, whatever has happened: both planes of a
    broker that waits to be relieved still serve clients."""
    _, brokers = trio
    assert ask(trio[0].controller.controlled_shutdown, 2, -1) == (Errors.NONE, [])

    def settle(topic: str) -> list[int]:
        (tp,) = world.create_topic(topic, (1,))
        wait_until(lambda: brokers[1].metadata(tp) and brokers[2].metadata(tp))
        return [len(brokers[i].of(ApiKey.UPDATE_METADATA)) for i in (1, 2)]

    world.create_topic("t", (3, 1))
    wait_until(lambda: world.state(T0))
    before = settle("begin")
    NEWS[news](world, brokers)
    wait_until(lambda: len(brokers[1].of(ApiKey.UPDATE_METADATA)) > before[0])
    settle("end")
    told = [
        [
            (update.live_brokers, update.topic_states)
            for update in brokers[i].of(ApiKey.UPDATE_METADATA)[count:]
        ]
        for i, count in zip((1, 2), before, strict=True)
    ]
    assert len(told[0]) > 1
    assert told[0] == told[1]


def test_what_has_no_leader_is_nobodys_to_stop(
    world: Any, wait_until: Any, ask: Any, trio: Any
) -> None:
    """A partition that could never be led (its replicas are leaving, or were never there) has no
    state, and so no epoch to stop it with."""
    node, brokers = trio
    assert ask(node.controller.controlled_shutdown, 2, -1) == (Errors.NONE, [])
    world.create_topic("t", (2, 9))
    (marker,) = world.create_topic("marker", (3,))
    wait_until(lambda: world.state(marker))
    assert ask(node.controller.controlled_shutdown, 2, -1) == (Errors.NONE, [])
    (marker,) = world.create_topic("later", (3,))
    wait_until(lambda: brokers[2].metadata(marker))
    assert world.state(T0) is None
    assert brokers[2].stops(T0) == []


def test_whoever_waits_when_the_office_is_lost_is_told(trio: Any) -> None:
    """The request is dropped with the session's events: the broker is to ask the next controller
    (ControlledShutdown.preempt)."""
    node, _ = trio
    events, busy, may_end = node.controller._events, threading.Event(), threading.Event()
    answers: list[Any] = []

    def slow() -> None:
        busy.set()
        may_end.wait(60)

    events.put(Event("Slow", ControllerState.IDLE, slow))
    assert busy.wait(60)
    node.controller.controlled_shutdown(2, -1, lambda *answer: answers.append(answer))
    assert answers == []
    events.clear_and_put(Event("Expire", ControllerState.IDLE, lambda: None))
    assert answers == [(Errors.STALE_CONTROLLER_EPOCH, ())]
    may_end.set()


def test_whoever_asks_is_answered_whatever_comes_of_it() -> None:
    """KafkaController.processControlledShutdown calls back with what was thrown, too, and when the
    event is dropped. Once."""
    events: list[Event] = []

    def fails() -> bool:
        raise RuntimeError("planted")

    parts: Any = SimpleNamespace(put=events.append, is_active=fails, context=None)
    answers: list[Any] = []
    ControlledShutdowns(parts).shut_down(2, -1, lambda *answer: answers.append(answer))
    (event,) = events
    with pytest.raises(RuntimeError):
        event.run()
    assert answers == [(Errors.UNKNOWN_SERVER_ERROR, ())]
    event.preempt()
    assert answers[1:] == [(Errors.STALE_CONTROLLER_EPOCH, ())]

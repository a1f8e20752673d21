"""What a controller that is none any more leaves behind: nothing that acts (KafkaController's
onControllerResignation)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from nodes.coordination import znodes
from nodes.coordination.errors import SessionClosed
from nodes.coordination.requests import Exists
from nodes.core.types import TopicPartition

T0 = TopicPartition("t", 0)
GAUGES = "kafka.controller:type=KafkaController,name="


@pytest.fixture
def deposed(world: Any, wait_until: Any) -> Any:
    """Broker 1 was the controller, of a cluster with a topic, and broker 2 is now. The session of
    broker 1 lives."""
    first, second = world.node(1), world.node(2)
    first.controller.startup()
    wait_until(lambda: first.controller.is_active)
    second.controller.startup()
    wait_until(lambda: second.controller.active_controller_id == 1)
    world.create_topic("t", (2, 1))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 1)))
    wait_until(lambda: first.metrics.value(f"{GAUGES}GlobalPartitionCount") == 1)
    epoch = 1
    while not second.controller.is_active:  # whoever is quicker
        epoch += 1
        wait_until(lambda: _watch(world, first, second))
        world.admin.delete_recursive("/controller")
        wait_until(lambda e=epoch: e in (_epoch(first), _epoch(second)))
    wait_until(lambda: first.trace("controller")[-1]["event"] == "resigned")
    wait_until(lambda: first.controller.active_controller_id == 2)
    return first


def _watch(world: Any, *nodes: Any) -> bool:
    """Whether these have heard of the present controller and would hear of its end: nobody is
    elected for one whose znode comes and goes between two looks, in Kafka neither."""
    present = world.admin._session.request(Exists(znodes.CONTROLLER)).get()
    seen = [node.zk._session._seen_nodes.get(znodes.CONTROLLER) for node in nodes]
    return present is not None and seen == [present.mzxid] * len(nodes)


def _epoch(node: Any) -> int:
    epoch: int = node.controller.controller_epoch
    return epoch


def test_it_watches_the_controllers_znode_and_nothing_else(deposed: Any) -> None:
    session = deposed.zk._session
    assert set(session._change_handlers) == {znodes.CONTROLLER}
    assert set(session._child_handlers) == set()


def test_it_knows_and_says_nothing(deposed: Any, wait_until: Any) -> None:
    """No gauge shows what it once knew, and its channels are gone with their metrics."""
    context = deposed.controller._context
    assert context.all_topics == set()
    assert context.leadership == {}
    assert (context.controller_epoch, deposed.controller.controller_epoch) == (0, 0)

    def shown() -> dict[str, float]:
        found = deposed.metrics.by_mbean()
        return {n: v["Value"] for n, v in found.items() if n.startswith(GAUGES)}

    assert len(shown()) > 10
    wait_until(lambda: set(shown().values()) == {0})
    names = deposed.metrics.by_mbean()
    assert not [
        name for name in names if "ControllerChannelManager" in name and "broker-id" in name
    ]


def test_a_broker_that_stopped_has_no_controller_any_more(
    world_in_memory: Any, wait_until: Any
) -> None:
    """Its gauges are gone, and what is asked for later is answered."""
    node = world_in_memory.node(1)
    node.controller.startup()
    wait_until(lambda: node.controller.is_active)
    node.controller.shutdown()
    assert not node.controller.is_active
    assert node.controller.active_controller_id == -1
    assert not [name for name in node.metrics.by_mbean() if name.startswith(GAUGES)]
    answers: list[Any] = []
    node.controller.controlled_shutdown(1, -1, lambda *answer: answers.append(answer))
    assert [int(error) for error, _ in answers] == [11]


def test_a_broker_can_stop_while_zookeeper_cannot_be_reached(
    world_in_memory: Any, wait_until: Any
) -> None:
    """The event that waits for it is given up."""
    node = world_in_memory.node(1)
    node.controller.startup()
    wait_until(lambda: node.controller.is_active)
    waits, given_up = threading.Event(), threading.Event()

    def unreachable(_requests: Any) -> Any:
        waits.set()
        given_up.wait(120)
        raise SessionClosed

    session = node.zk._session
    session.pipeline, session.stop_waiting = unreachable, given_up.set
    node.controller._put_change("Asks", node.controller._reelect)
    assert waits.wait(60)
    stopping = threading.Thread(target=node.controller.shutdown, daemon=True)
    stopping.start()
    stopping.join(60)
    assert not stopping.is_alive()


def test_a_decision_that_would_get_lost_ends_its_reign(
    world_in_memory: Any, wait_until: Any
) -> None:
    """IllegalStateException of a batch that is not empty: messages of an earlier decision have not
    been sent. The controller gives `/controller` back, and whoever is elected starts afresh."""
    world = world_in_memory
    node = world.node(1)
    broker = world.broker(2)
    node.controller.startup()
    wait_until(lambda: node.controller.is_active and broker.requests)
    parts = node.controller._parts
    node.controller._put_change("Lost", lambda: parts.batch.add_update_metadata([2], []))
    world.broker(3)
    wait_until(lambda: node.controller.controller_epoch == 2)
    events = ["elected", "resigned", "elected"]
    wait_until(lambda: [r["event"] for r in node.trace("controller")] == events)
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 3)))


@pytest.mark.parametrize("machine", ["partitions", "replicas"])
def test_what_is_left_of_a_decision_goes_with_the_office(
    world_in_memory: Any, wait_until: Any, machine: str
) -> None:
    """A state machine that could not send what it had decided says so and stands still, as in
    Kafka; who is elected next, the same broker perhaps, starts afresh."""
    world = world_in_memory
    node = world.node(1)
    broker = world.broker(2)
    node.controller.startup()
    wait_until(lambda: node.controller.is_active and broker.requests)
    left = getattr(node.controller._parts, machine)._batch
    node.controller._put_change("Left", lambda: left.add_update_metadata([2], []))
    node.controller._put_change("Move", node.controller._trigger_controller_move)
    wait_until(lambda: node.controller.controller_epoch == 2)
    world.create_topic("t", (2,))
    wait_until(lambda: broker.leaders_told(T0) == [2], 30)


def test_who_was_elected_after_it_is_not_overthrown(world: Any, wait_until: Any) -> None:
    """Giving `/controller` back is conditioned on the controller epoch's version: of a successor it
    is not taken away."""
    node = world.node(1)
    node.controller.startup()
    wait_until(lambda: node.controller.is_active)
    (before,) = world.create_topic("before", (1,))
    wait_until(lambda: world.state(before))  # its own election's watch has been told, too
    data, version = world.admin.get_data_and_version(znodes.CONTROLLER_EPOCH)
    assert data is not None
    world.admin.conditional_update_path(znodes.CONTROLLER_EPOCH, data, version)
    epochs = world.admin.get_controller_epoch()
    node.controller._put_change("Broken", node.controller._trigger_controller_move)
    (marker,) = world.create_topic("marker", (1,))
    wait_until(lambda: not node.controller.is_active)
    assert world.admin.get_controller_id() == 1
    assert world.admin.get_controller_epoch() == epochs
    assert world.state(marker) is None

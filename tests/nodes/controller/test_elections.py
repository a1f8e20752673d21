"""Elections on request: what is answered for each partition (KafkaController's onReplicaElection
and processReplicaLeaderElection, KIP-183, KIP-460), and unclean ones."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.controller.results import ElectionType
from nodes.coordination import znodes
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition

T0 = TopicPartition("t", 0)
UNCLEAN = int(ElectionType.UNCLEAN)


@pytest.fixture
def trio(world: Any, wait_until: Any) -> tuple[Any, dict[int, Any]]:
    """A controller (1) and two brokers; topic t on 2 and 3, of which 3 left the in-sync set."""
    node = world.node(1)
    brokers = {1: node.fake, 2: world.broker(2), 3: world.broker(3)}
    node.controller.startup()
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 3)))
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0) == (2, 1, (2,)))
    return node, brokers


def leaderless(world: Any, wait_until: Any, brokers: dict[int, Any]) -> Any:
    """The last in sync goes, and the other one comes."""
    brokers[2].zk.close()
    wait_until(lambda: world.state(T0) == (-1, 2, (2,)))
    back = world.broker(3)
    wait_until(lambda: back.metadata(T0))
    return back


def test_an_unclean_leader_is_made_when_somebody_asks(
    world: Any, wait_until: Any, ask: Any, trio: Any
) -> None:
    """Whatever the topic's configuration says: an administrator takes the loss."""
    node, brokers = trio
    back = leaderless(world, wait_until, brokers)
    elect = node.controller.elect_leaders
    result = ask(elect, UNCLEAN, [T0])[T0]
    assert (result.error, result.leader) == (Errors.NONE, 3)
    assert world.state(T0) == (3, 3, (3,))
    wait_until(lambda: back.leader_and_isr(T0)[-1].leader_recovery_state == 1)
    assert ask(elect, UNCLEAN, [T0])[T0].error == Errors.ELECTION_NOT_NEEDED, "it has a live one"


def test_nobody_lives_who_could(world: Any, wait_until: Any, ask: Any, trio: Any) -> None:
    """ELIGIBLE_LEADERS_NOT_AVAILABLE, which is not what a preferred election answers."""
    node, brokers = trio
    brokers[2].zk.close()
    wait_until(lambda: world.state(T0) == (-1, 2, (2,)))
    elect = node.controller.elect_leaders
    assert ask(elect, UNCLEAN, [T0])[T0].error == Errors.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert ask(elect, 0, [T0])[T0].error == Errors.PREFERRED_LEADER_NOT_AVAILABLE


def test_a_leader_that_is_leaving_is_none(world: Any, wait_until: Any, ask: Any, trio: Any) -> None:
    """A broker in its controlled shutdown does not count as a live leader."""
    node, _ = trio
    assert ask(node.controller.controlled_shutdown, 2, -1) == (Errors.NONE, [T0])
    world.broker(3)
    gauge = "kafka.controller:type=KafkaController,name=ActiveBrokerCount"
    wait_until(lambda: node.metrics.value(gauge) == 3)
    result = ask(node.controller.elect_leaders, UNCLEAN, [T0])[T0]
    assert (result.error, result.leader) == (Errors.NONE, 3)


def test_dying_topics_elect_nobody(world: Any, wait_until: Any, ask: Any, trio: Any) -> None:
    node, _ = trio
    world.admin.create_delete_topic_path("t")
    gauge = "kafka.controller:type=KafkaController,name=TopicsIneligibleToDeleteCount"
    wait_until(lambda: node.metrics.value(gauge) == 1)
    answers = ask(node.controller.elect_leaders, 0, [T0])
    assert answers[T0].error == Errors.INVALID_TOPIC_EXCEPTION


def test_an_election_that_waits_in_zookeeper_is_held_by_the_next_controller(
    world: Any, wait_until: Any
) -> None:
    """`/admin/preferred_replica_election` was written while nobody was there to see it."""
    wish = znodes.encode_partitions([T0])
    world.admin.set_or_create(znodes.PREFERRED_REPLICA_ELECTION, wish)
    node = world.node(1)
    node.controller.startup()
    wait_until(lambda: not world.admin.path_exists(znodes.PREFERRED_REPLICA_ELECTION))
    assert node.controller.is_active


@pytest.mark.parametrize(
    ("value", "default"), [("TRUE", "false"), ("false", "true"), (None, "true"), (None, "false")]
)
def test_unclean_elections_are_allowed_by_topic_or_broker(
    world: Any, wait_until: Any, value: str | None, default: str
) -> None:
    """``unclean.leader.election.enable``: the topic's own, in any case of letters, else the
    controller's broker's."""
    node = world.node(1, **{"unclean.leader.election.enable": default})
    brokers = {i: world.broker(i) for i in (2, 3)}
    if value is not None:
        configs = {"unclean.leader.election.enable": value}
        world.admin.set_or_create_entity_configs("topics", "t", configs)
    node.controller.startup()
    world.create_topic("t", (2, 3))
    wait_until(lambda: world.state(T0) == (2, 0, (2, 3)))
    brokers[3].zk.close()
    wait_until(lambda: world.state(T0) == (2, 1, (2,)))
    leaderless(world, wait_until, brokers)
    allowed = (value or default).lower() == "true"
    (marker,) = world.create_topic("marker", (1,))
    wait_until(lambda: world.state(marker))
    assert world.state(T0) == ((3, 3, (3,)) if allowed else (-1, 2, (2,)))


def test_brokers_that_allow_it_now_concern_every_topic_that_does_not_say(
    world: Any, wait_until: Any, trio: Any
) -> None:
    """UncleanLeaderElectionEnable; who allowed it before is not asked to elect again."""
    node, brokers = trio
    leaderless(world, wait_until, brokers)
    refused = {"unclean.leader.election.enable": "false"}
    world.admin.set_or_create_entity_configs("topics", "t", refused)
    node.controller.set_unclean_leader_election(True)
    (marker,) = world.create_topic("marker", (1,))
    wait_until(lambda: world.state(marker))
    assert world.state(T0) == (-1, 2, (2,))
    world.admin.set_or_create_entity_configs("topics", "t", {})
    node.controller.set_unclean_leader_election(True)
    node.controller.set_unclean_leader_election(False)
    (second,) = world.create_topic("second", (1,))
    wait_until(lambda: world.state(second))
    assert world.state(T0) == (-1, 2, (2,))
    node.controller.set_unclean_leader_election(True)
    wait_until(lambda: world.state(T0) == (3, 3, (3,)))


def test_a_topic_that_allows_it_now_concerns_no_other(
    world: Any, wait_until: Any, trio: Any
) -> None:
    """TopicUncleanLeaderElectionEnable is of one topic: another, which allows it by now as well,
    waits for its own turn."""
    node, brokers = trio
    leaderless(world, wait_until, brokers)
    allowed = {"unclean.leader.election.enable": "true"}
    world.admin.set_or_create_entity_configs("topics", "t", allowed)
    node.controller.enable_topic_unclean_leader_election("other")
    (marker,) = world.create_topic("marker", (1,))
    wait_until(lambda: world.state(marker))
    assert world.state(T0) == (-1, 2, (2,))
    node.controller.enable_topic_unclean_leader_election("t")
    wait_until(lambda: world.state(T0) == (3, 3, (3,)))

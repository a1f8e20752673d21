"""``auto.leader.rebalance.enable``: when the controller returns leaders to the brokers that are
preferred (KafkaController.checkAndTriggerAutoLeaderRebalance, scheduleAutoLeaderRebalanceTask)."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.config import BrokerConfig
from nodes.controller.context import ControllerContext
from nodes.controller.elections import Elections
from nodes.controller.partition_machine import PREFERRED_REPLICA, ElectionStrategy
from nodes.core.assignment import ReplicaAssignment
from nodes.core.brokers import Broker
from nodes.core.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.partition_state_machine import PartitionState
from nodes.core.types import TopicPartition


class Cluster:
    """Brokers 1 and 2 live; of partitions (1, 2) the first `astray` are led by broker 2."""

    def __init__(self, partitions: int, astray: int, **properties: str) -> None:
        self.context = ControllerContext()
        self.context.set_live_brokers({i: (Broker(i, ()), 7) for i in (1, 2)})
        for p in range(partitions):
            self.add(p, leader=2 if p < astray else 1)
        config = BrokerConfig.from_properties(
            {
                "broker.id": "1",
                "zookeeper.connect": "unused:1",
                **{name.replace("_", "."): value for name, value in properties.items()},
            }
        )
        self.elected: list[int] = []
        parts: Any = SimpleNamespace(
            zk=None,
            config=config,
            context=self.context,
            partitions=SimpleNamespace(handle_state_changes=self._elect),
        )
        self._elections = Elections(parts)

    def add(self, partition: int, leader: int | None, isr: tuple[int, ...] = (1, 2)) -> None:
        tp = TopicPartition("t", partition)
        self.context.update_assignment(tp, ReplicaAssignment((1, 2)))
        if leader is not None:
            state = LeaderAndIsr(leader, isr)
            self.context.leadership[tp] = LeaderIsrAndControllerEpoch(state, 1)

    def rebalance(self) -> list[int]:
        """The partitions that an election was held for."""
        self._elections.rebalance()
        return self.elected

    def _elect(
        self, tps: Collection[TopicPartition], target: PartitionState, strategy: ElectionStrategy
    ) -> dict[TopicPartition, Any]:
        assert target is PartitionState.ONLINE
        assert strategy is PREFERRED_REPLICA
        self.elected += [tp.partition for tp in tps]
        return {}


@pytest.mark.parametrize(
    ("percentage", "astray", "elected"),
    [("10", 1, []), ("10", 2, [0, 1]), ("50", 5, []), ("50", 6, list(range(6))), ("0", 1, [0])],
)
def test_only_above_the_percentage(percentage: str, astray: int, elected: list[int]) -> None:
    """Of the ten partitions that prefer broker 1 more than ``leader.imbalance.per.broker.
    percentage`` must be led elsewhere; then all of them are returned."""
    cluster = Cluster(10, astray, leader_imbalance_per_broker_percentage=percentage)
    assert cluster.rebalance() == elected


def test_ten_percent_by_default() -> None:
    assert Cluster(10, 1).rebalance() == []
    assert Cluster(9, 1).rebalance() == [0]


def test_partitions_without_a_leader_yet_are_among_all() -> None:
    """They are led by nobody, so by nobody else; as in Kafka they count among those that prefer
    the broker. (They were left out.)"""
    cluster = Cluster(9, 1)
    cluster.add(9, leader=None)
    assert cluster.rebalance() == []


def test_dying_topics_are_left_alone() -> None:
    cluster = Cluster(2, 2)
    cluster.context.topics_to_be_deleted.add("t")
    assert cluster.rebalance() == []


@pytest.mark.parametrize("dead", [True, False])
def test_who_cannot_lead_is_not_asked_to(dead: bool) -> None:
    """A preferred replica that is down, or not in the in-sync set."""
    cluster = Cluster(2, 2)
    cluster.add(0, leader=2, isr=(2,))
    if dead:
        cluster.context.remove_live_brokers([1])
    assert cluster.rebalance() == ([] if dead else [1])


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Timers are made and never started; a test lets them come due."""
    made: list[Any] = []

    class Timer:
        def __init__(self, delay_s: float, due: Any) -> None:
            self.delay_s, self.due, self.is_cancelled = delay_s, due, False
            made.append(self)

        def start(self) -> None:
            pass

        def cancel(self) -> None:
            self.is_cancelled = True

    monkeypatch.setattr("nodes.controller.controller.threading.Timer", Timer)
    return made


def test_first_after_five_seconds_then_at_the_interval(
    world_in_memory: Any, wait_until: Any, timers: list[Any]
) -> None:
    """Through the whole controller: from its election until it resigns."""
    configs = {
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "17",
    }
    world = world_in_memory
    node = world.node(1, **configs)
    world.broker(2)
    node.controller.startup()
    wait_until(lambda: timers)
    assert [timer.delay_s for timer in timers] == [5]
    (tp,) = world.create_topic("t", (2, 1))
    wait_until(lambda: world.state(tp) == (2, 0, (2, 1)))
    found = world.admin.get_replica_assignment_and_topic_id_for_topics(["t"])[0]
    moved = {tp: ReplicaAssignment((1, 2))}
    node.controller._context.update_assignment(tp, moved[tp])
    world.admin.set_topic_assignment("t", found.topic_id, moved)
    for round_ in (1, 2):
        timers[-1].due()
        wait_until(lambda n=round_: len(timers) == n + 1)
        assert timers[-1].delay_s == 17
        assert world.state(tp) == (1, 1, (2, 1)), "once is enough"
    node.controller.shutdown()
    assert timers[-1].is_cancelled
    count = len(timers)
    timers[-1].due()  # it was on its way
    assert len(timers) == count


def test_one_that_fails_is_not_the_last(
    world_in_memory: Any, wait_until: Any, timers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """KafkaController.processAutoPreferredReplicaLeaderElection schedules the next one whatever
    came of it."""
    world = world_in_memory
    configs = {
        "auto.leader.rebalance.enable": "true",
        "leader.imbalance.check.interval.seconds": "17",
    }
    node = world.node(1, **configs)
    node.controller.startup()
    wait_until(lambda: timers)

    def fails(_elections: Elections) -> None:
        raise RuntimeError("not today")

    monkeypatch.setattr(Elections, "rebalance", fails)
    for round_ in (1, 2):
        timers[-1].due()
        wait_until(lambda n=round_: len(timers) == n + 1)
    assert [timer.delay_s for timer in timers] == [5, 17, 17]
    node.controller.shutdown()


def test_whoever_does_not_want_it_has_none(
    world_in_memory: Any, wait_until: Any, timers: list[Any]
) -> None:
    node = world_in_memory.node(1)  # auto.leader.rebalance.enable=false
    node.controller.startup()
    wait_until(lambda: node.controller.is_active and node.fake.requests)
    node.controller.shutdown()
    assert timers == []

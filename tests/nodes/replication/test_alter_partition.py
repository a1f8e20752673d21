"""AlterPartition: batching, retries, and what a partition makes of the answers."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from nodes.core import isr
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.replication.alter_partition import AlterPartitionManager
from nodes.replication.partition import IsrAnswer, IsrProposal
from nodes.wire.apis import ApiKey, response_class
from nodes.wire.build import build
from tests.nodes.replication.conftest import (
    TP,
    ClusterFactory,
    Waiter,
    answer_of,
    wait_for,
)

ID = uuid.UUID(int=3)


def proposal(members: set[int]) -> IsrProposal:
    state = isr.proposing_expansion(isr.committed(members), 9)
    return IsrProposal(ID, 4, 6, tuple(sorted(members | {9})), state)


class Channel:
    """Answers each request with the next of `script`; blocks while there is none."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.script: list[Any] = []
        self.more = threading.Semaphore(0)

    def answer(self, *script: Any) -> None:
        self.script += script
        for _ in script:
            self.more.release()

    def request(self, entity: Any) -> Any:
        self.requests.append(entity)
        self.more.acquire()
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return build(response_class(ApiKey.ALTER_PARTITION, 3), **step)

    def close(self) -> None:
        self.answer(ConnectionError("closed"))


def rows(*answers: tuple[int, int]) -> dict[str, Any]:
    partitions = [
        {
            "partition_index": partition,
            "error_code": error,
            "leader_id": 1,
            "leader_epoch": 4,
            "isr": [1, 9],
            "partition_epoch": 7,
        }
        for partition, error in answers
    ]
    return {"error_code": 0, "topics": [{"topic_id": ID, "partitions": partitions}]}


@pytest.fixture
def channel() -> Channel:
    return Channel()


@pytest.fixture
def manager(channel: Channel) -> Iterator[AlterPartitionManager]:
    manager = AlterPartitionManager(1, channel, lambda: 55)
    manager.startup()
    yield manager
    manager.shutdown()


def test_its_thread_has_kafkas_name(manager: AlterPartitionManager) -> None:
    """NodeToControllerChannelManagerImpl.newRequestThread, in ZooKeeper mode."""
    expected = "zk-broker-1-to-controller-alter-partition-channel-manager"
    assert expected in [thread.name for thread in threading.enumerate()]


def test_one_in_flight_and_the_rest_together(
    manager: AlterPartitionManager, channel: Channel
) -> None:
    waiters = [Waiter() for _ in range(3)]
    assert manager.submit(TopicPartition("t", 0), proposal({1}), waiters[0])
    wait_for(lambda: len(channel.requests) == 1)
    assert not manager.submit(TopicPartition("t", 0), proposal({1, 2}), Waiter())
    for partition in (1, 2):
        assert manager.submit(TopicPartition("t", partition), proposal({1}), waiters[partition])
    channel.answer(rows((0, 0)))
    assert waiters[0].wait() == IsrAnswer(0, 4, 7, (1, 9))
    wait_for(lambda: len(channel.requests) == 2)
    asked = channel.requests[1]
    assert (int(asked.broker_id), int(asked.broker_epoch)) == (1, 55)
    assert [
        (int(p.partition_index), int(p.leader_epoch), int(p.partition_epoch))
        for p in asked.topics[0].partitions
    ] == [(1, 4, 6), (2, 4, 6)]
    assert asked.topics[0].topic_id == ID
    members = asked.topics[0].partitions[0].new_isr_with_epochs
    assert [(int(b.broker_id), int(b.broker_epoch)) for b in members] == [(1, -1), (9, -1)]
    channel.answer(rows((1, 0), (2, int(Errors.INVALID_UPDATE_VERSION))))
    assert waiters[1].wait().error == 0
    assert waiters[2].wait().error == Errors.INVALID_UPDATE_VERSION


def test_it_ends_in_the_middle_of_a_request(
    manager: AlterPartitionManager, channel: Channel
) -> None:
    """A controller that does not answer holds up no shutdown; nobody is answered any more."""
    waiter = Waiter()
    manager.submit(TopicPartition("t", 0), proposal({1}), waiter)
    wait_for(lambda: channel.requests)
    manager.shutdown()
    assert not manager._thread.is_alive()
    assert not waiter.is_answered


@pytest.mark.parametrize("error", [KeyError, OSError])
def test_a_partition_that_cannot_take_its_answer_keeps_nobody_from_theirs(
    manager: AlterPartitionManager, channel: Channel, error: type[Exception]
) -> None:
    """And it may propose again."""

    def fails(_answer: IsrAnswer) -> None:
        raise error("planted")

    first, waiters = Waiter(), [Waiter(), Waiter()]
    manager.submit(TopicPartition("t", 0), proposal({1}), first)
    wait_for(lambda: channel.requests)
    manager.submit(TopicPartition("t", 1), proposal({1}), fails)
    manager.submit(TopicPartition("t", 2), proposal({1}), waiters[0])
    channel.answer(rows((0, 0)), rows((1, 0), (2, 0)))
    assert waiters[0].wait().error == 0
    assert manager.submit(TopicPartition("t", 1), proposal({1}), waiters[1])
    channel.answer(rows((1, 0)))
    assert waiters[1].wait().error == 0


def test_failures_of_the_whole_request_only_delay_it(
    manager: AlterPartitionManager, channel: Channel
) -> None:
    waiter = Waiter()
    manager.submit(TopicPartition("t", 0), proposal({1}), waiter)
    refused = {"error_code": int(Errors.NOT_CONTROLLER), "topics": []}
    stale = {"error_code": int(Errors.STALE_BROKER_EPOCH), "topics": []}
    left_out = {"error_code": 0, "topics": []}
    begun = time.monotonic()
    channel.answer(ConnectionError("gone"), refused, stale, left_out, rows((0, 0)))
    assert waiter.wait().error == 0
    assert (len(channel.requests), waiter.calls) == (5, 1)
    # Each for 50 ms, as in Kafka: a controller that refuses everybody is not asked without a pause.
    assert time.monotonic() - begun >= 4 * 0.05


def test_an_answer_that_comes_after_a_new_leader_epoch_is_ignored(
    make_cluster: ClusterFactory,
) -> None:
    cluster = make_cluster()
    cluster.create()
    partition = cluster.brokers[1].partition()
    old = partition._under_way(isr.proposing_shrink(partition.isr_state, [3]))
    cluster.controller.elect(TP, 1)
    cluster.controller.tell(1)
    partition._proposal_answered(old, IsrAnswer(0, 0, 9, (1, 2)))
    assert partition.isr_state == isr.committed({1, 2, 3})
    assert partition.partition_epoch == 1


FINAL = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.UNKNOWN_TOPIC_ID,
    Errors.FENCED_LEADER_EPOCH,
    Errors.INVALID_UPDATE_VERSION,
    Errors.INVALID_REQUEST,
    Errors.NEW_LEADER_ELECTED,
}
"""Partition.handleAlterPartitionError: what only a LeaderAndIsr can mend."""


def test_what_refusals_leave_behind(
    make_cluster: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all errors that there are: two prove that nothing was applied, so that the leader may go
    back; some say that it knows too little, so that it asks no more; of the others nothing is
    known, and it asks the same again. Until then the stricter of both sets holds."""
    cluster = make_cluster()
    cluster.create()
    partition = cluster.brokers[1].partition()
    committed = partition.isr_state
    asked: list[Any] = []
    monkeypatch.setattr(partition, "_propose", asked.append)
    for error in set(Errors) - {Errors.NONE}:
        asked.clear()
        partition.isr_state = committed
        pending = partition._under_way(isr.proposing_shrink(committed, [3]))
        partition._proposal_answered(pending, IsrAnswer(int(error)))
        goes_back = error in {Errors.INELIGIBLE_REPLICA, Errors.OPERATION_NOT_ATTEMPTED}
        assert partition.isr_state.is_inflight != goes_back, error.name
        assert partition.isr_state.maximal_isr == {1, 2, 3}
        again = [] if goes_back or error in FINAL else [pending]
        assert asked == again, error.name
    partition.isr_state = committed


def test_a_proposal_that_was_not_taken_is_none(
    make_cluster: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older one of the partition is still out (OperationNotAttemptedException): the leader goes
    back to what is committed, so that it can propose again; but not over a newer LeaderAndIsr."""
    cluster = make_cluster()
    cluster.create()
    partition = cluster.brokers[1].partition()
    committed = partition.isr_state
    monkeypatch.setattr(partition._host, "propose_isr", lambda *_: False)
    partition._propose(partition._under_way(isr.proposing_shrink(committed, [3])))
    assert partition.isr_state == committed
    late = partition._under_way(isr.proposing_shrink(committed, [3]))
    newer = partition._under_way(isr.proposing_shrink(committed, [2]))
    partition._propose(late)
    assert partition.isr_state is newer.state
    partition.isr_state = committed


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch", "taken"),
    [(1, 2, True), (1, 1, True), (1, 0, False), (0, 2, False), (2, 2, False)],
)
def test_only_an_answer_to_this_leader_is_taken(
    make_cluster: ClusterFactory, leader_epoch: int, partition_epoch: int, taken: bool
) -> None:
    """Partition.handleAlterPartitionUpdate: of its very leader epoch, and not older than what it
    knows. Whatever else comes changes nothing; the stricter set goes on to hold."""
    cluster = make_cluster()
    cluster.create()
    cluster.controller.elect(TP, 1)
    cluster.controller.tell(1)
    partition = cluster.brokers[1].partition()
    assert (partition.leader_epoch, partition.partition_epoch) == (1, 1)
    asked = partition._under_way(isr.proposing_shrink(partition.isr_state, [3]))
    answer = IsrAnswer(0, leader_epoch, partition_epoch, (1, 2))
    partition._proposal_answered(asked, answer)
    if taken:
        assert partition.isr_state == isr.committed({1, 2})
        assert partition.partition_epoch == partition_epoch
    else:
        assert partition.isr_state is asked.state
        assert partition.partition_epoch == 1
    partition.isr_state = isr.committed({1, 2, 3})


def test_a_dead_broker_is_not_proposed(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    cluster.create()
    cluster.kill(3)
    leader = cluster.brokers[1]
    answer = leader.produce(0, acks=-1)
    wait_for(lambda: leader.partition().followers[2].log_end_offset == 1)
    cluster.notice_lag()
    assert answer_of(answer).error == 0
    wait_for(lambda: cluster.isr() == {1, 2})
    cluster.controller.tell_metadata(1)
    assert not leader.manager.is_alive(3)
    cluster.start(3)
    cluster.controller.tell(3)
    wait_for(lambda: cluster.brokers[3].values() == [0])
    assert cluster.isr() == {1, 2}, "the leader has not heard that 3 is back"
    cluster.controller.tell_metadata(1)
    wait_for(lambda: cluster.isr() == {1, 2, 3})

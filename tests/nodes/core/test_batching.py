"""What is gathered for brokers in one state change, against its definition (Kafka's
AbstractControllerBrokerRequestBatch): the last word about a partition counts, *new* and *delete*
stick, and whoever has a negative id is nobody. Broker 0 is a broker like others."""

from __future__ import annotations

import random

import pytest

from nodes.core.assignment import ReplicaAssignment
from nodes.core.batching import BatchBuilder, BatchNotEmpty
from nodes.core.leader_and_isr import (
    LEADER_DURING_DELETE,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
)
from nodes.core.types import TopicPartition

LIVE = (0, 1, 2)
PARTITIONS = [TopicPartition(topic, p) for topic in ("t", "dying", "leaderless") for p in (0, 1)]
ASSIGNED = (0, 2, 5)
OFFLINE = {2, 5}


def state_of(tp: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
    if tp.topic == "leaderless":
        return None
    return LeaderIsrAndControllerEpoch(LeaderAndIsr(2, (2, 0), 7 + tp.partition, 9), 3)


class View:
    """Brokers 0 to 2 are live; every partition is assigned to 0, 2 and 5, of which 0 is well."""

    live_or_shutting_down_broker_ids = LIVE

    def is_topic_queued_up_for_deletion(self, topic: str) -> bool:
        return topic == "dying"

    def partition_leadership_info(self, tp: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        return state_of(tp)

    def partition_replica_assignment(self, tp: TopicPartition) -> tuple[int, ...]:
        return ASSIGNED

    def is_replica_online(self, broker_id: int, tp: TopicPartition) -> bool:
        return broker_id not in OFFLINE

    def leader_epoch(self, tp: TopicPartition) -> int:
        return -2 if tp.topic == "dying" else 40 + tp.partition


@pytest.mark.parametrize("seed", range(30))
def test_a_batch_is_what_was_said_last(seed: int) -> None:
    rng = random.Random(seed)
    builder = BatchBuilder(View())
    orders: dict[int, dict[TopicPartition, tuple[object, object, bool]]] = {}
    stops: dict[int, dict[TopicPartition, tuple[int, bool]]] = {}
    told_brokers: set[int] = set()
    told: set[TopicPartition] = set()
    for number in range(rng.randint(1, 60)):
        brokers = rng.sample([-2, -1, 0, 1, 2, 7], rng.randint(0, 4))
        tp = rng.choice(PARTITIONS)
        flag = rng.random() < 0.5
        kind = rng.choice(["order", "stop", "tell"])
        if kind == "order":
            state = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, (1,), number), number)
            assignment = ReplicaAssignment((number,))
            builder.add_leader_and_isr(brokers, tp, state, assignment, is_new=flag)
            for broker in brokers:
                if broker >= 0:
                    was_new = orders.setdefault(broker, {}).get(tp, (0, 0, False))[2]
                    orders[broker][tp] = (state, assignment, flag or was_new)
            told_brokers |= set(LIVE)
            told.add(tp)
        elif kind == "stop":
            builder.add_stop_replica(brokers, tp, delete=flag)
            for broker in brokers:
                if broker >= 0:
                    deletes = stops.setdefault(broker, {}).get(tp, (0, False))[1]
                    stops[broker][tp] = (View().leader_epoch(tp), flag or deletes)
        else:
            tps = rng.sample(PARTITIONS, rng.randint(0, 3))
            builder.add_update_metadata(brokers, tps)
            told_brokers |= {broker for broker in brokers if broker >= 0}
            told |= set(tps)
    if orders or stops or told_brokers:
        with pytest.raises(BatchNotEmpty):
            builder.new_batch()
    batch = builder.take()
    assert {
        broker: {tp: (e.state, e.assignment, e.is_new) for tp, e in entries.items()}
        for broker, entries in batch.leader_and_isr.items()
    } == orders
    assert {
        broker: {tp: (e.leader_epoch, e.delete) for tp, e in entries.items()}
        for broker, entries in batch.stop_replica.items()
    } == stops
    assert batch.update_metadata_brokers == told_brokers
    assert set(batch.update_metadata) == {tp for tp in told if tp.topic != "leaderless"}
    for tp, entry in batch.update_metadata.items():
        known = state_of(tp)
        assert known is not None
        says, knows = entry.state.leader_and_isr, known.leader_and_isr
        dying = tp.topic == "dying"
        expected = (LEADER_DURING_DELETE, 0, 0) if dying else (2, 7 + tp.partition, 9)
        assert (says.leader, says.leader_epoch, says.partition_epoch) == expected
        assert (says.isr, entry.state.controller_epoch) == (knows.isr, 3)
        assert (entry.replicas, entry.offline_replicas) == (ASSIGNED, (2, 5))
    builder.new_batch()
    assert not builder.take()


@pytest.mark.parametrize("what", ["order", "tell", "stop"])
def test_nothing_that_was_said_is_forgotten(what: str) -> None:
    """A batch that was begun and not sent is none to begin anew, whatever is in it."""
    builder = BatchBuilder(View())
    tp, state = PARTITIONS[0], state_of(PARTITIONS[0])
    assert state is not None
    builder.new_batch()
    if what == "order":
        builder.add_leader_and_isr([0], tp, state, ReplicaAssignment((0,)), is_new=False)
    elif what == "tell":
        builder.add_update_metadata([0], [])
    else:
        builder.add_stop_replica([0], tp, delete=False)
    with pytest.raises(BatchNotEmpty):
        builder.new_batch()
    builder.clear()
    builder.new_batch()

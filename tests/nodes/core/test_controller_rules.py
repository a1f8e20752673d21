"""The controller's pure rules: elections, transitions, proposals, batches, assignments, names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.core.assignment import ReplicaAssignment, assign_replicas_to_brokers
from nodes.core.batching import BatchBuilder, BatchNotEmpty
from nodes.core.election import (
    elect_for_controlled_shutdown,
    elect_for_offline,
    elect_for_reassignment,
    elect_preferred,
    without_replica,
)
from nodes.core.errors import ApiError, Errors
from nodes.core.leader_and_isr import RECOVERING, LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.partition_state_machine import PartitionState
from nodes.core.partition_state_machine import is_valid_transition as partition_may
from nodes.core.proposed_isr import judge_proposal
from nodes.core.replica_state_machine import ReplicaState
from nodes.core.replica_state_machine import is_valid_transition as replica_may
from nodes.core.topic_names import collides, is_legal_partition, validate_topic_name
from nodes.core.types import TopicPartition

STATE = LeaderAndIsr(1, (1, 2), leader_epoch=5, partition_epoch=9)
brokers = st.lists(st.integers(0, 5), unique=True, max_size=6).map(tuple)


# ---- elections -----------------------------------------------------------------------------------


def test_offline_election_follows_the_assignment():
    elected = elect_for_offline(STATE, (3, 2, 1), {1, 2, 3}, unclean_allowed=False)
    assert elected == replace(STATE, leader=2, leader_epoch=6)
    elected = elect_for_offline(STATE, (3, 2, 1), {2, 3}, unclean_allowed=False)
    assert elected == replace(STATE, leader=2, isr=(2,), leader_epoch=6)


def test_unclean_election_is_a_last_resort():
    assert elect_for_offline(STATE, (1, 2, 3), {3}, unclean_allowed=False) is None
    assert elect_for_offline(STATE, (1, 2, 3), set(), unclean_allowed=True) is None
    unclean = elect_for_offline(STATE, (1, 2, 3), {3}, unclean_allowed=True)
    assert unclean == LeaderAndIsr(3, (3,), 6, 9, RECOVERING)
    clean = elect_for_offline(STATE, (3, 1), {1, 3}, unclean_allowed=True)
    assert clean is not None
    assert clean.leader == 1


def test_other_elections():
    assert elect_preferred(STATE, (2, 1), {1, 2}) == replace(STATE, leader=2, leader_epoch=6)
    assert elect_preferred(STATE, (2, 1), {1}) is None
    assert elect_preferred(STATE, (3, 1), {1, 3}) is None
    assert elect_preferred(STATE, (), {1}) is None
    moved = elect_for_reassignment(STATE, (3, 2), {1, 2, 3})
    assert moved == replace(STATE, leader=2, leader_epoch=6)
    left = elect_for_controlled_shutdown(STATE, (1, 2), {1, 2}, {1})
    assert left == replace(STATE, leader=2, isr=(2,), leader_epoch=6)
    assert elect_for_controlled_shutdown(STATE, (1, 2), {1, 2}, {1, 2}) is None


def test_replica_gone():
    assert without_replica(STATE, 1) == replace(STATE, leader=-1, isr=(2,), leader_epoch=6)
    assert without_replica(STATE, 2) == replace(STATE, isr=(1,), leader_epoch=6)
    alone = replace(STATE, isr=(1,))
    assert without_replica(alone, 1) == replace(alone, leader=-1, leader_epoch=6)


@given(brokers, brokers, brokers, st.booleans())
def test_an_elected_leader_is_live_assigned_and_in_its_isr(assignment, isr, live, unclean):
    state = LeaderAndIsr(-1, isr, 3)
    elected = elect_for_offline(state, assignment, live, unclean_allowed=unclean)
    possible = set(assignment) & set(live) & (set(live) if unclean else set(isr))
    assert (elected is not None) == bool(possible)
    if elected is not None:
        assert elected.leader in set(assignment) & set(live)
        assert elected.leader in elected.isr
        assert set(elected.isr) <= set(live)
        assert elected.leader_epoch == 4
        if elected.leader not in isr:
            assert elected.leader_recovery_state == RECOVERING


# ---- transitions ---------------------------------------------------------------------------------


def test_tables():
    partition = PartitionState
    allowed = {
        (partition.NON_EXISTENT, partition.NEW),
        (partition.OFFLINE, partition.NON_EXISTENT),
        *((a, b) for a in (partition.NEW, partition.ONLINE, partition.OFFLINE)
          for b in (partition.ONLINE, partition.OFFLINE)),
    }  # fmt: skip
    assert {(a, b) for a in partition for b in partition if partition_may(a, b)} == allowed
    replica = ReplicaState
    running = (replica.NEW, replica.ONLINE, replica.OFFLINE, replica.DELETION_INELIGIBLE)
    allowed_replica = {
        (replica.NON_EXISTENT, replica.NEW),
        *((a, b) for a in running for b in (replica.ONLINE, replica.OFFLINE)),
        (replica.OFFLINE, replica.DELETION_STARTED),
        (replica.DELETION_STARTED, replica.DELETION_SUCCESSFUL),
        (replica.OFFLINE, replica.DELETION_INELIGIBLE),
        (replica.DELETION_STARTED, replica.DELETION_INELIGIBLE),
        (replica.DELETION_SUCCESSFUL, replica.NON_EXISTENT),
    }
    assert {(a, b) for a in replica for b in replica if replica_may(a, b)} == allowed_replica


# ---- proposals of leaders ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proposed", "verdict"),
    [
        ({"partition_epoch": 10}, Errors.NOT_CONTROLLER),
        ({"leader_epoch": 6}, Errors.NOT_CONTROLLER),
        ({"leader_epoch": 4}, Errors.FENCED_LEADER_EPOCH),
        ({}, STATE),
        ({"partition_epoch": 3}, STATE),
        ({"partition_epoch": 8, "isr": (1,)}, Errors.INVALID_UPDATE_VERSION),
        ({"leader_recovery_state": RECOVERING, "isr": (1,)}, Errors.INVALID_REQUEST),
        ({"isr": (1, 2, 7)}, Errors.INELIGIBLE_REPLICA),
        ({"isr": (1,)}, None),
        ({"isr": (1, 2, 3)}, None),
        ({"leader": 2}, None),
    ],
)
def test_judgement(proposed, verdict):
    assert judge_proposal(replace(STATE, **proposed), STATE, {1, 2, 3}) == verdict
    assert judge_proposal(STATE, None, {1}) == Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_recovered_leader_may_say_so():
    recovering = replace(STATE, isr=(1,), leader_recovery_state=RECOVERING)
    assert judge_proposal(replace(STATE, isr=(1,)), recovering, {1}) is None
    grown = replace(recovering, isr=(1, 2))
    assert judge_proposal(grown, recovering, {1, 2}) == Errors.INVALID_REQUEST


# ---- batches -------------------------------------------------------------------------------------

TP = TopicPartition("t", 0)


class View:
    """Two live brokers, and a partition."""

    live_or_shutting_down_broker_ids = (1, 2)

    def __init__(self, dying: bool = False) -> None:
        self.dying = dying

    def is_topic_queued_up_for_deletion(self, topic: str) -> bool:
        return self.dying

    def partition_leadership_info(self, tp: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        return LeaderIsrAndControllerEpoch(STATE, 1) if tp == TP else None

    def partition_replica_assignment(self, tp: TopicPartition) -> tuple[int, ...]:
        return (1, 2, 3)

    def is_replica_online(self, broker_id: int, tp: TopicPartition) -> bool:
        return broker_id != 3

    def leader_epoch(self, tp: TopicPartition) -> int:
        return -2 if self.dying else 5


def test_batch_gathers_per_broker_and_is_sent_once():
    builder = BatchBuilder(View())
    info = LeaderIsrAndControllerEpoch(STATE, 1)
    assignment = ReplicaAssignment((1, 2, 3))
    builder.add_leader_and_isr([1, -1], TP, info, assignment, is_new=True)
    builder.add_leader_and_isr([1, 2], TP, info, assignment, is_new=False)
    builder.add_stop_replica([2], TP, delete=True)
    builder.add_stop_replica([2], TP, delete=False)
    builder.add_update_metadata([-1], [TopicPartition("unknown", 0)])
    with pytest.raises(BatchNotEmpty):
        builder.new_batch()
    batch = builder.take()
    assert {b: e[TP].is_new for b, e in batch.leader_and_isr.items()} == {1: True, 2: False}
    assert batch.update_metadata_brokers == {1, 2}
    assert list(batch.update_metadata) == [TP]
    assert batch.update_metadata[TP].offline_replicas == (3,)
    assert batch.stop_replica[2][TP].delete, "delete sticks"
    builder.new_batch()
    assert not builder.take()


def test_dying_topics_are_told_with_their_marks():
    builder = BatchBuilder(View(dying=True))
    builder.add_update_metadata([1], [TP])
    builder.add_stop_replica([1], TP, delete=False)
    batch = builder.take()
    told = batch.update_metadata[TP].state.leader_and_isr
    assert (told.leader, told.leader_epoch) == (-2, 0)
    assert batch.stop_replica[1][TP].leader_epoch == -2


# ---- assignments ---------------------------------------------------------------------------------


def test_reassignment_lists():
    current = ReplicaAssignment((1, 2, 3))
    moving = current.reassign_to((4, 1))
    assert moving == ReplicaAssignment((4, 1, 2, 3), (4,), (2, 3))
    assert (moving.target_replicas, moving.origin_replicas) == ((4, 1), (1, 2, 3))
    assert moving.reassign_to(moving.origin_replicas) == current
    assert moving.reassign_to((5,)) == ReplicaAssignment((5, 1, 2, 3), (5,), (1, 2, 3))
    assert not current.reassign_to((3, 2, 1)).is_being_reassigned
    assert moving.remove_replica(4) == ReplicaAssignment((1, 2, 3), (), (2, 3))


def test_round_robin_as_kafka_documents_it():
    """The example of AdminUtils: 10 partitions, 5 brokers, factor 3, start and shift 0."""
    assignment = assign_replicas_to_brokers(
        dict.fromkeys(range(5)), 10, 3, start_index=0, replica_shift=0
    )
    assert [assignment[p] for p in range(10)] == [
        (0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 0), (4, 0, 1),
        (0, 2, 3), (1, 3, 4), (2, 4, 0), (3, 0, 1), (4, 1, 2),
    ]  # fmt: skip


@given(st.integers(1, 7), st.integers(1, 20), st.data(), st.integers(0, 6), st.integers(0, 6))
def test_assignments_are_spread(count, partitions, data, start, shift):
    racked = data.draw(st.booleans())
    racks = {b: f"r{b % 3}" if racked else None for b in range(count)}
    factor = data.draw(st.integers(1, count))
    assignment = assign_replicas_to_brokers(
        racks, partitions, factor, start_index=start, replica_shift=shift
    )
    assert sorted(assignment) == list(range(partitions))
    leaders = [replicas[0] for replicas in assignment.values()]
    loads = [leaders.count(b) for b in racks]
    assert max(loads) - min(loads) <= 1
    for replicas in assignment.values():
        assert len(set(replicas)) == factor
        if racked:
            used = {racks[r] for r in replicas}
            assert len(used) == min(factor, len(set(racks.values())))


def test_assignment_refusals():
    for partitions, factor, error in (
        (0, 1, Errors.INVALID_PARTITIONS),
        (1, 0, Errors.INVALID_REPLICATION_FACTOR),
        (1, 3, Errors.INVALID_REPLICATION_FACTOR),
    ):
        with pytest.raises(ApiError) as refused:
            assign_replicas_to_brokers(
                {1: None, 2: None}, partitions, factor, start_index=0, replica_shift=0
            )
        assert refused.value.error == error
    with pytest.raises(ApiError, match="rack"):
        assign_replicas_to_brokers({1: "a", 2: None}, 1, 1, start_index=0, replica_shift=0)


def test_topic_names():
    for name in ("a", "a.b_c-D9", "x" * 249):
        validate_topic_name(name)
    for name in ("", ".", "..", "a/b", "é", "a b", "x" * 250):
        with pytest.raises(ApiError):
            validate_topic_name(name)
    assert collides("a.b", "a_b")
    assert not collides("a.b", "a-b")


def test_partitions_that_there_can_be():
    for name, partition in (("t", 0), ("t", 2**31 - 1), ("x" * 249, 99_999)):
        assert is_legal_partition(TopicPartition(name, partition))
    for name, partition in (
        *(("t", -1), ("t", -(2**31)), ("t", 2**31), ("x" * 249, 100_000)),
        *(("..", 0), ("", 0), ("a/b", 0), ("t\n", 0), ("\u0661", 0)),
    ):
        assert not is_legal_partition(TopicPartition(name, partition))

"""The one place where a controller writes partition states: over which versions, and what it makes
of the answers (ZkPartitionStateMachine.doElectLeaderForPartitions, initializeLeaderAndIsr...)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kazoo.exceptions import NoNodeError

from nodes.controller.context import ControllerContext
from nodes.controller.results import StateChangeFailed
from nodes.controller.state_writer import PartitionStateWriter
from nodes.coordination.zk import StateWrite
from nodes.core.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.types import TopicPartition
from nodes.trace import Trace

A, B, C, D = (TopicPartition("t", p) for p in range(4))
STATE = LeaderAndIsr(1, (1, 2), leader_epoch=3, partition_epoch=8)


def writer(**zk: Any) -> tuple[PartitionStateWriter, ControllerContext]:
    """Of a controller in epoch 5, whose znode had version 6 when it was elected."""
    context = ControllerContext()
    context.controller_epoch, context.epoch_zk_version = 5, 6
    client: Any = SimpleNamespace(**zk)
    return PartitionStateWriter(context, client, Trace(None, 1, 1)), context


def test_what_a_later_controller_wrote_is_not_ours_to_change() -> None:
    """Its own writes and those of its predecessors are; who finds a newer epoch went through a
    soft failure."""
    raw = {
        A: LeaderIsrAndControllerEpoch(STATE, 4),
        B: LeaderIsrAndControllerEpoch(STATE, 5),
        C: LeaderIsrAndControllerEpoch(STATE, 6),
        D: NoNodeError(),
    }
    states, errors = writer(get_topic_partition_states_raw=lambda _: raw)[0].read([A, B, C, D])
    assert states == {A: STATE, B: STATE}
    assert set(errors) == {C, D}
    assert isinstance(errors[C], StateChangeFailed)
    assert isinstance(errors[D], NoNodeError)


def test_writes_are_over_the_version_of_ones_own_election() -> None:
    """Of creations as of updates; with the present controller epoch."""
    seen: list[Any] = []

    def create(states: Any, version: int) -> dict[TopicPartition, StateWrite]:
        seen.append((states, version))
        return {tp: StateWrite(written=STATE) for tp in states}

    def update(states: Any, epoch: int, version: int) -> dict[TopicPartition, StateWrite]:
        seen.append((states, epoch, version))
        return {}

    made, _ = writer(create_topic_partition_states=create, update_leader_and_isr=update)
    made.create({A: STATE})
    made.update({B: STATE})
    assert seen == [({A: LeaderIsrAndControllerEpoch(STATE, 5)}, 6), ({B: STATE}, 5, 6)]


def test_what_was_written_is_known_at_once_and_nothing_else() -> None:
    """The cache has the new state; who wrote in between is read again; a failure is one."""
    written = STATE.with_partition_epoch(9)
    answers = {
        A: StateWrite(written=written),
        B: StateWrite(retry=True),
        C: StateWrite(error=NoNodeError()),
    }
    made, context = writer(update_leader_and_isr=lambda *_: answers)
    found = made.update({A: STATE, B: STATE, C: STATE})
    assert found.states == {A: LeaderIsrAndControllerEpoch(written, 5)} == context.leadership
    assert found.retry == [B]
    assert set(found.errors) == {C}

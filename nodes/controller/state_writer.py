"""The one place where the controller writes partition states.

Each successful write is at once cached in the context and traced (`leadership`, source
``controller``), so that cache, evidence and ZooKeeper cannot drift apart. Every write is
conditioned on the controller epoch; `ControllerMoved` passes through to the event loop, which
resigns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nodes.controller.context import ControllerContext
from nodes.controller.results import StateChangeFailed
from nodes.coordination.errors import ControllerMoved
from nodes.coordination.zk import KafkaZkClient, StateWrite
from nodes.core.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.types import TopicPartition
from nodes.trace import Trace


@dataclass(slots=True)
class Written:
    """What came of a set of writes: each partition is in exactly one of the three."""

    states: dict[TopicPartition, LeaderIsrAndControllerEpoch] = field(default_factory=dict)
    retry: list[TopicPartition] = field(default_factory=list)
    errors: dict[TopicPartition, Exception] = field(default_factory=dict)


class PartitionStateWriter:
    """Event thread only."""

    def __init__(self, context: ControllerContext, zk: KafkaZkClient, trace: Trace) -> None:
        self._context = context
        self._zk = zk
        self._trace = trace

    def read(
        self, partitions: Sequence[TopicPartition]
    ) -> tuple[dict[TopicPartition, LeaderAndIsr], dict[TopicPartition, Exception]]:
        """The states as they are now, to derive new ones from; and why others cannot be.

        A state written by a later controller is not ours to change, even before ZooKeeper says so.
        """
        states: dict[TopicPartition, LeaderAndIsr] = {}
        errors: dict[TopicPartition, Exception] = {}
        for tp, found in self._zk.get_topic_partition_states_raw(partitions).items():
            if isinstance(found, Exception):
                errors[tp] = found
            elif found.controller_epoch > self._context.controller_epoch:
                errors[tp] = StateChangeFailed(
                    f"The state of {tp} was written by a controller with epoch "
                    f"{found.controller_epoch}: this one went through a soft failure"
                )
            else:
                states[tp] = found.leader_and_isr
        return states, errors

    def create(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> Written:
        controller_epoch = self._context.controller_epoch
        wanted = {
            tp: LeaderIsrAndControllerEpoch(state, controller_epoch) for tp, state in states.items()
        }
        return self._take(
            self._zk.create_topic_partition_states(wanted, self._context.epoch_zk_version)
        )

    def update(self, states: Mapping[TopicPartition, LeaderAndIsr]) -> Written:
        """`retry`: somebody wrote in between; read again and decide anew."""
        if not states:
            return Written()
        try:
            writes = self._zk.update_leader_and_isr(
                states, self._context.controller_epoch, self._context.epoch_zk_version
            )
        except ControllerMoved:
            raise
        except Exception as error:
            return Written(errors=dict.fromkeys(states, error))
        return self._take(writes)

    def _take(self, writes: Mapping[TopicPartition, StateWrite]) -> Written:
        result = Written()
        for tp, write in writes.items():
            if write.retry:
                result.retry.append(tp)
            elif write.written is None:
                result.errors[tp] = write.error or StateChangeFailed(f"{tp} was not written")
            else:
                state = LeaderIsrAndControllerEpoch(write.written, self._context.controller_epoch)
                self._context.leadership[tp] = state
                result.states[tp] = state
                self._trace_commit(tp, state, write.commit_ms)
        return result

    def _trace_commit(
        self, tp: TopicPartition, state: LeaderIsrAndControllerEpoch, commit_ms: int | None
    ) -> None:
        self._trace.event(
            "leadership",
            topic=tp.topic,
            partition=tp.partition,
            leader=state.leader_and_isr.leader,
            leader_epoch=state.leader_and_isr.leader_epoch,
            controller_epoch=state.controller_epoch,
            partition_epoch=state.leader_and_isr.partition_epoch,
            isr=list(state.leader_and_isr.isr),
            source="controller",
            commit_ms=commit_ms,
        )

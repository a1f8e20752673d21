"""What a replica of a partition is, whatever its role: its log, epochs, ISR, and its lock.

`HostedPartition` holds the state; `partition_follower` adds what a follower does to its log and
`partition` what a leader does. `PartitionHost` is what all of them need of the broker around them.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nodes.core import isr as isr_rules
from nodes.core.errors import ApiError, Errors
from nodes.core.isr import NO_ISR, FollowerState, IsrState
from nodes.core.rules import Rules
from nodes.core.types import TopicPartition
from nodes.log.slices import OffsetPosition

if TYPE_CHECKING:
    from nodes.log.log import Log


class IsrProposal(NamedTuple):
    """What a leader asks the controller to commit. `state` identifies the proposal: an answer to
    any other than the one under way is out of date."""

    topic_id: uuid.UUID | None
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    state: IsrState


class IsrAnswer(NamedTuple):
    """What the controller said. `error` 0: the rest is what is committed now."""

    error: int
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


class PartitionHost(Protocol):
    """What a partition needs of the broker around it; all of it thread-safe."""

    broker_id: int
    rules: Rules
    lag_max_ms: int

    def now_ms(self) -> int: ...
    def is_alive(self, broker_id: int) -> bool: ...
    def propose_isr(
        self, tp: TopicPartition, proposal: IsrProposal, answer: Callable[[IsrAnswer], None]
    ) -> bool: ...
    def complete_delayed(self, tp: TopicPartition) -> None: ...
    def isr_changed(self, partition: HostedPartition, shrunk: bool) -> None: ...
    def truncated(
        self, tp: TopicPartition, leader_epoch: int, from_offset: int, to_offset: int, reason: str
    ) -> None: ...


class HostedPartition:
    """Leader or follower of one partition. -1 stands for a leader epoch not known yet, and 0 for a
    partition epoch, as in Kafka."""

    def __init__(self, tp: TopicPartition, host: PartitionHost) -> None:
        self.tp = tp
        self.log: Log | None = None
        self.topic_id: uuid.UUID | None = None
        self.leader_id: int | None = None
        self.leader_epoch = -1
        self.partition_epoch = 0
        self.controller_epoch = -1
        self.high_watermark = 0
        self.isr_state: IsrState = NO_ISR
        self.replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        self.followers: dict[int, FollowerState] = {}
        self.leader_epoch_start: int | None = None
        self.ordered_at = (0, 0)
        """Where its log ended, and its high watermark was, as it was last told to lead."""
        self._leading_since_epoch = -1
        self._fetched_from: dict[int, OffsetPosition] = {}
        """By follower: where its last fetch began, in this reign."""
        self._host = host
        self._rules = host.rules
        self._broker_id = host.broker_id
        self._extra_appends = host.rules.appends_per_batch() - 1
        self._skipped_offsets = host.rules.skipped_offsets()
        self._effective_min_isr = host.rules.effective_min_isr
        self._may_append_as_follower = host.rules.may_append_as_follower()
        self._asks_before_append = host.rules.asks_before_append()
        self._epoch_answered_for = host.rules.epoch_answered_for
        self._counts_diverging = host.rules.counts_diverging_fetches()
        self._changing = threading.Lock()
        self._lock = threading.Lock()

    # ---- looks ---------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._broker_id

    @property
    def min_isr(self) -> int:
        """min.insync.replicas, as far as the assignment allows it."""
        assert self.log is not None
        return self._effective_min_isr(self.log.config.min_insync_replicas, len(self.followers) + 1)

    @property
    def is_under_replicated(self) -> bool:
        assigned = len(set(self.replicas) - set(self.adding_replicas))
        in_sync = len(self.isr_state.isr)
        return self.is_leader and self._rules.is_under_replicated(in_sync, assigned)

    @property
    def is_under_min_isr(self) -> bool:
        return self.is_leader and self.log is not None and len(self.isr_state.isr) < self.min_isr

    @property
    def is_at_min_isr(self) -> bool:
        return self.is_leader and self.log is not None and len(self.isr_state.isr) == self.min_isr

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    def local_log(self) -> Log:
        """The log; NOT_LEADER_OR_FOLLOWER while there is none."""
        if self.log is None:
            raise ApiError(Errors.NOT_LEADER_OR_FOLLOWER, f"no log of {self.tp} here")
        return self.log

    def _log_for_reading(self, current_leader_epoch: int, only_leader: bool) -> Log:
        error = self._rules.client_epoch_error(current_leader_epoch, self.leader_epoch)
        if error is Errors.NONE and only_leader and self.leader_id != self._broker_id:
            error = Errors.NOT_LEADER_OR_FOLLOWER
        if error is not Errors.NONE:
            raise ApiError(error)
        return self.local_log()

    def attach_log(self, new_log: Log, checkpointed_high_watermark: int) -> None:
        """Gives the partition its log, once."""
        with self._changing, self._lock:
            if self.log is None:
                self.log = new_log
                self.high_watermark = isr_rules.follower_high_watermark(
                    checkpointed_high_watermark, new_log.log_start_offset, new_log.log_end_offset
                )

"""The state of one partition as committed in ZooKeeper (Kafka's LeaderAndIsr).

Two counters tell how old a state is. The *leader epoch* grows by one with every change that the
controller makes, and fences brokers; the *partition epoch* is the znode's version, grows with every
write (ISR changes by AlterPartition included), and makes each write conditional on the state that
its writer had seen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

NO_LEADER: Final = -1
LEADER_DURING_DELETE: Final = -2
"""The leader that UpdateMetadata names for a partition that is being deleted."""
EPOCH_DURING_DELETE: Final = -2
"""The leader epoch of a StopReplica for a topic that is being deleted: it overrides any other."""
NO_EPOCH: Final = -1

RECOVERED: Final = 0
RECOVERING: Final = 1
"""Leader recovery states: RECOVERING after an unclean election, until the leader has recovered."""


@dataclass(frozen=True, slots=True)
class LeaderAndIsr:
    """Leader, its epoch, the in-sync replicas; `partition_epoch` is the znode's version as read."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int = 0
    partition_epoch: int = 0
    leader_recovery_state: int = RECOVERED

    def new_epoch(self) -> LeaderAndIsr:
        """The same leader and ISR as a new decision of the controller."""
        return replace(self, leader_epoch=self.leader_epoch + 1)

    def new_leader(self, leader: int) -> LeaderAndIsr:
        return replace(self, leader=leader, leader_epoch=self.leader_epoch + 1)

    def new_leader_and_isr(self, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
        return replace(self, leader=leader, isr=isr, leader_epoch=self.leader_epoch + 1)

    def with_partition_epoch(self, partition_epoch: int) -> LeaderAndIsr:
        return replace(self, partition_epoch=partition_epoch)

    def equals_allowing_stale_partition_epoch(self, other: LeaderAndIsr) -> bool:
        """Is this proposal what `other` already says? (A retried proposal has an older epoch.)"""
        return (
            self.leader == other.leader
            and self.leader_epoch == other.leader_epoch
            and self.isr == other.isr
            and self.leader_recovery_state == other.leader_recovery_state
            and self.partition_epoch <= other.partition_epoch
        )


@dataclass(frozen=True, slots=True)
class LeaderIsrAndControllerEpoch:
    """A state together with the epoch of the controller that wrote it."""

    leader_and_isr: LeaderAndIsr
    controller_epoch: int

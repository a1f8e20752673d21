"""Who writes in-sync sets: the controller, asked by who leads (AlterPartition, KIP-497), or, until
Kafka 2.7, leaders themselves (ReplicationUtils.updateLeaderAndIsr).

A leader's own write leaves leader, leader epoch and controller epoch as they were: it is no
controller's decision, and may come after that controller's succession.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from checkers.history.frames import History

LEADERS: Final = "leaders_write_isr"
"""In run.json, of an arm: leaders write in-sync sets themselves."""
MAY_JOIN: Final = "stopping_may_join"
"""In run.json, of an arm: who is being stopped may come back into sync (before KIP-841)."""
Ruled = tuple[Any, Any, Any]
"""Leader, leader epoch, controller epoch."""


def leaders_write(history: History, arm: str) -> bool:
    return history.run.arms.get(arm, {}).get(LEADERS) is True


def by_leader(history: History, arm: str, before: Ruled | None, now: Ruled) -> bool:
    """Whether the second of two states in a row may be its leader's own work."""
    return before == now and leaders_write(history, arm)

"""What stories share in which the controller and two others lead a partition in turn.

Who is stopped elects nobody: the controller is never stopped, and so it is among the replicas.
"""

from __future__ import annotations

from typing import Final

from faults.leadership import Chosen, elect, reorder
from faults.observing import await_full_isr, log_end
from faults.protocol import Context, FaultFailed
from faults.staged import Staged

MOVE_MS: Final = 10_000
TOLD_S: Final = 0.3
"""In which who led hears that it does no more, and its clients hear it from it."""


class LedInTurn(Staged):
    """Of a partition of three replicas at least."""

    def cast(self, ctx: Context, timeout_ms: int) -> list[int]:
        """The controller, which leads then, and two others, once all are in sync. Raises where it
        has no replica."""
        full = await_full_isr(ctx, *self.partition, timeout_ms=timeout_ms, least=3)
        controller = ctx.view.controller()
        if controller not in full.replicas:
            raise FaultFailed(
                f"partition {full.topic}-{full.partition} of brokers {full.replicas}; allowed: the "
                f"controller ({controller}) among them"
            )
        if full.leader != controller:
            elect(ctx, self.preferred(ctx, controller), MOVE_MS)
            full = await_full_isr(ctx, *self.partition, timeout_ms=timeout_ms)
        return [controller, *(node for node in full.replicas if node != controller)][:3]

    def preferred(self, ctx: Context, node: int) -> Chosen:
        """Whom an election of preferred leaders elects from now on."""
        return reorder(ctx, [self.state(ctx)], str(node), ctx.rng, MOVE_MS)

    def end(self, ctx: Context, node: int) -> int:
        return log_end(ctx, node, *self.partition)

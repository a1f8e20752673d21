"""``double-failover``: a leader dies, and who was elected in its place dies as soon as it is.

The second leader may not have been told yet that it leads, its followers may not have fetched from
it; the third has to make do with what the first gave it.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.observing import await_full_isr, read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry, PartitionState
from faults.targets import partition_state

_LOOK_S: Final = 0.01


class DoubleFailover(BaseFault):
    """Parameters: partition (three replicas or more); how the two go: "kill" or "stop" (one for
    the first, kill for the second); in_sync_ms; elect_ms for each election.

    Took hold: both elections were seen committed, the second victim led when it was killed. heal
    starts both again.
    """

    name = "double-failover"
    needs = frozenset({Capability.KILL, Capability.CONTROLLED_STOP})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.how = params.choice("how", ("kill", "stop"), "kill")
        self.in_sync_ms = params.integer("in_sync_ms", 20_000, low=1)
        self.elect_ms = params.integer("elect_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        first = await_full_isr(ctx, self.topic, self.partition, timeout_ms=self.in_sync_ms, least=3)
        self._take_down(ctx, first.leader, self.how)
        second = self._elected_after(ctx, first)
        elected = ctx.now_ns()
        self._take_down(ctx, second.leader, "kill")
        self.detail["second_led_ns"] = ctx.now_ns() - elected
        third = self._elected_after(ctx, second)
        self.detail["leaders"] = [[s.leader, s.leader_epoch] for s in (first, second, third)]
        self.took_hold = third.leader not in self.nodes

    def _take_down(self, ctx: Context, node: int, how: str) -> None:
        self.nodes = [*self.nodes, node]
        if how == "stop":
            self.stop(ctx, node)
        else:
            self.kill(ctx, node)

    def _elected_after(self, ctx: Context, before: PartitionState) -> PartitionState:
        seen: list[PartitionState] = []

        def another() -> bool:
            seen[:] = [partition_state(ctx.view, self.topic, self.partition)]
            return seen[0].leader not in (-1, before.leader) and (
                seen[0].leader_epoch > before.leader_epoch
            )

        wait_for(
            ctx,
            another,
            timeout_ms=self.elect_ms,
            what=f"{self.topic}-{self.partition} has a leader after broker {before.leader}",
            poll_s=_LOOK_S,
        )
        return seen[0]

"""``joint-death``: a broker dies, and the controller before it can hear of it.

Until a broker's session is over nobody knows that it is gone. The controller is killed a moment
after the broker: when ZooKeeper drops them, there is no controller to be told of either. Whoever is
elected finds both gone in what it reads as it takes office, and no change of registrations ever
tells it so: what they led it must give to others, and take them out of in-sync sets, by itself.

heal starts both again.
"""

from __future__ import annotations

from faults.base import BaseFault, wait_for
from faults.observing import await_full_isr, next_in_line, read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed
from faults.targets import partition_state

_LOOK_S = 0.05


class JointDeath(BaseFault):
    """Parameters: partition (three replicas or more), whose leader dies first, or, where that is
    the controller, who would lead it next; gap_ms: how much later the controller does; in_sync_ms:
    how long to wait for a full in-sync set before that; takeover_ms: how long for a successor.

    Took hold: nobody had decided anything about that partition before the successor was elected."""

    name = "joint-death"
    needs = frozenset({Capability.KILL, Capability.ZOOKEEPER})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.gap_ms = params.integer("gap_ms", 300)
        self.in_sync_ms = params.integer("in_sync_ms", 20_000, low=1)
        self.takeover_ms = params.integer("takeover_ms", 45_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        full = await_full_isr(ctx, self.topic, self.partition, timeout_ms=self.in_sync_ms, least=3)
        controller, old_epoch = ctx.view.controller(), ctx.view.controller_epoch()
        if controller is None:
            raise FaultFailed("there is no controller")
        first = next(n for n in (full.leader, *next_in_line(full)) if n != controller)
        self.nodes = [first, controller]
        self.detail |= {"first": first, "controller": controller}
        self.kill(ctx, first)
        ctx.sleep(self.gap_ms / 1000)
        self.kill(ctx, controller)
        at_death = partition_state(ctx.view, self.topic, self.partition)

        def succeeded() -> bool:
            now = ctx.view.controller()
            return now not in (None, *self.nodes) and ctx.view.controller_epoch() > old_epoch

        wait_for(
            ctx,
            succeeded,
            timeout_ms=self.takeover_ms,
            what=f"another controller than broker {controller} with an epoch above {old_epoch}",
            poll_s=_LOOK_S,
        )
        self.detail["successor"] = ctx.view.controller()
        self.detail["successor_epoch"] = ctx.view.controller_epoch()
        self.took_hold = (at_death.leader, at_death.isr) == (full.leader, full.isr)

"""``reorder``: a partition's replicas get another order; its leader stays.

What an operator does before a preferred election. The controller ends it as any reassignment: it
raises the leader epoch and tells every replica. Whoever is told of it by another way has to hear of
the same epoch (KAFKA-9212).
"""

from __future__ import annotations

from faults.base import BaseFault
from faults.leadership import find_partitions, is_reordered, read_partitions, reorder
from faults.params import Params
from faults.protocol import Context, Entry
from faults.targets import partition_state


class Reorder(BaseFault):
    """Parameters: partitions (see `move-leadership`); to: who is to be preferred ("next", "random"
    or a broker); timeout_ms. Nothing to heal.

    Took hold: the order is another, and each leader the same with a higher epoch.
    """

    name = "reorder"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.partitions = read_partitions(params)
        self.to = params.text("to", "next")
        if self.to not in ("next", "random") and not self.to.isdigit():
            raise params.error("to", f"{self.to!r} is not allowed; allowed: next, random, a broker")
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        states = find_partitions(self.partitions, ctx)
        chosen = reorder(ctx, states, self.to, ctx.rng, self.timeout_ms)
        after = {tp: partition_state(ctx.view, *tp) for tp in chosen}
        self.nodes = sorted({state.leader for state in after.values()})
        self.detail["partitions"] = {
            f"{topic}-{partition}": [chosen[topic, partition][0].leader_epoch, state.leader_epoch]
            for (topic, partition), state in after.items()
        }
        self.took_hold = is_reordered(ctx, chosen) and all(
            state.leader == chosen[tp][0].leader and state.leader_epoch > chosen[tp][0].leader_epoch
            for tp, state in after.items()
        )

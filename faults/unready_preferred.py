"""``unready-preferred``: a preferred leader is asked for that is back, and not in sync.

Whoever comes first in a partition's assignment was away, lives again, and has yet to catch up, when
an administrator asks for the preferred leader: what is refused then is refused for the in-sync set
alone (PREFERRED_LEADER_NOT_AVAILABLE). That one who does not live is not elected says nothing about
that.

What keeps it from catching up is another fault's. Nothing is left to heal.
"""

from __future__ import annotations

from faults.base import BaseFault, wait_for
from faults.observing import read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, PartitionState
from faults.targets import partition_state

_LOOK_S = 0.02


class UnreadyPreferred(BaseFault):
    """Parameters: partition; back_ms: how long to wait for its preferred replica to live.

    Took hold: it lived, another led, and it was in no in-sync set, before the request and after it
    was answered. Null: it was in sync before anybody could ask."""

    name = "unready-preferred"
    needs = frozenset({Capability.ELECT_LEADERS})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.back_ms = params.integer("back_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        preferred = self._state(ctx).replicas[0]
        self.detail["preferred"] = preferred
        wait_for(
            ctx,
            lambda: preferred in ctx.view.live_brokers(),
            timeout_ms=self.back_ms,
            what=f"broker {preferred}, preferred for {self.topic}-{self.partition}, is registered",
            poll_s=_LOOK_S,
        )
        before = self._state(ctx)
        if preferred in before.isr:
            return
        self.detail["isr"] = list(before.isr)
        try:
            ctx.admin.elect_preferred([(self.topic, self.partition)])
            self.detail["refused"] = None
        except FaultFailed as refused:
            self.detail["refused"] = str(refused)
        after = self._state(ctx)
        self.detail["led_by"] = after.leader
        # Who leads in spite of that has itself in sync: that is for others to judge.
        self.took_hold = preferred not in after.isr or after.leader == preferred

    def _state(self, ctx: Context) -> PartitionState:
        return partition_state(ctx.view, self.topic, self.partition)

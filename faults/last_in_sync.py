"""``last-in-sync``: a leader that is alone in its in-sync set dies, and who lives lacks records.

Its followers are cut off from it (its inter-broker link goes down) until the leader has dropped
them all and has gone on alone; then it is killed. Nobody who lives may lead now: without unclean
elections the partition waits, however long, for the one replica that has everything. An
administrator who asks for its preferred leader (which is the dead one) is refused.

heal starts the leader again.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.observing import await_full_isr, log_end, read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link, PartitionState
from faults.targets import partition_state

_LOOK_S: Final = 0.05
_UNREGISTER_MS: Final = 60_000


class LastInSync(BaseFault):
    """Parameters: partition; records: by how many the leader must be ahead of every follower when
    it dies; in_sync_ms: how long to wait for a full in-sync set first, and for that of the leader
    alone; lead_ms: and for those records; alone_ms: how long to look at what comes of it, once its
    registration is gone.

    Took hold: the committed set was the leader alone, and it was ahead, when it was dead.
    """

    name = "last-in-sync"
    needs = frozenset(
        {Capability.KILL, Capability.LINKS, Capability.LOG_FILES, Capability.ELECT_LEADERS}
    )

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.records = params.integer("records", 10, low=1)
        self.in_sync_ms = params.integer("in_sync_ms", 20_000, low=1)
        self.lead_ms = params.integer("lead_ms", 5000, low=1)
        self.alone_ms = params.integer("alone_ms", 3800)
        params.done()

    def apply(self, ctx: Context) -> None:
        full = await_full_isr(ctx, self.topic, self.partition, timeout_ms=self.in_sync_ms, least=2)
        leader = full.leader
        self.nodes = [leader]
        self.detail["controller"] = ctx.view.controller()
        self.cut(ctx, leader, Link.INTER_BROKER)
        wait_for(
            ctx,
            lambda: self._state(ctx).isr == (leader,),
            timeout_ms=self.in_sync_ms,
            what=f"broker {leader} is all of the in-sync set of {self.topic}-{self.partition}",
            poll_s=_LOOK_S,
        )
        wait_for(
            ctx,
            lambda: self._ahead(ctx, full) >= self.records,
            timeout_ms=self.lead_ms,
            what=f"broker {leader} is {self.records} records ahead of the others",
            poll_s=_LOOK_S,
        )
        self.kill(ctx, leader)
        self.mend(ctx, leader, Link.INTER_BROKER)
        wait_for(
            ctx,
            lambda: leader not in ctx.view.live_brokers(),
            timeout_ms=_UNREGISTER_MS,
            what=f"broker {leader} is out of /brokers/ids",
        )
        ctx.sleep(self.alone_ms / 1000)
        self.detail["refused"] = self._ask(ctx)
        now = self._state(ctx)
        ahead = self._ahead(ctx, full)
        self.detail |= {"led_by": now.leader, "isr": list(now.isr), "ahead_records": ahead}
        # Whoever leads instead may have records of its own by now: that is for others to judge.
        self.took_hold = not ctx.nodes.is_running(leader)

    def _ask(self, ctx: Context) -> str | None:
        """What an administrator is told who asks for the preferred leader; None: nothing."""
        try:
            ctx.admin.elect_preferred([(self.topic, self.partition)])
        except FaultFailed as refused:
            return str(refused)
        return None

    def _state(self, ctx: Context) -> PartitionState:
        return partition_state(ctx.view, self.topic, self.partition)

    def _ahead(self, ctx: Context, full: PartitionState) -> int:
        followers = [node for node in full.replicas if node != full.leader]
        ends = [log_end(ctx, node, self.topic, self.partition) for node in followers]
        return log_end(ctx, full.leader, self.topic, self.partition) - max(ends)

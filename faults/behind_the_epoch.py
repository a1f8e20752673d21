"""``behind-the-epoch``: a leader that forgot how far all had come is asked by who lacks some of it.

    a follower dies, and the others go on: acks=all is acknowledged without it
    the leader's answers are thrown away; who was away is back, asks, and gets nothing
    the other follower dies, and the leader dies, and comes back: nobody else was in sync

It leads anew, and its high watermark is the one that it wrote down long ago, below where the one
that was away ends: with fewer than min.insync.replicas in sync it cannot rise. So who asks from
there has reached the high watermark, and lacks what was acknowledged. It may be taken into the
in-sync set only when it has all that lies below the start of the leader epoch (KAFKA-7128,
Partition.isFollowerInSync).

    the leader dies again, at once if it takes the one that was away into the set

Nobody may lead now, before it is back. Were the one that was away in sync, it would lead, and the
others would cut what was acknowledged.

Where a leader that is alone commits by itself (before KIP-966) its high watermark would not lag.
Needs a partition of three replicas with min.insync.replicas=2 (one that is not the controller is
made to lead it), and brokers that write down their high watermarks seldom.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from faults.observing import await_full_isr, log_end
from faults.params import Params
from faults.protocol import Capability, Context, Link, PartitionState
from faults.staged import Staged

_CHECKPOINT: Final = "replication-offset-checkpoint"
_TOLD_S: Final = 0.3
"""In which a leader is told that it is one, where that does not come by the same link."""


class BehindTheEpoch(Staged):
    """Parameters: partition ("t-0"); records: by how many the one that was away must be behind;
    in_sync_ms: how long to wait for a full in-sync set first; asked_ms: how long the leader that is
    back lives at most, and is asked; alone_ms: how long to look at what comes of its death.

    Took hold: it had died with more than the one that was away, which had no less than the leader's
    high watermark, as written down.
    """

    name = "behind-the-epoch"
    needs = frozenset(
        {
            *(Capability.KILL, Capability.LINKS, Capability.LOG_FILES),
            *(Capability.ELECT_LEADERS, Capability.ZOOKEEPER, Capability.STRICT_MIN_ISR),
        }
    )

    def read(self, params: Params) -> None:
        self.records = params.integer("records", 10, low=1)
        self.in_sync_ms = params.integer("in_sync_ms", 20_000, low=1)
        self.asked_ms = params.integer("asked_ms", 3_000)
        self.alone_ms = params.integer("alone_ms", 1_500)

    def apply(self, ctx: Context) -> None:
        full = await_full_isr(ctx, *self.partition, timeout_ms=self.in_sync_ms, least=3)
        leader, away, other = self._in_line(ctx, full)
        self.nodes = [leader, away, other]
        self.detail |= {"leader": leader, "away": away}
        self.kill(ctx, away)
        self.wait(ctx, f"{away} is out of sync", lambda: away not in self.state(ctx).isr)
        self.wait(ctx, "it is behind", lambda: self._behind(ctx, leader, away) >= self.records)
        self.hold_answers(ctx, leader, Link.INTER_BROKER)
        self.start(ctx, away)
        self.kill(ctx, other)
        self.wait(ctx, "the leader is alone", lambda: self.state(ctx).isr == (leader,))
        self.kill(ctx, leader)
        written = self._written_down(ctx, leader)
        # Who is not answered asks no more: what it is asked before it leads must not wait.
        self.let_answers(ctx, leader, Link.INTER_BROKER)
        self.cut(ctx, leader, Link.INTER_BROKER)
        self.start(ctx, leader)
        self.wait(ctx, "it leads again", lambda: self.state(ctx).leader == leader)
        ctx.sleep(_TOLD_S)
        self.hold_answers(ctx, leader, Link.INTER_BROKER)
        self.mend(ctx, leader, Link.INTER_BROKER)
        joined = self.comes(ctx, self.asked_ms, lambda: away in self.state(ctx).isr)
        self.kill(ctx, leader)
        self.detail["joined"] = joined
        behind = self._behind(ctx, leader, away)
        ctx.sleep(self.alone_ms / 1000)
        self.detail |= {"behind": behind, "written_down": written}
        self.detail["led_by"] = self.state(ctx).leader
        # Had somebody taken over, the one that was away may have cut its log, or written more.
        led = self.detail["led_by"] in full.replicas
        self.took_hold = led or (behind > 0 and written <= log_end(ctx, away, *self.partition))
        self.let_answers(ctx, leader, Link.INTER_BROKER)

    def _in_line(self, ctx: Context, full: PartitionState) -> tuple[int, int, int]:
        """Who leads now, who would next, and then: the controller last, of which the leader would
        hear nothing by its own link. Who is left when all others are dead is controller, too."""
        controller = ctx.view.controller()
        first, second, third, *rest = sorted(full.replicas, key=lambda node: node == controller)
        if tuple(full.replicas) != (first, second, third, *rest):
            ctx.admin.reassign({self.partition: [first, second, third, *rest]})
        if full.leader != first:
            ctx.admin.elect_preferred([self.partition])
            self.wait(ctx, f"{first} leads", lambda: self.state(ctx).leader == first)
        return first, second, third

    def _behind(self, ctx: Context, leader: int, away: int) -> int:
        return log_end(ctx, leader, *self.partition) - log_end(ctx, away, *self.partition)

    def _written_down(self, ctx: Context, node: int) -> int:
        """The high watermark with which it begins anew; 0 where none is written down."""
        path = Path(ctx.nodes.log_dir(node)) / _CHECKPOINT
        if not path.exists():
            return 0
        rows = (line.split() for line in path.read_text().splitlines()[2:])
        found = {(topic, int(partition)): int(offset) for topic, partition, offset in rows}
        return found.get(self.partition, 0)

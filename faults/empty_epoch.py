"""``empty-epoch``: a follower has an epoch without a record, its leader one that it never heard of.

    the followers fetch nothing, and the leader begins an epoch in which it alone writes
    a follower is made leader and writes nothing; the leader of before is not told     (held)
    the leader of before is made leader again, and only now told of all that
    the followers may fetch again

The follower asks where its own last epoch ends, the empty one. Its leader names the end of the one
before, with the records that the follower lacks; the follower knows no such epoch, cuts its log to
where its own ended, which is where it ends anyway, and asks again. If that leaves the empty epoch
in its memory, it asks the same for ever (KAFKA-10706).

Needs a partition with two replicas in sync, its leader not the controller, and a load that writes
with acks=1 or more. replica.lag.time.max.ms must be longer than the whole story, some seconds.
"""

from __future__ import annotations

from typing import Final

from faults.frames import client_of
from faults.leadership import elect, reorder
from faults.observing import log_end
from faults.params import Params
from faults.protocol import Capability, Context, Link
from faults.staged import Staged

_TOLD_S: Final = 1.0
"""In which brokers have been told of the epoch before: news of the next are counted."""


class EmptyEpoch(Staged):
    """Parameters: partition ("t-0"); records that the leader alone is to write; dropped_ms: how
    long the follower is watched afterwards (longer than replica.lag.time.max.ms); timeout_ms of
    each change of leader or order.

    Took hold: nothing was written while the follower led, and the leader of before, which leads
    again, has records that it lacks. Whether it was dropped from the in-sync set is in ``detail``.
    """

    name = "empty-epoch"
    needs = frozenset({Capability.FRAMES, Capability.ELECT_LEADERS, Capability.LOG_FILES})

    def read(self, params: Params) -> None:
        self.records = params.integer("records", 10, low=1)
        self.dropped_ms = params.integer("dropped_ms", 20_000, low=1)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)

    def apply(self, ctx: Context) -> None:
        state, followers = self.led(ctx)
        leader = state.leader
        follower = followers[0]
        self.nodes = [leader, follower]
        self.detail |= {"leader": leader, "follower": follower}
        fetchers = "|".join(client_of(node) for node in followers)
        alone = self.hold(
            ctx, "alone", "FETCH", node=leader, link=Link.INTER_BROKER, client=fetchers
        )
        to_follower = reorder(ctx, [state], str(follower), ctx.rng, self.timeout_ms)
        ctx.sleep(_TOLD_S)
        begun = self._end(ctx, leader)
        self.wait(
            ctx,
            f"broker {leader} alone has {self.records} records",
            lambda: self._end(ctx, leader) >= begun + self.records,
        )
        untold = self.hold(ctx, "untold", "LEADER_AND_ISR", node=leader)
        quiet = self.hold(ctx, "quiet", "PRODUCE", node=follower, link=Link.CLIENT)
        end = self._end(ctx, follower)
        led = self._watch_told(ctx, "led", follower)
        elect(ctx, to_follower, self.timeout_ms)
        self.wait(ctx, f"broker {follower} leads", lambda: ctx.frames.count(led).matched)
        back = reorder(ctx, [self.state(ctx)], str(leader), ctx.rng, self.timeout_ms)
        ctx.sleep(_TOLD_S)
        follows = self._watch_told(ctx, "follows", follower)
        elect(ctx, back, self.timeout_ms)
        self.wait(ctx, f"broker {follower} follows", lambda: ctx.frames.count(follows).matched)
        ends = {"leader": self._end(ctx, leader), "follower": self._end(ctx, follower)}
        self.detail |= {"ends": ends, "leader_epoch": self.state(ctx).leader_epoch}
        self.took_hold = ends["follower"] == end < ends["leader"]
        self.release(ctx, untold)
        self.release(ctx, alone)
        self.release(ctx, quiet)
        self.detail["dropped"] = self.comes(
            ctx, self.dropped_ms, lambda: follower not in self.state(ctx).isr
        )

    def _end(self, ctx: Context, node: int) -> int:
        return log_end(ctx, node, *self.partition)

    def _watch_told(self, ctx: Context, name: str, node: int) -> str:
        return self.watch(ctx, name, "LEADER_AND_ISR", node=node, direction="response")

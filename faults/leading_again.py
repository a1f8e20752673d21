"""``leading-again``: what followers had reported to a leader when it led before is not so any more.

    one of two followers is stopped; the other one has more, and both are in sync
    the one that is stopped is elected, and goes on: the two others cut their logs to its
    who had more is stopped before it asks anybody else; who led before leads again
    who is stopped is elected, and goes on

A leader that remembers how far the one that is stopped had come takes that for what it has, and
acknowledges with acks=all what only two of three in sync have (a sound one forgets it as it is
elected: Kafka's Partition.makeLeader, Replica.resetReplicaState). Who leads last has none of that.

Nobody ends: what a leader remembers would end with it. It is the controller, for who is stopped
elects nobody. Needs a partition of three replicas, load with acks=1 that stays with this leader
(another would soon have as much as was reported), and load with acks=all.
"""

from __future__ import annotations

from typing import Final

from faults.base import wait_for
from faults.leadership import Chosen, elect, reorder
from faults.observing import await_full_isr, log_end
from faults.params import Params
from faults.protocol import Capability, Context, FaultFailed
from faults.staged import Staged

_TOLD_S: Final = 0.3
"""In which who led hears that it does no more, or acknowledges what its followers reported."""
_MOVE_MS: Final = 10_000


class LeadingAgain(Staged):
    """Parameters: partition ("t-0"); records: how many the one that is stopped first must lack;
    lag_ms: how long to wait for them; in_sync_ms: for a full in-sync set before; asked_ms: for the
    other follower to ask who leads again.

    Took hold: as it began to lead again its log ended below what was reported before, and it took
    records that the one that is stopped lacks. All ends are in ``detail``.
    """

    name = "leading-again"
    needs = frozenset({Capability.PAUSE, Capability.ELECT_LEADERS, Capability.LOG_FILES})

    def read(self, params: Params) -> None:
        self.records = params.integer("records", 100, low=1)
        self.lag_ms = params.integer("lag_ms", 2_000, low=1)
        self.in_sync_ms = params.integer("in_sync_ms", 20_000, low=1)
        self.asked_ms = params.integer("asked_ms", 1_000, low=1)

    def apply(self, ctx: Context) -> None:
        leader, behind, ahead = self.nodes = self._cast(ctx)
        if self.state(ctx).leader != leader:
            elect(ctx, self._preferred(ctx, leader), _MOVE_MS)
        chosen = self._preferred(ctx, behind)
        self.pause(ctx, behind)
        wait_for(
            ctx,
            lambda: self._end(ctx, ahead) - self._end(ctx, behind) >= self.records,
            timeout_ms=self.lag_ms,
            what=f"broker {behind} is {self.records} records behind broker {ahead}",
        )
        elect(ctx, chosen, _MOVE_MS)
        ctx.sleep(_TOLD_S)
        led, reported = self._end(ctx, leader), self._end(ctx, ahead)
        self.resume(ctx, behind)
        chosen = self._preferred(ctx, leader)
        self.wait(
            ctx,
            f"brokers {leader} and {ahead} have cut their logs",
            lambda: self._end(ctx, leader) < led and self._end(ctx, ahead) < reported,
        )
        self.pause(ctx, ahead)
        elect(ctx, chosen, _MOVE_MS)
        begun = self._end(ctx, leader)
        self.comes(ctx, self.asked_ms, lambda: self._end(ctx, behind) > begun)
        ctx.sleep(_TOLD_S)
        elect(ctx, self._preferred(ctx, ahead), _MOVE_MS)
        ends = {"reported": reported, "begun": begun}
        ends |= {"leader": self._end(ctx, leader), "lacking": self._end(ctx, ahead)}
        self.detail["ends"] = ends
        self.took_hold = begun < reported and ends["lacking"] < ends["leader"]
        self.resume(ctx, ahead)

    def _cast(self, ctx: Context) -> list[int]:
        """Who leads, who is elected first, and who is elected last."""
        full = await_full_isr(ctx, *self.partition, timeout_ms=self.in_sync_ms, least=3)
        leader = ctx.view.controller()
        if leader not in full.replicas:
            raise FaultFailed(
                f"partition {full.topic}-{full.partition} of brokers {full.replicas}; allowed: the "
                f"controller ({leader}) among them"
            )
        followers = [node for node in full.replicas if node != leader]
        return [leader, *followers[:2]]

    def _preferred(self, ctx: Context, node: int) -> Chosen:
        return reorder(ctx, [self.state(ctx)], str(node), ctx.rng, _MOVE_MS)

    def _end(self, ctx: Context, node: int) -> int:
        return log_end(ctx, node, *self.partition)

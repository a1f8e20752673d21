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

from faults.base import wait_for
from faults.leadership import elect
from faults.led_in_turn import MOVE_MS, TOLD_S, LedInTurn
from faults.params import Params
from faults.protocol import Capability, Context


class LeadingAgain(LedInTurn):
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
        leader, behind, ahead = self.nodes = self.cast(ctx, self.in_sync_ms)
        chosen = self.preferred(ctx, behind)
        self.pause(ctx, behind)
        wait_for(
            ctx,
            lambda: self.end(ctx, ahead) - self.end(ctx, behind) >= self.records,
            timeout_ms=self.lag_ms,
            what=f"broker {behind} is {self.records} records behind broker {ahead}",
        )
        elect(ctx, chosen, MOVE_MS)
        ctx.sleep(TOLD_S)
        led, reported = self.end(ctx, leader), self.end(ctx, ahead)
        self.resume(ctx, behind)
        chosen = self.preferred(ctx, leader)
        self.wait(
            ctx,
            f"brokers {leader} and {ahead} have cut their logs",
            lambda: self.end(ctx, leader) < led and self.end(ctx, ahead) < reported,
        )
        self.pause(ctx, ahead)
        elect(ctx, chosen, MOVE_MS)
        begun = self.end(ctx, leader)
        self.comes(ctx, self.asked_ms, lambda: self.end(ctx, behind) > begun)
        ctx.sleep(TOLD_S)
        elect(ctx, self.preferred(ctx, ahead), MOVE_MS)
        ends = {"reported": reported, "begun": begun}
        ends |= {"leader": self.end(ctx, leader), "lacking": self.end(ctx, ahead)}
        self.detail["ends"] = ends
        self.took_hold = begun < reported and ends["lacking"] < ends["leader"]
        self.resume(ctx, ahead)

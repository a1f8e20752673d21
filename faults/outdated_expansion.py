"""``outdated-expansion``: a request about a follower's former life takes it into the in-sync set.

    the leader asks for a follower that has caught up to be in the set again     (held on its way)
    the follower dies, loses its disk, and comes back with nothing
    the request arrives
    the leader dies

A controller that obeys it makes in-sync, and then leader, a replica that has nothing (KIP-903,
KAFKA-14139). One that knows that the request speaks of another registration refuses it; the
partition then waits for its leader.

Needs requests for the in-sync set that go through a controller (AlterPartition), and a partition of
two replicas whose leader is not the controller, so that nobody else can lead.
"""

from __future__ import annotations

from faults.frames import client_of
from faults.params import Params
from faults.protocol import Capability, Context, FaultFailed, Link
from faults.staged import Staged


class OutdatedExpansion(Staged):
    """Parameters: partition ("t-0"); obeyed_ms: how long a controller is given to obey the late
    request, and then to elect the follower.

    Took hold: the request was held until the follower was back, registered and empty. Whether it
    was obeyed is in ``detail``.
    """

    name = "outdated-expansion"
    needs = frozenset(
        {Capability.KILL, Capability.LOG_FILES, Capability.FRAMES, Capability.ALTER_PARTITION}
    )

    def read(self, params: Params) -> None:
        self.obeyed_ms = params.integer("obeyed_ms", 6_000, low=1)

    def apply(self, ctx: Context) -> None:
        state = self.state(ctx)
        leader, others = state.leader, [n for n in state.replicas if n != state.leader]
        if len(others) != 1 or leader == ctx.view.controller():
            raise FaultFailed(
                f"partition {state.topic}-{state.partition} of brokers {state.replicas}, led by "
                f"{leader}; allowed: two replicas, led by one that is not the controller"
            )
        (follower,) = others
        self.nodes = [leader, follower]
        self.detail |= {"leader": leader, "follower": follower}
        self.kill(ctx, follower)
        self.wait(ctx, "the set is the leader alone", lambda: self.state(ctx).isr == (leader,))
        late = self.hold(ctx, "late", "ALTER_PARTITION", link=Link.CONTROL, client=str(leader))
        self.start(ctx, follower)
        self.wait(ctx, "the leader asks for it", lambda: ctx.frames.count(late).applied)
        self.kill(ctx, follower)
        gone = self.lose_disk(ctx, follower)
        fetches = client_of(follower)
        self.hold(ctx, "empty", "FETCH", node=leader, link=Link.INTER_BROKER, client=fetches)
        self.start(ctx, follower)
        self.took_hold = bool(gone) and self.state(ctx).isr == (leader,)
        self.release(ctx, late)
        obeyed = self.comes(ctx, self.obeyed_ms, lambda: follower in self.state(ctx).isr)
        self.detail["obeyed"] = obeyed
        self.kill(ctx, leader)
        led = self.comes(ctx, self.obeyed_ms, lambda: self.state(ctx).leader == follower)
        self.detail["led"] = led

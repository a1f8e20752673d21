"""``last-standing``: the last member of an in-sync set dies, and comes back without its disk.

    the followers' fetches wait until both are out of the in-sync set; acks=all is refused now
    (min.insync.replicas), so that all that was ever promised is in the followers' logs, too
    the leader, last replica standing, dies and loses its disk
    the followers may fetch again; the one that was last comes back

Until KIP-966 only a member of the in-sync set may lead: it is elected, and the followers cut
their logs to its emptiness. With eligible leader replicas a follower that has everything leads as
soon as it is gone.

Needs a partition of three replicas with min.insync.replicas=2, whose leader is not the controller.
"""

from __future__ import annotations

from faults.frames import client_of
from faults.params import Params
from faults.protocol import Capability, Context, FaultFailed, Link
from faults.staged import Staged


class LastStanding(Staged):
    """Parameters: partition ("t-0"); elected_ms: how long a controller is given to elect another
    while the last one is down.

    Took hold: the set was the leader alone when it died, and its disk held logs. Who led while it
    was away is in ``detail``.
    """

    name = "last-standing"
    needs = frozenset({Capability.KILL, Capability.LOG_FILES, Capability.FRAMES})

    def read(self, params: Params) -> None:
        self.elected_ms = params.integer("elected_ms", 5_000, low=1)

    def apply(self, ctx: Context) -> None:
        state = self.state(ctx)
        leader, followers = state.leader, [n for n in state.replicas if n != state.leader]
        if len(followers) < 2 or leader == ctx.view.controller():
            raise FaultFailed(
                f"partition {state.topic}-{state.partition} of brokers {state.replicas}, led by "
                f"{leader}; allowed: three replicas, led by one that is not the controller"
            )
        self.nodes = [leader]
        self.detail["last"] = leader
        fetchers = "|".join(client_of(node) for node in followers)
        alone = self.hold(
            ctx, "alone", "FETCH", node=leader, link=Link.INTER_BROKER, client=fetchers
        )
        self.wait(ctx, "the set is the leader alone", lambda: self.state(ctx).isr == (leader,))
        self.kill(ctx, leader)
        gone = self.lose_disk(ctx, leader)
        self.took_hold = bool(gone)
        self.release(ctx, alone)
        self.detail["another_led"] = self.comes(
            ctx, self.elected_ms, lambda: self.state(ctx).leader in followers
        )
        self.start(ctx, leader)

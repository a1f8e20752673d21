"""``moved-while-asking``: a partition gets another leader while its follower asks the one before
about others.

    a follower comes back, and asks a leader where epochs end        (held on its way)
    another partition of that leader, without records, is led by a third broker now
    the follower is told of that; then the question arrives and is answered

Of a partition without records there is nothing to ask: what the follower does about it waits for
the answer about the others. It must not take for its own what has gone to another leader meanwhile
(KAFKA-8012).
"""

from __future__ import annotations

from typing import Final

from faults.frames import client_of
from faults.leadership import elect, reorder
from faults.params import Params
from faults.protocol import Capability, Context, FaultFailed, Link, PartitionState
from faults.staged import Staged
from faults.targets import parse_partition, partition_state

_ANSWERED_S: Final = 1.0
"""In which what a broker is told at its start is answered."""


class MovedWhileAsking(Staged):
    """Parameters: partition ("t-0"), with records; moved ("t-1"), which has none and is led by the
    same broker; timeout_ms of each change of its leader or replicas' order.

    Took hold: a question was held until the follower had answered for the new leader.
    """

    name = "moved-while-asking"
    needs = frozenset(
        {
            Capability.FRAMES,
            Capability.ZOOKEEPER,
            Capability.ELECT_LEADERS,
            Capability.CONTROLLED_STOP,
        }
    )

    def read(self, params: Params) -> None:
        moved = parse_partition(params.text("moved"))
        if moved is None:
            raise params.error("moved", "is not allowed; allowed: topic-partition")
        self.moved = moved
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)

    def apply(self, ctx: Context) -> None:
        asked, moved = self.state(ctx), partition_state(ctx.view, *self.moved)
        follower, third = self._others(ctx, asked, moved)
        self.nodes = [asked.leader, follower]
        self.detail |= {"leader": asked.leader, "follower": follower, "next": third}
        # A reassignment waits for all replicas to be in sync: it is done before one of them goes.
        chosen = reorder(ctx, [moved], str(third), ctx.rng, self.timeout_ms)
        question = self.hold(
            ctx,
            "question",
            "OFFSET_FOR_LEADER_EPOCH",
            node=asked.leader,
            link=Link.INTER_BROKER,
            client=client_of(follower),
        )
        self.stop(ctx, follower)
        self.start(ctx, follower)
        self.wait(ctx, "the follower asks", lambda: ctx.frames.count(question).applied)
        ctx.sleep(_ANSWERED_S)
        told = self.watch(ctx, "told", "LEADER_AND_ISR", node=follower, direction="response")
        elect(ctx, chosen, self.timeout_ms)
        self.wait(ctx, "the follower is told", lambda: ctx.frames.count(told).matched)
        self.release(ctx, question)
        self.took_hold = partition_state(ctx.view, *self.moved).leader == third

    def _others(
        self, ctx: Context, asked: PartitionState, moved: PartitionState
    ) -> tuple[int, int]:
        """Who asks, which is not the controller, and who is to lead."""
        leader = asked.leader
        both = [n for n in asked.isr if n in moved.isr and n != leader]
        asking = [n for n in both if n != ctx.view.controller()]
        if leader < 0 or moved.leader != leader or not asking or len(both) < 2:
            raise FaultFailed(
                f"partition {asked.topic}-{asked.partition}, led by {leader}, in sync {asked.isr}, "
                f"and {moved.topic}-{moved.partition}, led by {moved.leader}, in sync {moved.isr}; "
                "allowed: one leader, and two followers in sync, one of them not the controller"
            )
        return asking[0], next(n for n in both if n != asking[0])

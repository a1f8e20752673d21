"""``diverging-fetch``: a leader of before comes back with a longer log, and asks for more.

    the followers fetch nothing, the leader goes on alone   (it writes what nobody else has)
    the leader dies, another is elected and is written to
    the one of before comes back and asks: its offset is beyond what it shares with the new leader
    the answer, which tells it to cut its log, is held
    the new leader dies

A leader that takes the offset in such a request for what its follower has of its own log counts
records that nobody replicated, takes the follower into the in-sync set, and makes it the next
leader (KAFKA-13141). A sound one only answers it.

Needs three replicas, and few enough writes to the new leader: after ``produces`` requests it gets
no more, so that the log of the one of before stays the longer one.
"""

from __future__ import annotations

from faults.frames import client_of
from faults.params import Params
from faults.protocol import Capability, Context, FaultFailed, Link
from faults.staged import Staged


class DivergingFetch(Staged):
    """Parameters: partition ("t-0"); alone_ms: how long the leader goes on without followers (less
    than replica.lag.time.max.ms, or they leave the set); produces: requests that the new leader is
    given; counted_ms: how long it is given to take the offset for true, and a successor to be
    elected.

    Took hold: an answer to the one of before was held. What the leader made of its request is in
    ``detail``.
    """

    name = "diverging-fetch"
    needs = frozenset({Capability.KILL, Capability.FRAMES})

    def read(self, params: Params) -> None:
        self.alone_ms = params.integer("alone_ms", 10_000, low=1)
        self.produces = params.integer("produces", 4, low=1)
        self.counted_ms = params.integer("counted_ms", 6_000, low=1)

    def apply(self, ctx: Context) -> None:
        state = self.state(ctx)
        old, followers = state.leader, [n for n in state.replicas if n != state.leader]
        if len(followers) < 2 or set(state.isr) != set(state.replicas):
            raise FaultFailed(
                f"partition {state.topic}-{state.partition} of brokers {state.replicas}, in sync "
                f"{state.isr}; allowed: three replicas, all in sync"
            )
        self.nodes = [old]
        fetchers = "|".join(client_of(node) for node in followers)
        inside = Link.INTER_BROKER
        alone = self.hold(ctx, "alone", "FETCH", node=old, link=inside, client=fetchers)
        ctx.sleep(self.alone_ms / 1000)
        few = {
            node: self.hold(
                ctx, f"few-{node}", "PRODUCE", node=node, link=Link.CLIENT, skip=self.produces
            )
            for node in followers
        }
        self.kill(ctx, old)
        self.release(ctx, alone)
        self.wait(ctx, "another leads", lambda: self.state(ctx).leader not in (old, -1))
        new = self.state(ctx).leader
        self.nodes.append(new)
        self.detail |= {"old": old, "new": new}
        self.wait(ctx, "it is written to", lambda: ctx.frames.count(few[new]).matched)
        answer = self.hold(
            ctx,
            "answer",
            "FETCH",
            node=new,
            link=inside,
            client=client_of(old),
            direction="response",
        )
        self.start(ctx, old)
        self.wait(ctx, "the one of before asks", lambda: ctx.frames.count(answer).applied)
        self.took_hold = True
        self.detail["counted"] = self.comes(
            ctx, self.counted_ms, lambda: old in self.state(ctx).isr
        )
        self.kill(ctx, new)
        self.detail["led"] = self.comes(ctx, self.counted_ms, lambda: self.state(ctx).leader == old)

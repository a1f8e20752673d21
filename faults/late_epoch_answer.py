"""``late-epoch-answer``: a follower's question about epochs is answered in the epoch after next.

    a leader epoch begins, a follower asks where its own last one ends     (held on its way)
    the next leader epoch begins, and the follower is told of it
    the question arrives: its epoch is of the past, and the leader says so

A follower that takes the answer for one to its present state gives up on a partition about which it
has just been told everything, and waits for news that never come (KAFKA-7786).

Needs a partition whose followers have records: only then is there something to ask.
"""

from __future__ import annotations

from typing import Final

from faults.frames import client_of
from faults.leadership import reorder
from faults.params import Params
from faults.protocol import Capability, Context, FaultFailed, Link
from faults.staged import Staged

_ANSWERED_S: Final = 1.0
"""In which answers of the first epoch are home: those of the second are counted."""


class LateEpochAnswer(Staged):
    """Parameters: partition ("t-0"); timeout_ms of each of the two epochs' beginnings.

    Leader epochs begin without a change of leader, by another order of the replicas. Took hold: a
    question was held until leader and follower had answered for the second epoch.
    """

    name = "late-epoch-answer"
    needs = frozenset({Capability.FRAMES, Capability.ZOOKEEPER})

    def read(self, params: Params) -> None:
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)

    def apply(self, ctx: Context) -> None:
        state = self.state(ctx)
        leader, followers = state.leader, [n for n in state.isr if n != state.leader]
        if leader < 0 or not followers:
            raise FaultFailed(
                f"partition {state.topic}-{state.partition}, led by {leader}, in sync {state.isr}; "
                "allowed: a leader and a follower in sync"
            )
        follower = followers[0]
        self.nodes = [leader, follower]
        self.detail |= {"leader": leader, "follower": follower, "epochs": [state.leader_epoch]}
        question = self.hold(
            ctx,
            "question",
            "OFFSET_FOR_LEADER_EPOCH",
            node=leader,
            link=Link.INTER_BROKER,
            client=client_of(follower),
        )
        self._begin_epoch(ctx)
        self.wait(ctx, "the follower asks", lambda: ctx.frames.count(question).applied)
        ctx.sleep(_ANSWERED_S)
        told = [
            self.watch(ctx, f"told-{node}", "LEADER_AND_ISR", node=node, direction="response")
            for node in (leader, follower)
        ]
        self._begin_epoch(ctx)
        self.wait(
            ctx, "both are told", lambda: all(ctx.frames.count(rule).matched for rule in told)
        )
        self.release(ctx, question)
        self.took_hold = self.state(ctx).leader == leader

    def _begin_epoch(self, ctx: Context) -> None:
        reorder(ctx, [self.state(ctx)], "next", ctx.rng, self.timeout_ms)
        self.detail["epochs"].append(self.state(ctx).leader_epoch)

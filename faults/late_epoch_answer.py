"""``late-epoch-answer``: a follower's question about epochs is answered in a later epoch.

    a leader epoch begins, a follower asks where its own last one ends     (held on its way)
    another leads for a moment, then the same leader again: the follower is told of it
    the question arrives: its epoch is of the past, and the leader says so

A follower that takes the answer for one to its present state gives up on a partition about which it
has just been told everything, and waits for news that never come (KAFKA-7786).

Needs a partition whose followers have records (only then is there something to ask), and a second
one with the same leader and follower: it keeps open the connection on which the question waits.
The last epoch begins with an election, of which all brokers are told as it is (KAFKA-9212).
"""

from __future__ import annotations

from typing import Final

from faults.frames import client_of
from faults.leadership import elect, reorder
from faults.params import Params
from faults.protocol import Capability, Context, FaultFailed, Link, PartitionState
from faults.staged import Staged

_ANSWERED_S: Final = 1.0
"""In which answers of the epoch before are home: those of the last one are counted."""


class LateEpochAnswer(Staged):
    """Parameters: partition ("t-0"); timeout_ms of each change of its leader or replicas' order.

    Took hold: a question was held until leader and follower had answered for the last epoch.
    """

    name = "late-epoch-answer"
    needs = frozenset({Capability.FRAMES, Capability.ZOOKEEPER, Capability.ELECT_LEADERS})

    def read(self, params: Params) -> None:
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)

    def apply(self, ctx: Context) -> None:
        state = self.state(ctx)
        leader, followers = state.leader, [n for n in state.isr if n != state.leader]
        if leader < 0 or len(followers) < 2 or not self._kept_open(ctx, state, followers[0]):
            raise FaultFailed(
                f"partition {state.topic}-{state.partition}, led by {leader}, in sync {state.isr}; "
                "allowed: a leader and two followers in sync, and another partition like it"
            )
        follower, other = followers[:2]
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
        away = reorder(ctx, [state], str(other), ctx.rng, self.timeout_ms)
        self._note(ctx)
        self.wait(ctx, "the follower asks", lambda: ctx.frames.count(question).applied)
        elect(ctx, away, self.timeout_ms)
        back = reorder(ctx, [self._note(ctx)], str(leader), ctx.rng, self.timeout_ms)
        ctx.sleep(_ANSWERED_S)
        told = [
            self.watch(ctx, f"told-{node}", "LEADER_AND_ISR", node=node, direction="response")
            for node in (leader, follower)
        ]
        elect(ctx, back, self.timeout_ms)
        self.wait(
            ctx, "both are told", lambda: all(ctx.frames.count(rule).matched for rule in told)
        )
        self.release(ctx, question)
        self.took_hold = self._note(ctx).leader == leader

    def _note(self, ctx: Context) -> PartitionState:
        state = self.state(ctx)
        self.detail["epochs"].append(state.leader_epoch)
        return state

    def _kept_open(self, ctx: Context, state: PartitionState, follower: int) -> bool:
        """Whether the follower fetches something else from the leader, too."""
        return any(
            other.leader == state.leader and follower in other.replicas
            for other in ctx.view.partitions(state.topic)
            if other.partition != state.partition
        )

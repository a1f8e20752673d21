"""``forgotten-expansion``: followers are to join their in-sync sets, and the controller that is
asked loses its session with ZooKeeper meanwhile.

    followers fetch nothing until they are out of the in-sync sets
    the controller loses ZooKeeper; the followers fetch again, and their leaders ask for them
    the controller's session ends, and it gets ZooKeeper back

The first request waits in the controller for ZooKeeper and fails, the others wait behind it. What
becomes of each is its leader's to deal with: an error has to be followed by another try
(KAFKA-14010), and a request that is never answered is not to keep a follower out of sync.

Needs in-sync sets that change through the controller (AlterPartition), and partitions of two
replicas, none of them the controller's: its going changes nothing of theirs.
"""

from __future__ import annotations

from typing import Final

from faults.frames import client_of
from faults.params import Params
from faults.protocol import Capability, Context, FaultFailed, Link, PartitionState
from faults.staged import Staged
from faults.targets import parse_partition, partition_state

_ANSWERED_S: Final = 0.5
"""In which a leader is answered about the smaller set: until then it asks for nothing else, and the
controller needs ZooKeeper for it."""


class ForgottenExpansion(Staged):
    """Parameters: partition ("t-0"); also: another one, led by the other broker, whose request
    will wait behind the first (default: none).

    Took hold: every leader had asked before the controller's session ended, and a successor was
    elected.
    """

    name = "forgotten-expansion"
    needs = frozenset(
        {Capability.FRAMES, Capability.ZOOKEEPER, Capability.LINKS, Capability.ALTER_PARTITION}
    )

    def read(self, params: Params) -> None:
        self.wanted = [self.partition]
        also = params.optional_text("also")
        if also is not None:
            partition = parse_partition(also)
            if partition is None:
                raise params.error("also", "is not allowed; allowed: topic-partition")
            self.wanted.append(partition)
        self._cut: int | None = None

    def apply(self, ctx: Context) -> None:
        controller = ctx.view.controller()
        states = [self._fitting(ctx, controller, *at) for at in self.wanted]
        leaders = [state.leader for state in states]
        if controller is None or len(set(leaders)) < len(leaders):
            raise FaultFailed(f"partitions led by {leaders}; allowed: by different brokers")
        self.nodes = [controller, *leaders]
        self.detail |= {"controller": controller, "leaders": leaders}
        answered = [
            self.watch(ctx, f"answered-{n}", "ALTER_PARTITION", client=str(n), direction="response")
            for n in leaders
        ]
        held = [
            self.hold(
                ctx,
                f"out-{state.leader}",
                "FETCH",
                node=state.leader,
                link=Link.INTER_BROKER,
                client="|".join(client_of(n) for n in state.replicas if n != state.leader),
            )
            for state in states
        ]
        self.wait(
            ctx,
            "the sets are the leaders alone, as these know",
            lambda: self._all_met(ctx, answered) and self._alone(ctx, leaders),
        )
        ctx.sleep(_ANSWERED_S)
        asked = [
            self.watch(ctx, f"asked-{leader}", "ALTER_PARTITION", client=str(leader))
            for leader in leaders
        ]
        self._cut = controller
        ctx.links.disable(controller, Link.ZOOKEEPER)
        for rule in held:
            self.release(ctx, rule)
        self.wait(
            ctx,
            "every leader asks for its follower, or the session has ended",
            lambda: self._all_met(ctx, asked) or ctx.view.broker_epoch(controller) is None,
        )
        in_time = self._all_met(ctx, asked) and ctx.view.broker_epoch(controller) is not None
        self.wait(
            ctx,
            "the controller is succeeded",
            lambda: ctx.view.controller() not in (None, controller),
        )
        self.detail["successor"] = ctx.view.controller()
        self._reconnect(ctx)
        self.wait(
            ctx,
            f"broker {controller} is registered anew",
            lambda: ctx.view.broker_epoch(controller) is not None,
        )
        self.took_hold = in_time

    def undo(self, ctx: Context) -> None:
        self._reconnect(ctx)
        super().undo(ctx)

    def _reconnect(self, ctx: Context) -> None:
        if self._cut is not None:
            ctx.links.enable(self._cut, Link.ZOOKEEPER)
            self._cut = None

    def _alone(self, ctx: Context, leaders: list[int]) -> bool:
        sets = [partition_state(ctx.view, *at).isr for at in self.wanted]
        return sets == [(leader,) for leader in leaders]

    def _all_met(self, ctx: Context, rules: list[str]) -> bool:
        return all(ctx.frames.count(rule).matched for rule in rules)

    def _fitting(
        self, ctx: Context, controller: int | None, topic: str, partition: int
    ) -> PartitionState:
        state = partition_state(ctx.view, topic, partition)
        replicas = set(state.replicas)
        if state.leader < 0 or len(replicas) != 2 or controller in replicas:
            raise FaultFailed(
                f"partition {topic}-{partition} of brokers {state.replicas}, led by "
                f"{state.leader}; allowed: two replicas, neither of them the controller"
            )
        return state

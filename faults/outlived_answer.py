"""``outlived-answer``: a leader is answered about its in-sync set when it has asked anew.

    a follower fetches nothing, and is out of the set; the answer to the leader is held
    another follower dies: the controller begins a new leader epoch, of which the leader is told
    the first follower fetches again, and the leader wants it in the set
    the answer from before arrives

The answer is of a former epoch and changes nothing; nor may it change what has been asked since. A
leader that takes it for the answer to whatever it has on its list strikes off the new request,
which was never sent, and waits for its answer for ever (KAFKA-12686).

Needs in-sync sets that change through the controller (AlterPartition), and a partition of three
replicas, all in sync, that the controller follows.
"""

from __future__ import annotations

from typing import Final

from faults.frames import client_of
from faults.params import Params
from faults.protocol import Capability, Context, FaultFailed, Link
from faults.staged import Staged

_TOLD_S: Final = 1.0
"""In which a leader is told of an epoch, or wants a follower that has caught up in its set."""
_FETCHES: Final = 3
"""By the last of them a follower has said that it has what the one before brought."""


class OutlivedAnswer(Staged):
    """Parameters: partition ("t-0"); joined_ms: how long the follower is watched afterwards.

    Took hold: the answer was held until the leader was alone in a later epoch and its follower
    fetched again. Whether that came to be in sync is in ``detail``.
    """

    name = "outlived-answer"
    needs = frozenset({Capability.FRAMES, Capability.KILL, Capability.ALTER_PARTITION})

    def read(self, params: Params) -> None:
        self.joined_ms = params.integer("joined_ms", 3_000, low=1)

    def apply(self, ctx: Context) -> None:
        state = self.state(ctx)
        leader, follower = state.leader, ctx.view.controller()
        others = [n for n in state.replicas if n not in (leader, follower)]
        whole = set(state.isr) == set(state.replicas)
        if not whole or follower not in state.replicas or leader == follower or len(others) != 1:
            raise FaultFailed(
                f"partition {state.topic}-{state.partition} of brokers {state.replicas}, led by "
                f"{leader}, in sync {state.isr}; allowed: three replicas, all in sync, the "
                "controller a follower"
            )
        assert follower is not None
        self.nodes = [leader, follower, *others]
        self.detail |= {"leader": leader, "follower": follower, "killed": others[0]}
        inside = {"node": leader, "link": Link.INTER_BROKER, "client": client_of(follower)}
        answer = self.hold(
            ctx, "answer", "ALTER_PARTITION", direction="response", client=str(leader)
        )
        out = self.hold(ctx, "out", "FETCH", **inside)
        self.wait(
            ctx,
            "the follower is out of the set",
            lambda: follower not in self.state(ctx).isr and ctx.frames.count(answer).applied,
        )
        self.kill(ctx, others[0])
        self.wait(ctx, "the set is the leader alone", lambda: self.state(ctx).isr == (leader,))
        ctx.sleep(_TOLD_S)
        self.release(ctx, out)
        fetches = self.watch(ctx, "fetches", "FETCH", **inside)
        self.wait(
            ctx, "the follower fetches", lambda: ctx.frames.count(fetches).matched >= _FETCHES
        )
        ctx.sleep(_TOLD_S)
        now = self.state(ctx)
        self.detail["leader_epochs"] = [state.leader_epoch, now.leader_epoch]
        self.took_hold = now.isr == (leader,) and now.leader_epoch > state.leader_epoch
        self.release(ctx, answer)
        self.release(ctx, fetches)
        self.detail["joined"] = self.comes(
            ctx, self.joined_ms, lambda: follower in self.state(ctx).isr
        )

"""``isr-lag-succeeded``: followers lag, and come back under another controller than the one that
dropped them.

    a leader is cut off from its followers, and has the controller drop them
    another is elected, while who was in office lives on; the leader is not told
    the followers fetch again: the leader asks for them, whom it asked before, and is refused
    it is told of the successor

A refusal as a whole (NOT_CONTROLLER) says nothing of what was asked for: it is to be asked again,
of whoever is controller then (NodeToControllerChannelManager). A leader that goes on asking a
former controller, or that takes what was refused for settled, leaves its followers out of sync for
good.

Needs in-sync sets that change through the controller (AlterPartition). Where a leader is told of
controllers by the link that its followers use it hears of the successor with them.
"""

from __future__ import annotations

from typing import Final

from faults.isr_lag import CUT, IsrLag
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link, PartitionState
from faults.succession import succeed

_LATE_MS: Final = 1_000
"""Later than others hear that nobody is in office, and far less than a session."""


class IsrLagSucceeded(IsrLag):
    """Parameters beyond ``isr-lag``'s, whose ``how`` is to be cut: untold_ms: for how long the
    leader is not told after its followers could fetch again.

    Took hold: a follower was dropped, and another controller than before was in office when all
    were in sync again."""

    name = "isr-lag-succeeded"
    needs = IsrLag.needs | {Capability.ZOOKEEPER, Capability.ALTER_PARTITION}

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        if self.how != CUT:
            raise Params(entry).error("how", f"is to be {CUT}")

    def read(self, params: Params) -> None:
        self.untold_ms = params.integer("untold_ms", 1_500)

    def before_letting_go(self, ctx: Context, full: PartitionState) -> None:
        former, leader = ctx.view.controller(), full.leader
        if former is None or former == leader:
            raise FaultFailed(f"broker {former} is the controller, and leads; allowed: another")
        self.nodes = [leader, former]
        both = (Link.INTER_BROKER, Link.CONTROL)
        self.delay_answers(ctx, former, Link.ZOOKEEPER, _LATE_MS)
        if len({ctx.links.address(leader, link) for link in both}) > 1:
            self.cut(ctx, leader, Link.CONTROL)
        self.detail |= {"former": former} | succeed(ctx, timeout_ms=self.timeout_ms)
        self.let_answers(ctx, former, Link.ZOOKEEPER)
        if self.detail["successor"] == former:
            raise FaultFailed(f"broker {former} succeeded itself")
        self.detail["let_go_t"] = ctx.now_ns()
        self.mend(ctx, leader, Link.INTER_BROKER)
        ctx.sleep(self.untold_ms / 1000)
        self.mend(ctx, leader, Link.CONTROL)

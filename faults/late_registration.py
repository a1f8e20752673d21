"""``late-registration``: a broker is registered anew, and everybody knows but itself.

It loses ZooKeeper until its session has ended, and gets it back behind a delay of all that
ZooKeeper answers. Its registration is then made and seen by the controller, which at once sends it
what it has to know; the broker itself learns of its new registration (and broker epoch) only when
the delayed answer is there. What it was sent in between must not be lost on it (KAFKA-9839).
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.protocol import Capability, Context, Entry, Link
from faults.targets import aim, read_targets

_TIMEOUT_MS: Final = 60_000


class LateRegistration(BaseFault):
    """Parameters: target (one broker); delay_ms: of every answer of ZooKeeper; it must stay well
    below the session's timeout, or there is no session.

    inject returns when the new registration has been there for twice the delay, so that its
    answer has reached the broker; the delay is lifted by heal. Took hold: a registration with a new
    broker epoch was seen while the delay was in place.
    """

    name = "late-registration"
    needs = frozenset({Capability.ZOOKEEPER, Capability.LINKS})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        self.delay_ms = params.integer("delay_ms", 1000, low=1, high=60_000)
        params.done()

    def apply(self, ctx: Context) -> None:
        node = aim(ctx, self.targets)[0]
        before = ctx.view.broker_epoch(node)
        self.nodes = [node]
        self.detail |= {"targets": self.targets, "broker_epoch": before}
        self.cut(ctx, node, Link.ZOOKEEPER)
        wait_for(
            ctx,
            lambda: ctx.view.broker_epoch(node) is None,
            timeout_ms=_TIMEOUT_MS,
            what=f"the session of broker {node} has ended",
        )
        self.delay_answers(ctx, node, Link.ZOOKEEPER, self.delay_ms)
        self.mend(ctx, node, Link.ZOOKEEPER)
        wait_for(
            ctx,
            lambda: ctx.view.broker_epoch(node) not in (None, before),
            timeout_ms=_TIMEOUT_MS,
            what=f"broker {node} is registered anew",
        )
        self.detail["new_broker_epoch"] = ctx.view.broker_epoch(node)
        self.took_hold = True
        ctx.sleep(2 * self.delay_ms / 1000)

"""``unseen-bounce``: a broker ends and begins anew while the controller is looking away.

The controller is stopped (SIGSTOP, for less than its session); a broker shuts down, which ends its
registration at once, and starts again; then the controller goes on. It finds the same brokers
registered as before. Only the broker epoch tells that one of them has forgotten everything and has
to be told again (KIP-380, KAFKA-7235).

The session has to outlast a restart, and the shutdown must not wait for the controller: configs
zookeeper.session.timeout.ms and controlled.shutdown.enable=false.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed
from faults.targets import aim, read_targets

_TIMEOUT_MS: Final = 60_000
_KEEPS_S: Final = 3.5
"""So long after it goes on it has its session for good, or has lost it: it said that it lives; and
it has told who began anew of the cluster (`checkers.promises.administration.welcomed`)."""


class UnseenBounce(BaseFault):
    """Parameters: target (one broker, not the controller).

    inject returns once the controller goes on. Took hold: the broker has another epoch, and the
    controller is the one that it was, in the same controller epoch: it never lost its session.
    """

    name = "unseen-bounce"
    needs = frozenset({Capability.ZOOKEEPER, Capability.PAUSE, Capability.CONTROLLED_STOP})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params, default="not-controller")
        params.done()

    def apply(self, ctx: Context) -> None:
        node = aim(ctx, self.targets)[0]
        controller, epoch = ctx.view.controller(), ctx.view.controller_epoch()
        if controller is None or controller == node:
            raise FaultFailed(f"broker {node} is the controller; allowed: another broker")
        before = ctx.view.broker_epoch(node)
        self.nodes = [node]
        self.detail |= {"targets": self.targets, "controller": controller, "broker_epoch": before}
        self.pause(ctx, controller)
        begun = ctx.now_ns()
        self.stop(ctx, node)
        ctx.nodes.start(node, wait_ready=False)
        wait_for(
            ctx,
            lambda: ctx.view.broker_epoch(node) not in (None, before),
            timeout_ms=_TIMEOUT_MS,
            what=f"broker {node} is registered anew",
        )
        self.detail["away_ns"] = ctx.now_ns() - begun
        self.resume(ctx, controller)
        ctx.sleep(_KEEPS_S)
        self.detail["new_broker_epoch"] = ctx.view.broker_epoch(node)
        same = ctx.view.controller() == controller and ctx.view.controller_epoch() == epoch
        if not same:
            raise FaultFailed(f"broker {controller} lost its session while it was stopped")
        self.took_hold = True

"""``hung-broker``: a broker hangs past its session while its controller waits for an answer of it.

It is stopped (SIGSTOP), and before its session is over the controller has something to tell it: its
connections live on, so that whoever sent that waits for its request time-out (30 s). When the
registration is gone the controller gives up the channel, and with it that request, at once; should
it wait for it to end, all that the broker led has no leader for as long (KAFKA-6846, KAFKA-7576).
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.leadership import reorder
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed
from faults.targets import aim, read_targets

_UNREGISTER_MS: Final = 60_000


class HungBroker(BaseFault):
    """Parameters: target (one broker, not the controller); topic, of which it follows in some
    partition; stays_ms: how much longer it hangs when its registration is gone; timeout_ms.

    Took hold: it was told of something while it hung, and then dropped. It goes on when inject
    returns; nothing to heal.
    """

    name = "hung-broker"
    needs = frozenset({Capability.ZOOKEEPER, Capability.PAUSE})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params, default="other-leader")
        self.topic = params.text("topic")
        self.stays_ms = params.integer("stays_ms", 7_000, low=1)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        node = aim(ctx, self.targets)[0]
        if node == ctx.view.controller():
            raise FaultFailed(f"broker {node} is the controller; allowed: another broker")
        followed = [
            state
            for state in ctx.view.partitions(self.topic)
            if node in state.replicas and state.leader != node
        ]
        self.nodes = [node]
        self.detail |= {"targets": self.targets, "controller": ctx.view.controller()}
        self.pause(ctx, node)
        told = reorder(ctx, followed, "next", ctx.rng, self.timeout_ms)
        self.detail["told_of"] = sorted(f"{topic}-{partition}" for topic, partition in told)
        if node not in ctx.view.live_brokers():
            raise FaultFailed(f"broker {node} was dropped before it had anything to be told")
        wait_for(
            ctx,
            lambda: node not in ctx.view.live_brokers(),
            timeout_ms=_UNREGISTER_MS,
            what=f"broker {node} is out of /brokers/ids",
        )
        ctx.sleep(self.stays_ms / 1000)
        self.resume(ctx, node)
        self.took_hold = True

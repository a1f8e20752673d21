"""``unheard-election``: a controller is told of its own election later than anybody else.

With ZooKeeper a controller tells itself of what it decided as it tells all brokers: by an
UpdateMetadata that has its own control listener to pass. Here that link's answers are late, so that
the news of an election waits behind that of the replicas' new order. Whoever asked for the election
is answered when the controller's own metadata shows it (DelayedElectLeader), and not before.
"""

from __future__ import annotations

from faults.base import BaseFault
from faults.leadership import elect, reorder
from faults.observing import read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link
from faults.targets import partition_state


class UnheardElection(BaseFault):
    """Parameters: partition ("t-0"); late_ms: by how much the answers are late; timeout_ms.

    Took hold: the partition is led by another. The answers are in time again when inject returns;
    nothing to heal.
    """

    name = "unheard-election"
    needs = frozenset({Capability.LINKS, Capability.ZOOKEEPER, Capability.ELECT_LEADERS})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.late_ms = params.integer("late_ms", 600, low=1)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        controller = ctx.view.controller()
        if controller is None:
            raise FaultFailed("nobody is controller")
        self.nodes = [controller]
        before = partition_state(ctx.view, self.topic, self.partition)
        self.delay_answers(ctx, controller, Link.CONTROL, self.late_ms)
        chosen = reorder(ctx, [before], "next", ctx.rng, self.timeout_ms)
        self.detail["moves"] = elect(ctx, chosen, self.timeout_ms)
        # Who was answered too soon asks on, and nothing has come by then.
        ctx.sleep(self.late_ms / 2000)
        self.let_answers(ctx, controller, Link.CONTROL)
        self.took_hold = True

"""``unclean-allowed``: a partition has nobody who may lead it, until an operator allows an unclean
election.

    of two replicas the second is stopped, and then the first, alone in sync, is killed
    the second is back: it lives, is not in sync, and may not lead
    its topic is allowed unclean elections: it is to lead

With ZooKeeper the controller hears of that like any broker, and elects at once (KafkaController,
TopicUncleanLeaderElectionEnable). Without, from 3.9 on, one looks every five minutes
(QuorumController.maybeElectUncleanLeaders), which nobody waits for here.

Nobody should write to the topic, so that nothing can be lost with it. heal starts the first again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from faults.base import BaseFault, wait_for
from faults.observing import await_full_isr, read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, PartitionState
from faults.targets import partition_state

UNCLEAN: Final = "unclean.leader.election.enable"
_LOOK_S: Final = 0.05


class UncleanAllowed(BaseFault):
    """Parameters: partition, of two replicas, neither of them the controller's; looked_ms: for how
    long to look for a leader then; timeout_ms of each step before that.

    Took hold: nobody led when it was allowed. Whether anybody did then is for others to judge."""

    name = "unclean-allowed"
    needs = frozenset({Capability.KILL, Capability.CONTROLLED_STOP, Capability.ZOOKEEPER})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.looked_ms = params.integer("looked_ms", 8_000, low=1)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        full = await_full_isr(ctx, self.topic, self.partition, timeout_ms=self.timeout_ms, least=2)
        if len(full.replicas) != 2 or ctx.view.controller() in full.replicas:
            raise FaultFailed(
                f"partition {self.topic}-{self.partition} of brokers {full.replicas}; allowed: two "
                "replicas, neither of them the controller"
            )
        first, (second,) = full.leader, (n for n in full.replicas if n != full.leader)
        self.nodes = [first, second]
        self.stop(ctx, second)
        self._wait(ctx, f"broker {first} is alone in sync", lambda s: s.isr == (first,))
        self.kill(ctx, first)
        self._wait(ctx, "nobody leads", lambda s: s.leader < 0)
        self.start(ctx, second)
        self.took_hold = self._state(ctx).leader < 0
        ctx.admin.alter_topic_configs(self.topic, {UNCLEAN: "true"})
        self.detail |= {"partition": f"{self.topic}-{self.partition}", "allowed_t": ctx.now_ns()}
        until = ctx.now_ns() + self.looked_ms * 1_000_000
        while self._state(ctx).leader < 0 and ctx.now_ns() < until:
            ctx.sleep(_LOOK_S)  # in vain is no failure: it is what this is for
        self.detail |= {"looked_until_t": ctx.now_ns(), "led_by": self._state(ctx).leader}

    def _state(self, ctx: Context) -> PartitionState:
        return partition_state(ctx.view, self.topic, self.partition)

    def _wait(self, ctx: Context, what: str, met: Callable[[PartitionState], bool]) -> None:
        wait_for(ctx, lambda: met(self._state(ctx)), timeout_ms=self.timeout_ms, what=what)

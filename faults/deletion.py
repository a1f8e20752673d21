"""``delete-topic``: a topic of the fault's own is deleted, for good.

The costliest order that a controller gives: UpdateMetadata, StopReplica without and with deletion,
one after the other to every replica, and only when all have answered is the topic gone. A broker
whose control requests wait makes the deletion wait as often as there are requests.
"""

from __future__ import annotations

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.protocol import Context, Entry, FaultFailed


class DeleteTopic(BaseFault):
    """Parameters: partitions; replicas of each (at most as many as brokers live); timeout_ms.

    The topic is made before the clock starts. inject returns once it is gone, and took hold then.
    Nothing to heal.
    """

    name = "delete-topic"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.partitions = params.integer("partitions", 5, low=1, high=1000)
        self.replicas = params.integer("replicas", 3, low=1, high=100)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()
        self.topic = f"churn-{self.id}"
        self._made = False

    def prepare(self, ctx: Context) -> None:
        """Make the topic, its leaders spread over all brokers."""
        live = sorted(ctx.view.live_brokers())
        if not live:
            raise FaultFailed("no live broker")
        count = len(live)
        assignment = {
            p: [live[(p + r) % count] for r in range(min(self.replicas, count))]
            for p in range(self.partitions)
        }
        ctx.admin.create_topic(self.topic, assignment, {})
        self._made = True
        self.nodes = sorted({node for replicas in assignment.values() for node in replicas})

    def apply(self, ctx: Context) -> None:
        if not self._made:
            self.prepare(ctx)
        begun = ctx.now_ns()
        ctx.admin.delete_topic(self.topic)
        wait_for(
            ctx,
            lambda: not ctx.view.partitions(self.topic),
            timeout_ms=self.timeout_ms,
            what=f"topic {self.topic} is gone",
        )
        self.detail |= {"topic": self.topic, "took_ns": ctx.now_ns() - begun}
        self.took_hold = True

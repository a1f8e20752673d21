"""``grow-topic``: a topic under test gets more partitions while clients use it.

The controller hears of them by the topic's znode alone (KafkaController's
processPartitionModifications), elects a first leader for each, and tells everybody; clients hear of
them with their next metadata.
"""

from __future__ import annotations

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.protocol import Context, Entry, FaultFailed


class GrowTopic(BaseFault):
    """Parameters: topic; partitions: how many more, with replicas as the topic's first ones have
    them; timeout_ms.

    Took hold: each of them has a leader. Nothing to heal.
    """

    name = "grow-topic"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic = params.text("topic")
        self.partitions = params.integer("partitions", 2, low=1, high=1000)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        before = sorted(ctx.view.partitions(self.topic), key=lambda state: state.partition)
        if not before:
            raise FaultFailed(f"there is no topic {self.topic}")
        count = len(before)
        more = {count + n: list(before[n % count].replicas) for n in range(self.partitions)}
        self.nodes = sorted({node for replicas in more.values() for node in replicas})
        ctx.admin.add_partitions(self.topic, more)
        begun = ctx.now_ns()
        wait_for(
            ctx,
            lambda: set(more) <= self._led(ctx),
            timeout_ms=self.timeout_ms,
            what=f"each new partition of topic {self.topic} has a leader",
        )
        self.detail |= {"topic": self.topic, "took_ns": ctx.now_ns() - begun}
        self.took_hold = True

    def _led(self, ctx: Context) -> set[int]:
        return {s.partition for s in ctx.view.partitions(self.topic) if s.leader >= 0}

"""``grow-topic``: a topic under test gets more partitions while clients use it.

The controller hears of them by the topic's znode alone (KafkaController's
processPartitionModifications), elects a first leader for each, and tells everybody; clients hear of
them with their next metadata.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link
from faults.targets import aim

_MOMENT_S: Final = 0.3
"""In which who is cut off has lost its connection."""


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
        more = further(ctx, self.topic, self.partitions)
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


class UnseenGrowth(BaseFault):
    """``unseen-growth``: a topic grows by its znode while the controller is cut from ZooKeeper,
    which is far less than its session: it hears of that only if it looks again at what it watched
    (ZooKeeper's own client has the server compare: SetWatches).

    Parameters: topic, partitions: as for ``grow-topic``; away_ms: how long it is cut off after the
    growth.

    Took hold: the same controller is in office. The link is up again when inject returns; nothing
    to heal. Whether each new partition comes to be led is for others to judge.
    """

    name = "unseen-growth"
    needs = frozenset({Capability.LINKS, Capability.ZOOKEEPER})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic = params.text("topic")
        self.partitions = params.integer("partitions", 2, low=1, high=1000)
        self.away_ms = params.integer("away_ms", 700, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        more = further(ctx, self.topic, self.partitions)
        (controller,) = aim(ctx, ["controller"])
        epoch = ctx.view.controller_epoch()
        self.nodes = [controller]
        self.detail |= {"topic": self.topic, "partitions": sorted(more)}
        self.cut(ctx, controller, Link.ZOOKEEPER)
        ctx.sleep(_MOMENT_S)
        ctx.admin.write_partitions(self.topic, more)
        ctx.sleep(self.away_ms / 1000)
        self.mend(ctx, controller, Link.ZOOKEEPER)
        self.took_hold = ctx.view.controller_epoch() == epoch


def further(ctx: Context, topic: str, partitions: int) -> dict[int, list[int]]:
    """So many more partitions of a topic, with replicas as its first ones have them."""
    before = sorted(ctx.view.partitions(topic), key=lambda state: state.partition)
    if not before:
        raise FaultFailed(f"there is no topic {topic}")
    count = len(before)
    return {count + n: list(before[n % count].replicas) for n in range(partitions)}

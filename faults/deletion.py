"""``delete-topic``: a topic of the fault's own is deleted, for good.

The costliest order that a controller gives: UpdateMetadata, StopReplica without and with deletion,
one after the other to every replica, and only when all have answered is the topic gone. A broker
whose control requests wait makes the deletion wait as often as there are requests.

``delete-topic-away``: the same while a broker that holds replicas of it is away. The deletion halts
until that one is back and has answered as well; were the topic gone before, its log would stay.
"""

from __future__ import annotations

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed
from faults.targets import aim, read_targets


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
        self.read(params)
        params.done()
        self.topic = f"churn-{self.id}"
        self._made = False

    def read(self, params: Params) -> None:
        """A kind's own parameters."""

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
        self._await_gone(ctx)
        self.detail |= {"topic": self.topic, "took_ns": ctx.now_ns() - begun}
        self.took_hold = True

    def _await_gone(self, ctx: Context) -> None:
        wait_for(
            ctx,
            lambda: not ctx.view.partitions(self.topic),
            timeout_ms=self.timeout_ms,
            what=f"topic {self.topic} is gone",
        )


class DeleteTopicAway(DeleteTopic):
    """Parameters beyond: target, the broker that is stopped before the topic is deleted (a
    controlled shutdown); away_ms: how long it stays away after that.

    Took hold: it was away while the topic was to be deleted, and the topic is gone. heal starts it
    if need be. Whether the topic was gone before that one had answered is for others to judge.
    """

    name = "delete-topic-away"
    needs = frozenset({Capability.CONTROLLED_STOP})

    def read(self, params: Params) -> None:
        self.targets = read_targets(params)
        self.away_ms = params.integer("away_ms", 1000)

    def apply(self, ctx: Context) -> None:
        if not self._made:
            self.prepare(ctx)
        node = aim(ctx, self.targets)[0]
        if not any(node in state.replicas for state in ctx.view.partitions(self.topic)):
            raise FaultFailed(f"broker {node} has no replica of {self.topic}")
        self.stop(ctx, node)
        wait_for(
            ctx,
            lambda: node not in ctx.view.live_brokers(),
            timeout_ms=self.timeout_ms,
            what=f"broker {node} is out of /brokers/ids",
        )
        ctx.admin.delete_topic(self.topic)
        ctx.sleep(self.away_ms / 1000)
        self.detail |= {"topic": self.topic, "away": node}
        self.detail["gone_meanwhile"] = not ctx.view.partitions(self.topic)
        self.start(ctx, node)
        self._await_gone(ctx)
        self.took_hold = True

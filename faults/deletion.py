"""``delete-topic``: a topic of the fault's own is deleted, for good.

The costliest order that a controller gives: UpdateMetadata, StopReplica without and with deletion,
one after the other to every replica, and only when all have answered is the topic gone. A broker
whose control requests wait makes the deletion wait as often as there are requests. Another
controller may be elected meanwhile: it must go on with the deletion, although nobody tells it to
and no broker comes or goes.

``delete-topic-away``: the same while a broker that holds replicas of it is away. The deletion halts
until that one is back and has answered as well; were the topic gone before, its log would stay.
Another topic is made that the broker has replicas of, too: those that live are in sync, and it is
when it is back. And one that nobody else has a replica of, which is led once it is back. (ZooKeeper
takes any assignment; a KRaft controller refuses one to brokers that are away.)

``delete-topic-moving``: the same while its partition is moved and the replica that is added cannot
catch up, since its leader's answers do not leave. A deletion is to halt until the move is over, and
nothing but the end of the move tells the controller to go on with it. (Kafka's marks the topic for
that before it knows of the deletion, forgets that, and goes on at once.)

``recreate-topic``: a topic under test is deleted, and made again with the same name. It is another
one, with another id, without records, whose leader epochs begin anew; clients go on with it.
"""

from __future__ import annotations

from faults.base import BaseFault, wait_for
from faults.meanwhile import Meanwhile
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link
from faults.succession import succeed
from faults.targets import aim, partition_state, read_targets


class DeleteTopic(BaseFault):
    """Parameters: partitions; replicas of each (at most as many as brokers live); wait_ms, before
    it is deleted; timeout_ms; succeeded: whether another controller is elected meanwhile (needs
    ZooKeeper).

    The topic is made before the clock starts. inject returns once it is gone, and took hold then,
    if it was there still when the successor was in office. Nothing to heal.
    """

    name = "delete-topic"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.partitions = params.integer("partitions", 5, low=1, high=1000)
        self.replicas = params.integer("replicas", 3, low=1, high=100)
        self.wait_ms = params.integer("wait_ms", 0)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        self.succeeded = params.flag("succeeded", False)
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
        ctx.sleep(self.wait_ms / 1000)
        if self.succeeded:
            wait_for(
                ctx,
                lambda: set(self.nodes) <= set(ctx.view.live_brokers()),
                timeout_ms=self.timeout_ms,
                what=f"every broker with replicas of {self.topic} is there",
            )
        begun = ctx.now_ns()
        ctx.admin.delete_topic(self.topic)
        self.detail["topic"] = self.topic
        if self.succeeded:
            self.detail |= succeed(ctx, timeout_ms=self.timeout_ms)
            self.detail["gone_meanwhile"] = not ctx.view.partitions(self.topic)
        self._await_gone(ctx, self.topic)
        self.detail["took_ns"] = ctx.now_ns() - begun
        self.took_hold = not self.detail.get("gone_meanwhile", False)

    def _await_gone(self, ctx: Context, topic: str) -> None:
        wait_for(
            ctx,
            lambda: not ctx.view.partitions(topic),
            timeout_ms=self.timeout_ms,
            what=f"topic {topic} is gone",
        )


class DeleteTopicAway(DeleteTopic):
    """Parameters beyond: target, the broker that is stopped before the topic is deleted (a
    controlled shutdown); away_ms: how long it stays away after that.

    Took hold: it was away while the topic was to be deleted and the others were made, which were
    led in the end, and all are gone. heal starts it if need be. Whether the topic was gone before
    that one had answered is for others to judge.
    """

    name = "delete-topic-away"
    needs = frozenset({Capability.CONTROLLED_STOP, Capability.ZOOKEEPER})

    def read(self, params: Params) -> None:
        self.targets = read_targets(params)
        self.away_ms = params.integer("away_ms", 1000)
        self.made, self.alone = f"made-{self.id}", f"alone-{self.id}"

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
        # Who makes it is answered when it is led.
        alone = Meanwhile(lambda: ctx.admin.create_topic(self.alone, {0: [node]}, {}))
        ctx.admin.delete_topic(self.topic)
        ctx.sleep(self.away_ms / 1000)
        self.detail |= {"topic": self.topic, "away": node, "made": self.made, "alone": self.alone}
        live = sorted(ctx.view.live_brokers())
        ctx.admin.create_topic(self.made, {0: [node, *live][: self.replicas]}, {})
        self._await_led(ctx, self.made)
        if self.succeeded:
            self.detail |= succeed(ctx, timeout_ms=self.timeout_ms)
        self.detail["gone_meanwhile"] = not ctx.view.partitions(self.topic)
        self.start(ctx, node)
        self._await_gone(ctx, self.topic)
        self._await_led(ctx, self.alone)
        wait_for(
            ctx,
            lambda: alone.is_over,
            timeout_ms=self.timeout_ms,
            what=f"who asked for {self.alone} was answered",
        )
        alone.result()
        for topic in (self.made, self.alone):
            ctx.admin.delete_topic(topic)
            self._await_gone(ctx, topic)
        self.took_hold = True

    def _await_led(self, ctx: Context, topic: str) -> None:
        wait_for(
            ctx,
            lambda: any(state.leader >= 0 for state in ctx.view.partitions(topic)),
            timeout_ms=self.timeout_ms,
            what=f"topic {topic} has a leader",
        )


class DeleteTopicMoving(DeleteTopic):
    """Parameters beyond: halted_ms: how long the deletion may wait for the move. Of ``replicas``
    there is one less than there are brokers; of partitions only the first is moved.

    Took hold: the topic was deleted as it moved, and is gone. Whether it was there still when the
    replica that is added could catch up is in ``detail``. heal lets the answers go.
    """

    name = "delete-topic-moving"
    needs = frozenset({Capability.LINKS, Capability.ZOOKEEPER})

    def read(self, params: Params) -> None:
        self.halted_ms = params.integer("halted_ms", 1000)

    def prepare(self, ctx: Context) -> None:
        self.replicas = min(self.replicas, len(ctx.view.live_brokers()) - 1)
        super().prepare(ctx)

    def apply(self, ctx: Context) -> None:
        if not self._made:
            self.prepare(ctx)
        key = (self.topic, 0)
        before = partition_state(ctx.view, *key)
        added = next(n for n in sorted(ctx.view.live_brokers()) if n not in before.replicas)
        wanted = [*before.replicas[:-1], added]
        self.hold_answers(ctx, before.leader, Link.INTER_BROKER)
        ctx.admin.begin_reassign({key: wanted})
        wait_for(
            ctx,
            lambda: added in partition_state(ctx.view, *key).replicas,
            timeout_ms=self.timeout_ms,
            what=f"{self.topic}-0 is to have a replica on {added}",
        )
        # Who asks is answered when it is gone, or no more.
        deletion = Meanwhile(lambda: ctx.admin.delete_topic(self.topic))
        ctx.sleep(self.halted_ms / 1000)
        waited = bool(ctx.view.partitions(self.topic))
        self.detail |= {"topic": self.topic, "wanted": wanted, "gone_meanwhile": not waited}
        self.let_answers(ctx, before.leader, Link.INTER_BROKER)
        self._await_gone(ctx, self.topic)
        wait_for(
            ctx,
            lambda: deletion.is_over,
            timeout_ms=self.timeout_ms,
            what=f"who asked for the end of {self.topic} was answered",
        )
        deletion.result()
        self.took_hold = True


class RecreateTopic(BaseFault):
    """Parameters: topic; apart_ms: how long there is none of that name; timeout_ms. It is made with
    the replicas that it had, and without configs.

    Took hold: it was gone, and each partition of its namesake has a leader. Nothing to heal.
    """

    name = "recreate-topic"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic = params.text("topic")
        self.apart_ms = params.integer("apart_ms", 500)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        self.nodes = remake(ctx, self.topic, apart_ms=self.apart_ms, timeout_ms=self.timeout_ms)
        self.detail["topic"] = self.topic
        self.took_hold = True


def remake(ctx: Context, topic: str, *, apart_ms: int, timeout_ms: int) -> list[int]:
    """Delete a topic, and make it again with the replicas that it had; who has any."""
    before = {s.partition: list(s.replicas) for s in ctx.view.partitions(topic)}
    if not before:
        raise FaultFailed(f"there is no topic {topic}")
    ctx.admin.delete_topic(topic)
    wait_for(
        ctx,
        lambda: not ctx.view.partitions(topic),
        timeout_ms=timeout_ms,
        what=f"topic {topic} is gone",
    )
    ctx.sleep(apart_ms / 1000)
    ctx.admin.create_topic(topic, before, {})
    await_led(ctx, topic, set(before), timeout_ms=timeout_ms)
    return sorted({node for replicas in before.values() for node in replicas})


def await_led(ctx: Context, topic: str, partitions: set[int], *, timeout_ms: int) -> None:
    """Until these, and no others, have leaders."""
    wait_for(
        ctx,
        lambda: {s.partition for s in ctx.view.partitions(topic) if s.leader >= 0} == partitions,
        timeout_ms=timeout_ms,
        what=f"each partition of topic {topic} has a leader",
    )

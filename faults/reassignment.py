"""``reassign``: partitions move to other brokers, replica by replica, and are cleaned up behind.

Each partition's replicas are shifted by one along the ring of brokers, so that one broker gets a
replica that it had not (it must fetch all of it) and one loses its own (StopReplica with deletion),
while the partition goes on serving: KIP-455's phases, with the leader moving when it is the one
that leaves. Or the leader alone loses its own, and nobody gets one: that it leads no more nothing
tells it but that StopReplica. Done as often as asked, one partition after the other.

``reassign-succeeded``: a new controller is elected in the middle of a move, while the replica that
is to be added cannot catch up, since its leader's answers do not leave. The successor finds both
assignments in ZooKeeper, and must go on with the move as soon as that replica is in sync.

``reassign-called-off``: such a move is turned elsewhere, then called off by whoever asked for it,
and asked before what is being moved. Its partition is where it was at first, whoever catches up
afterwards: who was only being added when the move was turned is nobody of before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from faults.base import BaseFault, wait_for
from faults.leadership import find_partitions, read_partitions
from faults.meanwhile import Meanwhile
from faults.observing import read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link, PartitionState
from faults.succession import succeed
from faults.targets import partition_state

WAYS: Final = ("ring", "followers")


def shifted(replicas: Sequence[int], brokers: Sequence[int]) -> list[int]:
    """Each replica's successor on the ring of ``brokers``; who is not on it stays."""
    ring = sorted(brokers)
    return [ring[(ring.index(r) + 1) % len(ring)] if r in ring else r for r in replicas]


class Reassign(BaseFault):
    """Parameters: partitions (see `move-leadership`); to: along the "ring", or to the "followers"
    alone; times; interval_ms between two moves.

    inject returns when every move was done: the new replicas committed, in sync and alone, nothing
    pending. Took hold: each move removed a replica, and (along the ring) added one. Nothing to
    heal.
    """

    name = "reassign"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.partitions = read_partitions(params)
        self.to = params.choice("to", WAYS, WAYS[0])
        self.times = params.integer("times", 1, low=1, high=1000)
        self.interval_ms = params.integer("interval_ms", 200)
        self.read(params)
        params.done()

    def read(self, params: Params) -> None:
        """A kind's own parameters."""

    def apply(self, ctx: Context) -> None:
        moves: list[dict[str, Any]] = []
        self.detail["moves"] = moves
        for _ in range(self.times):
            for state in find_partitions(self.partitions, ctx):
                moves.append(self._move(ctx, state.topic, state.partition))
                ctx.sleep(self.interval_ms / 1000)
        self.nodes = sorted({node for m in moves for node in (*m["added"], *m["removed"])})
        self.took_hold = bool(moves) and all(
            m["removed"] and (m["added"] or self.to != WAYS[0]) for m in moves
        )

    def reassign(self, ctx: Context, before: PartitionState, wanted: Sequence[int]) -> None:
        """Returns when it is done."""
        ctx.admin.reassign({(before.topic, before.partition): wanted})

    def _move(self, ctx: Context, topic: str, partition: int) -> dict[str, Any]:
        before = partition_state(ctx.view, topic, partition)
        wanted = [r for r in before.replicas if r != before.leader]
        if self.to == WAYS[0]:
            wanted = shifted(before.replicas, ctx.view.live_brokers())
        begun = ctx.now_ns()
        self.reassign(ctx, before, wanted)
        after = partition_state(ctx.view, topic, partition)
        if set(after.replicas) != set(wanted) or not set(after.isr) <= set(wanted):
            raise FaultFailed(f"{topic}-{partition} is on {after.replicas}, not on {wanted}")
        return {
            "partition": f"{topic}-{partition}",
            "added": sorted(set(wanted) - set(before.replicas)),
            "removed": sorted(set(before.replicas) - set(wanted)),
            "took_ns": ctx.now_ns() - begun,
        }


class ReassignSucceeded(Reassign):
    """Parameters beyond: timeout_ms, for each step. heal lets the answers go."""

    name = "reassign-succeeded"
    needs = frozenset({Capability.LINKS, Capability.ZOOKEEPER})

    def read(self, params: Params) -> None:
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)

    def reassign(self, ctx: Context, before: PartitionState, wanted: Sequence[int]) -> None:
        leader = before.leader
        added = set(wanted) - set(before.replicas)
        if leader < 0 or not added:
            raise FaultFailed(f"{before.topic}-{before.partition} has no leader, or would not move")
        self.hold_answers(ctx, leader, Link.INTER_BROKER)
        move = Meanwhile(lambda: ctx.admin.reassign({(before.topic, before.partition): wanted}))
        try:
            wait_for(
                ctx,
                lambda: _is_moving(ctx, before, added),
                timeout_ms=self.timeout_ms,
                what=f"{before.topic}-{before.partition} is to have a replica on {sorted(added)}",
            )
            self.detail |= succeed(ctx, timeout_ms=self.timeout_ms)
        finally:
            self.let_answers(ctx, leader, Link.INTER_BROKER)
        wait_for(
            ctx,
            lambda: move.is_over,
            timeout_ms=self.timeout_ms,
            what=f"{before.topic}-{before.partition} was moved",
        )
        move.result()


class ReassignCalledOff(BaseFault):
    """Parameters: partition ("t-0"); timeout_ms, for each step; settle_ms: for how long the replica
    that was to be added may catch up then. heal lets the answers go.

    Took hold: the move was under way, and afterwards nothing of it was left.
    """

    name = "reassign-called-off"
    needs = frozenset({Capability.LINKS, Capability.ZOOKEEPER})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.timeout_ms = params.integer("timeout_ms", 10_000, low=1)
        self.settle_ms = params.integer("settle_ms", 1000)
        params.done()

    def apply(self, ctx: Context) -> None:
        key = self.topic, self.partition
        before = partition_state(ctx.view, *key)
        wanted = shifted(before.replicas, ctx.view.live_brokers())
        added = set(wanted) - set(before.replicas)
        if before.leader < 0 or not added:
            raise FaultFailed(f"{self.topic}-{self.partition} has no leader, or would not move")
        self.nodes = sorted({before.leader, *added})
        self.hold_answers(ctx, before.leader, Link.INTER_BROKER)
        ctx.admin.begin_reassign({key: wanted})
        wait_for(
            ctx,
            lambda: _is_moving(ctx, before, added),
            timeout_ms=self.timeout_ms,
            what=f"{self.topic}-{self.partition} is to have a replica on {sorted(added)}",
        )
        # The same is added, and another one is to go.
        staying = sorted(before.replicas, key=lambda replica: replica in wanted)
        turned = [*sorted(added), *staying][: len(before.replicas)]
        ctx.admin.begin_reassign({key: turned})
        ctx.record_moves(self.id)
        ctx.record_gauges(before.leader, self.id)  # a replica that is yet to come is not missed
        ctx.admin.begin_reassign({key: None})
        self.detail |= {
            "called_off_t": ctx.now_ns(),
            "partition": f"{self.topic}-{self.partition}",
            "replicas": list(before.replicas),
            "wanted": wanted,
            "turned": turned,
        }
        self.let_answers(ctx, before.leader, Link.INTER_BROKER)
        ctx.sleep(self.settle_ms / 1000)
        after = partition_state(ctx.view, *key)
        self.took_hold = set(after.replicas) == set(before.replicas)


def _is_moving(ctx: Context, before: PartitionState, added: set[int]) -> bool:
    now = partition_state(ctx.view, before.topic, before.partition)
    return added <= set(now.replicas) and not added & set(now.isr)

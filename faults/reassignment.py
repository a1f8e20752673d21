"""``reassign``: partitions move to other brokers, replica by replica, and are cleaned up behind.

Each partition's replicas are shifted by one along the ring of brokers, so that one broker gets a
replica that it had not (it must fetch all of it) and one loses its own (StopReplica with deletion),
while the partition goes on serving: KIP-455's phases, with the leader moving when it is the one
that leaves. Done as often as asked, one partition after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faults.base import BaseFault
from faults.leadership import find_partitions, read_partitions
from faults.params import Params
from faults.protocol import Context, Entry, FaultFailed
from faults.targets import partition_state


def shifted(replicas: Sequence[int], brokers: Sequence[int]) -> list[int]:
    """Each replica's successor on the ring of ``brokers``; who is not on it stays."""
    ring = sorted(brokers)
    return [ring[(ring.index(r) + 1) % len(ring)] if r in ring else r for r in replicas]


class Reassign(BaseFault):
    """Parameters: partitions (see `move-leadership`); times; interval_ms between two moves.

    inject returns when every move was done: the new replicas committed, in sync and alone, nothing
    pending. Took hold: each move added and removed a replica. Nothing to heal.
    """

    name = "reassign"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.partitions = read_partitions(params)
        self.times = params.integer("times", 1, low=1, high=1000)
        self.interval_ms = params.integer("interval_ms", 200)
        params.done()

    def apply(self, ctx: Context) -> None:
        moves: list[dict[str, Any]] = []
        self.detail["moves"] = moves
        for _ in range(self.times):
            for state in find_partitions(self.partitions, ctx):
                moves.append(self._move(ctx, state.topic, state.partition))
                ctx.sleep(self.interval_ms / 1000)
        self.nodes = sorted({node for m in moves for node in (*m["added"], *m["removed"])})
        self.took_hold = bool(moves) and all(m["added"] and m["removed"] for m in moves)

    def _move(self, ctx: Context, topic: str, partition: int) -> dict[str, Any]:
        before = partition_state(ctx.view, topic, partition)
        wanted = shifted(before.replicas, ctx.view.live_brokers())
        begun = ctx.now_ns()
        ctx.admin.reassign({(topic, partition): wanted})
        after = partition_state(ctx.view, topic, partition)
        if set(after.replicas) != set(wanted) or not set(after.isr) <= set(wanted):
            raise FaultFailed(f"{topic}-{partition} is on {after.replicas}, not on {wanted}")
        return {
            "partition": f"{topic}-{partition}",
            "added": sorted(set(wanted) - set(before.replicas)),
            "removed": sorted(set(before.replicas) - set(wanted)),
            "took_ns": ctx.now_ns() - begun,
        }

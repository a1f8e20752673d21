"""``idle-elections``: leaders change again and again while nobody writes.

Each election begins a leader epoch in which no record is ever written. Followers ask their leader
where such epochs end and must come to agree without a single record to hold on to (KAFKA-10706: a
follower that has an empty epoch of its own may truncate for ever and never be in sync again).

The fault waits for an idle moment, moves leaders to and fro, and looks afterwards: no log that it
could see may have grown meanwhile, or the epochs were not empty and the fault did not take hold.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.leadership import find_partitions, move, read_partitions
from faults.observing import log_end
from faults.params import Params
from faults.protocol import Capability, Context, Entry, PartitionState

_STILL_S: Final = 0.3
"""So long no log may grow before a moment is called idle."""


class IdleElections(BaseFault):
    """Parameters: partitions (see `move-leadership`); times; kill: whether the first one's leader
    is killed and succeeded in the same idle moment (heal starts it again); idle_ms: how long to
    wait for an idle moment; timeout_ms for each move or succession."""

    name = "idle-elections"
    needs = frozenset({Capability.ELECT_LEADERS, Capability.LOG_FILES, Capability.KILL})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.partitions = read_partitions(params)
        self.times = params.integer("times", 3, low=1, high=1000)
        self.kills = params.flag("kill", False)
        self.idle_ms = params.integer("idle_ms", 20_000, low=1)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        wait_for(
            ctx,
            lambda: self._is_still(ctx),
            timeout_ms=self.idle_ms,
            what="nobody writes",
        )
        ends = self._ends(ctx)
        moves = []
        for _ in range(self.times):
            states = find_partitions(self.partitions, ctx)
            moves += move(ctx, states, "next", ctx.rng, self.timeout_ms)
        self.nodes = sorted({m["from"] for m in moves} | {m["to"] for m in moves})
        if self.kills:
            self._succeed(ctx)
        after = self._ends(ctx)
        grown = {name: end for name, end in after.items() if end != ends.get(name)}
        self.detail |= {"moves": moves, "ends": ends, "grown": grown}
        self.took_hold = bool(moves) and not grown

    def _succeed(self, ctx: Context) -> None:
        """Whoever leads the first partition is killed; all that it led is led by others then."""
        leader = find_partitions(self.partitions, ctx)[0].leader
        self.nodes = sorted({*self.nodes, leader})
        led = {(s.topic, s.partition) for s in self._led_by(ctx, leader)}
        self.kill(ctx, leader)
        wait_for(
            ctx,
            lambda: not self._led_by(ctx, leader, -1),
            timeout_ms=self.timeout_ms,
            what=f"what broker {leader} led is led by others",
        )
        self.detail |= {"killed": leader, "succeeded": len(led)}

    def _led_by(self, ctx: Context, *nodes: int) -> list[PartitionState]:
        return [s for s in find_partitions(self.partitions, ctx) if s.leader in nodes]

    def _is_still(self, ctx: Context) -> bool:
        """Whether writing has come to an end: not where it has not begun."""
        before = self._ends(ctx)
        ctx.sleep(_STILL_S)
        return all(before.values()) and self._ends(ctx) == before

    def _ends(self, ctx: Context) -> dict[str, int]:
        """By replica, as ``t-0@1``."""
        return {
            f"{s.topic}-{s.partition}@{node}": log_end(ctx, node, s.topic, s.partition)
            for s in find_partitions(self.partitions, ctx)
            for node in s.replicas
        }

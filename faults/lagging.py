"""Leaders that die while who follows them lags: all followers alike, or one behind the other.

``lagged-kill``: a broker's answers to its followers are late, then it is killed. One entry, because
two ("its link", "its death") that name a leader may mean two brokers when the leader changes in
between.

``lagging-follower``: one in-sync follower is behind another when their leader dies. Proxies stand
before listeners and delay either both followers of a leader or none; so the laggard is stopped
(SIGSTOP), for less time than its session and its place in the in-sync set last, and goes on when
the leader is dead: from then on nobody can send it what it lacks.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from faults.base import BaseFault, wait_for
from faults.network import Toxic
from faults.observing import await_full_isr, log_end, next_in_line, read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry
from faults.restart import Kill
from faults.targets import aim, partition_state, read_targets

LAGGARDS: Final = ("successor", "last")
_LOOK_S: Final = 0.05
_SETTLED_S: Final = 0.15


class LaggedKill(BaseFault):
    """Parameters: target (one broker); latency_ms of its inter-broker answers before it dies (at
    least so long passes until then). heal starts it again."""

    name = "lagged-kill"
    needs = frozenset({Capability.KILL, Capability.LINKS})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        self.latency_ms = params.integer("latency_ms", 800, low=1, high=60_000)
        params.done()
        self._parts: list[BaseFault] = []

    def apply(self, ctx: Context) -> None:
        node = aim(ctx, self.targets)[0]
        self.nodes = [node]
        self.detail["targets"] = self.targets
        self.detail["controller"] = ctx.view.controller()
        late = {"link": "inter-broker", "kind": "latency"}
        toxic = Toxic(self._part(node, **late, attributes={"latency": self.latency_ms}))
        kill = Kill(self._part(node))
        self._parts += [kill, toxic]
        toxic.inject(ctx)  # returns when an exchange through the link was seen to be late
        kill.inject(ctx)
        self.detail["probes"] = toxic.detail.get("probes")
        self.took_hold = toxic.took_hold and kill.took_hold
        toxic.heal(ctx)  # who dials it when it is back is answered at once

    def _part(self, node: int, **params: Any) -> Entry:
        return dataclasses.replace(self.entry, params={"target": node, **params})

    def undo(self, ctx: Context) -> None:
        while self._parts:
            self._parts[-1].heal(ctx)
            self._parts.pop()


class LaggingFollower(BaseFault):
    """Parameters: partition (three replicas or more); laggard: "successor" (who will lead next) or
    "last"; records: by how many it must be behind before the leader is killed; in_sync_ms and
    lag_ms: how long to wait for a full in-sync set and for the lag.

    Took hold: after the leader's death the laggard's log ended before another in-sync follower's,
    and both were in the committed in-sync set. heal starts the leader again.
    """

    name = "lagging-follower"
    needs = frozenset({Capability.KILL, Capability.PAUSE, Capability.LOG_FILES})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.laggard = params.choice("laggard", LAGGARDS, LAGGARDS[0])
        self.records = params.integer("records", 10, low=1)
        self.in_sync_ms = params.integer("in_sync_ms", 20_000, low=1)
        self.lag_ms = params.integer("lag_ms", 2000, low=1)
        params.done()
        self._paused: int | None = None
        self._down: int | None = None

    def apply(self, ctx: Context) -> None:
        state = await_full_isr(ctx, self.topic, self.partition, timeout_ms=self.in_sync_ms, least=3)
        line = next_in_line(state)
        laggard, other = line[0], line[-1]
        if self.laggard == "last":
            laggard, other = other, laggard
        self.nodes = [state.leader, laggard]
        self._paused = laggard
        ctx.nodes.pause(laggard)
        wait_for(
            ctx,
            lambda: self._behind(ctx, laggard, other) >= self.records,
            timeout_ms=self.lag_ms,
            what=f"broker {laggard} is {self.records} records behind broker {other}",
            poll_s=_LOOK_S,
        )
        self._down = state.leader
        ctx.nodes.kill(state.leader)
        self._resume(ctx)
        ctx.sleep(_SETTLED_S)  # what had reached its socket is in its log now
        now = partition_state(ctx.view, self.topic, self.partition)
        behind = self._behind(ctx, laggard, other)
        self.detail |= {
            "leader": state.leader,
            "laggard": laggard,
            "other": other,
            "behind_records": behind,
            "isr": list(now.isr),
            "leader_epoch": now.leader_epoch,
        }
        self.took_hold = behind > 0 and {laggard, other} <= set(now.isr)

    def _behind(self, ctx: Context, laggard: int, other: int) -> int:
        end = log_end(ctx, other, self.topic, self.partition)
        return end - log_end(ctx, laggard, self.topic, self.partition)

    def _resume(self, ctx: Context) -> None:
        if self._paused is not None:
            ctx.nodes.resume(self._paused)
            self._paused = None

    def undo(self, ctx: Context) -> None:
        self._resume(ctx)
        if self._down is not None:
            if not ctx.nodes.is_running(self._down):
                ctx.nodes.start(self._down)
            self._down = None

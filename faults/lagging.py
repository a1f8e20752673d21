"""Leaders that die while who follows them lags: all followers alike, or one behind the other.

``lagged-kill``: a leader's answers no longer reach its followers, and when all of them are behind
it is killed. One entry, because two ("its link", "its death") that name a leader may mean two
brokers when the leader changes in between. Late answers would not do: a follower that was answered
a moment before the death has it all.

``lagging-follower``: one in-sync follower is behind another when their leader dies. Proxies stand
before listeners and delay either both followers of a leader or none; so the laggard is stopped
(SIGSTOP), for less time than its session and its place in the in-sync set last, and goes on when
the leader is dead: from then on nobody can send it what it lacks.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.observing import await_full_isr, log_end, next_in_line, read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry, Link, PartitionState
from faults.targets import partition_state

LAGGARDS: Final = ("successor", "last")
_LOOK_S: Final = 0.05
_SETTLED_S: Final = 0.15


class LaggedKill(BaseFault):
    """Parameters: partition, whose leader it is; records: by how many each live in-sync follower
    must be behind before the leader is killed; in_sync_ms and lag_ms: how long to wait for such a
    follower and for the lag.

    Took hold: after the leader's death its log went on behind the end of every one of theirs. heal
    starts it again.
    """

    name = "lagged-kill"
    needs = frozenset({Capability.KILL, Capability.LINKS, Capability.LOG_FILES})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.records = params.integer("records", 10, low=1)
        self.in_sync_ms = params.integer("in_sync_ms", 20_000, low=1)
        self.lag_ms = params.integer("lag_ms", 5000, low=1)
        params.done()
        self._held: int | None = None
        self._down: int | None = None

    def apply(self, ctx: Context) -> None:
        wait_for(
            ctx,
            lambda: bool(self._followers(ctx, self._state(ctx))),
            timeout_ms=self.in_sync_ms,
            what=f"the leader of {self.topic}-{self.partition} has a live follower in sync",
            poll_s=_LOOK_S,
        )
        state = self._state(ctx)
        leader, followers = state.leader, self._followers(ctx, state)
        self.nodes = [leader]
        self.detail["controller"] = ctx.view.controller()
        self._held = leader
        # What it answers is thrown away until the toxic goes, and the connections go with it.
        ctx.links.add_toxic(
            leader,
            Link.INTER_BROKER,
            name=self.id,
            kind="timeout",
            stream="downstream",
            toxicity=1.0,
            attributes={"timeout": 0},
        )
        wait_for(
            ctx,
            lambda: self._lead(ctx, leader, followers) >= self.records,
            timeout_ms=self.lag_ms,
            what=f"broker {leader} is {self.records} records ahead of {followers}",
            poll_s=_LOOK_S,
        )
        self._down = leader
        ctx.nodes.kill(leader)
        ahead = self._lead(ctx, leader, followers)
        self.detail |= {"followers": followers, "ahead_records": ahead}
        self.took_hold = ahead > 0 and not ctx.nodes.is_running(leader)
        self._let_go(ctx)  # who dials it when it is back is answered at once

    def _state(self, ctx: Context) -> PartitionState:
        return partition_state(ctx.view, self.topic, self.partition)

    def _followers(self, ctx: Context, state: PartitionState) -> list[int]:
        if state.leader < 0:
            return []
        live = set(ctx.view.live_brokers())
        return [r for r in state.isr if r != state.leader and r in live]

    def _lead(self, ctx: Context, leader: int, followers: list[int]) -> int:
        """By how many records the leader's log is longer than the longest of theirs."""
        ends = [log_end(ctx, node, self.topic, self.partition) for node in followers]
        return log_end(ctx, leader, self.topic, self.partition) - max(ends)

    def _let_go(self, ctx: Context) -> None:
        if self._held is not None:
            ctx.links.remove_toxic(self._held, Link.INTER_BROKER, name=self.id)
            self._held = None

    def undo(self, ctx: Context) -> None:
        self._let_go(ctx)
        if self._down is not None:
            if not ctx.nodes.is_running(self._down):
                ctx.nodes.start(self._down)
            self._down = None


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

"""``isr-lag``: followers fall out of the in-sync set because they lag, and come back.

Nobody dies: the leader drops a follower that has not caught up for ``replica.lag.time.max.ms``
(KIP-16), commits the smaller set through the controller (KIP-497), and takes the follower in again
once it has caught up. Four ways: ``pause`` stops one follower (SIGSTOP, within its session), the
others stay; ``latency`` makes the leader's answers later than that limit, and ``cut`` takes its
inter-broker link away: then it has all of its followers dropped. With ``trickle`` followers are
answered well within that limit, again and again, and each time with less than was written
meanwhile (what an answer holds is bounded by replica.fetch.max.bytes, which the scenario sets):
they go on fetching, and never have what their leader has.

With ``far_ms`` who was cut off comes back by a way on which every answer takes so long: it fetches
at once what was written meanwhile, and is behind again by as much, one round and never more. That
is no lag (KIP-16): it is to be let in, and to stay, which is looked at for longer than a leader
needs to drop anybody: once and a half the limit, since it looks twice in that time.

With ``unheard_ms`` who was paused is paused once more when it is in the committed set again and its
leader has not heard of that, because the controller's answers are late: who may be in sync is to be
waited for.

inject does it all: it returns when the committed set was seen smaller, with every dropped follower
still registered (else it would be a death), and full again. heal only undoes what was interrupted.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.observing import await_full_isr, read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link, PartitionState
from faults.targets import partition_state

CUT: Final = "cut"
WAYS: Final = ("pause", "latency", CUT)
"""Those that need nothing of the brokers' configuration."""
TRICKLE: Final = "trickle"
_LOOK_S: Final = 0.05
_STAYS: Final = 5 / 3
"""In limits: longer than a leader needs to drop whoever lags."""


class IsrLag(BaseFault):
    """Parameters: partition; how; lag_ms: the brokers' replica.lag.time.max.ms; hold_ms: for how
    long the set stays small; timeout_ms for each of shrinking and growing; unheard_ms: for how long
    a follower is paused that is in sync without its leader's knowing (default 0: it is not);
    far_ms: by how much answers are late to who comes back (default 0: by nothing); joins_ms: how
    long it is then waited for to be let in."""

    name = "isr-lag"
    needs = frozenset({Capability.LINKS, Capability.PAUSE})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.how = params.choice("how", (*WAYS, TRICKLE), WAYS[0])
        self.lag_ms = params.integer("lag_ms", 30_000, low=1)
        self.hold_ms = params.integer("hold_ms", 500)
        self.timeout_ms = params.integer("timeout_ms", 20_000, low=1)
        self.unheard_ms = params.integer("unheard_ms", 0)
        if self.unheard_ms and self.how != WAYS[0]:
            raise params.error("unheard_ms", f"goes with how: {WAYS[0]} alone")
        self.far_ms = params.integer("far_ms", 0)
        self.joins_ms = params.integer("joins_ms", 5_000, low=1)
        if self.far_ms and self.how != CUT:
            raise params.error("far_ms", f"goes with how: {CUT} alone")
        self.read(params)
        params.done()

    def read(self, params: Params) -> None:
        """A kind's own parameters."""

    def apply(self, ctx: Context) -> None:
        full = await_full_isr(ctx, self.topic, self.partition, timeout_ms=self.timeout_ms, least=2)
        slow = self._slow(ctx, full)
        self.nodes = [slow if self.how == "pause" else full.leader]
        self._hold_back(ctx, slow, full.leader)
        started = ctx.now_ns()
        followers = [r for r in full.isr if r != full.leader]
        self.detail |= {
            "how": self.how,
            "partition": f"{self.topic}-{self.partition}",
            "leader": full.leader,
            "lag_ms": self.lag_ms,
            "held": [slow] if self.how == "pause" else followers,
            "held_t": started,
        }
        wait_for(
            ctx,
            lambda: self._dropped(ctx, full) != set(),
            timeout_ms=self.timeout_ms,
            what=f"a follower of {self.topic}-{self.partition} is dropped from its in-sync set",
            poll_s=_LOOK_S,
        )
        shrunk_ns = ctx.now_ns() - started
        ctx.sleep(self.hold_ms / 1000)
        small = partition_state(ctx.view, self.topic, self.partition)
        dropped = self._dropped(ctx, full)
        dead = dropped - set(ctx.view.live_brokers())
        ctx.record_gauges(full.leader, self.id)  # who lags is what they are watched for
        if self.unheard_ms:
            self._stop_unheard(ctx, slow, full)
        if self.far_ms:
            self._come_from_afar(ctx, full)
        self.before_letting_go(ctx, full)
        self.undo(ctx)
        self.detail |= {
            "isr": list(full.isr),
            "smaller_isr": list(small.isr),
            "shrunk_ns": shrunk_ns,
        }
        if dead or small.leader != full.leader:
            raise FaultFailed(f"not by lag alone: {sorted(dead)} died, led by {small.leader}")
        await_full_isr(ctx, self.topic, self.partition, timeout_ms=self.timeout_ms)
        self.detail["full_again_ns"] = ctx.now_ns() - started
        self.took_hold = bool(dropped)

    def before_letting_go(self, ctx: Context, full: PartitionState) -> None:
        """What a kind does while the set is small; ``full``: as it was before."""

    def _slow(self, ctx: Context, full: PartitionState) -> int:
        """Who is paused. Not the controller: nobody else commits a smaller set, and its session's
        end would come first."""
        controller = ctx.view.controller()
        followers = [r for r in full.replicas if r != full.leader]
        if self.how == "pause":
            followers = [r for r in followers if r != controller]
        if not followers:
            raise FaultFailed(f"no follower of {self.topic}-{self.partition} but the controller")
        return ctx.rng.choice(followers)

    def _dropped(self, ctx: Context, full: PartitionState) -> set[int]:
        now = partition_state(ctx.view, self.topic, self.partition)
        return set(full.isr) - set(now.isr)

    def _hold_back(self, ctx: Context, slow: int, leader: int) -> None:
        if self.how == "pause":
            self.pause(ctx, slow)
            return
        hurt = ctx.links.address(leader, Link.INTER_BROKER)
        links = (Link.CLIENT, Link.INTER_BROKER, Link.CONTROL)
        self.detail["links"] = [str(k) for k in links if ctx.links.address(leader, k) == hurt]
        if self.how == "latency":
            self.delay_answers(ctx, leader, Link.INTER_BROKER, 2 * self.lag_ms)
        elif self.how == TRICKLE:
            self.delay_answers(ctx, leader, Link.INTER_BROKER, self.lag_ms // 4)
        else:
            self.cut(ctx, leader, Link.INTER_BROKER)

    def _stop_unheard(self, ctx: Context, slow: int, full: PartitionState) -> None:
        controller = ctx.view.controller()
        if controller is None or controller == full.leader:
            raise FaultFailed(f"broker {controller} is the controller, and leads; allowed: another")
        # Without a control listener both are one.
        links = {ctx.links.address(controller, k): k for k in (Link.INTER_BROKER, Link.CONTROL)}
        for link in links.values():
            self.delay_answers(ctx, controller, link, 2 * self.unheard_ms)
        self.detail["let_go_t"] = ctx.now_ns()
        self.resume(ctx, slow)
        wait_for(
            ctx,
            lambda: not self._dropped(ctx, full),
            timeout_ms=self.timeout_ms,
            what=f"all followers of {self.topic}-{self.partition} are in sync, as is committed",
            poll_s=_LOOK_S,
        )
        self.pause(ctx, slow)
        ctx.sleep(self.unheard_ms / 1000)
        self.detail["unheard_ms"] = self.unheard_ms

    def _come_from_afar(self, ctx: Context, full: PartitionState) -> None:
        self.delay_answers(ctx, full.leader, Link.INTER_BROKER, self.far_ms)
        self.detail |= {"let_go_t": ctx.now_ns(), "far_ms": self.far_ms}
        self.mend(ctx, full.leader, Link.INTER_BROKER)
        waited_until = ctx.now_ns() + self.joins_ms * 1_000_000
        while self._dropped(ctx, full) and ctx.now_ns() < waited_until:
            ctx.sleep(_LOOK_S)  # in vain is no failure: it is what this is for
        ctx.sleep(self.lag_ms / 1000 * _STAYS)
        self.detail["far_until_t"] = ctx.now_ns()

    def undo(self, ctx: Context) -> None:
        if "held_t" in self.detail:
            self.detail.setdefault("let_go_t", ctx.now_ns())
        super().undo(ctx)

"""Broker restarts: ``stop`` (controlled), ``kill`` (-9), ``pause`` (SIGSTOP: a zombie broker),
``rolling-restart`` and ``repeated-kill``.

The first three hold from inject to heal: down at ``at_ms``, up again after ``duration_ms``. The
last two are done when every restart is: their inject takes as long as the restarts take, and their
heal only starts what is still down.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link
from faults.targets import aim, read_targets

_UNREGISTER_MS: Final = 60_000
_REPLACE_MS: Final = 20_000
"""A session's end and what a controller does then; longer than it may take by far."""


def named(ctx: Context, nodes: Collection[int]) -> list[str]:
    """The partitions that are led by one of these, or have one in sync, though another broker that
    lives is in sync."""
    live = set(ctx.view.live_brokers()) - set(nodes)
    return [
        f"{s.topic}-{s.partition}"
        for s in ctx.view.partitions()
        if {s.leader, *s.isr} & set(nodes) and live & set(s.isr)
    ]


class _NodesDown(BaseFault):
    """The targets are taken down at inject and brought back at heal.

    ``until_unregistered`` makes inject wait until ZooKeeper has dropped the brokers, that is, until
    the controller can know (after kill -9 and pause that takes the session timeout);
    ``until_replaced``, until they lead nothing and are in no in-sync set that others are in.
    """

    default_unregistered = False

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        self.until_unregistered = params.flag("until_unregistered", self.default_unregistered)
        self.until_replaced = params.flag("until_replaced", False)
        self.read(params)
        params.done()

    def read(self, params: Params) -> None:
        """What else there is to say of a way to go."""

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, self.targets)
        self.detail["targets"] = self.targets
        self.detail["controller"] = ctx.view.controller()
        for node in self.nodes:
            self.take_down(ctx, node)
        if self.until_unregistered:
            wait_for(
                ctx,
                lambda: not set(self.nodes) & set(ctx.view.live_brokers()),
                timeout_ms=_UNREGISTER_MS,
                what=f"brokers {self.nodes} are out of /brokers/ids",
            )
        if self.until_replaced:
            wait_for(
                ctx,
                lambda: not named(ctx, self.nodes),
                timeout_ms=_REPLACE_MS,
                what=f"others lead and are in sync without brokers {self.nodes}",
            )
        self.took_hold = self.is_down(ctx)

    def take_down(self, ctx: Context, node: int) -> None:
        raise NotImplementedError

    def is_down(self, ctx: Context) -> bool:
        return not any(ctx.nodes.is_running(node) for node in self.nodes)


class _Unanswering(_NodesDown):
    """``held_ms``: its clients are not answered for so long before, so that it goes with what they
    will send again. Where there is no link to hold it just goes; ``detail`` says which."""

    def read(self, params: Params) -> None:
        self.held_ms = params.integer("held_ms", 0)

    def take_down(self, ctx: Context, node: int) -> None:
        held = self.held_ms > 0 and Capability.LINKS in ctx.capabilities
        if held:
            self.hold_answers(ctx, node, Link.CLIENT)
            ctx.sleep(self.held_ms / 1000)
        self.end(ctx, node)
        self.let_answers(ctx, node, Link.CLIENT)
        if self.held_ms:
            self.detail["held_ms"] = self.held_ms if held else 0

    def end(self, ctx: Context, node: int) -> None:
        raise NotImplementedError


class Stop(_Unanswering):
    """A controlled shutdown: the broker moves its leaderships first, then ends."""

    name = "stop"
    needs = frozenset({Capability.CONTROLLED_STOP})

    def end(self, ctx: Context, node: int) -> None:
        self.stop(ctx, node)


class Kill(_Unanswering):
    """SIGKILL: no goodbye to ZooKeeper, no flush."""

    name = "kill"
    needs = frozenset({Capability.KILL})

    def end(self, ctx: Context, node: int) -> None:
        self.kill(ctx, node)


class Pause(_NodesDown):
    """SIGSTOP. Past its session timeout the broker is replaced, and wakes up as a zombie."""

    name = "pause"
    needs = frozenset({Capability.PAUSE})

    def take_down(self, ctx: Context, node: int) -> None:
        self.pause(ctx, node)

    def is_down(self, ctx: Context) -> bool:
        return True  # the signal cannot be refused


class Restarts(BaseFault):
    """Restarts one after the other; keeps what is down for heal."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        self.done = 0

    def restart(self, ctx: Context, node: int, *, kill: bool, down_ms: int) -> None:
        if kill:
            self.kill(ctx, node)
        else:
            self.stop(ctx, node)
        ctx.sleep(down_ms / 1000)
        self.start(ctx, node)
        self.done += 1

    def wait_in_sync(self, ctx: Context, node: int, timeout_ms: int) -> None:
        def in_sync() -> bool:
            return node in ctx.view.live_brokers() and all(
                node in state.isr for state in ctx.view.partitions() if node in state.replicas
            )

        wait_for(
            ctx,
            in_sync,
            timeout_ms=timeout_ms,
            what=f"broker {node} is in every ISR",
            poll_s=0.1,
        )


class RollingRestart(Restarts):
    """Every target once, each only when the one before is in sync again (``wait_in_sync_ms``)."""

    name = "rolling-restart"
    needs = frozenset({Capability.CONTROLLED_STOP})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params, default="all")
        self.how = params.choice("how", ("controlled", "kill"), "controlled")
        self.down_ms = params.integer("down_ms", 0)
        self.in_sync_ms = params.integer("wait_in_sync_ms", 60_000)
        params.done()

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, self.targets)
        for node in self.nodes:
            self.restart(ctx, node, kill=self.how == "kill", down_ms=self.down_ms)
            if self.in_sync_ms:
                self.wait_in_sync(ctx, node, self.in_sync_ms)
        self.took_hold = True
        self.detail["restarts"] = self.done


class RepeatedKill(Restarts):
    """The same target killed ``times`` times; "leader:T-P" is whoever leads when its turn comes."""

    name = "repeated-kill"
    needs = frozenset({Capability.KILL})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        self.times = params.integer("times", 3, low=1, high=1000)
        self.down_ms = params.integer("down_ms", 500)
        self.up_ms = params.integer("up_ms", 1000)
        params.done()

    def apply(self, ctx: Context) -> None:
        for _ in range(self.times):
            for node in aim(ctx, self.targets):
                if node not in self.nodes:
                    self.nodes.append(node)
                self.restart(ctx, node, kill=True, down_ms=self.down_ms)
            ctx.sleep(self.up_ms / 1000)
        if not self.done:
            raise FaultFailed("no broker was restarted")
        self.took_hold = True
        self.detail["restarts"] = self.done

"""``plane-upgrade``: a running cluster is given a control plane, as KIP-291 says ("Compatibility,
Deprecation, and Migration Plan"): two rounds of rolling restarts.

Round 1 gives every broker a listener for it, which nobody uses yet; round 2 names that listener in
``control.plane.listener.name``. Until the last restart the cluster is mixed: a controller that has
the name speaks to control listeners, one that has not speaks to the inter-broker ones, and office
passes between the two kinds. One round would not do: a controller that has the name cannot speak to
a broker without the listener.

What an impatient operator may try besides must be refused and change nothing: to name a listener
that the broker has not got (the start fails), and to set the name while the broker runs (Kafka
takes it for no dynamic config).
"""

from __future__ import annotations

from typing import Final

from faults.base import wait_for
from faults.leadership import find_partitions, move, read_partitions
from faults.params import Params
from faults.probe import probe
from faults.protocol import Capability, Context, Entry, FaultFailed, Link
from faults.restart import Restarts
from faults.targets import aim

NAME: Final = "control.plane.listener.name"
_PROBE_S: Final = 2.0
_LISTENS_MS: Final = 10_000


class PlaneUpgrade(Restarts):
    """Parameters: listener: its name; wrong_order, dynamic: try what must be refused, too;
    wait_in_sync_ms after each restart; straggle_ms: how much longer than the others the last one of
    each round goes without; then_move: partitions whose leaders are moved when all is done, so that
    the new planes have something to carry. The brokers must have begun without the listener.

    Took hold: no broker's control link led to a listener before round 1, each did after it, and
    every broker was restarted twice. Nothing to heal but a broker that is down.
    """

    name = "plane-upgrade"
    needs = frozenset({Capability.CONTROLLED_STOP, Capability.LINKS, Capability.ZOOKEEPER})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.listener = params.text("listener", "CONTROLLER")
        self.wrong_order = params.flag("wrong_order", False)
        self.dynamic = params.flag("dynamic", False)
        self.in_sync_ms = params.integer("wait_in_sync_ms", 30_000, low=1)
        self.straggle_ms = params.integer("straggle_ms", 0)
        self.then_move = (
            read_partitions(params, "then_move") if "then_move" in entry.params else None
        )
        params.done()

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, ["all"])
        order = ctx.rng.sample(self.nodes, len(self.nodes))
        self.detail["order"] = order
        early = [node for node in order if self._listens(ctx, node)]
        if early:
            raise FaultFailed(f"brokers {early} have a control listener already")
        if self.wrong_order:
            self._try_name_first(ctx, order[0])
        if self.dynamic:
            self._try_dynamic(ctx, order[0])
        ends_ns: list[int] = []
        self.detail["round_ends_ns"] = ends_ns
        for named in ("", self.listener):
            for node in order:
                if node == order[-1]:
                    ctx.sleep(self.straggle_ms / 1000)
                ctx.nodes.reconfigure(node, {NAME: named})
                self.restart(ctx, node, kill=False, down_ms=0)
                self.wait_in_sync(ctx, node, self.in_sync_ms)
                wait_for(
                    ctx,
                    lambda node=node: self._listens(ctx, node),  # type: ignore[misc]
                    timeout_ms=_LISTENS_MS,
                    what=f"broker {node} has a control listener",
                )
            ends_ns.append(ctx.now_ns())
        self.detail["restarts"] = self.done
        if self.then_move is not None:
            states = find_partitions(self.then_move, ctx)
            self.detail["moves"] = move(ctx, states, "next", ctx.rng, self.in_sync_ms)
        self.took_hold = self.done == 2 * len(self.nodes)

    def _listens(self, ctx: Context, node: int) -> bool:
        address = ctx.links.address(node, Link.CONTROL)
        return probe(address, timeout_s=_PROBE_S).failure is None

    def _try_name_first(self, ctx: Context, node: int) -> None:
        says = ctx.nodes.refusal(node, {NAME: self.listener}, without=[Link.CONTROL])
        if NAME not in says:
            raise FaultFailed(f"broker {node} without the listener, for another reason: {says}")
        self.detail["name_first"] = says[-300:]

    def _try_dynamic(self, ctx: Context, node: int) -> None:
        try:
            ctx.admin.set_broker_config(node, NAME, self.listener)
        except FaultFailed as refused:
            if NAME not in str(refused):
                raise
            self.detail["dynamic"] = str(refused)
            return
        raise FaultFailed(f"broker {node} accepted {NAME} as a dynamic config")

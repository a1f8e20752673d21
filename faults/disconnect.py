"""``disconnect``: a broker's machine is taken off the network, and put back with the same address.

Unlike a proxy that is switched off, nobody is told: no reset, no end of stream. Open connections
stall in both directions, new ones find nobody; ZooKeeper expires the session when its time is up.
Back on the network, what was open goes on where it stopped: a broker that was replaced meanwhile
acts on what it still believes, until it learns better.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.probe import probe
from faults.protocol import Capability, Context, Entry, Link
from faults.targets import aim, read_targets

_PROBE_S: Final = 1.0
_SEEN_MS: Final = 10_000
_UNREGISTER_MS: Final = 60_000


class Disconnect(BaseFault):
    """Parameters: target; until_unregistered: inject waits until ZooKeeper has dropped them."""

    name = "disconnect"
    needs = frozenset({Capability.NETWORK_DETACH})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        self.until_unregistered = params.flag("until_unregistered", False)
        params.done()
        self._off: list[int] = []

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, self.targets)
        self.detail |= {"targets": self.targets, "controller": ctx.view.controller()}
        for node in self.nodes:
            self._off.append(node)
            ctx.machines.disconnect(node)
        for node in self.nodes:
            address = ctx.links.address(node, Link.CLIENT, direct=True)

            def gone(address: tuple[str, int] = address) -> bool:
                return probe(address, timeout_s=_PROBE_S).failure is not None

            wait_for(
                ctx,
                gone,
                timeout_ms=_SEEN_MS,
                what=f"broker {node} cannot be reached",
            )
        if self.until_unregistered:
            wait_for(
                ctx,
                lambda: not set(self.nodes) & set(ctx.view.live_brokers()),
                timeout_ms=_UNREGISTER_MS,
                what=f"brokers {self.nodes} are out of /brokers/ids",
            )
        self.took_hold = True

    def undo(self, ctx: Context) -> None:
        while self._off:
            ctx.machines.reconnect(self._off[-1])
            self._off.pop()

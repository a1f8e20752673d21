"""``packet-cut``: no packet passes between a broker and some of its peers, both being alive.

The partition that proxies cannot make: a proxy does not know who dials it, and its cut closes
connections. Here followers, controllers and leaders of one pair stop hearing each other while both
go on with everybody else, ZooKeeper included: the leader's ISR and the controller's idea of who is
alive come apart.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed
from faults.targets import aim, read_targets

_DIAL_S: Final = 1.0
_DIRECTIONS: Final = ("both", "out", "in")


class PacketCut(BaseFault):
    """Parameters: target; peers (targets; default: all others); direction: "out" cuts what the
    target dials, "in" what dials it, "both"."""

    name = "packet-cut"
    needs = frozenset({Capability.PACKET_CUTS})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        self.peers = read_targets(params, "peers", default="all")
        self.direction = params.choice("direction", _DIRECTIONS, "both")
        params.done()
        self._cut: list[tuple[int, int]] = []

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, self.targets)
        peers = [n for n in aim(ctx, self.peers) if n not in self.nodes]
        if not peers:
            raise FaultFailed(f"no peer is left to cut {self.nodes} from")
        self.detail |= {"targets": self.targets, "peers": peers, "direction": self.direction}
        for node in self.nodes:
            for peer in peers:
                if self.direction in ("both", "out"):
                    self._cut_one(ctx, node, peer)
                if self.direction in ("both", "in"):
                    self._cut_one(ctx, peer, node)
        through = [pair for pair in self._cut if ctx.machines.reaches(*pair, timeout_s=_DIAL_S)]
        if through:
            raise FaultFailed(f"these brokers still reach their peers: {through}")
        self.took_hold = True

    def _cut_one(self, ctx: Context, node: int, peer: int) -> None:
        self._cut.append((node, peer))
        ctx.machines.cut(node, peer)

    def undo(self, ctx: Context) -> None:
        while self._cut:
            ctx.machines.mend(*self._cut[-1])
            self._cut.pop()

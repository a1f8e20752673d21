"""``depose-controller``: the active controller is put out of office, and comes back later.

On every kind of cluster, by what makes a node controller there:

    how      with ZooKeeper                          with a quorum of its own (KRaft)
    pause    SIGSTOP past its session                SIGSTOP past the quorum's fetch timeout
    cut      its way to ZooKeeper                    its controller listener: voters and brokers can
                                                     no longer fetch from it or reach it

Inject returns when another node holds the office with a higher controller epoch; from then on the
old one is a zombie: it has whatever it had in mind, and connections, but no mandate. Heal wakes it
or reconnects it. What it does then must change nothing (checkers/succession.py).
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault
from faults.params import Params
from faults.protocol import Capability, Context, Entry, Link
from faults.succession import await_another
from faults.targets import aim

_HOWS: Final = ("pause", "cut")


class DeposeController(BaseFault):
    """Parameters: how ("pause", "cut"); takeover_ms: how long a successor may take."""

    name = "depose-controller"
    needs = frozenset({Capability.LINKS, Capability.PAUSE})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.how = params.choice("how", _HOWS, "pause")
        self.takeover_ms = params.integer("takeover_ms", 45_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        (old,) = aim(ctx, ["controller"])
        old_epoch = ctx.view.controller_epoch()
        self.nodes = [old]
        self.detail |= {"deposed": old, "controller_epoch": old_epoch, "how": self.how}
        started = ctx.now_ns()
        if self.how == "pause":
            self.pause(ctx, old)
        else:
            link = Link.ZOOKEEPER if Capability.ZOOKEEPER in ctx.capabilities else Link.CONTROL
            self.detail["link"] = str(link)
            self.cut(ctx, old, link)

        self.detail |= await_another(ctx, old, old_epoch, timeout_ms=self.takeover_ms)
        self.detail["takeover_ns"] = ctx.now_ns() - started
        self.took_hold = True

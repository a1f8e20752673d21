"""``remove-controller``: an operator removes ``/controller``, and nothing else happens.

Whoever was in office has a living session, all its connections, and nothing under way by which a
refused write could teach it: only its watch of the znode tells it that it was succeeded. Without
that it goes on as the controller that it no longer is, and counts itself as one.
"""

from __future__ import annotations

from faults.base import BaseFault
from faults.params import Params
from faults.protocol import Capability, Context, Entry
from faults.succession import succeed
from faults.targets import aim


class RemoveController(BaseFault):
    """Parameters: takeover_ms: how long a successor may take.

    Took hold: a newer controller is in office, the same broker perhaps. Nothing to heal.
    """

    name = "remove-controller"
    needs = frozenset({Capability.ZOOKEEPER})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.takeover_ms = params.integer("takeover_ms", 45_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, ["controller"])
        self.detail |= {"deposed": self.nodes[0], "controller_epoch": ctx.view.controller_epoch()}
        self.detail |= succeed(ctx, timeout_ms=self.takeover_ms)
        self.took_hold = True

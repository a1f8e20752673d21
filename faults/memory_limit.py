"""``memory-limit``: a broker gets hardly more memory than it uses at the moment.

Page cache goes first, then the kernel kills the broker (SIGKILL, as with kill -9). A broker that
was killed is started again at heal, with the memory that it had.
"""

from __future__ import annotations

from faults.base import BaseFault
from faults.params import Params
from faults.protocol import Capability, Context, Entry
from faults.targets import aim, read_targets


class MemoryLimit(BaseFault):
    """Parameters: target; headroom_kb: how much more than it uses now (default 1024)."""

    name = "memory-limit"
    needs = frozenset({Capability.RESOURCE_LIMITS, Capability.KILL})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        self.headroom_kb = params.integer("headroom_kb", 1024, low=0, high=1 << 30)
        params.done()
        self._limited: list[int] = []

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, self.targets)
        limits = {}
        for node in self.nodes:
            self._limited.append(node)
            limits[node] = ctx.machines.usage(node).memory_bytes + self.headroom_kb * 1024
            ctx.machines.limit_memory(node, limits[node])  # refused when it does not fit
        self.detail |= {"targets": self.targets, "limit_bytes": limits}
        self.took_hold = True

    def undo(self, ctx: Context) -> None:
        killed = []
        while self._limited:
            node = self._limited[-1]
            ctx.machines.limit_memory(node, None)
            if not ctx.nodes.is_running(node):
                killed.append(node)
                ctx.nodes.start(node)
            self._limited.pop()
        if killed:
            self.detail["killed"] = killed

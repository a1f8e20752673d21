"""``cpu-limit``: a broker gets a fraction of a CPU, and is held back when it wants more.

An overloaded or throttled machine: everything in the broker becomes late, in bursts of the
scheduler's period (100 ms). Seen by the count of periods in which it was held back.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.protocol import Capability, Context, Entry
from faults.targets import aim, read_targets

_SEEN_MS: Final = 10_000
_POLL_S: Final = 0.1


class CpuLimit(BaseFault):
    """Parameters: target; cpus (0.01..64)."""

    name = "cpu-limit"
    needs = frozenset({Capability.RESOURCE_LIMITS})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        self.cpus = params.number("cpus", 0.1, low=0.01, high=64.0)
        params.done()
        self._limited: list[int] = []

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, self.targets)
        self.detail |= {"targets": self.targets, "cpus": self.cpus}
        before = {node: ctx.machines.usage(node).throttled_periods for node in self.nodes}
        for node in self.nodes:
            self._limited.append(node)
            ctx.machines.limit_cpus(node, self.cpus)
        for node in self.nodes:

            def held_back(node: int = node) -> bool:
                return ctx.machines.usage(node).throttled_periods > before[node]

            wait_for(
                ctx,
                held_back,
                timeout_ms=_SEEN_MS,
                what=f"broker {node} is held back by {self.cpus} CPUs (does it do anything?)",
                poll_s=_POLL_S,
            )
        self.took_hold = True

    def undo(self, ctx: Context) -> None:
        while self._limited:
            ctx.machines.limit_cpus(self._limited[-1], None)
            self._limited.pop()

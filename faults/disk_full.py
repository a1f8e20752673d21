"""``disk-full``: not a byte is free on the disk of a broker's log directory.

Appends fail with ENOSPC until heal gives the space back. The disk is a bounded one that outlives
kill -9, so that a restart in between meets it as full as it was. A broker that ended over it (Kafka
halts when its last log directory fails) is started again at heal.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed
from faults.targets import aim, read_targets

_FULL_BYTES: Final = 64 * 1024  # a broker that deletes a segment meanwhile frees some


class DiskFull(BaseFault):
    """Parameters: target."""

    name = "disk-full"
    needs = frozenset({Capability.BOUNDED_DISK, Capability.KILL})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        params.done()
        self._full: list[int] = []

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, self.targets)
        taken = {}
        for node in self.nodes:
            self._full.append(node)
            taken[node] = ctx.machines.fill_disk(node)
            free = ctx.machines.disk_free_bytes(node)
            if free > _FULL_BYTES:
                raise FaultFailed(f"the disk of broker {node} still has {free} free bytes")
        self.detail |= {"targets": self.targets, "taken_bytes": taken}
        self.took_hold = True

    def undo(self, ctx: Context) -> None:
        ended = []
        while self._full:
            node = self._full[-1]
            ctx.machines.free_disk(node)
            if not ctx.nodes.is_running(node):
                ended.append(node)
                ctx.nodes.start(node)
            self._full.pop()
        if ended:
            self.detail["ended"] = ended

"""What a fault is given: `faults.protocol.Context` over a running cluster."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from faults.protocol import Admin, Capability, ControlRequests, Frames, Links, Machines, Nodes, View
from harness.cluster.record import Record
from harness.frames.client import NoFrames

_SLICE_S: Final = 0.05


class RunStopping(KeyboardInterrupt):
    """The run is being stopped: whatever a fault was waiting for will not be waited for.

    Kin of KeyboardInterrupt so that no ``except Exception`` on its way keeps the fault going."""


@dataclass(slots=True, kw_only=True)
class ClusterContext:
    """See `faults.protocol.Context`. ``stopping`` turns true on Ctrl-C or a failure."""

    rng: random.Random
    nodes: Nodes
    links: Links
    view: View
    admin: Admin
    control: ControlRequests
    machines: Machines
    frames: Frames = field(default_factory=NoFrames)
    capabilities: frozenset[Capability]
    store: str
    recorder: Record
    gauges: Callable[[int, str], None]
    plane_metrics: Callable[[int, str], None]
    moves: Callable[[str], None]
    stopping: Callable[[], bool]
    clock_ns: Callable[[], int] = time.monotonic_ns

    def now_ns(self) -> int:
        return self.clock_ns()

    def sleep(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            if self.stopping():
                raise RunStopping
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, _SLICE_S))

    def record_gauges(self, node: int, occasion: str) -> None:
        self.gauges(node, occasion)

    def record_plane_metrics(self, node: int, occasion: str) -> None:
        self.plane_metrics(node, occasion)

    def record_moves(self, occasion: str) -> None:
        self.moves(occasion)

    def record(self, kind: str, **fields: Any) -> None:
        self.recorder(kind, **fields)

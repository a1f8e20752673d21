"""Connection floods.

``flood-connections``: a storm: dial, one ApiVersions, reset, over and over; loads the acceptor and
the processors' registration of new connections.
``hold-connections``: many idle connections; costs file descriptors, and places under
``max.connections``, of which the control listener's connections are counted too.
"""

from __future__ import annotations

from typing import Any

from faults.flood.base import Flood
from faults.flood.launch import FloodWorker
from faults.protocol import Context


class ConnectionStorm(Flood):
    """``connections`` is how many are being dialled at once."""

    name = "flood-connections"
    default_connections = 32

    def workload(self, ctx: Context, node: int) -> dict[str, Any]:
        return {"mode": "storm"}


class HeldConnections(Flood):
    """``connections`` are held open until healed."""

    name = "hold-connections"
    default_connections = 500

    def workload(self, ctx: Context, node: int) -> dict[str, Any]:
        return {"mode": "hold"}

    def _held(self, worker: FloodWorker) -> bool:
        return worker.connections >= worker.spec.connections

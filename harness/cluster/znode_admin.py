"""An administrator of old: orders for releases before 2.4, which take them from znodes only.

    /admin/reassign_partitions           reassignments (until KIP-455); gone when all are done
    /admin/preferred_replica_election    elections (until KIP-460); gone when it was begun

One order of a kind at a time: the controller looks at a znode when it is made, and removes it.
Everything else is asked by request, as later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError

from faults.protocol import FaultFailed, Links
from harness.cluster import state
from harness.cluster.admin import ClusterAdmin
from harness.cluster.layout import CHROOT
from harness.cluster.record import Record
from harness.cluster.view import StateView

_ELECTION: Final = "/admin/preferred_replica_election"


class ZnodeAdmin(ClusterAdmin):
    """Implements `faults.protocol.Admin`. Thread-safe."""

    def __init__(
        self, view: StateView, links: Links, zookeeper: KazooClient, record: Record | None = None
    ) -> None:
        super().__init__(view, links, zookeeper, record)
        self._client = zookeeper

    def elect_preferred(self, partitions: Sequence[tuple[str, int]]) -> None:
        """Returns once the controller has taken the order; what came of it is in the state."""
        rows = [{"topic": topic, "partition": partition} for topic, partition in partitions]
        self._order("electing preferred leaders", _ELECTION, rows)

    def reassign(self, assignment: Mapping[tuple[str, int], Sequence[int]]) -> None:
        """Returns once the new replicas are committed and nothing is being moved any more."""
        self.begin_reassign(assignment)
        wanted = {key: tuple(replicas) for key, replicas in assignment.items()}
        self._await("the reassignment to finish", lambda: self._reassigned(wanted))

    def begin_reassign(self, assignment: Mapping[tuple[str, int], Sequence[int] | None]) -> None:
        """Nothing can be called off here (KIP-455 came with a request of its own)."""
        rows = []
        for (topic, partition), replicas in assignment.items():
            if replicas is None:
                raise FaultFailed(f"calling off a move of {topic}-{partition}: not by a znode")
            rows.append({"topic": topic, "partition": partition, "replicas": list(replicas)})
        self._order("reassigning partitions", state.REASSIGN_PARTITIONS, rows)

    def _order(self, what: str, path: str, rows: list[dict[str, Any]]) -> None:
        data = json.dumps({"version": 1, "partitions": rows}).encode()
        made = False

        def order() -> bool:
            nonlocal made
            try:
                if not made:
                    self._client.create(CHROOT + path, data, makepath=True)
                    made = True
                return self._client.exists(CHROOT + path) is None
            except NodeExistsError:
                return False  # another's: wait for its end
            except KazooException as e:
                raise FaultFailed(f"{what}: {e!r}") from e

        self._await(f"{what} by {path}", order)

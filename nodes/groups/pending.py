"""Member ids that were given out and have not come back yet (MEMBER_ID_REQUIRED, KIP-394).

Such an id is remembered for the session that its client asked for, which may be half an hour, and
costs that client nothing; often its group exists for it alone. So all of them together are bounded
as well, by `PENDING_BYTES`: beyond it the oldest are forgotten. Who comes back with a forgotten id
is answered UNKNOWN_MEMBER_ID and joins anew, as after any expiry. (Kafka bounds them by time.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from nodes.groups.group import Group
from nodes.groups.timer import Task

PENDING_BYTES: Final = 16 * 1024 * 1024
"""Some 8,000 ids of usual length, which come back within milliseconds."""

_OVERHEAD_BYTES: Final = 2048
"""Of one such id, besides its letters: its timer and callback, and a group of its own."""


class _Pending(NamedTuple):
    group: Group
    expiry: Task
    size_bytes: int


class PendingIds:
    """Guarded by the coordinator's lock. `forget` is called for who has to go before its time, and
    is to call `end`."""

    def __init__(self, forget: Callable[[Group, str], None]) -> None:
        self._forget = forget
        self._ids: dict[str, _Pending] = {}
        """The oldest first."""
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._ids)

    def begin(self, group: Group, member_id: str, expiry: Task) -> None:
        """`expiry` is what forgets the id in its own time."""
        size_bytes = len(member_id) + len(group.group_id) + _OVERHEAD_BYTES
        group.pending_joins.add(member_id)
        self._ids[member_id] = _Pending(group, expiry, size_bytes)
        self.size_bytes += size_bytes
        while self.size_bytes > PENDING_BYTES:
            oldest_id, oldest = next(iter(self._ids.items()))
            self._forget(oldest.group, oldest_id)

    def end(self, group: Group, member_id: str) -> None:
        """The id has come back, or is not to. Nothing happens for an id of another group."""
        group.pending_joins.discard(member_id)
        pending = self._ids.get(member_id)
        if pending is not None and pending.group is group:
            del self._ids[member_id]
            pending.expiry.cancel()
            self.size_bytes -= pending.size_bytes

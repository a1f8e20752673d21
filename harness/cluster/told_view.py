"""The cluster's state as a black box tells it: nothing is asked but Metadata, of every broker.

What brokers agree upon counts: the controller that most of them name, the members that most of them
list. Of a partition the newest leader epoch counts, as in `QuorumView`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from harness.cluster.errors import StateUnreadable
from harness.cluster.quorum_view import QuorumView


class ToldView(QuorumView):
    """``brokers``: each node's client listener, past its proxy. ``fixed_members``: they list all
    nodes, whoever lives; then who answers is a member. Thread-safe."""

    def __init__(
        self, brokers: Mapping[int, tuple[str, int]], *, fixed_members: bool = False
    ) -> None:
        super().__init__(brokers, {})
        self._fixed: Final = fixed_members

    def live_brokers(self) -> Sequence[int]:
        return sorted(self._metadata([])) if self._fixed else super().live_brokers()

    def _quorum(self) -> tuple[int, int] | None:
        """Nobody tells an epoch. Where nobody answers, nobody is known to be in office."""
        try:
            answers = self._metadata([]).values()
        except StateUnreadable:
            return None
        named = Counter(int(a.controller_id) for a in answers if int(a.controller_id) >= 0)
        return (named.most_common(1)[0][0], 0) if named else None

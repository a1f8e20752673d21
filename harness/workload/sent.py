"""Whether librdkafka sent anything of a partition while one of its records waited.

It keeps records back for as long as it knows no leader, or is not connected; and one that has got
stuck sends nothing any more. What it then says of a record (``_MSG_TIMED_OUT``) is the same as of
one that its broker left unanswered. Its statistics tell the two apart: how many records of each
partition it has put into requests (``txmsgs``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from checkers.history.schema import SENT

EVERY_MS: Final = 1_000


class Sent:
    """Owned by the thread that polls the client, which calls `told`."""

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._counts: dict[tuple[str, int], int] = {}
        self._grew_ns: dict[tuple[str, int], int] = {}
        """Since when, at the earliest, it last sent some of a partition."""
        self._told_ns = -1

    def told(self, statistics: str) -> None:
        """``statistics``: librdkafka's, as JSON (its STATISTICS.md)."""
        now_ns = self._now_ns()
        topics: Mapping[str, Any] = json.loads(statistics).get("topics", {})
        for topic, of in topics.items():
            for partition, facts in of.get("partitions", {}).items():
                at = (topic, int(partition))
                if facts["txmsgs"] > self._counts.get(at, 0):
                    self._counts[at], self._grew_ns[at] = facts["txmsgs"], self._told_ns
        self._told_ns = now_ns

    def failure(self, name: str, topic: str, partition: int, invoke_t: int) -> str:
        """``name``: what the client calls what came of a record that it took at ``invoke_t`` (ns);
        with `SENT` when some of that partition was certainly sent since."""
        sent = self._grew_ns.get((topic, partition), -1) >= invoke_t
        return f"{name}{SENT}" if sent else name

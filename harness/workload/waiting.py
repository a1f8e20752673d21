"""For which partitions a librdkafka consumer waits that it was given nothing of.

It may have asked nobody: it has no connection, knows no leader, or has got stuck. What it is not
given then is no broker's doing, and a poll that gives nothing says the same of both. Its statistics
tell them apart: in which state each partition's fetcher is, at which broker, and how many requests
of each kind that broker was sent, or has yet to answer.

Rows: ``waiting``, one a partition and `EVERY_MS`, and none where anything was given meanwhile.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from harness.workload.recorder import LiveRecorder

EVERY_MS: Final = 500
_ASKS: Final[Mapping[str, str]] = {
    "active": "Fetch",
    "offset-query": "ListOffsets",
    "offset-wait": "ListOffsets",
    "validate-epoch-wait": "OffsetForLeaderEpoch",
}
"""By a fetcher's state what it asks its broker for (librdkafka's ``fetch_state``)."""


class Waiting:
    """Owned by the thread that polls the client, which calls `told`, too."""

    def __init__(
        self, recorder: LiveRecorder, now_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._recorder, self._now_ns = recorder, now_ns
        self._given: set[tuple[str | None, int | None]] = set()
        self._sent: Mapping[tuple[int, str], int] = {}
        self._told_ns: int | None = None

    def given(self, topic: str | None, partition: int | None) -> None:
        """A record of it, now."""
        self._given.add((topic, partition))

    def told(self, statistics: str) -> None:
        """``statistics``: librdkafka's, as JSON (its STATISTICS.md)."""
        now_ns, facts = self._now_ns(), json.loads(statistics)
        sent: Counter[tuple[int, str]] = Counter()
        unanswered: Counter[int] = Counter()
        for broker in facts.get("brokers", {}).values():
            unanswered[broker["nodeid"]] += broker["waitresp_cnt"]
            for api, count in broker.get("req", {}).items():
                sent[broker["nodeid"], api] += count
        for topic, of in facts.get("topics", {}).items():
            for number, partition in of.get("partitions", {}).items():
                api, node = _ASKS.get(partition["fetch_state"]), partition["broker"]
                if api is None or node < 0 or (topic, int(number)) in self._given:
                    continue
                asked = unanswered[node] or sent[node, api] > self._sent.get((node, api), 0)
                if asked and self._told_ns is not None:
                    self._recorder.event(
                        "waiting",
                        topic=topic,
                        partition=int(number),
                        node=node,
                        from_t=self._told_ns,
                        t=now_ns,
                    )
        self._given.clear()
        self._sent, self._told_ns = sent, now_ns

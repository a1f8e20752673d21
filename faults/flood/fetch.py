"""``flood-fetch``: every connection reads a topic from its start, again and again.

With ``min_bytes`` above what there is to be had the requests wait in the broker's purgatory
instead, where each append to one of their partitions looks at them.
"""

from __future__ import annotations

from typing import Any

from faults.flood.base import Flood
from faults.params import Params
from faults.protocol import Context


class FetchFlood(Flood):
    """Parameters beyond `Flood`'s: topic (default: one of its own, empty: costs a request each, no
    bytes), partitions a request, fetch_bytes a partition; min_bytes, max_wait_ms of a request."""

    name = "flood-fetch"

    def read(self, params: Params) -> None:
        self.topic = params.optional_text("topic")
        self.partitions = params.integer("partitions", 8, low=1, high=1000)
        self.fetch_bytes = params.integer("fetch_bytes", 65_536, low=1, high=1 << 26)
        self.min_bytes = params.integer("min_bytes", 0)
        self.max_wait_ms = params.integer("max_wait_ms", 0, high=10_000)

    def workload(self, ctx: Context, node: int) -> dict[str, Any]:
        if self.topic is None:
            topic = self.own_topic(ctx, node, self.partitions)
            partitions = tuple(range(self.partitions))
        else:
            topic = self.topic
            partitions = self.led_partitions(ctx, topic, node)[: self.partitions]
        return {
            "request": "fetch",
            "topic": topic,
            "partitions": partitions,
            "partitions_per_request": len(partitions),
            "record_bytes": self.fetch_bytes,
            "min_bytes": self.min_bytes,
            "max_wait_ms": self.max_wait_ms,
        }

"""``flood-fetch``: every connection reads a topic from its start, again and again."""

from __future__ import annotations

from typing import Any

from faults.flood.base import Flood
from faults.params import Params
from faults.protocol import Context


class FetchFlood(Flood):
    """Parameters beyond `Flood`'s: topic (default: one of its own, empty: costs a request each, no
    bytes), partitions a request, fetch_bytes a partition."""

    name = "flood-fetch"

    def read(self, params: Params) -> None:
        self.topic = params.optional_text("topic")
        self.partitions = params.integer("partitions", 8, low=1, high=1000)
        self.fetch_bytes = params.integer("fetch_bytes", 65_536, low=1, high=1 << 26)

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
        }

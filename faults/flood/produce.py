"""Produce floods.

``flood-produce``: many small requests, one record to one partition each.
``flood-heavy-produce``: few costly ones, a record to each of 20 partitions. This is the one that
fills the request queue (KIP-291's own case): wait = queued requests / service rate, so it takes
more connections than ``queued.max.requests`` *and* costly requests. With acks=all and replicas
elsewhere requests wait in purgatory instead, and the queue stays short.
"""

from __future__ import annotations

from typing import Any, ClassVar

from faults.flood.base import Flood
from faults.params import Params
from faults.protocol import Context

_ACKS = {"0": 0, "1": 1, "all": -1}


class ProduceFlood(Flood):
    """Parameters beyond `Flood`'s: record_bytes, acks ("0", "1", "all"), partitions of its own
    topic, or topic: an existing one, of which it takes the partitions that the target leads."""

    name = "flood-produce"
    default_connections = 64
    default_partitions: ClassVar[int] = 8
    heavy: ClassVar[bool] = False

    def read(self, params: Params) -> None:
        self.record_bytes = params.integer("record_bytes", 1024, low=1, high=900_000)
        self.acks = _ACKS[params.choice("acks", _ACKS, "1")]
        self.partitions = params.integer("partitions", self.default_partitions, low=1, high=1000)
        self.topic = params.optional_text("topic")

    def workload(self, ctx: Context, node: int) -> dict[str, Any]:
        if self.topic is None:
            topic = self.own_topic(ctx, node, self.partitions)
            partitions = tuple(range(self.partitions))
        else:
            topic = self.topic
            self.detail["writes_to"] = topic
            partitions = self.led_partitions(ctx, topic, node)[: self.partitions]
        return {
            "request": "produce",
            "topic": topic,
            "partitions": partitions,
            "partitions_per_request": len(partitions) if self.heavy else 1,
            "record_bytes": self.record_bytes,
            "acks": self.acks,
        }


class HeavyProduceFlood(ProduceFlood):
    """As `ProduceFlood`, every request to all partitions at once, from 640 connections."""

    name = "flood-heavy-produce"
    default_connections = 640
    default_partitions = 20
    heavy = True
    fills_queue = True

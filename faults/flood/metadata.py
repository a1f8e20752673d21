"""``flood-metadata``: every connection asks for the metadata of all topics, again and again."""

from __future__ import annotations

from typing import Any

from faults.flood.base import Flood
from faults.params import Params
from faults.protocol import Context


class MetadataFlood(Flood):
    """Parameters beyond `Flood`'s: topic (default: all topics)."""

    name = "flood-metadata"

    def read(self, params: Params) -> None:
        self.topic = params.optional_text("topic")

    def workload(self, ctx: Context, node: int) -> dict[str, Any]:
        return {"request": "metadata", "topic": self.topic or ""}

"""What one flood worker is to do, as data (JSON)."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MODES: Final = ("request", "storm", "hold")
REQUESTS: Final = ("produce", "metadata", "fetch", "api-versions")


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodSpec:
    """One worker: one target broker.

    mode: ``request``: each connection has one request in flight for as long as the flood lasts;
    ``storm``: each slot dials, asks ApiVersions and closes, over and over; ``hold``: the
    connections are kept open and idle.
    """

    id: str  # the plan entry's
    process: str  # name in the history
    output: str  # live JSONL file
    node: int
    host: str
    port: int
    mode: str
    connections: int
    duration_ms: int  # it ends by itself after this
    max_requests: int
    start_wait_ms: int = 600_000  # how long it waits, connected, for the word to begin
    interval_ms: int = 250
    request: str = "api-versions"
    topic: str = ""
    partitions: tuple[int, ...] = ()
    partitions_per_request: int = 1
    record_bytes: int = 1024
    acks: int = 1
    timeout_ms: int = 30_000
    min_bytes: int = 0  # of a fetch: less is answered only when max_wait_ms are over
    max_wait_ms: int = 0
    seed: int = 0

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(dataclasses.asdict(self), indent=2))

    @classmethod
    def load(cls, path: Path) -> FloodSpec:
        data = json.loads(path.read_text())
        data["partitions"] = tuple(data["partitions"])
        return cls(**data)

"""What the broker's own trace says of the probes."""

from __future__ import annotations

from pathlib import Path

import orjson

from benchmarks.control_latency import inside
from benchmarks.one_broker import OneBroker

MS = 1_000_000


def broker(folder: Path, *rows: dict[str, object]) -> OneBroker:
    (folder / "trace.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return OneBroker(1, 2, 3, -1, 0, folder)


def request(receive_ms: int, took_ms: int, **more: object) -> dict[str, object]:
    start = receive_ms * MS
    stages = {"receive_t": start, "dequeue_t": start + MS, "handled_t": start + 3 * MS}
    row = {"f": "control_request", "client_id": "bench", "t": start + took_ms * MS, **stages}
    return {**row, **more}


def test_stages_are_told_of_the_probes_since_then(tmp_path: Path) -> None:
    found = inside(
        broker(
            tmp_path,
            request(5, 900),  # of another state
            request(100, 10),
            request(110, 20),
            request(120, 800, client_id="1"),  # a controller's
            {"f": "metadata_update", "t": 1},
        ),
        50 * MS,
    )
    assert found == "in the broker p99  20.00 ms (queue 1.00, handler 2.00, answer 17.00)"


def test_of_no_probe_nothing_is_said(tmp_path: Path) -> None:
    assert inside(broker(tmp_path, request(5, 9)), 50 * MS) == ""

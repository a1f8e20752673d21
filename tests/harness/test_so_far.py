"""What is told of a trial while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from harness.so_far import MOST_BYTES, SoFar


def add(path: Path, *rows: dict[str, Any], torn: bytes = b"") -> None:
    with path.open("ab") as file:
        file.write(b"".join(orjson.dumps(row) + b"\n" for row in rows) + torn)


def produced(*kinds: str) -> list[dict[str, Any]]:
    return [{"f": "produce", "process": "p", "type": kind, "t": 1} for kind in kinds]


def probed(late_ms: float, kind: str = "ok") -> dict[str, Any]:
    return {"f": "probe", "type": kind, "planned_t": 5, "t": 5 + int(late_ms * 1e6)}


def test_what_is_acknowledged_a_second_and_how_late_probes_are(tmp_path: Path) -> None:
    so_far = SoFar(tmp_path)
    assert so_far.words(0.0) == []
    add(tmp_path / "producer-all.jsonl", *produced("invoke", "ok", "ok"), torn=b'{"f":"prod')
    add(tmp_path / "direct-producer.jsonl", *produced("ok", "info", "fail"))
    add(tmp_path / "consumer.jsonl", *produced("ok"))
    assert so_far.words(0.9) == [], "it looked a moment ago"
    assert so_far.words(2.0) == ["2 records/s"]
    with (tmp_path / "producer-all.jsonl").open("ab") as file:
        file.write(b'uce","type":"ok"}\n')
    add(tmp_path / "prober.jsonl", *(probed(2.0) for _ in range(98)))
    add(
        tmp_path / "prober.jsonl",
        {**probed(0.0), "type": "invoke"},
        probed(9.0),
        probed(30, "fail"),
    )
    assert so_far.words(3.0) == ["1 records/s", "control p99 9 ms"]
    assert so_far.words(4.0) == ["0 records/s", "control p99 9 ms"]


def test_a_file_that_grows_faster_than_it_is_read(tmp_path: Path) -> None:
    so_far = SoFar(tmp_path)
    so_far.words(0.0)
    long = {"f": "probe", "type": "ok", "planned_t": 0, "t": 1_000_000, "x": "x" * 1000}
    add(tmp_path / "prober.jsonl", *[long] * (MOST_BYTES // 1000 * 2))
    assert "control p99 1 ms" in so_far.words(1.0)
    add(tmp_path / "prober.jsonl", *[{**long, "t": 7_000_000}] * 9000)
    assert "control p99 7 ms" in so_far.words(2.0)

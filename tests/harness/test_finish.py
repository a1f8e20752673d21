"""Finishing loses nothing in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from harness.history import FinishReport, finish_trial


def produce(kind: str, op: int, t: int, **more: Any) -> dict[str, Any]:
    row = {"f": "produce", "t": t, "process": "p", "type": kind, "op": op, "topic": "t"}
    return {**row, "partition": 0, "value": op, "acks": 1, **more}


def finish(tmp_path: Path, *lines: dict[str, Any] | str) -> tuple[FinishReport, Path]:
    live = tmp_path / "live"
    live.mkdir()
    text = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines)
    (live / "p.jsonl").write_text(text)
    out = tmp_path / "history"
    return finish_trial(live, out, arm="a-single", trial=3, end_t=1_000), out


def stored(out: Path, kind: str) -> list[dict[str, Any]]:
    parts = sorted((out / f"f={kind}" / "arm=a-single" / "trial=3").glob("*.parquet"))
    return [row for part in parts for row in pq.ParquetFile(part).read().to_pylist()]


def test_a_completed_operation_is_one_row_with_its_invocation_time(tmp_path: Path) -> None:
    report, out = finish(tmp_path, produce("invoke", 1, 10), produce("ok", 1, 20), "")
    rows = stored(out, "produce")
    assert [(r["type"], r["invoke_t"], r["t"]) for r in rows] == [("ok", 10, 20)]
    assert (report.rows["produce"], report.orphans, report.rejected) == (1, 0, 0)


def test_an_operation_that_nobody_completed_is_info(tmp_path: Path) -> None:
    report, out = finish(tmp_path, produce("invoke", 1, 10), "")
    (row,) = stored(out, "produce")
    assert (row["type"], row["invoke_t"], row["t"]) == ("info", 10, 1_000)
    assert row["value"] == 1
    assert report.orphans == 1


def test_several_rows_may_complete_one_poll(tmp_path: Path) -> None:
    base = {"f": "fetch", "process": "c", "op": 9, "poll": 9, "topic": "t", "partition": 0}
    rows = [
        {**base, "type": "invoke", "t": 1},
        {**base, "type": "ok", "t": 5, "invoke_t": 1, "offset": 0, "value": 7},
        {**base, "type": "ok", "t": 5, "invoke_t": 1, "offset": 1, "value": 8},
    ]
    report, out = finish(tmp_path, *rows, "")
    assert [r["offset"] for r in stored(out, "fetch")] == [0, 1]
    assert report.orphans == 0


def test_a_torn_last_line_is_counted_and_the_rest_kept(tmp_path: Path) -> None:
    report, out = finish(tmp_path, produce("ok", 1, 20, invoke_t=1), '{"f":"prod')
    assert len(stored(out, "produce")) == 1
    assert (report.torn_lines, report.rejected) == (1, 0)


def test_what_does_not_fit_is_kept_aside_with_the_reason(tmp_path: Path) -> None:
    report, out = finish(
        tmp_path,
        "not json at all",
        {"f": "nonsense", "t": 1, "process": "p"},
        produce("ok", 1, 20, invoke_t=1, colour="red"),
        produce("ok", 2, 20, invoke_t=1, offset="ten"),
        produce("ok", 3, 20, invoke_t=1, partition=2**40),
        {"f": "phase", "process": "p", "name": "chaos", "event": "begin"},
        produce("ok", 4, 20, invoke_t=1),
        "",
    )
    assert [r["op"] for r in stored(out, "produce")] == [4]
    assert report.rejected == 6
    rejected = [json.loads(x) for x in (tmp_path / "rejected.jsonl").read_text().splitlines()]
    assert len(rejected) == 6
    reasons = " | ".join(entry["why"] for entry in rejected)
    for part in ("not JSON", "unknown kind 'nonsense'", "'colour'", "'offset'", "'t'"):
        assert part in reasons


def test_finishing_again_gives_the_same_tables(tmp_path: Path) -> None:
    _, out = finish(tmp_path, produce("invoke", 1, 10), produce("ok", 1, 20), "")
    before = stored(out, "produce")
    finish_trial(tmp_path / "live", out, arm="a-single", trial=3, end_t=1_000)
    assert stored(out, "produce") == before

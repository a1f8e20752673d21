"""What the controller's metrics said of its queues, as the trace has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkers.history import problem_with
from nodes.channel_metrics import SIZE, TIME, ChannelMetrics
from nodes.metrics import Metrics
from nodes.trace import Trace
from tests.jsonl import whole_rows


def told(path: Path) -> list[dict[str, Any]]:
    return [row for row in whole_rows(path) if row["f"] == "channel_queue"]


def test_each_channel_is_read_by_its_mbeans(tmp_path: Path) -> None:
    metrics, trace = Metrics(), Trace(tmp_path / "trace.jsonl", node=1)
    times = iter(range(100, 200))
    look = ChannelMetrics(metrics, trace, lambda: next(times))
    metrics.gauge(SIZE.replace("QueueSize,broker-id=", "TotalQueueSize"), lambda: 7)
    look.tell()
    for broker, size in ((2, 7), (10, 0)):
        metrics.gauge(f"{SIZE}{broker}", lambda size=size: size)  # type: ignore[misc]
        metrics.timer(f"{TIME}{broker}")
    for queued_ms in (40.0, *range(1, 1025), 1024.0, 1500.5):
        metrics.timer(f"{TIME}2").update(queued_ms)
    look.tell()
    metrics.remove(f"{TIME}2")  # a channel that is ending
    look.tell()
    trace.close()
    rows = told(tmp_path / "trace.jsonl")
    assert all(problem_with(row) is None for row in rows)
    assert [(r["to"], r["from_t"], r["t"], r["size"], r["taken"]) for r in rows] == [
        (10, 100, 101, 0, 0),
        (2, 102, 103, 7, 1027),
        (10, 104, 105, 0, 0),
    ]
    assert (rows[1]["queue_time_p99_us"], rows[1]["queue_time_max_us"]) == (1_016_000, 1_500_500)


def test_all_of_the_reading_lies_between_the_two_times(tmp_path: Path) -> None:
    """Who judges counts what was queued and taken by then: a size or a count that was read before
    the first time, or after the second, would be held against other requests."""
    trace = Trace(tmp_path / "trace.jsonl", node=1)
    times = iter(range(100, 200))
    read: list[int] = []

    class Read(Metrics):
        def attributes(self, mbean: str) -> dict[str, float]:
            read.append(next(times))
            return super().attributes(mbean)

    metrics = Read()
    metrics.gauge(f"{SIZE}2", lambda: 1)
    metrics.timer(f"{TIME}2")
    ChannelMetrics(metrics, trace, lambda: next(times)).tell()
    trace.close()
    (row,) = told(tmp_path / "trace.jsonl")
    assert len(read) == 2
    assert row["from_t"] < min(read) <= max(read) < row["t"]


def test_one_mbean_has_the_attributes_that_all_have() -> None:
    metrics = Metrics()
    metrics.gauge("a:name=G", lambda: 3)
    metrics.counter("a:name=C").mark(4)
    metrics.meter("a:name=PerSec").mark(2)
    metrics.timer("a:name=TimeMs").update(5.0)
    metrics.histogram("a:name=H").update(6.0)
    everything = metrics.by_mbean()
    for mbean, attributes in everything.items():
        assert metrics.attributes(mbean).keys() == attributes.keys()
    assert metrics.attributes("a:name=TimeMs")["Max"] == 5.0
    assert metrics.attributes("a:name=nothing") == {}
    assert metrics.names("a:") == ["a:name=G"]

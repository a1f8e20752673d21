"""What goes of a log, when, and what is said about it; and when a segment is full."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from checkers import history
from nodes.core.errors import ApiError, Errors
from nodes.log import Log, LogConfig, LogManager
from nodes.log.retention import SIZE, START_OFFSET, TIME, LogState, expired
from nodes.logs import start_tracer
from nodes.trace import Trace
from tests.jsonl import whole_rows
from tests.nodes.log.logs import NOW_MS, TP, batch, contents, files, keyed, open_log

DAY_MS = 24 * 3600 * 1000
NO_TIMESTAMP = -1


@dataclass(frozen=True)
class Held:
    base_offset: int
    size_bytes: int = 100
    largest_timestamp_ms: int = 0


#: Offsets 0..39 in four segments, the last one active, of ages 40 to 10.
FOUR = [Held(base, largest_timestamp_ms=base) for base in (0, 10, 20, 30)]
STATE = LogState(log_start_offset=0, log_end_offset=40, high_watermark=40)


@pytest.mark.parametrize(
    ("config", "now_ms", "says"),
    [
        (LogConfig(retention_ms=-1), 10**9, (0, "")),
        (LogConfig(retention_ms=25), 45, (2, TIME)),
        (LogConfig(retention_ms=25), 50, (3, TIME)),
        (LogConfig(retention_ms=0), 31, (4, TIME)),
        (LogConfig(retention_ms=-1, retention_bytes=400), 0, (0, "")),
        (LogConfig(retention_ms=-1, retention_bytes=301), 0, (0, "")),
        (LogConfig(retention_ms=-1, retention_bytes=300), 0, (1, SIZE)),
        (LogConfig(retention_ms=-1, retention_bytes=0), 0, (4, SIZE)),
        (LogConfig(retention_ms=0, retention_bytes=300), 31, (1, SIZE)),
        (LogConfig(retention_ms=0, retention_bytes=0, cleanup_policy="compact"), 99, (0, "")),
        (LogConfig(retention_ms=25, cleanup_policy="compact,delete"), 45, (2, TIME)),
    ],
)
def test_what_expires(config: LogConfig, now_ms: int, says: tuple[int, str]) -> None:
    assert expired(FOUR, STATE, config, now_ms) == says


@pytest.mark.parametrize("high_watermark", range(0, 41, 5))
def test_nothing_above_the_high_watermark_goes(high_watermark: int) -> None:
    state = STATE._replace(high_watermark=high_watermark)
    for config in (LogConfig(retention_ms=0), LogConfig(retention_ms=-1, retention_bytes=0)):
        assert expired(FOUR, state, config, 10**9)[0] == high_watermark // 10


def test_an_empty_active_segment_stays() -> None:
    segments = [*FOUR[:3], Held(30, size_bytes=0)]
    state = LogState(0, 30, 30)
    assert expired(segments, state, LogConfig(retention_ms=0), 10**9) == (3, TIME)
    assert expired(segments[3:], state, LogConfig(retention_ms=0), 10**9) == (0, "")


@pytest.mark.parametrize(("start", "count"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (40, 3)])
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_what_the_start_offset_leaves_behind(start: int, count: int, policy: str) -> None:
    config = LogConfig(retention_ms=-1, cleanup_policy=policy)
    state = STATE._replace(log_start_offset=start)
    assert expired(FOUR, state, config, 0) == (count, START_OFFSET if count else "")


def filled(directory: Path, timestamp_ms: int, **settings: object) -> Log:
    log = open_log(directory, segment_bytes=300, **settings)
    for number in range(20):
        log.append_as_leader(batch(b"x" * 40, timestamp_ms=timestamp_ms), number)
    return log


def test_retention_by_size(tmp_path: Path) -> None:
    log = filled(tmp_path, NOW_MS, retention_bytes=700)
    assert log.delete_old_segments(0, NOW_MS) == 0
    assert log.delete_old_segments(20, NOW_MS) > 0
    assert 700 <= log.size_bytes < 1000
    assert log.log_start_offset == files(log.dir, ".log")[0] > 0
    assert log.epoch_entries[0] == (log.log_start_offset, log.log_start_offset)
    with pytest.raises(ApiError) as refused:
        log.read(0, 1)
    assert refused.value.error is Errors.OFFSET_OUT_OF_RANGE
    assert len(contents(log)) == 20 - log.log_start_offset


def test_retention_by_time_takes_the_active_segment_too(tmp_path: Path) -> None:
    log = filled(tmp_path, NOW_MS, retention_ms=DAY_MS)
    assert log.delete_old_segments(20, NOW_MS + DAY_MS) == 0
    assert log.delete_old_segments(20, NOW_MS + DAY_MS + 1) > 1
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (20, 20, 0)
    assert files(log.dir, ".log") == files(log.dir, ".snapshot") == [20]
    assert log.append_as_leader(batch(b"x"), 20).first_offset == 20


def test_records_without_a_timestamp_are_as_old_as_their_file(tmp_path: Path) -> None:
    """Not as old as the world: they would go with the first look."""
    log = filled(tmp_path, NO_TIMESTAMP, retention_ms=DAY_MS)
    written_ms = max(p.stat().st_mtime_ns for p in log.dir.glob("*.log")) // 10**6
    assert log.delete_old_segments(20, written_ms) == 0
    assert len(contents(log)) == 20
    old = sorted(log.dir.glob("*.log"))[:2]
    for path in old:
        os.utime(path, ns=(0, (written_ms - DAY_MS - 1) * 10**6))
    assert log.delete_old_segments(20, written_ms) == 2
    assert not any(path.exists() for path in old)


def test_a_restart_makes_no_segment_younger(tmp_path: Path) -> None:
    log = filled(tmp_path, NO_TIMESTAMP, retention_ms=DAY_MS)
    log.close()
    for path in log.dir.glob("*.log"):
        os.utime(path, ns=(0, 10**9))
    for clean in (True, False):
        again = open_log(tmp_path, clean=clean, retention_ms=DAY_MS)
        assert {p.stat().st_mtime_ns for p in log.dir.glob("*.log")} == {10**9}
    assert again.delete_old_segments(20, NOW_MS) > 1
    assert again.log_start_offset == 20


def test_the_start_moves_now_and_its_segments_go_later(tmp_path: Path) -> None:
    log = filled(tmp_path, NOW_MS)
    log.update_config(LogConfig(cleanup_policy="compact", retention_ms=0))
    before = files(log.dir, ".log")
    assert log.advance_log_start_offset(before[2] + 1, "test")
    assert files(log.dir, ".log") == before
    assert log.delete_old_segments(20, NOW_MS) == 2
    assert files(log.dir, ".log") == before[2:]
    assert files(log.dir, ".snapshot")[0] >= before[2]
    assert log.log_start_offset == before[2] + 1


def test_every_move_of_the_start_is_said_and_traced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trace = Trace(tmp_path / "trace.jsonl", node=1)
    logs = LogManager(
        [tmp_path / "logs"],
        LogConfig(segment_bytes=300, retention_ms=DAY_MS),
        now_ms=lambda: NOW_MS + 2 * DAY_MS,
        broker_id=1,
        on_start_moved=start_tracer(trace),
    )
    logs.load()
    log = logs.get_or_create(TP, None, None)
    for _ in range(20):
        log.append_as_leader(batch(b"x" * 40), 7)
    with caplog.at_level(logging.INFO, "kafka.log.UnifiedLog"):
        log.advance_log_start_offset(5, "client delete records request")
        assert logs.cleanup(lambda tp: 20) > 1
    trace.close()
    rows = whole_rows(tmp_path / "trace.jsonl")
    assert [(r["to_offset"], r["from_offset"], r["reason"]) for r in rows] == [
        (0, 5, "log start: client delete records request"),
        (5, 20, f"log start: segment deletion ({TIME})"),
    ]
    fields = {*history.KINDS["truncation"].all_columns, "f"}
    for row in rows:
        assert (row["f"], row["leader_epoch"], row["topic"]) == ("truncation", 7, "t")
        assert row.keys() <= fields
    assert "Incremented log start offset to 5 due to client delete records" in caplog.text
    assert f"deleting segment 0 due to {START_OFFSET}" in caplog.text


class TestRolling:
    """By size it is tested everywhere; here by time (segment.ms)."""

    def test_by_the_time_of_records(self, tmp_path: Path) -> None:
        log = open_log(tmp_path, segment_ms=1000)
        for timestamp_ms in (5000, 4000, 6000, 6001, 7000, 7002):
            log.append_as_leader(batch(b"x", timestamp_ms=timestamp_ms), 0)
        assert files(log.dir, ".log") == [0, 3, 5]

    def test_by_the_clock_where_records_have_no_time(self, tmp_path: Path) -> None:
        now = [NOW_MS]
        log = open_log(tmp_path, segment_ms=1000, now_ms=lambda: now[0])
        for now[0] in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001, NOW_MS + 1002):
            log.append_as_leader(batch(b"x", timestamp_ms=NO_TIMESTAMP), 0)
        assert files(log.dir, ".log") == [0, 2]

    def test_a_restart_and_new_settings_count(self, tmp_path: Path) -> None:
        log = open_log(tmp_path, segment_ms=1000)
        log.append_as_leader(batch(b"x", timestamp_ms=5000), 0)
        log.close()
        log = open_log(tmp_path, segment_ms=1000)
        log.append_as_leader(batch(b"x", timestamp_ms=6001), 0)
        assert files(log.dir, ".log") == [0, 1]
        log.update_config(LogConfig(segment_ms=10))
        log.append_as_leader(batch(b"x", timestamp_ms=6012), 0)
        assert files(log.dir, ".log") == [0, 1, 2]

    def test_jitter_takes_some_of_the_time(self, tmp_path: Path) -> None:
        """segment.jitter.ms: less than it, and never more; each segment draws its own."""
        lengths = set()
        for number in range(20):
            draw = Random(number).randrange
            log = open_log(
                tmp_path / str(number), draw_below=draw, segment_ms=1000, segment_jitter_ms=400
            )
            for timestamp_ms in range(5000, 6002):
                log.append_as_leader(batch(b"x", timestamp_ms=timestamp_ms), 0)
            lengths.add(files(log.dir, ".log")[1])
        assert len(lengths) > 1
        assert min(lengths) > 1000 - 400
        assert max(lengths) <= 1001

    def test_what_is_to_be_compacted_in_time_is_not_active_for_longer(self, tmp_path: Path) -> None:
        for policy, expected in (("compact", [0, 1]), ("delete", [0])):
            log = open_log(tmp_path / policy, cleanup_policy=policy, max_compaction_lag_ms=1000)
            for timestamp_ms in (5000, 6001):
                log.append_as_leader(keyed((b"k", b"v"), timestamp_ms=timestamp_ms), 0)
            assert files(log.dir, ".log") == expected

    def test_an_empty_segment_is_never_full(self, tmp_path: Path) -> None:
        log = open_log(tmp_path, segment_ms=1)
        log.append_as_leader(batch(b"x"), 0)
        log.truncate_to(0)
        log.append_as_leader(batch(b"x", timestamp_ms=NOW_MS + 10**6), 0)
        assert files(log.dir, ".log") == [0]

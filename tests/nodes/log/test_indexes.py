"""The indexes beside a segment: their content, and what a damaged one does."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.log import Log
from nodes.wire.records import iter_batches
from tests.nodes.log.logs import NOW_MS, batch, contents, copy_as_killed, files, open_log

#: An entry for every second batch or so.
DENSE = {"index_interval_bytes": 100}


def offsets_in(directory: Path, base: int = 0) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">ii", (directory / f"{base:020d}.index").read_bytes()))


def times_in(directory: Path, base: int = 0) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">qi", (directory / f"{base:020d}.timeindex").read_bytes()))


def check(log: Log) -> None:
    """Every entry of every index file is true of the batches (as DumpLogSegments checks)."""
    for base in files(log.dir, ".log"):
        views = list(iter_batches((log.dir / f"{base:020d}.log").read_bytes()))
        last_offsets = {view.position: view.header.last_offset for view in views}
        entries = offsets_in(log.dir, base)
        assert entries == sorted(set(entries))
        assert all(last_offsets[position] == base + relative for relative, position in entries)
        before = (-1, -1)
        for timestamp_ms, relative in times_in(log.dir, base):
            assert (timestamp_ms, relative) > before
            assert timestamp_ms > before[0]
            before = (timestamp_ms, relative)
            (batch_there,) = [v.header for v in views if v.header.last_offset == base + relative]
            assert batch_there.max_timestamp == timestamp_ms
            earlier = [v.header for v in views if v.header.last_offset < base + relative]
            assert all(header.max_timestamp < timestamp_ms for header in earlier)


def filled(directory: Path, **settings: object) -> Log:
    """Times go up and down."""
    log = open_log(directory, **{**DENSE, **settings})
    for number in range(60):
        time_ms = NOW_MS + (number * 37 % 23) * 100 + number
        log.append_as_leader(batch(b"%030d" % number, b"+", timestamp_ms=time_ms), number // 9)
    return log


def test_entries_are_written_as_they_come(tmp_path: Path) -> None:
    """Some at a time, and all of them with a flush."""
    log = filled(tmp_path)
    assert len(offsets_in(log.dir)) == 32
    check(log)
    log.flush()
    assert len(offsets_in(log.dir)) > 50
    assert 3 < len(times_in(log.dir)) < len(offsets_in(log.dir))
    check(log)


def test_a_sealed_segment_ends_with_its_greatest_time(tmp_path: Path) -> None:
    log = filled(tmp_path, segment_bytes=1000)
    assert log.segment_count > 4
    log.close()
    check(log)
    for base in files(log.dir, ".log"):
        data = (log.dir / f"{base:020d}.log").read_bytes()
        greatest = max(view.header.max_timestamp for view in iter_batches(data))
        assert times_in(log.dir, base)[-1][0] == greatest


def test_records_without_time_leave_no_entry(tmp_path: Path) -> None:
    log = open_log(tmp_path, **DENSE)
    for _ in range(10):
        log.append_as_leader(batch(b"x" * 50, timestamp_ms=-1), 0)
    log.close()
    assert times_in(log.dir) == []
    assert len(offsets_in(log.dir)) > 3
    assert open_log(tmp_path, **DENSE).offset_of_max_timestamp() is None


@pytest.mark.parametrize("clean", [True, False])
def test_they_come_back(tmp_path: Path, clean: bool) -> None:
    log = filled(tmp_path, segment_bytes=2000)
    log.close() if clean else log.flush()
    before = {p.name: p.read_bytes() for p in log.dir.glob("*index")}
    killed = copy_as_killed(log, tmp_path / "k")
    again = open_log(killed, clean=clean, segment_bytes=2000, **DENSE)
    check(again)
    after = {p.name: p.read_bytes() for p in again.dir.glob("*index")}
    active = f"{files(again.dir, '.log')[-1]:020d}.timeindex"
    if not clean:  # recovery completes the active segment's, as closing does
        assert len(after.pop(active)) - len(before.pop(active)) in (0, 12)
    assert after == before
    again.append_as_leader(batch(b"x" * 300, timestamp_ms=NOW_MS + 10**6), 9)
    again.append_as_leader(batch(b"x" * 300, timestamp_ms=NOW_MS + 10**5), 9)
    again.append_as_leader(batch(b"x" * 300, timestamp_ms=NOW_MS + 10**7), 9)
    again.close()
    check(again)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["lost", "odd", "backwards", "beyond", "negative"])
def test_a_damaged_index_is_made_again(tmp_path: Path, suffix: str, damage: str) -> None:
    log = filled(tmp_path, segment_bytes=2000)
    log.close()
    path = log.dir / f"{files(log.dir, '.log')[1]:020d}{suffix}"
    good = path.read_bytes()
    entry = 8 if suffix == ".index" else 12
    if damage == "lost":
        path.unlink()
    elif damage == "odd":
        path.write_bytes(good[:-1])
    elif damage == "backwards":
        path.write_bytes(good[entry:] + good[:entry])
    elif damage == "beyond":
        path.write_bytes(good[:-4] + struct.pack(">i", 2**31 - 1))
    else:
        path.write_bytes(good[: entry - 8] + b"\xff" * 8 + good[entry:])
    again = open_log(tmp_path, segment_bytes=2000, **DENSE)
    assert path.read_bytes() == good
    assert len(contents(again)) == 120


def test_zeros_after_the_entries_are_none(tmp_path: Path) -> None:
    """Kafka grows its indexes in advance; those of a broker that was killed are still long."""
    log = filled(tmp_path)
    log.close()
    for path in log.dir.glob("*index"):
        with open(path, "ab") as file:
            file.write(b"\0" * 9600)
    again = open_log(tmp_path, **DENSE)
    assert len(contents(again)) == 120
    again.append_as_leader(batch(b"x" * 200, timestamp_ms=NOW_MS + 10**6), 9)
    again.close()
    assert len(times_in(again.dir)) < 100
    check(again)


def test_a_full_index_rolls(tmp_path: Path) -> None:
    log = filled(tmp_path, segment_index_bytes=96)
    assert log.segment_count > 3
    log.close()
    assert {len(offsets_in(log.dir, base)) for base in files(log.dir, ".log")[:-1]} <= {12, 7}
    assert max(len(times_in(log.dir, base)) for base in files(log.dir, ".log")) <= 8
    check(log)


def test_offsets_too_far_from_the_base_roll(tmp_path: Path) -> None:
    """A follower of a compacted leader, whose records are two thousand million offsets apart."""
    log = open_log(tmp_path, cleanup_policy="compact", **DENSE)
    log.append_as_follower(batch(b"a" * 200) + batch(b"b" * 200, base_offset=2**31 - 1))
    log.append_as_follower(batch(b"c" * 200, base_offset=2**31))
    log.append_as_follower(batch(b"d" * 200, base_offset=2**33))
    assert files(log.dir, ".log") == [0, 2**31, 2**33]
    log.close()
    check(log)
    again = open_log(tmp_path, cleanup_policy="compact", **DENSE)
    assert [offset for offset, _ in contents(again)] == [0, 2**31 - 1, 2**31, 2**33]


def test_a_truncation_cuts_both(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.flush()
    entries = len(offsets_in(log.dir)), len(times_in(log.dir))
    log.truncate_to(20)
    check(log)
    assert 0 < len(offsets_in(log.dir)) < entries[0]
    assert 0 < len(times_in(log.dir)) < entries[1]
    assert log.offset_of_max_timestamp() is not None


def first_at(log: Log, timestamp_ms: int) -> int | None:
    found = log.offset_for_timestamp(timestamp_ms)
    return None if found is None else found[1]


@given(
    times=st.lists(st.integers(0, 50), min_size=1, max_size=40),
    cut=st.integers(0, 40),
    asked=st.integers(0, 50),
    how=st.sampled_from(["as it is", "truncated", "closed", "killed"]),
)
def test_searches_by_time_find_what_a_scan_finds(
    tmp_path_factory: pytest.TempPathFactory, times: list[int], cut: int, asked: int, how: str
) -> None:
    directory = tmp_path_factory.mktemp("log")
    options = {"segment_bytes": 900, **DENSE}
    log = open_log(directory, **options)
    for time_ms in times:
        log.append_as_leader(batch(b"x" * 40, timestamp_ms=time_ms), 0)
    if how == "truncated":
        cut %= len(times)
        log.truncate_to(cut)
        times = times[:cut]
    elif how != "as it is":
        if how == "closed":
            log.close()
        log = open_log(directory, clean=how == "closed", **options)
    check(log)
    assert first_at(log, asked) == next((n for n, t in enumerate(times) if t >= asked), None)
    newest = log.offset_of_max_timestamp()
    assert (newest and newest[:2]) == ((max(times), times.index(max(times))) if times else None)

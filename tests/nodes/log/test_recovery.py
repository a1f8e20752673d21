"""Segments that a crash, a disk or a person took: what is loaded is always without a hole."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from nodes.log import Log
from nodes.wire.records import iter_batches
from tests.nodes.log.logs import batch, contents, copy_as_killed, files, keyed, open_log

SMALL = {"segment_bytes": 500}


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Twenty one-record batches over several segments."""
    made = open_log(tmp_path, **SMALL)
    for number in range(20):
        made.append_as_leader(batch(b"%050d" % number), number // 5)
    assert made.segment_count >= 4
    return made


def segment(directory: Path, number: int, suffix: str = ".log") -> Path:
    return sorted((directory / "t-0").glob(f"*{suffix}"))[number]


def stopped(log: Log, target: Path, *, clean: bool) -> Path:
    if clean:
        log.close()
    return copy_as_killed(log, target)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("loss", ["zeroed", "lost", "lost with its indexes", "emptied"])
def test_what_follows_a_lost_segment_goes(
    log: Log, tmp_path: Path, clean: bool, loss: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = contents(log)
    killed = stopped(log, tmp_path / "k", clean=clean)
    victim = segment(killed, 1)
    end = int(victim.stem)
    if loss == "zeroed":
        victim.write_bytes(b"\0" * victim.stat().st_size)
    elif loss == "emptied":
        victim.write_bytes(b"")
    else:
        victim.unlink()
        if "indexes" in loss:
            for path in victim.parent.glob(f"{victim.stem}.*index"):
                path.unlink()
    with caplog.at_level(logging.WARNING, "kafka.log.LogLoader"):
        again = open_log(killed, clean=clean, **SMALL)
    assert again.log_end_offset == end
    assert contents(again) == before[:end]
    assert "deleting all segments from there on" in caplog.text
    assert max(files(killed / "t-0", ".log")) <= end
    assert all(start < end for _, start in again.epoch_entries)
    # What comes now follows without a gap, also for whoever loads it next.
    assert again.append_as_leader(batch(b"new"), 9).first_offset == end
    again.close()
    assert contents(open_log(killed, **SMALL)) == [*before[:end], (end, b"new")]


@pytest.mark.parametrize("clean", [True, False])
def test_nothing_lost_nothing_cut(
    log: Log, tmp_path: Path, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    before = contents(log)
    killed = stopped(log, tmp_path / "k", clean=clean)
    again = open_log(killed, clean=clean, **SMALL)
    assert contents(again) == before
    assert caplog.text == ""


def test_space_behind_the_last_record_of_a_segment_is_no_loss(log: Log, tmp_path: Path) -> None:
    """Power went before the trimming of a rolled segment reached the disk."""
    before = contents(log)
    killed = stopped(log, tmp_path / "k", clean=False)
    with open(segment(killed, 1), "ab") as file:
        file.write(b"\0" * 5000)
    again = open_log(killed, clean=False, **SMALL)
    assert contents(again) == before
    assert segment(killed, 1).stat().st_size < 1000


def test_a_torn_middle_segment_ends_the_log(log: Log, tmp_path: Path) -> None:
    before = contents(log)
    killed = stopped(log, tmp_path / "k", clean=False)
    victim = segment(killed, 1)
    data = bytearray(victim.read_bytes())
    last = [view.header for view in iter_batches(data)][-1]
    data[-3] ^= 1
    victim.write_bytes(data)
    again = open_log(killed, clean=False, **SMALL)
    assert contents(again) == before[: last.base_offset]
    assert again.log_end_offset == last.base_offset


def test_the_first_segment_gone_moves_the_start(log: Log, tmp_path: Path) -> None:
    before = contents(log)
    killed = stopped(log, tmp_path / "k", clean=True)
    segment(killed, 0).unlink()
    start = int(segment(killed, 0).stem)
    again = open_log(killed, **SMALL)
    assert (again.log_start_offset, contents(again)) == (start, before[start:])


def test_segments_below_the_start_are_no_log(log: Log, tmp_path: Path) -> None:
    """Of the log only what nobody may read is left: it begins anew where it may be read."""
    killed = stopped(log, tmp_path / "k", clean=True)
    for number in (-1, -1, -1):
        segment(killed, number).unlink()
    again = open_log(killed, log_start_offset=18, **SMALL)
    assert (again.log_start_offset, again.log_end_offset) == (18, 18)
    assert again.epoch_entries == []
    assert files(again.dir, ".log") == [18]


@pytest.mark.parametrize("clean", [True, False])
def test_a_batch_cut_in_its_middle_is_no_hole(tmp_path: Path, clean: bool) -> None:
    """The log then ends above its last record, and the next segment begins there."""
    log = open_log(tmp_path, **SMALL)
    log.append_as_leader(batch(*[b"%050d" % n for n in range(4)]), 0)
    log.append_as_leader(batch(*[b"%020d" % n for n in range(3)]), 0)
    log.truncate_to(5)
    log.append_as_leader(batch(b"x" * 300), 1)
    assert log.segment_count == 2
    killed = stopped(log, tmp_path / "k", clean=clean)
    again = open_log(killed, clean=clean, **SMALL)
    assert [offset for offset, _ in contents(again)] == [0, 1, 2, 3, 5]


def gapped(directory: Path) -> None:
    """As a follower of a compacted leader has it, cleaned once more: gaps between segments."""
    log = open_log(directory, cleanup_policy="compact", **SMALL)
    for offset in range(0, 60, 3):
        data = keyed((b"k%d" % offset, b"%050d" % offset), base_offset=offset, leader_epoch=1)
        log.append_as_follower(data)
    log.close()
    bases = files(log.dir, ".log")
    for suffix in (".log", ".index", ".timeindex"):
        (log.dir / f"{bases[1]:020d}{suffix}").unlink()


def test_a_compacted_log_may_have_gaps(tmp_path: Path) -> None:
    gapped(tmp_path)
    again = open_log(tmp_path, clean=False, cleanup_policy="compact", **SMALL)
    assert again.log_end_offset == 58


def test_an_orphaned_index_tells_of_a_loss_in_a_compacted_log(tmp_path: Path) -> None:
    gapped(tmp_path)
    victim = segment(tmp_path, 1)
    victim.unlink()
    again = open_log(tmp_path, clean=False, cleanup_policy="compact", **SMALL)
    assert again.log_end_offset < int(victim.stem)
    assert not victim.with_suffix(".index").exists()
    assert contents(again)[-1][0] < int(victim.stem)

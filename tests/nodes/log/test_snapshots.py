"""Snapshots of the producers go with the segments at whose start they were taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from nodes.core.errors import ApiError, Errors
from nodes.log import AppendInfo, Log, LogConfig
from nodes.log.producer_state import ActiveProducer
from tests.nodes.log.logs import NOW_MS, batch, copy_as_killed, files, open_log

SMALL = {"segment_bytes": 500}


def send(log: Log, sequence: int, producer_id: int = 9) -> AppendInfo:
    data = batch(b"x" * 50, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
    return log.append_as_leader(data, 0)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = open_log(tmp_path, **SMALL)
    for sequence in range(18):
        send(made, sequence)
    assert made.segment_count > 4
    return made


def snapshots(log: Log) -> list[int]:
    return files(log.dir, ".snapshot")


def test_each_roll_takes_one(log: Log) -> None:
    assert snapshots(log) == files(log.dir, ".log")[1:]


def test_retention_takes_them_along(log: Log) -> None:
    log.update_config(LogConfig(retention_bytes=1000, **SMALL))  # type: ignore[arg-type]
    assert log.delete_old_segments(18, NOW_MS) > 1
    assert snapshots(log) == files(log.dir, ".log")
    assert log.active_producers() == [ActiveProducer(9, 0, 17, NOW_MS)]


def test_truncation_takes_them_along(log: Log) -> None:
    bases = files(log.dir, ".log")
    log.truncate_to(bases[2] + 1)
    assert snapshots(log) == bases[1:3]
    log.truncate_fully_and_start_at(3)
    assert snapshots(log) == []


def test_recovery_takes_them_along(log: Log, tmp_path: Path) -> None:
    """One that lies above the log's end would, once the log reaches it, bring back producers that
    it never had."""
    bases = files(log.dir, ".log")
    killed = copy_as_killed(log, tmp_path / "k")
    (killed / "t-0" / f"{bases[1]:020d}.log").write_bytes(b"")
    again = open_log(killed, clean=False, **SMALL)
    assert again.log_end_offset == bases[1]
    assert snapshots(again) == [bases[1]]
    for sequence in range(20):
        send(again, sequence, producer_id=5)
    again.close()
    (known, other) = sorted(open_log(killed, **SMALL).active_producers())
    assert (known.producer_id, known.last_sequence) == (5, 19)
    assert (other.producer_id, other.last_sequence) == (9, bases[1] - 1)


def test_a_clean_stop_leaves_one_more_and_the_next_replaces_it(log: Log, tmp_path: Path) -> None:
    bases = files(log.dir, ".log")
    log.close()
    assert snapshots(log) == [*bases[1:], 18]
    again = open_log(tmp_path, **SMALL)
    send(again, 18)
    again.close()
    assert snapshots(again) == [*bases[1:], 18, 19]
    again = open_log(tmp_path, **SMALL)
    assert snapshots(again) == [*bases[1:], 19]
    with pytest.raises(ApiError) as refused:
        send(again, 25)
    assert refused.value.error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_those_at_or_below_the_start_are_of_no_use(log: Log, tmp_path: Path) -> None:
    bases = files(log.dir, ".log")
    log.close()
    again = open_log(tmp_path, log_start_offset=bases[2], **SMALL)
    assert snapshots(again) == [*bases[3:], 18]
    assert send(again, 17).duplicate


def test_without_them_the_batches_tell(log: Log, tmp_path: Path) -> None:
    log.close()
    for path in log.dir.glob("*.snapshot"):
        path.write_bytes(b"broken")
    again = open_log(tmp_path, **SMALL)
    assert [send(again, sequence).duplicate for sequence in (13, 14, 15, 16, 17, 18)] == [
        *[True] * 5,
        False,
    ]

"""Disks that refuse to be written."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log.config import LogConfig
from nodes.log.failure import LogDirFailureHandler
from nodes.log.manager import LogManager
from nodes.wire.records import build_batch

TP = TopicPartition("t", 0)
BATCH = build_batch([(b"k", b"v", 1_700_000_000_000)])
Failures = list[tuple[Path, OSError]]


@pytest.fixture
def failures() -> Failures:
    return []


@pytest.fixture
def manager(tmp_path: Path, failures: Failures) -> LogManager:
    made = LogManager(
        [tmp_path],
        LogConfig(segment_bytes=200, preallocate=True),
        now_ms=lambda: 1_700_000_000_000,
        broker_id=1,
        on_failure=lambda directory, error: failures.append((directory, error)),
    )
    made.load()
    return made


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, code: int = errno.ENOSPC) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, name, refused)


@pytest.mark.parametrize("call", ["pwrite", "posix_fallocate"])
def test_an_append_that_fails(
    manager: LogManager,
    failures: Failures,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
) -> None:
    log = manager.get_or_create(TP, None, None)
    with monkeypatch.context() as patched:
        refuse(patched, call)
        with pytest.raises(ApiError) as refused:
            log.append_as_leader(BATCH, 0)
    assert refused.value.error is Errors.KAFKA_STORAGE_ERROR
    assert [(d, e.errno) for d, e in failures] == [(tmp_path, errno.ENOSPC)]
    assert log.append_as_leader(BATCH, 0).first_offset == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda log: log.start_epoch(3, 1),
        lambda log: log.append_as_leader(BATCH, 7),
        lambda log: log.truncate_to(0),
        lambda log: log.truncate_fully_and_start_at(5),
    ],
)
def test_other_writes_that_fail(
    manager: LogManager,
    failures: Failures,
    monkeypatch: pytest.MonkeyPatch,
    use: Callable[[Any], None],
) -> None:
    log = manager.get_or_create(TP, None, None)
    log.append_as_leader(BATCH, 0)
    for name in ("replace", "ftruncate", "unlink", "open"):
        refuse(monkeypatch, name, errno.EROFS)
    with pytest.raises(ApiError) as refused:
        use(log)
    assert refused.value.error is Errors.KAFKA_STORAGE_ERROR
    assert failures


def test_checkpoints_and_new_logs_that_fail(
    manager: LogManager, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.get_or_create(TP, None, None)
    refuse(monkeypatch, "open", errno.EIO)
    refuse(monkeypatch, "mkdir", errno.EIO)
    refuse(monkeypatch, "replace", errno.EIO)
    for use in (
        lambda: manager.get_or_create(TopicPartition("t", 1), None, None),
        lambda: manager.checkpoint_high_watermarks({TP: 0}),
        manager.checkpoint_recovery_points,
    ):
        failures.clear()
        with pytest.raises(OSError, match="Input/output error"):
            use()
        assert failures


def test_a_log_that_was_loaded_reports_too(
    manager: LogManager, failures: Failures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager.get_or_create(TP, None, None).append_as_leader(BATCH, 0)
    manager.close()
    manager.load()
    log = manager.get(TP)
    assert log is not None
    refuse(monkeypatch, "pwrite")
    with pytest.raises(ApiError):
        log.append_as_leader(BATCH, 0)
    assert failures


@pytest.fixture
def two(tmp_path: Path) -> LogManager:
    """A manager of two directories with a log in each."""
    made = LogManager(
        [tmp_path / "a", tmp_path / "b"],
        LogConfig(),
        now_ms=lambda: 1_700_000_000_000,
        broker_id=1,
    )
    made.load()
    for partition in (0, 1):
        made.get_or_create(TopicPartition("t", partition), None, None).append_as_leader(BATCH, 0)
    return made


def test_a_directory_that_was_taken_out_is_left_alone(two: LogManager, tmp_path: Path) -> None:
    """LogManager.handleLogDirFailure: no log of it is known, nothing is written there, and new ones
    are made elsewhere."""
    lost = two.get(TP)
    assert lost is not None
    lost_dir, left_dir = lost.dir.parent, tmp_path / {"a": "b", "b": "a"}[lost.dir.parent.name]
    other, dying = TopicPartition("t", 1), TopicPartition("t", 2)
    assert two.get_or_create(dying, None, None).dir.parent == lost_dir
    two.async_delete(dying)
    two.take_out(lost_dir)
    assert [log.tp for log in two.all()] == [other]
    before = {path: path.stat().st_mtime_ns for path in lost_dir.rglob("*")}
    two.checkpoint_high_watermarks({TP: 1, other: 1})
    made = [two.get_or_create(TopicPartition("new", p), None, None) for p in range(3)]
    assert {log.dir.parent for log in made} == {left_dir}
    two.close()
    assert {path: path.stat().st_mtime_ns for path in lost_dir.rglob("*")} == before
    assert (left_dir / ".kafka_cleanshutdown").exists()
    assert not (lost_dir / ".kafka_cleanshutdown").exists()


def test_what_may_lie_in_a_lost_directory_is_not_made_anew(two: LogManager) -> None:
    """LogManager.getOrCreateLog: only a partition that is new can lie nowhere else."""
    lost = two.get(TP)
    assert lost is not None
    two.take_out(lost.dir.parent)
    for tp in (TP, TopicPartition("u", 0)):
        with pytest.raises(ApiError, match=r"because log directories .* are offline") as refused:
            two.get_or_create(tp, None, None, is_new=False)
        assert refused.value.error is Errors.KAFKA_STORAGE_ERROR
    assert two.get_or_create(TopicPartition("t", 1), None, None, is_new=False).log_end_offset == 1
    assert two.get_or_create(TopicPartition("u", 0), None, None).log_end_offset == 0


@pytest.mark.parametrize("broken", ["a", "b"])
def test_a_broker_starts_without_a_directory_that_cannot_be_read(
    two: LogManager, tmp_path: Path, broken: str
) -> None:
    """But not without any."""
    two.close()
    (tmp_path / broken).rename(tmp_path / "away")
    (tmp_path / broken).write_text("no directory")
    two = LogManager(two.log_dirs, LogConfig(), now_ms=lambda: 0, broker_id=1)
    two.load()
    assert two.failed_log_dirs == {tmp_path / broken}
    assert [log.dir.parent.name for log in two.all()] == [{"a": "b", "b": "a"}[broken]]
    one = LogManager([tmp_path / broken], LogConfig(), now_ms=lambda: 0, broker_id=1)
    with pytest.raises(OSError, match="exists"):
        one.load()


class TestHandler:
    def test_ends_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        ended = threading.Semaphore(0)
        handler = LogDirFailureHandler(ended.release, [tmp_path])
        for _ in range(3):
            handler.failed(tmp_path, OSError(errno.ENOSPC, "full"))
        assert ended.acquire(timeout=60)
        assert not ended.acquire(timeout=0.05)
        assert "Shutdown broker because" in caplog.text

    def test_too_many_open_files_say_nothing_of_a_disk(self, tmp_path: Path) -> None:
        ended = threading.Semaphore(0)
        handler = LogDirFailureHandler(ended.release, [tmp_path])
        handler.failed(tmp_path, OSError(errno.EMFILE, "many"))
        assert not ended.acquire(timeout=0.05)

    @pytest.mark.parametrize("fails", [False, True])
    def test_goes_on_without_one_of_several(self, tmp_path: Path, fails: bool) -> None:
        """Each is taken out once; the last ends the broker, and so does one that cannot be."""
        dirs = [tmp_path / name for name in "abc"]
        ended, out = threading.Semaphore(0), threading.Semaphore(0)
        taken: list[Path] = []
        handler = LogDirFailureHandler(ended.release, dirs)

        def take_out(directory: Path) -> None:
            taken.append(directory)
            out.release()
            if fails:
                raise RuntimeError("planted")

        handler.take_out = take_out
        for directory in (dirs[1], dirs[1], dirs[0]):
            handler.failed(directory, OSError(errno.EIO, "broken"))
            if fails:
                assert out.acquire(timeout=60)
                assert ended.acquire(timeout=60)
                break
        if fails:
            handler.failed(dirs[2], OSError(errno.EIO, "broken"))
            assert not ended.acquire(timeout=0.05)
            return
        assert all(out.acquire(timeout=60) for _ in range(2))
        assert sorted(taken) == dirs[:2]
        assert not ended.acquire(timeout=0.05)
        handler.failed(dirs[2], OSError(errno.EIO, "broken"))
        assert ended.acquire(timeout=60)
        assert len(taken) == 2

"""Disks that refuse to be written, or to be read."""

from __future__ import annotations

import contextlib
import dataclasses
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
from nodes.log.log import Log
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
    with pytest.raises(OSError, match="Input/output error"):
        manager.get_or_create(TopicPartition("t", 1), None, None)
    assert failures
    for checkpoint in (
        lambda: manager.checkpoint_high_watermarks({TP: 0}),
        manager.checkpoint_recovery_points,
    ):
        failures.clear()
        checkpoint()
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


# ---- reads ---------------------------------------------------------------------------------------


COMPACTED = LogConfig(segment_bytes=200, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
DELETED = LogConfig(segment_bytes=200, retention_ms=1000)


def filled(manager: LogManager, config: LogConfig | None = None) -> Log:
    """Two batches in each of several segments, the last one active."""
    log = manager.get_or_create(TP, config, None)
    for _ in range(7):
        log.append_as_leader(BATCH, 0)
    assert log.segment_count > 2
    return log


READS: dict[str, Callable[[Log], object]] = {
    "fetch": lambda log: log.slice(1, 1000),
    "where a follower is": lambda log: log.position_of(1),
    "by time": lambda log: log.offset_for_timestamp(1_700_000_000_000),
    "the newest by time": lambda log: log.offset_of_max_timestamp(),
    "a follower's cut": lambda log: log.truncate_to(5),
    "the cleaner": lambda log: log.clean(6),
    "new settings": lambda log: log.update_config(LogConfig(segment_ms=1)),
}


@pytest.mark.parametrize("read", READS)
def test_a_read_that_fails(
    manager: LogManager,
    failures: Failures,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    read: str,
) -> None:
    """LocalLog.maybeHandleIOException around UnifiedLog.read, fetchOffsetByTimestamp, truncateTo;
    LogCleaner.cleanLog. A disk that reads gives nobody up."""
    log = filled(manager, COMPACTED if read == "the cleaner" else None)
    with monkeypatch.context() as patched:
        refuse(patched, "pread", errno.EIO)
        with pytest.raises(ApiError) as refused:
            READS[read](log)
    assert refused.value.error is Errors.KAFKA_STORAGE_ERROR
    assert [(d, e.errno) for d, e in failures] == [(tmp_path, errno.EIO)]
    failures.clear()
    READS[read](log)
    assert not failures


def test_a_look_for_what_may_be_cleaned_that_fails(
    manager: LogManager, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(manager, dataclasses.replace(COMPACTED, max_compaction_lag_ms=1))
    refuse(monkeypatch, "pread", errno.EIO)
    assert manager.clean_logs(lambda _tp: 6) == 0
    assert failures
    assert manager.get(TP) is log


def test_retention_goes_on_without_a_log_that_it_cannot_delete(
    manager: LogManager, failures: Failures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LogManager.cleanupLogs, UnifiedLog.deleteSegments. The directory is reported, the other logs
    have their turn."""
    first = filled(manager, DELETED)
    second = manager.get_or_create(TopicPartition("t", 1), DELETED, None)
    for _ in range(7):
        second.append_as_leader(BATCH, 0)
    for log in (first, second):
        log._now_ms = lambda: 1_700_000_100_000
    manager._now_ms = first._now_ms
    unlink = os.unlink

    def unlinks(path: Path, *args: Any, **more: Any) -> None:
        if Path(path).parent == first.dir:
            raise OSError(errno.EIO, "planted")
        unlink(path, *args, **more)

    monkeypatch.setattr(os, "unlink", unlinks)
    assert manager.cleanup(lambda _tp: 7) > 0
    assert {d for d, _ in failures} == {tmp_path}
    assert second.log_start_offset == 7


def test_a_deleted_log_that_cannot_be_removed(
    manager: LogManager, failures: Failures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UnifiedLog.renameDir and delete. Who asked hears of the first; of the second nobody can."""
    filled(manager)
    with monkeypatch.context() as patched:
        refuse(patched, "rename", errno.EIO)
        with pytest.raises(ApiError) as refused:
            manager.async_delete(TP)
    assert refused.value.error is Errors.KAFKA_STORAGE_ERROR
    assert [d for d, _ in failures] == [tmp_path]
    failures.clear()
    filled(manager)
    manager.async_delete(TP)
    manager._now_ms = lambda: 1_800_000_000_000
    refuse(monkeypatch, "rmdir", errno.EIO)
    manager.cleanup(lambda _tp: None)
    assert [d for d, _ in failures] == [tmp_path]


@pytest.mark.parametrize("first", ["deletion", "flush"])
def test_a_flush_of_a_log_that_is_deleted_is_no_failure(
    manager: LogManager, failures: Failures, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """As in KAFKA-15391: whoever deletes a topic while a segment of it is brought to the disk would
    take the whole directory out, or end the broker. Nor is retention's turn any failure."""
    log = filled(manager)
    manager._flusher.close()
    if first == "flush":
        fdatasync, own = os.fdatasync, threading.get_ident()

        def meanwhile(fd: int) -> None:
            fdatasync(fd)
            if threading.get_ident() == own:
                manager.async_delete(TP)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", meanwhile)
            log.append_as_leader(BATCH, 0)
            with contextlib.suppress(ApiError):
                log.flush()
    else:
        manager.async_delete(TP)
        log.flush()
    log.config = DELETED
    assert log.delete_old_segments(8, 1_800_000_000_000) == 0
    assert manager.get(TP) is None
    assert not failures


def test_a_log_that_cannot_be_closed_leaves_its_directory_unclean(
    two: LogManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LogManager.shutdown: of that directory only, whose logs the next start recovers."""
    unclosed = two.get(TP)
    assert unclosed is not None
    sick = unclosed.dir.parent
    ftruncate = os.ftruncate

    def truncates(fd: int, size: int) -> None:
        if os.readlink(f"/proc/self/fd/{fd}").startswith(str(sick)):
            raise OSError(errno.EIO, "planted")
        ftruncate(fd, size)

    for log in two.all():
        log._segments[-1].allocated_bytes += 1  # there is something to be cut off
    monkeypatch.setattr(os, "ftruncate", truncates)
    two.close()
    clean = {d.name for d in two.log_dirs if (d / ".kafka_cleanshutdown").exists()}
    assert clean == {"a", "b"} - {sick.name}


def test_a_new_log_is_made_in_the_next_directory(
    two: LogManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LogManager.getOrCreateLog tries them in turn."""
    failed: list[Path] = []
    two._on_failure = lambda directory, _error: failed.append(directory)
    sick, new = two.log_dirs[0], TopicPartition("t", 2)
    mkdir = os.mkdir

    def makes(path: Path, *args: Any) -> None:
        if Path(path).parent == sick:
            raise OSError(errno.EIO, "planted")
        mkdir(path, *args)

    monkeypatch.setattr(os, "mkdir", makes)
    assert two.get_or_create(new, None, None).dir.parent == two.log_dirs[1]
    assert failed == [sick]


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
    failed: list[Path] = []
    two = LogManager(
        two.log_dirs,
        LogConfig(),
        now_ms=lambda: 0,
        broker_id=1,
        on_failure=lambda directory, _error: failed.append(directory),
    )
    two.load()
    assert two.failed_log_dirs == {tmp_path / broken} == set(failed)
    assert [log.dir.parent.name for log in two.all()] == [{"a": "b", "b": "a"}[broken]]
    one = LogManager([tmp_path / broken], LogConfig(), now_ms=lambda: 0, broker_id=1)
    with pytest.raises(OSError, match="exists"):
        one.load()


@pytest.mark.parametrize(
    "name",
    [
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "t-0/leader-epoch-checkpoint",
        "t-0/partition.metadata",
    ],
)
def test_a_file_that_cannot_be_read_at_the_start_is_its_directorys_end(
    two: LogManager, name: str
) -> None:
    """CheckpointFileWithFailureHandler.read, PartitionMetadataFile.read, LogManager.loadLogs."""
    two.close()
    home = next(d for d in two.log_dirs if (d / "t-0").exists())
    (home / name).unlink(missing_ok=True)
    (home / name).mkdir()
    failed: list[Path] = []
    again = LogManager(
        two.log_dirs,
        LogConfig(),
        now_ms=lambda: 0,
        broker_id=1,
        on_failure=lambda directory, _error: failed.append(directory),
    )
    again.load()
    again.read_high_watermarks()
    assert again.failed_log_dirs == {home} == set(failed)
    assert [log.tp.partition for log in again.all()] == [1]


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

        handler.start(take_out)
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

    def test_what_failed_before_it_began_is_taken_out_then(self, tmp_path: Path) -> None:
        """LogDirFailureChannel: it waits there. The last one ends the broker at any time."""
        dirs = [tmp_path / name for name in "abc"]
        ended, out = threading.Semaphore(0), threading.Semaphore(0)
        taken: list[Path] = []
        handler = LogDirFailureHandler(ended.release, dirs)
        for directory in (dirs[0], dirs[0], dirs[2]):
            handler.failed(directory, OSError(errno.EIO, "broken"))
        handler.start(lambda directory: (taken.append(directory), out.release())[0])
        assert all(out.acquire(timeout=60) for _ in range(2))
        assert sorted(taken) == [dirs[0], dirs[2]]
        assert not ended.acquire(timeout=0.05)
        handler.failed(dirs[1], OSError(errno.EIO, "broken"))
        assert ended.acquire(timeout=60)
        early = LogDirFailureHandler(ended.release, dirs[:1])
        early.failed(dirs[0], OSError(errno.EIO, "broken"))
        assert ended.acquire(timeout=60)

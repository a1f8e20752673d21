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


class TestHandler:
    def test_ends_once(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        ended = threading.Semaphore(0)
        handler = LogDirFailureHandler(ended.release)
        for _ in range(3):
            handler.failed(tmp_path, OSError(errno.ENOSPC, "full"))
        assert ended.acquire(timeout=60)
        assert not ended.acquire(timeout=0.05)
        assert "Shutdown broker because" in caplog.text

    def test_too_many_open_files_say_nothing_of_a_disk(self, tmp_path: Path) -> None:
        ended = threading.Semaphore(0)
        handler = LogDirFailureHandler(ended.release)
        handler.failed(tmp_path, OSError(errno.EMFILE, "many"))
        assert not ended.acquire(timeout=0.05)

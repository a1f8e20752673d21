"""What tests of logs share: batches, logs with small segments, and their contents."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from nodes.core.types import TopicPartition
from nodes.log import Log, LogConfig
from nodes.wire.records import build_batch, check_crc, iter_batches, iter_records

TP = TopicPartition("t", 0)
NOW_MS = 1_700_000_000_000


def batch(*values: bytes, timestamp_ms: int = NOW_MS, **options: int) -> bytes:
    return build_batch([(None, value, timestamp_ms) for value in values], **options)


def keyed(*rows: tuple[bytes, bytes | None], timestamp_ms: int = NOW_MS, **options: int) -> bytes:
    return build_batch([(key, value, timestamp_ms) for key, value in rows], **options)


def open_log(
    directory: Path,
    *,
    clean: bool = True,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    now_ms: Callable[[], int] = lambda: NOW_MS,
    draw_below: Callable[[int], int] = lambda _bound: 0,
    **settings: object,
) -> Log:
    return Log.open(
        directory / "t-0",
        TP,
        LogConfig(**settings),  # type: ignore[arg-type]
        clean_shutdown=clean,
        now_ms=now_ms,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        draw_below=draw_below,
    )


def contents(log: Log, offset: int | None = None) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record, each batch checked."""
    found = []
    offset = log.log_start_offset if offset is None else offset
    while data := log.read(offset, 1 << 20):
        for view in iter_batches(data):
            assert check_crc(data, view.position, view.size_bytes)
            found += [
                (record.offset, record.value)
                for record in iter_records(data[view.position : view.position + view.size_bytes])
            ]
            offset = view.header.next_offset
    return found


def copy_as_killed(log: Log, target: Path) -> Path:
    """What is on disk at this moment, as kill -9 would leave it."""
    shutil.copytree(log.dir, target / "t-0")
    return target


def files(directory: Path, suffix: str) -> list[int]:
    """The base offsets of the files with a suffix, rising."""
    return sorted(int(path.stem) for path in directory.glob(f"*{suffix}"))

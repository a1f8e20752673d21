"""DescribeLogDirs: which partitions lie in which directory of this broker, and how large they are.

Every log that there is, also one that no controller has named since the start. A replica's lag is
what its log lacks up to the high watermark, 0 for one that has more, -1 for one not named yet.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodes.api.answers import answer, by_topic
from nodes.core.errors import Errors

if TYPE_CHECKING:
    from nodes.api.services import Services
    from nodes.log.log import Log
    from nodes.network.request_channel import Request

Row = dict[str, Any]


class LogDirApi:
    """Stateless; runs on any handler thread."""

    def __init__(self, services: Services) -> None:
        self._replica_manager = services.replica_manager

    def describe_log_dirs(self, request: Request) -> None:
        asked = request.body.topics
        wanted = (
            None if asked is None else {(str(t.topic), int(p)) for t in asked for p in t.partitions}
        )
        by_directory: dict[Path, list[Log]] = {d: [] for d in self._replica_manager.log_dirs}
        for own_log in self._replica_manager.logs():
            if wanted is None or own_log.tp in wanted:
                by_directory.setdefault(own_log.dir.parent, []).append(own_log)
        answer(
            request,
            error_code=Errors.NONE,
            results=[self._directory(directory, logs) for directory, logs in by_directory.items()],
        )

    def _directory(self, directory: Path, logs: list[Log]) -> Row:
        failed = {
            "error_code": Errors.KAFKA_STORAGE_ERROR,
            "log_dir": str(directory.absolute()),
            "topics": [],
        }
        if directory in self._replica_manager.failed_log_dirs:
            return failed
        try:
            usage = shutil.disk_usage(directory)
        except OSError:
            return failed
        grouped = by_topic((own_log.tp.topic, self._row(own_log)) for own_log in logs)
        return {
            "error_code": Errors.NONE,
            "log_dir": str(directory.absolute()),
            "topics": [{"name": name, "partitions": rows} for name, rows in grouped.items()],
            "total_bytes": usage.total,
            "usable_bytes": usage.free,
        }

    def _row(self, own_log: Log) -> Row:
        partition = self._replica_manager.partition(own_log.tp)
        lag = -1
        if partition is not None and partition.log is not None:
            lag = max(partition.high_watermark - own_log.log_end_offset, 0)
        return {
            "partition_index": own_log.tp.partition,
            "partition_size": own_log.size_bytes,
            "offset_lag": lag,
            "is_future_key": False,
        }

"""What a broker does about a log directory that cannot be written any more: it ends, at once.

Kafka takes a failed directory out of use and halts when it was the last one (LogDirFailureChannel,
LogManager.handleLogDirFailure). A broker that went on with a dead disk would keep its leaderships
and answer every producer with KAFKA_STORAGE_ERROR while healthy replicas stand by; a broker that is
gone is replaced by them. Here any directory that fails ends the broker, also one of several: its
partitions are then led elsewhere, too, which costs availability but no data.

It is no clean stop: nothing is flushed, no marker is left behind, so that the next start recovers
every log from what really reached the disk.

Threads: `failed` may be called from any thread and under a log's lock; the end comes on a thread
of its own, so that whoever noticed can still answer its client.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

log = logging.getLogger("kafka.server.ReplicaManager")

_NOT_THE_DISK: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Too many open files: connections may be the reason, and they go away."""


class LogDirFailureHandler:
    """`halt` ends the process. It is called once."""

    def __init__(self, halt: Callable[[], None]) -> None:
        self._halt = halt
        self._lock = threading.Lock()
        self._is_over = False

    def failed(self, directory: Path, error: OSError) -> None:
        """The disk refused something that a log needs."""
        if error.errno in _NOT_THE_DISK:
            log.error("Error while accessing %s: %s", directory, error)
            return
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        threading.Thread(
            target=self._end, args=(directory, error), name="LogDirFailureHandler", daemon=True
        ).start()

    def _end(self, directory: Path, error: OSError) -> None:
        log.error("Error while writing to log directory %s: %s", directory, error)
        log.critical("Shutdown broker because log directory %s has failed", directory)
        self._halt()

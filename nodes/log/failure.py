"""What a broker does about a log directory that the disk refuses to read or to write (KIP-112).

The directory is taken out of use: what lies in it is not served any more (KAFKA_STORAGE_ERROR), the
controller is told, and others lead. When it was the last one, the broker ends at once: one that
went on with a dead disk would keep its leaderships and answer every producer with errors while
healthy replicas stand by (Kafka's LogDirFailureChannel, LogManager.handleLogDirFailure).

That is no clean stop: nothing is flushed, no marker is left behind, so that the next start recovers
every log from what really reached the disk. Nor is a failed directory ever used again in this life.

Threads: `failed` may be called from any thread and under a log's lock; what follows comes on a
thread of its own, so that whoever noticed can still answer its client.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

log = logging.getLogger("kafka.server.ReplicaManager")

NOT_THE_DISK: Final = frozenset({errno.EMFILE, errno.ENFILE})
"""Too many open files: connections may be the reason, and they go away."""


class LogDirFailureHandler:
    """`halt` ends the process; it is called once. What fails before `start` is taken out then, and
    where that fails itself, any directory that fails ends the broker."""

    def __init__(self, halt: Callable[[], None], directories: Iterable[Path]) -> None:
        self._take_out: Callable[[Path], None] | None = None
        self._early: list[tuple[Path, OSError]] = []
        self._halt = halt
        self._lock = threading.Lock()
        self._all = tuple(directories)
        self._working = set(self._all)
        self._is_over = False

    def start(self, take_out: Callable[[Path], None]) -> None:
        """`take_out` ends the use of a directory, on a thread of this handler's."""
        with self._lock:
            self._take_out = take_out
            early, self._early = self._early, []
        for directory, error in early:
            self._follow(self._go_on, directory, error)

    def failed(self, directory: Path, error: OSError) -> None:
        """The disk refused something that a log needs."""
        if error.errno in NOT_THE_DISK:
            log.error("Error while accessing %s: %s", directory, error)
            return
        with self._lock:
            if self._is_over or directory not in self._working:
                return
            self._working.discard(directory)
            self._is_over = is_last = not self._working
            if not is_last and self._take_out is None:
                self._early.append((directory, error))
                return
        self._follow(self._end if is_last else self._go_on, directory, error)

    @staticmethod
    def _follow(follow: Callable[[Path, OSError], None], directory: Path, error: OSError) -> None:
        threading.Thread(
            target=follow, args=(directory, error), name="LogDirFailureHandler", daemon=True
        ).start()

    def _go_on(self, directory: Path, error: OSError) -> None:
        log.error("Error while accessing log directory %s: %s", directory, error)
        assert self._take_out is not None
        try:
            self._take_out(directory)
        except Exception:
            log.exception("Cannot go on without %s", directory)
            with self._lock:
                was_over, self._is_over = self._is_over, True
            if not was_over:
                self._end(directory, error)

    def _end(self, directory: Path, error: OSError) -> None:
        log.error("Error while accessing log directory %s: %s", directory, error)
        dirs = ", ".join(map(str, self._all))
        log.critical("Shutdown broker because all log dirs in %s have failed", dirs)
        self._halt()

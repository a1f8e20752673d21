"""Brings rolled segments to the disk, off the thread that rolled (Kafka's "flush-log" task).

An append that fills a segment must not wait for a gigabyte to be written out. So the log says that
it rolled, and this thread flushes what lies below the new segment; the recovery point follows.
The thread starts with the first roll. What is still waiting when the broker is killed is recovered
by the next start, as it lies above the recovery point.
"""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

from nodes.core.errors import ApiError

if TYPE_CHECKING:
    from nodes.log.upkeep import KeptLog

_logger = logging.getLogger("kafka.log.LogManager")


class Flusher:
    """`rolled` may be called from any thread and under a log's lock."""

    def __init__(self) -> None:
        self._rolled: SimpleQueue[tuple[KeptLog, int] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def rolled(self, log: KeptLog, upto: int) -> None:
        """What lies below `upto` is to be flushed soon."""
        self._rolled.put((log, upto))
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="flush-log", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Returns when everything that was asked for is done."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._rolled.put(None)
            thread.join()

    def _run(self) -> None:
        while (item := self._rolled.get()) is not None:
            log, upto = item
            try:
                log.flush(upto)
            except ApiError as error:  # the log has told its owner
                _logger.error("%s was not flushed: %s", log, error)

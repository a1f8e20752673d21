"""Something done on a clock, on a thread of its own (Kafka's KafkaScheduler, one task each)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("kafka.utils.KafkaScheduler")


class Ticker:
    """Runs `task` every `interval_ms` until stopped, for the first time after `first_ms` (default:
    an interval); a failing run is logged and forgotten."""

    def __init__(
        self,
        name: str,
        interval_ms: float,
        task: Callable[[], None],
        first_ms: float | None = None,
    ) -> None:
        self._name = name
        self._first_s = (interval_ms if first_ms is None else first_ms) / 1000
        self._interval_s = interval_ms / 1000
        self._task = task
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def _run(self) -> None:
        wait_s = self._first_s
        while not self._stopped.wait(wait_s):
            wait_s = self._interval_s
            try:
                self._task()
            except Exception:
                log.exception("%s failed", self._name)

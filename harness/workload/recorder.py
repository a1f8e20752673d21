"""The live history of one process: crash-safe lines of JSON, cheap enough for a client's hot path.

Callers put ready-made lines into a deque (appends are atomic: any thread may record); one thread
writes whatever has gathered with a single O_APPEND write every few milliseconds, so that each
write ends with a line's end. A killed process loses at most that interval, and at most the last
line of its file is torn (finishing tolerates that).

Cost: about 1 us an operation row on the machine that this was tuned on, most of it orjson; see
the test of the hot path.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson

FLUSH_INTERVAL_S: Final = 0.02


class LiveRecorder:
    """Appends events of one process to one file. Any thread may record; `close` flushes.

    Use the context manager, or `close` in a ``finally``: what has not been flushed is lost with
    the process.
    """

    def __init__(
        self, path: str | Path, process: str, *, flush_interval_s: float = FLUSH_INTERVAL_S
    ) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.process = process
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._lines: deque[bytes] = deque()
        self._append = self._lines.append
        self._interval_s = flush_interval_s
        self._stop = threading.Event()
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"recorder-{process}", daemon=True)
        self._thread.start()

    def event(self, kind: str, /, **fields: Any) -> None:
        """One row of ``kind``; ``t`` is now and ``process`` this one, unless given."""
        if "t" not in fields:
            fields["t"] = time.monotonic_ns()
        if "process" not in fields:
            fields["process"] = self.process
        fields["f"] = kind
        self._append(orjson.dumps(fields))

    def invoke(self, kind: str, op: int, t: int, **fields: Any) -> None:
        """An operation begins at ``t``: a crash from here on leaves an `info` row behind."""
        fields["f"] = kind
        fields["process"] = self.process
        fields["type"] = "invoke"
        fields["op"] = op
        fields["t"] = t
        self._append(orjson.dumps(fields))

    def complete(
        self, kind: str, op: int, outcome: str, invoke_t: int, t: int, **fields: Any
    ) -> None:
        """An operation ended at ``t``; ``outcome`` is ok, fail or info."""
        fields["f"] = kind
        fields["process"] = self.process
        fields["type"] = outcome
        fields["op"] = op
        fields["invoke_t"] = invoke_t
        fields["t"] = t
        self._append(orjson.dumps(fields))

    def flush(self) -> None:
        """Write what has gathered so far."""
        with self._writing:
            gathered = len(self._lines)
            if not gathered or self._fd < 0:
                return
            take = self._lines.popleft
            data = b"\n".join([take() for _ in range(gathered)]) + b"\n"
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]

    def close(self) -> None:
        """Write the rest and close the file. Safe to repeat."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self.flush()
        with self._writing:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _run(self) -> None:
        while not self._stop.wait(self._interval_s):
            self.flush()

    def __enter__(self) -> LiveRecorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

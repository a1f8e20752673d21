"""The live history of one process: crash-safe lines of JSON, cheap enough for a client's hot path.

Callers put ready-made lines into a deque (appends are atomic: any thread may record); one thread
writes whatever has gathered with a single O_APPEND write every few milliseconds, so that each
write ends with a line's end. A killed process loses at most that interval, and at most the last
line of its file is torn (finishing tolerates that).

Every row is numbered (``seq``), and the last one says that it is the last: what never reached the
file shows as a gap, or as a missing end. A write that fails (a full disk, a limit on the file's
size) is told at once, to ``on_failure`` or else on standard error, and loses nothing: the rows are
kept, the write is tried again, and once it succeeds the history says what happened (kind
``infra``). What cannot be written to the end makes `close` raise
`RecorderFailed`: the process must not end as if all were well.

Cost: about 1 us an operation row on the machine that this was tuned on, most of it orjson; see
the test of the hot path.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import orjson

FLUSH_INTERVAL_S: Final = 0.02
_LAST_TRIES_S: Final = 5.0
"""How long `close` goes on trying to write what could not be written."""


class RecorderFailed(OSError):
    """Part of the history could not be written. The message names the file and the reason."""


def _to_stderr(says: str) -> None:
    print(f"recorder: {says}", file=sys.stderr, flush=True)


class LiveRecorder:
    """Appends events of one process to one file. Any thread may record; `close` flushes.

    Use the context manager, or `close` in a ``finally``: what has not been flushed is lost with
    the process.
    """

    def __init__(
        self,
        path: str | Path,
        process: str,
        *,
        flush_interval_s: float = FLUSH_INTERVAL_S,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self.process = process
        self.path = str(path)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._lines: deque[bytes] = deque()
        self._append = self._lines.append
        self._number = itertools.count().__next__  # atomic, as appending is
        self._unwritten = b""
        """Taken from the lines, and not yet (wholly) in the file."""
        self._failures = 0
        self._failure: OSError | None = None
        self._on_failure = on_failure or _to_stderr
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
        fields["seq"] = self._number()
        self._append(orjson.dumps(fields))

    def invoke(self, kind: str, op: int, t: int, **fields: Any) -> None:
        """An operation begins at ``t``: a crash from here on leaves an `info` row behind."""
        fields["f"] = kind
        fields["process"] = self.process
        fields["type"] = "invoke"
        fields["op"] = op
        fields["t"] = t
        fields["seq"] = self._number()
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
        fields["seq"] = self._number()
        self._append(orjson.dumps(fields))

    def flush(self) -> None:
        """Write what has gathered so far. What cannot be written is kept for the next time."""
        with self._writing:
            if self._unwritten and self._fd >= 0:
                self._write()
            gathered = len(self._lines)
            if self._unwritten or not gathered or self._fd < 0:
                return
            take = self._lines.popleft
            self._unwritten = b"\n".join([take() for _ in range(gathered)]) + b"\n"
            self._write()

    def _write(self) -> None:
        view = memoryview(self._unwritten)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self._failures += 1
            self._failure = error
            if self._failures == 1:
                self._on_failure(f"{self.path}: it cannot be written: {error}; tried again")
        else:
            if self._failures:
                self._tell()
        self._unwritten = bytes(view)

    def _tell(self) -> None:
        """What was kept is written now; that it could have been lost is told all the same."""
        reason = f"{self.path}: {self._failures} writes failed: {self._failure}"
        self._failures, self._failure = 0, None
        self.event("infra", component="recorder", reason=reason)

    def close(self) -> None:
        """Write the rest and close the file. Safe to repeat. Raises `RecorderFailed` when part of
        it could not be written."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        if self._fd < 0:
            return
        self.flush()
        self.event("source", closed=True)  # behind what a last failure has to tell
        self.flush()
        deadline = time.monotonic() + _LAST_TRIES_S
        while (self._unwritten or self._lines) and time.monotonic() < deadline:
            time.sleep(min(self._interval_s, 0.1))
            self.flush()
        with self._writing:
            os.close(self._fd)
            self._fd = -1
        if self._unwritten or self._lines:
            raise RecorderFailed(f"{self.path}: the end is not written: {self._failure}")

    @property
    def failing(self) -> bool:
        """Whether the last write failed: what is recorded now is in memory only."""
        return self._failures > 0

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

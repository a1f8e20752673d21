"""The parent's side of a flood worker: spawn, wait until it is ready, let it go, end it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import orjson

from faults.flood.spec import FloodSpec
from faults.protocol import FaultFailed

_STOP_S: Final = 5.0


class FloodWorker:
    """One worker process. Used by one thread at a time."""

    def __init__(self, spec: FloodSpec) -> None:
        self.spec = spec
        output = Path(spec.output)
        output.parent.mkdir(parents=True, exist_ok=True)
        output.touch()
        spec_path, self._log = output.with_suffix(".spec.json"), output.with_suffix(".log")
        spec.save(spec_path)
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "faults.flood.worker", str(spec_path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._said = b""
        self._read_to = 0
        self.completed = 0
        self.errors = 0
        self.connections = 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """As of the last `alive`; minus a signal's number when that ended it."""
        return self._process.returncode

    def ready(self) -> bool:
        """Whether it has said so; `FaultFailed` with its last words when it ended instead."""
        assert self._process.stdout is not None
        while b"ready\n" not in self._said:
            if not select.select([self._process.stdout], [], [], 0)[0]:
                return False
            data = os.read(self._process.stdout.fileno(), 4096)
            if not data:
                self._process.wait(_STOP_S)
                words = self._log.read_bytes()[-2000:].decode(errors="replace").strip()
                raise FaultFailed(f"flood worker {self.spec.process} ended: {words}")
            self._said += data
        return True

    def go(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(b"go\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise FaultFailed(f"flood worker {self.spec.process} has ended") from None

    def poll_stats(self) -> None:
        """Take in the rows written since the last call (completed, errors, connections)."""
        with open(self.spec.output, "rb") as rows:
            rows.seek(self._read_to)
            data = rows.read()
        whole = data.rfind(b"\n") + 1
        self._read_to += whole
        for line in data[:whole].splitlines():
            row = orjson.loads(line)
            self.completed += row["completed"]
            self.errors += row["errors"]
            self.connections = max(self.connections, row["connections"])

    def stop(self) -> dict[str, Any]:
        """End it (kill it when it does not) and return its totals. Safe to repeat."""
        process = self._process
        if process.stdin is not None and not process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None and not process.stdout.closed:
            self._said += process.stdout.read()
            process.stdout.close()
        self.poll_stats()
        for line in reversed(self._said.splitlines()):
            if line.startswith(b"{"):
                totals: dict[str, Any] = json.loads(line)
                return totals
        return {"completed": self.completed, "errors": self.errors, "connections": self.connections}


def wait_all_ready(workers: list[FloodWorker], *, sleep: Any, timeout_s: float) -> None:
    """Return once every worker is ready; `FaultFailed` otherwise."""
    deadline = time.monotonic() + timeout_s
    while not all(worker.ready() for worker in workers):
        if time.monotonic() > deadline:
            late = [w.spec.process for w in workers if not w.ready()]
            raise FaultFailed(f"flood workers not ready within {timeout_s} s: {', '.join(late)}")
        sleep(0.02)

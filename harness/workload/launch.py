"""Starting and ending workload processes.

    with launch(spec) as workload:      # spawned
        workload.wait_ready()           # connected, and from here on at work
        ...
        workload.stop()                 # work ends, history flushed, process gone

The child prints ``ready`` on its standard output once it is connected. It ends when its standard
input closes (which happens too when the harness dies, however it dies) or on SIGTERM, so no process
is left behind. PR_SET_PDEATHSIG would not do: it fires when the *thread* that spawned the child
ends. What the child prints to standard error goes to ``<output>.log``, and into the error when it
fails.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Final

from harness.workload.spec import WorkloadError, WorkloadSpec

_TAIL_BYTES: Final = 2000


class WorkloadProcess:
    """One running workload. Owned by the thread that launched it."""

    def __init__(self, spec: WorkloadSpec) -> None:
        self.spec = spec
        output = Path(spec.output)
        output.parent.mkdir(parents=True, exist_ok=True)
        self.spec_path = output.with_suffix(".spec.json")
        self.log_path = output.with_suffix(".log")
        self.spec_path.write_text(spec.to_json())
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.workload", str(self.spec_path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the harness alone: it ends us in order
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def wait_ready(self, timeout_s: float = 20.0) -> None:
        """Return once it is at work; `WorkloadError` with its last words otherwise."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout_s
        fd = self._process.stdout.fileno()
        seen = b""
        while b"ready\n" not in seen:
            left = deadline - time.monotonic()
            if left <= 0:
                self.kill()
                raise WorkloadError(
                    f"workload {self.spec.process!r}: not ready within {timeout_s} s: "
                    f"{self.last_words()}"
                )
            if select.select([fd], [], [], left)[0]:
                data = os.read(fd, 4096)
                if not data:
                    self._process.wait(5)
                    raise WorkloadError(
                        f"workload {self.spec.process!r} ended (exit code {self.exit_code}) "
                        f"before it was ready: {self.last_words()}"
                    )
                seen += data

    def tell_to_end(self) -> None:
        """Returns at once. Whoever ends several tells them all before it waits for any."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()

    def stop(self, timeout_s: float = 15.0) -> int | None:
        """Ask it to end, wait, kill it when it does not; returns its exit code. Safe to repeat."""
        self.tell_to_end()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return self._process.returncode

    def kill(self) -> None:
        if self.alive():
            self._process.kill()
        self._process.wait()

    def last_words(self) -> str:
        """The end of what it printed to standard error."""
        try:
            return self.log_path.read_bytes()[-_TAIL_BYTES:].decode(errors="replace").strip()
        except OSError:
            return ""

    def __enter__(self) -> WorkloadProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()


def launch(spec: WorkloadSpec) -> WorkloadProcess:
    """Spawn the process of ``spec``; call `wait_ready` to know that it works."""
    return WorkloadProcess(spec)

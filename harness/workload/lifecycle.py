"""A workload process from the inside: saying that it is ready, knowing when to end.

It is to end when its standard input closes (the harness closed it, or died), on SIGTERM, or when
its time is up. A role that does not come to an end within `GRACE_S` after that is ended the hard
way, so that nothing is ever left behind; the recorder has flushed all but the last moments by then.
Where the harness has died nobody waits for what is still under way: `ORPHAN_GRACE_S`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Final

GRACE_S: Final = 20.0
ORPHAN_GRACE_S: Final = 1.0
_LOOK_S: Final = 0.1


class Lifecycle:
    """``stopping`` is set once the process is to end; any thread may look or wait."""

    def __init__(self, duration_ms: int, *, watch_stdin: bool = True) -> None:
        self.stopping = threading.Event()
        self._end_ns = time.monotonic_ns() + duration_ms * 1_000_000
        self._said = False
        self._parent = os.getppid()
        if watch_stdin:
            signal.signal(signal.SIGTERM, lambda _signal, _frame: self.stopping.set())
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            threading.Thread(target=self._watch, name="stdin-watch", daemon=True).start()

    def ready(self) -> None:
        """Tell the harness that work begins."""
        if not self._said:
            self._said = True
            sys.stdout.write("ready\n")
            sys.stdout.flush()

    @property
    def over(self) -> bool:
        return self.stopping.is_set() or time.monotonic_ns() >= self._end_ns

    def _watch(self) -> None:
        try:
            while os.read(0, 4096):
                pass
        except OSError:
            pass
        self.stopping.set()
        told, orphaned = time.monotonic(), None
        while True:
            time.sleep(_LOOK_S)
            now = time.monotonic()
            if orphaned is None and os.getppid() != self._parent:
                orphaned = now
            if now - told > GRACE_S or (orphaned and now - orphaned > ORPHAN_GRACE_S):
                break
        sys.stderr.write(f"did not end within {now - told:.0f} s after it was told to\n")
        sys.stderr.flush()
        os._exit(3)

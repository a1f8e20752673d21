"""A node's own evidence: one line of JSON per event, as `checkers/history.py` defines them.

Each event leaves the process in one ``write`` to a file opened with O_APPEND, at once: a node that
is killed with SIGKILL has lost nothing that it said before, and lines of several threads never mix.
There is no buffer and so no thread of its own; a handful of control-plane events a second does not
need one. Nothing on the produce path is traced.

Every line carries ``process`` (``node-<id>``), ``node`` and ``boot``: the number of this start of
the node, from 1, kept in the log directories (`next_boot`); and ``seq``: its number in this
boot, from 0, so that an event that could not be written leaves a gap for all to see.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

import orjson

log = logging.getLogger("kafka.server.Trace")

BOOT_FILE: Final = "biplane.boot"


class Trace:
    """Writes events. Thread-safe: one event is one system call. Without a path it does nothing.

    An event that cannot be written (a full disk) is dropped: evidence may not change what the
    broker does. It is logged and counted, its number stays missing, and as soon as something can
    be written again the trace says how many were lost (kind ``infra``).
    """

    __slots__ = (
        "_boot", "_fd", "_lock", "_lost", "_node", "_now_ns", "_number", "_process", "enabled",
    )  # fmt: skip

    def __init__(
        self,
        path: str | Path | None = None,
        node: int = -1,
        boot: int = 1,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._node = node
        self._boot = boot
        self._now_ns = now_ns
        self._process = f"node-{node}"
        self._fd = -1
        self._number = itertools.count().__next__  # atomic
        self._lock = threading.Lock()
        self._lost = 0
        if path:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.enabled = self._fd >= 0

    def event(self, kind: str, **fields: Any) -> None:
        """Appends one event; `t` is now unless given. Fields are those of the kind's table."""
        if self._fd < 0:
            return
        if self._write(kind, fields) and self._lost:
            self._tell()

    @property
    def lost(self) -> int:
        """How many events could not be written and are not told of yet."""
        return self._lost

    def _write(self, kind: str, fields: dict[str, Any]) -> bool:
        row: dict[str, Any] = {
            "f": kind,
            "t": self._now_ns(),
            "process": self._process,
            "node": self._node,
            "boot": self._boot,
            "seq": self._number(),
        }
        row.update(fields)
        try:
            line = orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
            if os.write(self._fd, line) == len(line):
                return True
            log.error("an event of kind %s was written in part only", kind)
        except (OSError, TypeError):
            log.exception("an event of kind %s was lost", kind)
        with self._lock:
            self._lost += 1
        return False

    def _tell(self) -> None:
        with self._lock:
            lost, self._lost = self._lost, 0
        reason = f"{lost} events could not be written"
        told = lost and self._write("infra", {"component": "trace", "reason": reason})
        if lost and not told:
            with self._lock:
                self._lost += lost

    def close(self) -> None:
        fd, self._fd, self.enabled = self._fd, -1, False
        if fd >= 0:
            os.close(fd)


def next_boot(log_dirs: Iterable[str | Path]) -> int:
    """Counts this start: reads, raises and durably stores the boot number, in every log directory
    that takes it: each of them may be lost. Raises OSError when there is none.

    A file that cannot be understood counts as absent: boot numbers order the starts of one node
    within a trial, and a trial's directories are fresh.
    """
    working: list[Path] = []
    last, refused = 0, None
    for directory in map(Path, log_dirs):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            last = max(last, int((directory / BOOT_FILE).read_text()))
        except (FileNotFoundError, ValueError):
            pass
        except OSError as error:
            refused = error
            continue
        working.append(directory)
    boot = last + 1
    stored = [_store(boot, directory) for directory in working]
    if True not in stored:
        raise refused or OSError(f"the number of this start cannot be stored in any of {working}")
    return boot


def _store(boot: int, directory: Path) -> bool:
    scratch = directory / (BOOT_FILE + ".tmp")
    try:
        scratch.write_text(f"{boot}\n")
        scratch.replace(directory / BOOT_FILE)
    except OSError as error:
        log.error("%s does not take the number of this start: %s", directory, error)
        return False
    return True

"""A record on disk of every process that runs, so that leftovers can be ended by identity.

Children die with the harness (`launcher`), so a leftover is rare: a process whose exec dropped the
death signal, or one started while the registry's owner was being killed. ``biplane clean`` reads
these records and ends what still runs and whose harness does not.

One file a process, ``<pid>-<start ticks>.json``. A pid alone identifies nothing (it is reused);
with its start time (field 22 of ``/proc/<pid>/stat``, clock ticks since boot) and the machine's
boot id it does. Nothing is ever ended by name. A record is written after the spawn: a harness
killed in between leaves a process without record, and the death signal takes that one.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

_TERMINATION_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Who runs, and for whom."""

    name: str
    pid: int
    start_ticks: int
    owner_pid: int
    owner_start_ticks: int
    boot_id: str


def start_ticks(pid: int) -> int | None:
    """When that process started, in clock ticks since boot; None when there is no such process.

    A zombie counts as gone: it holds no port and no file."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    after_name = stat.rpartition(")")[2].split()  # the name may hold spaces and parentheses
    return None if after_name[0] in "ZX" else int(after_name[19])


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


class Registry:
    """The records of one harness process. Thread-safe: every record is a file of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._boot_id = boot_id()
        self._owner_ticks = start_ticks(os.getpid()) or 0

    def add(self, name: str, pid: int) -> Path | None:
        """Write a record; None when the process has already ended."""
        ticks = start_ticks(pid)
        if ticks is None:
            return None
        record = Record(
            name=name,
            pid=pid,
            start_ticks=ticks,
            owner_pid=os.getpid(),
            owner_start_ticks=self._owner_ticks,
            boot_id=self._boot_id,
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{pid}-{ticks}.json"
        scratch = path.with_suffix(".part")
        scratch.write_text(json.dumps(asdict(record)))
        scratch.replace(path)
        return path


def records(folder: Path) -> Iterator[tuple[Path, Record | None]]:
    """Every record on disk; None for a damaged one."""
    for path in sorted(folder.glob("*.json")):
        try:
            yield path, Record(**json.loads(path.read_text()))
        except FileNotFoundError:
            continue
        except (ValueError, TypeError):
            yield path, None


def clean(folder: Path, *, timeout_s: float = 5.0) -> list[Record]:
    """End every recorded process whose harness is gone; returns those that it ended.

    Processes of a harness that still runs are left alone, and so is a pid that has been reused."""
    here = boot_id()
    ended = []
    for path, record in records(folder):
        if record is not None and record.boot_id == here:
            if start_ticks(record.owner_pid) == record.owner_start_ticks:
                continue
            if start_ticks(record.pid) == record.start_ticks:
                _end(record, timeout_s)
                ended.append(record)
        path.unlink(missing_ok=True)
    return ended


def _end(record: Record, timeout_s: float) -> None:
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(record.pid) == record.pid:  # each was given a group of its own
            os.killpg(record.pid, signal.SIGKILL)
        else:
            os.kill(record.pid, signal.SIGKILL)
    deadline = time.monotonic() + timeout_s
    while start_ticks(record.pid) == record.start_ticks and time.monotonic() < deadline:
        time.sleep(_TERMINATION_POLL_S)

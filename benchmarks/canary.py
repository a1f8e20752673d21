"""How much of its two cores the machine really gave, beside a measurement.

Shared machines lose CPU that no counter reports: the time that another guest takes is charged to
whoever was running. Two looks, both cheap enough to run *during* a measurement:

* `speed`: on each core a thread wakes every 50 ms and times one millisecond's worth of spinning,
  pinned, and at real-time priority where that is permitted, so that nothing in this machine delays
  it. The share of the best speed ever seen is what the machine gave. 2% of a core.
* `others`: cores that were busy with processes that are not ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_EVERY_S: Final = 0.05
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_LOOPS: Final = 20_000


@dataclass
class Canary:
    """`speed` as a share of the best that any canary of this process saw; `others` in cores."""

    speed: float = 0.0
    others: float = 0.0

    def __str__(self) -> str:
        return f"CPU speed {self.speed:4.0%}, others {max(0.0, self.others):.1f} cores"


_best_ns: float = float("inf")


@contextmanager
def canary() -> Iterator[Canary]:
    """Its figures are there after the ``with``."""
    global _best_ns
    found = Canary()
    cores = sorted(os.sched_getaffinity(0))
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.canary", str(core)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for core in cores
    ]
    start, busy, ours = time.monotonic(), _busy_s(), _tree_cpu_s(os.getpid())
    try:
        yield found
    finally:
        elapsed = time.monotonic() - start
        # What has ended meanwhile is in our children's account (it was waited for) either way.
        found.others = (_busy_s() - busy - (_tree_cpu_s(os.getpid()) - ours)) / elapsed
        spins: list[float] = []
        for process in processes:
            spins += json.loads(process.communicate(timeout=10)[0])
        if spins:
            _best_ns = min(_best_ns, *spins)
            found.speed = _best_ns * len(spins) / sum(spins)


def _spin_ns() -> int:
    start_ns = time.monotonic_ns()
    for _ in range(_LOOPS):
        pass
    return time.monotonic_ns() - start_ns


def _run(core: int) -> list[int]:
    """Until standard input closes."""
    ended = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=watch, daemon=True).start()
    os.sched_setaffinity(0, {core})
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(2))
    spins = []
    while not ended.wait(_EVERY_S):
        spins.append(_spin_ns())
    return spins


def _busy_s() -> float:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / _TICKS_PER_S


def _tree_cpu_s(root: int) -> float:
    """CPU of a process and all below it, those that ended included if they were waited for."""
    rows: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                rows[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    ours = {root}
    grown = True
    while grown:
        below = {pid for pid, (parent, _) in rows.items() if parent in ours} - ours
        ours |= below
        grown = bool(below)
    return sum(rows[pid][1] for pid in ours if pid in rows) / _TICKS_PER_S


def main(arguments: list[str]) -> Any:
    print(json.dumps(_run(int(arguments[1]))), flush=True)


if __name__ == "__main__":
    main(sys.argv)

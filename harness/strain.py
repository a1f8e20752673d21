"""Notes how long this process waits for a processor, so that nobody is blamed for a machine whose
processors others keep busy.

Linux counts for each thread how long it ran and how long it could have, and waited
(``/proc/*/task/*/schedstat``). Of the harness's own threads it is told every second: they do the
same little work all the while, and are not what is under test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Final

from checkers.facts.strain import Strained, patience
from harness.cluster.record import Record

EVERY_S: Final = 1.0
Shares = Mapping[str, tuple[int, int]]
"""By thread: how long it has run, and waited to run (ns)."""


def shares(tasks: Path = Path("/proc/self/task")) -> dict[str, tuple[int, int]]:
    """Of all threads that live; none on a kernel that does not count."""
    found: dict[str, tuple[int, int]] = {}
    for file in tasks.glob("*/schedstat"):
        try:
            ran, waited, _ = file.read_text().split()
        except (OSError, ValueError):
            continue
        found[file.parent.name] = (int(ran), int(waited))
    return found


def between(before: Shares, after: Shares) -> tuple[int, int]:
    """How long those ran and waited meanwhile (ns) that lived all the while."""
    both = [(before[name], now) for name, now in after.items() if name in before]
    return sum(b[0] - a[0] for a, b in both), sum(b[1] - a[1] for a, b in both)


class Strain:
    """What was told so far. One thread writes, any thread asks."""

    def __init__(self) -> None:
        self._told: list[Strained] = []

    def tell(self, t: int, ran_ns: int, waited_ns: int) -> None:
        self._told.append(Strained(t, ran_ns, waited_ns))

    def patience(self, since_t: int) -> float:
        """`checkers.facts.strain.patience` from then on (ns)."""
        return patience([one for one in list(self._told) if one.t > since_t])


@contextmanager
def measured(record: Record, now_ns: Callable[[], int]) -> Iterator[Strain]:
    """Writes a ``strain`` each second."""
    over, strain = Event(), Strain()

    def watch() -> None:
        before = shares()
        while not over.wait(EVERY_S):
            now = shares()
            ran_ns, waited_ns = between(before, now)
            before = now
            strain.tell(now_ns(), ran_ns, waited_ns)
            record("strain", process="pulse", ran_ns=ran_ns, waited_ns=waited_ns)

    thread = Thread(target=watch, name="biplane-strain", daemon=True)
    thread.start()
    try:
        yield strain
    finally:
        over.set()
        thread.join()

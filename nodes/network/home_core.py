"""While it is busy, the data plane keeps to one core.

The problem: its threads share one interpreter lock, so a second core gains them next to nothing.
But each gives that lock away at every ``recv``, ``pwrite`` and ``send``; on two cores another
thread has taken it before the call returns, and all that they share, the interpreter's own state
first, follows from one core's cache to the other's, three times a request. On one core whoever
waits for the lock is not run before the call has returned, unless the call really blocks. Measured
on two cores, with four and with eight handlers: 50,000 produce requests a second instead of 20,000.

So nobody but the kernel decides who runs, and a thread that blocks in the disk leaves the core to
the others. (Rejected: turns among the threads. They are as fast, but whoever has the turn keeps it
in a slow write.)

A thread of our own looks ten times a second; the plane's threads know nothing of it. It looks
whether the plane is busy, and whether the core has done much that was not ours: the kernel does not
always see to it that others move away (a client that answers as soon as it is answered can share
our core for long, each idle while the other works). Then the plane moves to a quiet core, or, if
there is none, its threads are free for a while, longer each time in a row.
``biplane.data.home.core=false`` switches all of this off.

The cores to choose from are those of the process's main thread, which never keeps to one: whoever
confines the process while it runs (taskset, a cpuset) is obeyed from the next look on. Affinity is
inherited, so threads that a handler starts (fetchers, in a single plane) are let go of, too.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

log = logging.getLogger("kafka.network.SocketServer")

LOOK_S: Final = 0.1
BUSY_PER_S: Final = 1000
"""Requests. Fewer are not worth it."""
CROWDED: Final = 0.15
"""A share of a core's time: what others may take of ours."""
LONGEST_FREE: Final = 16
"""Looks."""

_SECOND_NS: Final = 1_000_000_000
_TICK_NS: Final = _SECOND_NS // os.sysconf("SC_CLK_TCK")
_TASKS: Final = Path("/proc/self/task")


class HomeCore:
    """`look` belongs to one thread: the one that `start` makes, or a test's.

    `threads`: the plane's, as the kernel numbers them; `handled`: requests that it has answered, in
    all. `own_ns`: CPU time that this process has used; `busy_ns`: that each core has worked;
    `allowed`: the cores that this process may use.
    """

    def __init__(
        self,
        threads: Callable[[], Iterable[int]],
        handled: Callable[[], int],
        *,
        now_ns: Callable[[], int] = time.monotonic_ns,
        own_ns: Callable[[], int] = time.process_time_ns,
        busy_ns: Callable[[], Mapping[int, int]] | None = None,
        allowed: Callable[[], set[int]] | None = None,
    ) -> None:
        self.core: int | None = None
        """Where the plane's threads are; None: anywhere."""
        self._threads = threads
        self._handled = handled
        self._now_ns = now_ns
        self._own_ns = own_ns
        self._busy_ns = busy_ns or core_times
        self._allowed = allowed or partial(os.sched_getaffinity, os.getpid())
        self._free_for = 1
        self._free_looks = 0
        """Looks until we try again."""
        self._then_ns = now_ns()
        self._handled_then = handled()
        self._own_then_ns = 0
        self._busy_then_ns: Mapping[int, int] | None = None
        """None: the plane was not busy then."""
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        name = "data-plane-home-core"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(5)

    def _run(self) -> None:
        try:
            while not self._stopped.wait(LOOK_S):
                self.look()
        except OSError as problem:  # the process was confined to other cores meanwhile
            log.info("The data plane's threads do not keep to one core any more: %s", problem)
        with suppress(OSError):
            self._move(None, self._allowed())

    def look(self) -> None:
        """Raises OSError when a core is refused."""
        now_ns, handled = self._now_ns(), self._handled()
        passed_ns = max(1, now_ns - self._then_ns)
        is_busy = (handled - self._handled_then) * _SECOND_NS >= BUSY_PER_S * passed_ns
        self._then_ns, self._handled_then = now_ns, handled
        allowed = self._allowed()
        if not is_busy or len(allowed) < 2:
            self._free_for, self._free_looks = 1, 0
            self._busy_then_ns = None
            self._move(None, allowed)
            return
        own_ns, busy_ns = self._own_ns(), self._busy_ns()
        own = (own_ns - self._own_then_ns) / passed_ns
        before_ns, self._busy_then_ns = self._busy_then_ns, busy_ns
        self._own_then_ns = own_ns
        if before_ns is None:
            return
        busy = {c: (ns - before_ns.get(c, ns)) / passed_ns for c, ns in busy_ns.items()}
        if self._free_looks:
            self._free_looks -= 1
        elif self.core is None or self.core not in allowed:
            self._move(min(allowed, key=lambda core: busy.get(core, 0.0)), allowed)
        else:
            core = choose(self.core, own, busy, allowed)
            if core is None:
                self._free_looks = self._free_for
                self._free_for = min(2 * self._free_for, LONGEST_FREE)
            elif core == self.core:
                self._free_for = 1
            self._move(core, allowed)

    def _move(self, core: int | None, allowed: set[int]) -> None:
        before, self.core = self.core, core
        threads = set(self._threads())
        if before is not None:
            for thread in _inherited({before}, threads):
                _place(thread, allowed)
        if core != before:
            for thread in threads:
                _place(thread, allowed if core is None else {core})


def choose(home: int, own: float, busy: Mapping[int, float], allowed: Set[int]) -> int | None:
    """The core to be on from now on; None: wherever the kernel likes.

    `own`: what this process used; `busy`: what each core has worked; both as shares of one core's
    time. What this process did elsewhere than at home counts as if it had been done at home, so
    others are seen too rarely rather than too often.
    """
    others = busy.get(home, 0.0) - own
    if others <= CROWDED:
        return home
    elsewhere = {core: busy[core] for core in allowed & busy.keys() if core != home}
    quietest = min(elsewhere, key=elsewhere.__getitem__, default=home)
    return quietest if elsewhere.get(quietest, 1.0) < others / 2 else None


def _place(thread: int, cores: Set[int]) -> None:
    with suppress(ProcessLookupError):  # it has ended
        os.sched_setaffinity(thread, cores)


def _inherited(cores: set[int], own: Set[int]) -> Iterable[int]:
    """Threads that are where ours are without being ours."""
    for name in os.listdir(_TASKS):
        thread = int(name)
        if thread not in own:
            with suppress(ProcessLookupError):
                if os.sched_getaffinity(thread) == cores:
                    yield thread


def core_times() -> dict[int, int]:
    """Nanoseconds that each core has been busy since the machine started (proc_stat(5)). Empty
    where nobody tells."""
    try:
        lines = Path("/proc/stat").read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        name, *ticks = line.split()
        if not name.startswith("cpu"):
            break
        if name != "cpu":
            user, nice, system, _idle, _wait, irq, softirq, steal = map(int, ticks[:8])
            found[int(name[3:])] = (user + nice + system + irq + softirq + steal) * _TICK_NS
    return found

"""While it is busy, the data plane keeps to one core.

The problem: its threads take turns (see `baton`), so a second core gains them nothing. But the
kernel wakes each on whatever core is idle, and all that they share, the interpreter's own state
first, then has to follow from one core's cache to the other's, at every turn. On one core a turn is
a plain context switch.

The kernel chooses the core: the threads stay where one of them was when the plane had become busy.
Whoever else is there may move away, but the kernel does not always see to it: a client that answers
as soon as it is answered can share our core for long, each of the two idle while the other works,
with another core that nobody uses. So now and then we look whether our core has done much that was
not ours. Then the plane moves to a quiet core, or, if there is none, its threads are free for a
while, and longer each time in a row. ``biplane.data.home.core=false`` switches all of this off.

The cores to choose from are those of the process's main thread, which never keeps to one: whoever
confines the process while it runs (taskset, a cpuset) is obeyed from the next look on. A plane that
is not busy any more, or not to keep to a core, lets go of all of its threads at once, of those that
sleep, too.

Affinity is inherited: a thread that may start others must `leave` first.
"""

from __future__ import annotations

import ctypes
import logging
import os
import time
from _thread import get_ident, get_native_id
from collections.abc import Callable, Mapping, Set
from functools import partial
from pathlib import Path
from typing import Final

log = logging.getLogger("kafka.network.SocketServer")

LOOK_NS: Final = 200_000_000
"""How often we look at a plane that keeps to a core."""
FREE_NS: Final = 5_000_000
LONGEST_FREE_NS: Final = 640_000_000
BUSY_PER_S: Final = 1000
"""Turns of the baton. Fewer are not worth it."""
CROWDED: Final = 0.15
"""A share of a core's time: what others may take of ours."""

_SECOND_NS: Final = 1_000_000_000
_TICK_NS: Final = _SECOND_NS // os.sysconf("SC_CLK_TCK")


def home_core() -> HomeCore | None:
    """None where there is no choice of cores."""
    return HomeCore() if len(os.sched_getaffinity(0)) > 1 else None


class HomeCore:
    """`visit` is called by whoever has just got the baton, so by one thread at a time; `leave` by
    any thread that visits, for itself."""

    def __init__(
        self,
        now_ns: Callable[[], int] = time.monotonic_ns,
        own_ns: Callable[[], int] = time.process_time_ns,
        busy_ns: Callable[[], Mapping[int, int]] | None = None,
        allowed: Callable[[], set[int]] | None = None,
    ) -> None:
        """`own_ns`: CPU time that this process has used; `busy_ns`: that each core has worked;
        `allowed`: the cores that this process may use."""
        self._now_ns = now_ns
        self._own_ns = own_ns
        self._busy_ns = busy_ns or core_times
        self.is_ours = False
        """We keep to a core, and nobody else was there when we looked last."""
        self._allowed = allowed or partial(os.sched_getaffinity, os.getpid())
        self._cores = self._allowed()
        self._is_possible = True
        self._core: int | None = None
        """Where everybody is to be; None: anywhere."""
        self._places: dict[int, int] = {}
        """By thread: the core that it keeps to."""
        self._threads: set[int] = set()
        """All that ever kept to one, as the kernel calls them."""
        self._visits = 0
        self._since_ns = self._until_ns = 0
        self._own_before_ns = 0
        self._busy_before_ns: Mapping[int, int] = {}
        self._free_ns = FREE_NS
        self._current_core = ctypes.CDLL(None).sched_getcpu

    def visit(self) -> None:
        self._visits += 1
        now_ns = self._now_ns()
        if now_ns >= self._until_ns:
            self._look(now_ns)
        core = self._core
        if self._places.get(get_ident()) != core:
            self._go(core)

    def leave(self) -> None:
        if get_ident() in self._places:
            self._go(None)

    def _look(self, now_ns: int) -> None:
        passed_ns = max(1, now_ns - self._since_ns)
        before, cores = self._core, self._allowed()
        if cores != self._cores:
            self._cores, self._core = cores, None
            self._is_possible = len(cores) > 1
            self._let_go()
        is_busy = self._visits * _SECOND_NS >= BUSY_PER_S * passed_ns
        own_ns, self._own_before_ns = self._own_before_ns, self._own_ns()
        busy_ns, self._busy_before_ns = self._busy_before_ns, {}
        if not is_busy or not self._is_possible:
            self._core = None
            self._free_ns = FREE_NS
        else:
            self._busy_before_ns = self._busy_ns()
            if self._core is None:
                core = self._current_core()
                self._core = core if core in self._cores else None
            else:
                shares = {
                    core: (busy - busy_ns.get(core, busy)) / passed_ns
                    for core, busy in self._busy_before_ns.items()
                }
                own = (self._own_before_ns - own_ns) / passed_ns
                self._core = choose(self._core, own, shares, self._cores)
                longer_ns = min(2 * self._free_ns, LONGEST_FREE_NS)
                self._free_ns = FREE_NS if self._core == before else longer_ns
        if before is not None and self._core is None:
            self._let_go()
        self.is_ours = self._core is not None and self._free_ns == FREE_NS
        self._visits = 0
        self._since_ns = now_ns
        self._until_ns = now_ns + (self._free_ns if self._core is None else LOOK_NS)

    def _let_go(self) -> None:
        """Every thread may go anywhere."""
        self._places.clear()
        for thread in list(self._threads):
            try:
                os.sched_setaffinity(thread, self._cores)
            except OSError:  # it has ended
                self._threads.discard(thread)

    def _go(self, core: int | None) -> None:
        """Moves the calling thread."""
        try:
            os.sched_setaffinity(0, self._cores if core is None else {core})
        except OSError as problem:  # the process was confined to other cores meanwhile
            log.info("The data plane's threads do not keep to one core any more: %s", problem)
            self._is_possible = False
            self._core = core = None
            self.is_ours = False
            self._let_go()
        if core is None:
            self._places.pop(get_ident(), None)
        else:
            self._places[get_ident()] = core
            self._threads.add(get_native_id())


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

"""One data-plane thread at a time, network threads and request handlers alike.

The problem: a thread gives the interpreter lock away at every ``recv``, ``send`` and ``pwrite``.
With two or more of them awake, each such call hands the lock to somebody else and then waits a
whole switch interval to get it back: two network threads are slower than one, by almost half, and
so is one with a handler beside it. They cannot run Python at the same time anyway. So the data
plane's threads pass a baton: a network thread holds it while it works through its ready
connections, never while it waits (for events, or for room in the request queue); a handler holds it
while it works through a share of quick requests, never for a request that may wait for anything.
The control plane's threads have no part in this and so compete for the interpreter with one thread
at most.

Fair by a gate: whoever waits for the baton holds the gate, and a thread that gave the baton back
must pass that gate before it can take it again.

The baton guards no data, only the time of the others. So nobody waits for it for long: a handler
that got stuck (in the disk, behind a lock) loses it. The waiting thread makes a new one and says so
(`on_stuck`, for other handlers to be woken), and the old one is of no use to anybody any more.

A handler's answers would wake network threads, only to let them queue for the baton; so their
wake-ups wait until the handler gives the baton back (`put_off`).

The longer each thread goes on with the same kind of work, the less it costs, caches being what they
are. So a network thread that has read all that is there lets the others read, too, before a handler
is woken; and on a core that is the plane's alone a handler that has finished yields it before it
looks for more, so that the network threads find it still in charge and need not wake it (see
`RequestChannel`).
"""

from __future__ import annotations

from _thread import LockType, allocate_lock, get_ident
from collections.abc import Callable
from typing import Final

from nodes.network.home_core import HomeCore

PATIENCE_S: Final = 0.01
"""Ten times what a handler's share takes: longer is stuck."""


class Baton:
    """`take` frames the work: what it returns is the baton, and whoever has that gives it back by
    releasing it. `offer` in between lets a waiting thread go first."""

    __slots__ = ("_baton", "_gate", "_handling", "_patience_s", "home", "on_stuck")

    def __init__(self, patience_s: float = PATIENCE_S, home: HomeCore | None = None) -> None:
        self._patience_s = patience_s
        self.home = home
        self._gate = allocate_lock()
        self._baton = allocate_lock()
        self._handling: tuple[int, list[Callable[[], None]]] = (0, [])
        """The handler that has the baton (0: none has) and the calls it is to make."""
        self.on_stuck: Callable[[], None] | None = None

    def take(self) -> LockType:
        with self._gate:
            baton = self._baton
            if not baton.acquire(True, self._patience_s):
                baton = allocate_lock()
                baton.acquire()
                self._baton = baton
                if self.on_stuck is not None:
                    self.on_stuck()
        if self.home is not None:
            self.home.visit()
        return baton

    def is_wanted(self) -> bool:
        """Whether another thread waits for it."""
        return self._gate.locked()

    def offer(self, baton: LockType) -> LockType:
        """Lets a waiting thread go first."""
        if not self._gate.locked():
            return baton
        baton.release()
        return self.take()

    # ---- for handlers ----------------------------------------------------------------------------
    def begin_handling(self) -> list[Callable[[], None]]:
        """The calling thread has the baton and is a handler: calls can be put off. They are in the
        list for `give_after_handling`."""
        if self.home is not None:
            self.home.visit()
        calls: list[Callable[[], None]] = []
        self._handling = (get_ident(), calls)
        return calls

    def give_after_handling(self, baton: LockType, calls: list[Callable[[], None]]) -> None:
        """Gives the baton back, then makes the calls that were put off meanwhile."""
        if self._handling[1] is calls:
            self._handling = (0, [])
        baton.release()
        for call in calls:
            call()

    def put_off(self, call: Callable[[], None]) -> bool:
        """True if the calling thread is a handler with the baton: `call` is made once the baton has
        been given back. Otherwise nothing is done."""
        handler, calls = self._handling
        if handler != get_ident():
            return False
        calls.append(call)
        return True

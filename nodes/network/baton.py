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

A handler's answers would wake network threads, only to let them queue for the baton; so their
wake-ups wait until the handler gives the baton back (`put_off`).
"""

from __future__ import annotations

from _thread import allocate_lock, get_ident
from collections.abc import Callable


class Baton:
    """`take` and `give` frame the work; `offer` in between lets a waiting thread go first."""

    __slots__ = ("_baton", "_gate", "_handler", "_put_off")

    def __init__(self) -> None:
        self._gate = allocate_lock()
        self._baton = allocate_lock()
        self._handler = 0
        self._put_off: list[Callable[[], None]] = []

    def take(self) -> None:
        with self._gate:
            self._baton.acquire()

    def give(self) -> None:
        self._baton.release()

    def offer(self) -> bool:
        """Lets a waiting thread go first; False when there was none."""
        if not self._gate.locked():
            return False
        self._baton.release()
        with self._gate:
            self._baton.acquire()
        return True

    # ---- for handlers ----------------------------------------------------------------------------
    def begin_handling(self) -> None:
        """The calling thread has the baton and is a handler: calls can be put off."""
        self._handler = get_ident()

    def give_after_handling(self) -> None:
        """Gives the baton back, then makes the calls that were put off meanwhile."""
        self._handler = 0
        calls, self._put_off = self._put_off, []
        self._baton.release()
        for call in calls:
            call()

    def put_off(self, call: Callable[[], None]) -> bool:
        """True if the calling thread is a handler with the baton: `call` is made once it has given
        it back. Otherwise nothing is done."""
        if self._handler != get_ident():
            return False
        self._put_off.append(call)
        return True

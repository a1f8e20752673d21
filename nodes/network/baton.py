"""One data-plane network thread at a time.

The problem: a network thread gives the interpreter lock away at every ``recv`` and ``send``. With
two or more of them (and handlers) awake, each call hands the lock to somebody else and then waits a
whole switch interval to get it back: two network threads are slower than one, by almost half.
They cannot run Python at the same time anyway. So the data plane's processors pass a baton: a
thread holds it while it works through its ready connections, never while it waits (for events, or
for room in the request queue). The control plane's processor has no part in this.

Fair by a gate: whoever waits for the baton holds the gate, and a thread that gave the baton back
must pass that gate before it can take it again.
"""

from __future__ import annotations

from _thread import allocate_lock


class Baton:
    """`take` and `give` frame the work; `offer` in between lets a waiting thread go first."""

    __slots__ = ("_baton", "_gate")

    def __init__(self) -> None:
        self._gate = allocate_lock()
        self._baton = allocate_lock()

    def take(self) -> None:
        with self._gate:
            self._baton.acquire()

    def give(self) -> None:
        self._baton.release()

    def offer(self) -> None:
        if self._gate.locked():
            self._baton.release()
            with self._gate:
                self._baton.acquire()

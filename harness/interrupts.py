"""Ctrl-C, SIGTERM and SIGHUP end a run in order, at whatever moment they come.

The first one becomes a KeyboardInterrupt in the main thread: what runs there stops, and whoever
started something ends it on the way out. Every later one changes nothing: the run is being ended,
and a second exception would only cut off what ends it. (`kill -9` remains; then the kernel and
closed pipes end what runs, see `harness.runtime.process`.)

Python raises between any two steps of a program, also between those of `threading.Condition` in
which a lock is held that no ``finally`` gives back yet: whoever needs it next (an executor's
thread, a queue, an event) then waits for ever. A signal that meets such a frame is obeyed a moment
later: once it is past it, or is seen to wait there.

What must not be done by half (a process is started and its handle kept; a history is finished) is
`uninterrupted`: a signal that comes meanwhile is obeyed at its end. What has something to undo at
its own end is `uninterrupted` as a whole, and `interruptible` within: then there is no moment
between the two.

    with uninterrupted():
        try:
            with interruptible():
                work()
        finally:
            undo()
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_TERMINALS: Final = ("/dev/pts/", "/dev/tty", "/dev/console")
_BETWEEN: Final = ("__enter__", "__exit__", "__del__")
"""Functions that hold what they do not guard, or whose exceptions Python drops."""
_MODULES: Final = (threading.__name__, __name__)
_AGAIN_S: Final = 0.001
_WAITS: Final = 50
"""Met so often at one instruction, a frame waits there. Once or twice proves nothing: on a busy
machine the next look comes before the thread has gone on from the last one."""


class _State:
    """The process's, since signal handlers are."""

    def __init__(self) -> None:
        self.installed = False
        self.depth = 0
        """Of nested `uninterrupted` blocks of the main thread."""
        self.came: int | None = None
        """The first signal."""
        self.met: tuple[FrameType, int] | None = None
        """Where it was put off: the frame (kept, so that no other takes its place) and the
        instruction."""
        self.times = 0
        """How often there."""
        self.obeyed = False


_state: Final = _State()


def install() -> None:
    """From now on the three signals mean what the module says. Main thread only; to be asked for
    again when something else has taken a signal over. A signal that somebody has set to be
    ignored (nohup: SIGHUP) stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _on_signal)
    signal.signal(signal.SIGALRM, _on_alarm)
    if not _state.installed:
        _state.installed, _state.depth, _state.came, _state.obeyed = True, 0, None, False


def in_order(main: Callable[[], int]) -> int:
    """A program as a whole: what it started it ends, whatever comes; its exit code is then 2."""
    install()
    try:
        code = main()
        settle()
    except KeyboardInterrupt:
        return 2
    return code


def pending() -> bool:
    """Whether the run is to end."""
    return _state.came is not None


def check() -> None:
    """Raise again what may have been lost: Python drops exceptions that come in a destructor."""
    if pending() and _state.depth == 0:
        _state.obeyed = True
        raise KeyboardInterrupt


def settle() -> None:
    """The outcome is known and being told: signals that come from now on change nothing, to the
    very end of the process (Python gives handlers of its own up before that)."""
    for number in (*SIGNALS, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)


def forget() -> None:
    """What came. For tests, which go on living."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    _state.__init__()  # type: ignore[misc]


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A signal that comes inside is obeyed when the outermost such block ends. Other threads than
    the main one are never interrupted: there it does nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
        _obey()


@contextmanager
def interruptible() -> Iterator[None]:
    """Inside an `uninterrupted` block: a signal, also one that came before, is obeyed at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    depth, _state.depth = _state.depth, 0
    try:
        _obey()
        yield
    finally:
        _state.depth = depth


def _on_signal(number: int, frame: FrameType | None) -> None:
    if _state.came is None:
        _state.came = number
        name = signal.Signals(number).name
        text = f"\nbiplane: {name}: ending what was begun, keeping what was recorded\n"
        if number == signal.SIGHUP:
            _let_go_of_terminals()
        with suppress(OSError):
            os.write(2, text.encode())  # no lock is taken: the frame below may hold it
    _on_alarm(number, frame)


def _on_alarm(_number: int, frame: FrameType | None) -> None:
    if frame is not None and _is_between(frame):
        met = (frame, frame.f_lasti)
        _state.times = _state.times + 1 if met == _state.met else 1
        _state.met = met
        if _state.times < _WAITS:
            signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
            return
    _obey()


def _is_between(frame: FrameType) -> bool:
    """This module's frames are on the way: what is raised in one comes out where it was met."""
    return frame.f_code.co_name in _BETWEEN or frame.f_globals.get("__name__") in _MODULES


def _let_go_of_terminals() -> None:
    """Of those that are gone: whoever prints on the way out is not to fail by it. pytest keeps
    more descriptors of one than 1 and 2."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    gone = select.poll()
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{descriptor}").startswith(_TERMINALS):
                gone.register(descriptor, select.POLLHUP)
    for descriptor, events in gone.poll(0):
        if events & select.POLLHUP:
            os.dup2(nowhere, descriptor, inheritable=descriptor <= 2)
    os.close(nowhere)


def _obey() -> None:
    if _state.came is not None and not _state.obeyed and _state.depth == 0:
        _state.obeyed = True
        raise KeyboardInterrupt

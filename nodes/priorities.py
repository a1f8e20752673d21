"""A scheduling priority for the control plane's threads.

The problem: KIP-291 gives the control plane threads of its own, but all threads of a Python process
share one interpreter lock. A control request asks for that lock about six times on its way, and
data threads, which release it at every system call, usually win it back first. Measured beforehand:
under a saturated data plane the control round trip has a p99 of 2.2 ms with separate threads alone
and 0.55 ms when the kernel prefers the control threads as soon as the lock is free.

So each control thread asks, from inside itself, for SCHED_FIFO, or failing that for nice -20. Both
need CAP_SYS_NICE, or a limit (RLIMIT_RTPRIO, RLIMIT_NICE) that grants one of them; without it the
thread stays as it is and the broker says so once. Neither may be inherited: a fetcher that a
control thread starts belongs to the data plane. SCHED_RESET_ON_FORK sees to both. It comes with a
policy, so the ordinary one is set again with it before the nice value (which needs no right);
where even that is refused the nice value is not asked for.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger("kafka.server.ControlPlanePriority")

NICE: Final = -20

_said_so = threading.Event()


def _set_policy(policy: int, priority: int) -> None:
    """Of the calling thread, not of those that it starts from now on: they get the ordinary policy
    and no nice value below 0 (sched(7))."""
    os.sched_setscheduler(0, policy | os.SCHED_RESET_ON_FORK, os.sched_param(priority))


def _set_nice(value: int) -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), value)


def prefer_this_thread(
    set_policy: Callable[[int, int], None] = _set_policy,
    set_nice: Callable[[int], None] = _set_nice,
) -> str:
    """Raises the calling thread's priority, its alone; returns how: ``fifo``, ``nice``, ``none``.

    What sets them raises OSError when it is refused, AttributeError where there is no such thing.
    """
    try:
        set_policy(os.SCHED_FIFO, 1)
    except (AttributeError, OSError):
        pass
    else:
        return "fifo"
    try:
        set_policy(os.SCHED_OTHER, 0)
        set_nice(NICE)
    except (AttributeError, OSError) as problem:
        if not _said_so.is_set():
            _said_so.set()
            log.warning(
                "control-plane threads run at normal priority (%s); under load they will wait "
                "longer for the interpreter; grant CAP_SYS_NICE to change that",
                problem,
            )
        return "none"
    return "nice"

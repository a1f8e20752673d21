"""A flood must not starve the instruments that measure what it does.

On a machine with few cores a load generator takes whatever the brokers leave over, and then the
probers, the proxies and the other brokers wait for a core, not for the request queue: the figures
would show the scheduler, not KIP-291. So a worker lowers its own weight. It still gets every cycle
that nobody else wants, and a broker that is flooded leaves it enough to keep its queue full.

`nice` alone does nothing here: with ``sched_autogroup_enabled`` (the default of most
distributions) Linux first divides the CPU evenly among *sessions*, and nice values count only
within one. Each worker is a session of its own, so the session's weight is what must be lowered.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

STEP_BACK: Final = 5
"""About a third of the weight of a process that did not step back."""

_AUTOGROUP: Final = Path("/proc/self/autogroup")


def step_back(by: int = STEP_BACK, autogroup: Path = _AUTOGROUP) -> None:
    """Lowers this process's weight, needing no privilege. Not that of its session, when others
    started it (a worker run by hand from a shell)."""
    os.nice(by)
    if os.getsid(0) == os.getpid():
        with contextlib.suppress(OSError):  # no autogroups here
            autogroup.write_text(str(by))

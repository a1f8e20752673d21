"""Whether a run is still being played: its history is not there yet, and nobody else may make it.

A lock on a file in its folder, which the kernel drops with whoever held it.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_FILE: Final = ".playing"


@contextmanager
def playing(run: Path) -> Iterator[None]:
    """While it lasts `is_played` says so, in any process."""
    path = run / _FILE
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def is_played(run: Path) -> bool:
    try:
        with (run / _FILE).open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False  # nobody plays it, or on a file system without locks nobody knows
    return False

"""Spark's JVM as a process: the leader of a session, in which its Python workers stay.

Spark's own files are `checkers.spark`'s. What ends here is ended from outside: the JVM has no say
in it, and may not be up yet.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

END_S: Final = 20.0
_LOOK_S: Final = 0.005
_STARTED_BY: Final = b"_PYSPARK_DRIVER_CONN_INFO_PATH="
"""What PySpark gives to a JVM that it starts, in its environment."""


def not_in_vain(record: logging.LogRecord) -> bool:
    """Py4j logs by the root logger what finalizers of a JVM's objects, and whoever was speaking to
    it, could not tell it when it has gone."""
    return record.msg != "Exception while sending command."


def end_in_order(jvm: subprocess.Popen[bytes]) -> None:
    assert jvm.stdin is not None
    with contextlib.suppress(OSError):
        jvm.stdin.close()  # it ends when nobody speaks to it any more
    with contextlib.suppress(subprocess.TimeoutExpired):
        jvm.wait(END_S)


def kill(jvm: subprocess.Popen[bytes]) -> None:
    """With the workers that it began."""
    deadline = time.monotonic() + END_S
    while _kill_session(jvm.pid) and time.monotonic() < deadline:
        jvm.poll()
        time.sleep(_LOOK_S)
    jvm.kill()
    jvm.wait()


def kill_starting() -> None:
    """The one that is being started, of which PySpark tells nobody until it is up: whoever waits
    for it is then told that it failed."""
    logging.getLogger().addFilter(not_in_vain)  # the same again is no second one
    for pid, parent, session in _running():
        if parent == os.getpid() and session == pid and _STARTED_BY in _environment(pid):
            _kill_session(session)


def _kill_session(session: int) -> bool:
    """Whether there was something in it."""
    there = [pid for pid, _, its in _running() if its == session]
    for pid in there:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return bool(there)


def _running() -> Iterator[tuple[int, int, int]]:
    """Each process: its pid, its parent's, and its session."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, _, session = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue  # it has ended
        if state != "Z":
            yield int(path.parent.name), int(parent), int(session)


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""  # it has ended

"""Becomes another program that dies with its parent: ``launcher.py <parent> <fd> <argv...>``.

PR_SET_PDEATHSIG has to be set by the child itself, between fork and exec. A ``preexec_fn`` would
run Python code in the fork of a process with many threads, which can deadlock on a lock that some
other thread held; this tiny program (run by its path, with ``python -I -S``) is the child's own
first image instead, and replaces itself. The setting survives the exec.

If the parent died before the setting took hold, the signal will never come: hence the check
afterwards. ``fd`` is the write end of a pipe that closes with the exec, so that the parent knows
from then on: whatever it does to the child (SIGSTOP included), the setting holds. Imports nothing
but the standard library; about 25 ms.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent = int(sys.argv[1])
    os.set_inheritable(int(sys.argv[2]), False)
    argv = sys.argv[3:]
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"launcher: parent {parent} is gone")
    try:
        os.execvp(argv[0], argv)
    except OSError as e:
        sys.exit(f"launcher: cannot run {argv[0]}: {e.strerror}")


if __name__ == "__main__":
    main()

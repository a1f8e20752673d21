"""A disk that is as slow as one says, for any broker: `slow_writes.c`, compiled here at run time.

The stall is in the write system call, so nothing in a broker can know of it or avoid it, and one
written in Java has the very same as one written in Python.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Final

_SOURCE: Final = Path(__file__).with_name("slow_writes.c")
_CONTROL: Final = struct.Struct("=qq")
"""Microseconds of a stall; writes so far."""


class NoCompiler(Exception):
    """There is no C compiler on this machine, or it does not take the source."""


class SlowWrites:
    """What one process's writes below `directory` take; `folder` is for our own files.

    Everything in `environment` belongs into that process's environment.
    """

    def __init__(self, folder: Path, directory: Path) -> None:
        library, control = folder / "slow_writes.so", folder / "slow_writes.control"
        if not library.exists():
            compile_library(library)
        control.write_bytes(_CONTROL.pack(0, 0))
        with control.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _CONTROL.size)
        self.environment = {
            "LD_PRELOAD": str(library),
            "SLOW_WRITES_BELOW": str(directory.resolve()),
            "SLOW_WRITES_CONTROL": str(control),
        }

    def stall(self, stall_ms: float) -> None:
        """From now on each write takes so long; writes that wait already are not cut short."""
        struct.pack_into("=q", self._shared, 0, int(stall_ms * 1000))

    @property
    def count(self) -> int:
        """Writes to regular files below the directory, since the process began."""
        writes: int = _CONTROL.unpack_from(self._shared)[1]
        return writes

    def close(self) -> None:
        self._shared.close()


def compile_library(library: Path) -> None:
    """Raises `NoCompiler`, with one line of what would mend it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("a slow disk needs a C compiler; install one: apt-get install -y gcc")
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(_SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoCompiler(f"{compiler} does not take {_SOURCE.name}: {done.stderr.strip()[:300]}")

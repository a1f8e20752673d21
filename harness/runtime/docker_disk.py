"""A bounded disk for one container, which can be filled and which survives its kill -9.

A tmpfs that the host (root) mounts over a folder before the container first starts. Like every
folder that a container gets it is seen at the same path inside and outside, so that whoever damages
log files from outside finds them there. A tmpfs of the container's own would be empty after every
kill; a volume of the engine would not be where the host looks for the logs.

The mount's source is a name: ``biplane:<owner>``. `clean` finds what dead harnesses left by it.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from harness.runtime.protocol import RuntimeFailed

_SOURCE: Final = "biplane:"
_FILLER: Final = ".biplane-filler"
_STEP: Final = 1 << 20


def can_bound() -> bool:
    return os.geteuid() == 0


class BoundedDisk:
    """One mounted folder. Owned by its container's handle."""

    def __init__(self, folder: Path, size_bytes: int, owner: str, user: tuple[int, int]) -> None:
        self.folder: Final = folder
        self._size_bytes = size_bytes
        self._source = _SOURCE + owner
        self._user = user

    def mount(self) -> None:
        """Idempotent: a disk stays mounted over its container's restarts."""
        if self.folder.is_mount():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        uid, gid = self._user
        options = f"size={self._size_bytes},mode=0755,uid={uid},gid={gid}"
        _run("mount", "-t", "tmpfs", "-o", options, self._source, str(self.folder))

    def unmount(self) -> None:
        """Idempotent. Its container must be gone."""
        if self.folder.is_mount():
            _run("umount", str(self.folder))

    @property
    def free_bytes(self) -> int:
        state = os.statvfs(self.folder)
        return state.f_bavail * state.f_frsize

    def fill(self) -> int:
        """Take every free byte; returns how many that were."""
        taken, step = 0, _STEP
        with (self.folder / _FILLER).open("ab", buffering=0) as filler:
            while step:
                try:
                    taken += filler.write(b"\0" * step)
                except OSError as e:
                    if e.errno != errno.ENOSPC:
                        raise RuntimeFailed(f"{self.folder} cannot be filled: {e}") from e
                    step //= 2
        return taken

    def free(self) -> None:
        """Give back what `fill` took. Idempotent."""
        (self.folder / _FILLER).unlink(missing_ok=True)


def mounted() -> Iterator[tuple[str, Path]]:
    """(owner, folder) of every bounded disk on this machine, newest first."""
    for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
        source, folder, *_ = line.split(" ")
        if source.startswith(_SOURCE):
            # The kernel writes white space in octal: "\040".
            yield source.removeprefix(_SOURCE), Path(folder.encode().decode("unicode_escape"))


def unmount(folder: Path) -> None:
    _run("umount", str(folder))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if done.returncode != 0:
        raise RuntimeFailed(f"{' '.join(command)}: {done.stderr.strip()[:200]}")

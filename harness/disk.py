"""Whether there is room for a run: asked before anything is started, and while it goes on.

Nearly all that a trial writes is what produce floods have brokers write (`FLOOD_BYTES_PER_S`), to
topics that nobody asks again: their logs are removed when the trial ends, so that a run needs room
for one trial's.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from faults.plan import Plan
from harness.settings import SettingsError

MIB: Final = 1 << 20
GIB: Final = 1 << 30
TRIAL_BYTES: Final = 60 * MIB
"""What a trial leaves, and some more: live files, history, nodes' own logs, topics under test."""
FLOOD_BYTES_PER_S: Final = 100 * MIB
"""92 MB/s were seen on two cores."""
SPARE_BYTES: Final = 512 * MIB
"""What must stay free: more than a flood writes between two looks (`harness.cluster.health`)."""
_WRITING: Final = ("flood-produce", "flood-heavy-produce")
_FLOOD_TOPIC: Final = "flood-"
"""How topics of floods' own begin: see `faults.flood.base`."""


def needed_bytes(plan: Plan, trials: int) -> int:
    """About what so many trials of that plan write, and what must stay free besides."""
    floods_s = sum(e.duration_ms / 1000 for e in plan.entries if e.fault in _WRITING)
    return trials * TRIAL_BYTES + int(floods_s * FLOOD_BYTES_PER_S) + SPARE_BYTES


def room(folder: Path, plan: Plan, trials: int) -> str:
    """What a run will need of the disk and what there is, in words; `SettingsError` when that is
    not enough."""
    needed, free = needed_bytes(plan, trials), free_bytes(folder)
    what = "1 trial needs" if trials == 1 else f"{trials} trials need"
    says = f"{what} about {in_words(needed)} of {in_words(free)} that are free"
    if needed > free:
        raise SettingsError(
            f"--store: {folder}: {says}; "
            "free some, name another disk, or ask for less: --time-limit, --rounds"
        )
    return says


def remove_flood_logs(log_dirs: Iterable[Path], kept: Collection[str]) -> None:
    """``kept``: topics that are not floods', however they are called."""
    for folder in log_dirs:
        for log in folder.glob(f"{_FLOOD_TOPIC}*-*"):
            if log.name.rpartition("-")[0] not in kept:
                shutil.rmtree(log, ignore_errors=True)


def free_bytes(folder: Path) -> int:
    """On the disk that ``folder`` is on, or will be on once it is made."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(there).free


def in_words(count: int) -> str:
    return f"{count / GIB:.1f} GB" if count >= GIB else f"{count / MIB:.0f} MB"

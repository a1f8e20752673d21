"""``fail-disk``: the log directory of a broker that runs refuses whatever is new.

Its partition folders are moved aside, and a file lies where each of them was: nothing can be made,
renamed or removed there, whoever tries it, root as well (ENOTDIR). What is open stays open, as when
a disk fails here and there: a broker notices when a log begins its next segment (topics need short
ones, and load). It must end at once then, since that was its only log directory (Kafka's
LogDirFailureChannel and LogManager.handleLogDirFailure, KIP-112): one that goes on keeps what it
leads, and answers its clients with errors while sound replicas stand by.

Heal gives the folders back as they were, and starts the broker, which then recovers its logs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from faults.base import BaseFault
from faults.observing import await_all_in_sync
from faults.params import Params
from faults.protocol import Capability, Context, Entry
from faults.targets import aim, read_targets

_AWAY: Final = ".moved-aside"


class FailDisk(BaseFault):
    """Parameters: target (one broker); in_sync_ms: how long to wait for full in-sync sets first;
    halt_ms: how long the broker may take to notice, and to end.

    Took hold: nothing can be made in its partitions' folders, and it ended; or it wrote to what it
    had open, so that a log had to begin its next segment, and it ``went_on`` for all that time, and
    was killed then. ``detail`` names who ``halted`` or ``went_on``.
    """

    name = "fail-disk"
    needs = frozenset({Capability.KILL, Capability.LOG_FILES})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        self.in_sync_ms = params.integer("in_sync_ms", 30_000, low=1)
        self.halt_ms = params.integer("halt_ms", 10_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        await_all_in_sync(ctx, timeout_ms=self.in_sync_ms)
        node = aim(ctx, self.targets)[0]
        self.nodes = [node]
        log_dir = Path(ctx.nodes.log_dir(node))
        self.owe_start(node)
        self.owe(("moved-aside", node), lambda _ctx: give_back(log_dir))
        moved: list[str] = []
        held = 0

        def fail() -> None:
            nonlocal held
            moved.extend(take_away(log_dir))
            held = _bytes_in(log_dir / _AWAY)

        halted = ctx.nodes.halts(node, fail, self.halt_ms / 1e3)
        written = _bytes_in(log_dir / _AWAY) - held
        self.took_hold = bool(moved) and (halted or written > 0)
        self.detail |= {"targets": self.targets, "moved": len(moved), "written_bytes": written}
        self.detail["halted" if halted else "went_on"] = [node]
        if not halted:
            self.kill(ctx, node)


def _bytes_in(folder: Path) -> int:
    """Of all segments there."""
    return sum(path.stat().st_size for path in folder.glob("*/*.log"))


def take_away(log_dir: Path) -> list[str]:
    """The names of what is not there any more. `give_back` undoes it, how far it ever came."""
    aside = log_dir / _AWAY
    folders = sorted(path for path in log_dir.iterdir() if path.is_dir())
    aside.mkdir()
    for folder in folders:
        folder.rename(aside / folder.name)
        folder.touch()
    return [folder.name for folder in folders]


def give_back(log_dir: Path) -> None:
    aside = log_dir / _AWAY
    for folder in sorted(aside.iterdir()) if aside.exists() else ():
        (log_dir / folder.name).unlink(missing_ok=True)
        folder.rename(log_dir / folder.name)
    if aside.exists():
        aside.rmdir()

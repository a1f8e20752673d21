"""``wipe-disk``: a broker dies and comes back with an empty log directory, under its old id.

Its data is gone, and nobody but itself could know. In ZooKeeper mode nothing keeps a broker from
leading with an empty log but the in-sync set: it must have been taken out of it when it died, and
must be in it again only when it has caught up (KIP-903 is KRaft's answer to the case in which it
comes back too fast for that).

Therefore the order here: kill, wait until the committed sets do not name it, wipe, start. Kafka
keeps the last member of a set in it, dead or not, and elects it when it is back: a wiped broker
would then lead with nothing, and everything acknowledged would be lost, lawfully. Such a broker is
never wiped: while one partition's set is this broker alone, the fault fails before it kills.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from faults.base import BaseFault, wait_for
from faults.observing import await_all_in_sync
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed
from faults.targets import aim, read_targets
from faults.torn_tail import batches

KEPT: Final = frozenset({"meta.properties", "biplane.boot"})
"""Whose the directory is, and (of the bundled broker's trace) how often it was started."""
_LOOK_S: Final = 0.05


class WipeDisk(BaseFault):
    """Parameters: target (one broker); in_sync_ms: how long to wait for full in-sync sets first,
    and for the sets without it after its death.

    Took hold: it held logs with records, has none left, and no committed in-sync set named it when
    it was started again (by heal).
    """

    name = "wipe-disk"
    needs = frozenset({Capability.KILL, Capability.LOG_FILES})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        self.in_sync_ms = params.integer("in_sync_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        await_all_in_sync(ctx, timeout_ms=self.in_sync_ms)
        node = aim(ctx, self.targets)[0]
        alone = [f"{s.topic}-{s.partition}" for s in ctx.view.partitions() if s.isr == (node,)]
        if alone:
            raise FaultFailed(f"broker {node} is all of the in-sync set of {', '.join(alone[:3])}")
        self.nodes = [node]
        self.kill(ctx, node)
        wait_for(
            ctx,
            lambda: all(node not in state.isr for state in ctx.view.partitions()),
            timeout_ms=self.in_sync_ms,
            what=f"no in-sync set names broker {node}",
            poll_s=_LOOK_S,
        )
        log_dir = Path(ctx.nodes.log_dir(node))
        held = sum(len(batches(path.read_bytes())) for path in log_dir.glob("*/*.log"))
        removed = wipe(log_dir)
        left = sorted(path.name for path in log_dir.iterdir() if path.name not in KEPT)
        self.detail |= {"targets": self.targets, "removed": len(removed), "held_batches": held}
        self.took_hold = held > 0 and not left


def wipe(log_dir: Path) -> list[str]:
    """Remove all that a log directory holds but `KEPT`; the names of what went."""
    gone = sorted(path for path in log_dir.iterdir() if path.name not in KEPT)
    for path in gone:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    return [path.name for path in gone]

"""Faults that are little stories: brokers die, single frames wait, each step when the one before it
has come about. What is down is started and what is held is let go by heal, wherever it ended.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.protocol import Context, Entry, FaultFailed, PartitionState
from faults.targets import parse_partition, partition_state

_TIMEOUT_MS: Final = 60_000
_METADATA: Final = "__cluster_metadata"


class Staged(BaseFault):
    """Subclasses read their parameters, among them ``partition``, and tell the story in `apply`."""

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        partition = parse_partition(params.text("partition"))
        if partition is None:
            raise params.error("partition", "is not allowed; allowed: topic-partition")
        self.partition = partition
        self.read(params)
        params.done()

    def read(self, params: Params) -> None:
        """A story's own parameters."""

    # -- steps ------------------------------------------------------------------------------------

    def state(self, ctx: Context) -> PartitionState:
        """Of the partition that it is about, as committed now."""
        return partition_state(ctx.view, *self.partition)

    def led(self, ctx: Context) -> tuple[PartitionState, list[int]]:
        """Its state, and the followers in sync. Raises where there are none, or where the
        controller leads it: what befalls one would befall the other."""
        state = self.state(ctx)
        leader, followers = state.leader, [n for n in state.isr if n != state.leader]
        if leader < 0 or not followers or leader == ctx.view.controller():
            raise FaultFailed(
                f"partition {state.topic}-{state.partition}, led by {leader}, in sync {state.isr}; "
                "allowed: a leader that is not the controller, and a follower in sync"
            )
        return state, followers

    def kill(self, ctx: Context, node: int) -> None:
        """SIGKILL, and wait until the cluster knows."""
        super().kill(ctx, node)
        self.wait(ctx, f"broker {node} is gone", lambda: node not in ctx.view.live_brokers())

    def lose_disk(self, ctx: Context, node: int) -> list[str]:
        """What a broker that is down holds of its topics goes. Its names; and into ``detail``,
        whose disk it was and when that was over (ns)."""
        gone = remove_logs(Path(ctx.nodes.log_dir(node)))
        self.detail |= {"removed": len(gone), "emptied": {"node": node, "t": ctx.now_ns()}}
        return gone

    def hold(self, ctx: Context, name: str, api: str, **which: Any) -> str:
        """Let frames wait (`faults.protocol.Frames.add`) until `release`; the rule's id."""
        return self._add(ctx, name, api=api, action="hold", **which)

    def watch(self, ctx: Context, name: str, api: str, **which: Any) -> str:
        """Count frames that pass; the rule's id."""
        return self._add(ctx, name, api=api, action="delay", delay_ms=1, **which)

    def _add(self, ctx: Context, name: str, **rule: Any) -> str:
        rule_id = f"{self.id}-{name}"
        self.owe(("frames", rule_id), lambda ctx: ctx.frames.remove(rule_id))
        ctx.frames.add(rule_id, **rule)
        return rule_id

    def release(self, ctx: Context, rule: str) -> None:
        self.settle(ctx, ("frames", rule))

    def wait(self, ctx: Context, what: str, met: Callable[[], object]) -> None:
        wait_for(ctx, lambda: bool(met()), timeout_ms=_TIMEOUT_MS, what=what)

    def comes(self, ctx: Context, within_ms: int, met: Callable[[], object]) -> bool:
        """Whether it came about in time: what a sound system never lets happen."""
        try:
            wait_for(ctx, lambda: bool(met()), timeout_ms=within_ms, what="it")
        except FaultFailed:
            return False
        return True


def remove_logs(log_dir: Path) -> list[str]:
    """All of them, by name; what is held of the cluster's metadata lies on another disk
    (``metadata.log.dir``), and whose the disk is, is known."""
    gone = []
    for path in sorted(log_dir.iterdir()):
        if path.is_dir() and not path.name.startswith(_METADATA):
            shutil.rmtree(path)
            gone.append(path.name)
        elif path.name.endswith("-checkpoint"):
            path.unlink()
    return gone

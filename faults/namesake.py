"""``namesake``: who dies soon after a topic was made again takes nothing of the former one for its.

    a topic of one replica has records; they are deleted (DeleteRecords), so that its log begins
        where it ends
    its broker is stopped in order and started again: where the log begins is on its disk
        (LogManager: the log-start-offset checkpoint, which is written once a minute, or now)
    the topic is deleted, and made again with the same name: its namesake takes a few records
    the broker is killed, and comes back

What it finds on its disk then is of a topic that is gone, unless it was put right with the deletion
(LogManager.asyncDelete). A log that is taken to begin there has lost its records: it ends before.
No other replica heals that, and nobody else may lead. Needs ZooKeeper, whose log alone tells
checkers of a topic's two lives.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from faults.deletion import await_led, remake
from faults.observing import log_end
from faults.params import Params
from faults.protocol import Capability, Context, FaultFailed
from faults.staged import Staged

_TIMEOUT_MS: Final = 30_000
_CHECKPOINT: Final = "log-start-offset-checkpoint"


class Namesake(Staged):
    """Parameters: partition ("t-0"), its topic's only one; records: how many it has at least before
    they are deleted; few: how many the namesake has at least when the broker dies; apart_ms: how
    long there is none of that name; look_ms: how long to wait for who has begun anew to write down
    where its logs begin (`log.initial.task.delay.ms`): the next time is a minute later.

    Took hold: the broker died while the namesake had fewer records than the former had. Where that
    began is in ``detail`` (``begins``), what its namesake had (``took``), and whether the broker
    had written down where its logs begin before that one was made (``looked``). heal starts the
    broker if need be.
    """

    name = "namesake"
    needs = frozenset(
        {
            Capability.KILL,
            Capability.CONTROLLED_STOP,
            Capability.LOG_FILES,
            Capability.ZOOKEEPER,
        }
    )

    def read(self, params: Params) -> None:
        self.records = params.integer("records", 20, low=1)
        self.few = params.integer("few", 3, low=1)
        self.apart_ms = params.integer("apart_ms", 500)
        self.look_ms = params.integer("look_ms", 3_000, low=1)

    def apply(self, ctx: Context) -> None:
        topic, partition = self.partition
        state = self.state(ctx)
        node = state.leader
        if list(state.replicas) != [node] or len(ctx.view.partitions(topic)) != 1:
            raise FaultFailed(f"topic {topic}; allowed: of one partition and one replica, led")
        self.nodes = [node]
        self.wait(
            ctx,
            f"{topic}-{partition} has {self.records} records",
            lambda: self._end(ctx, node) >= self.records,
        )
        begins = self._end(ctx, node)
        ctx.admin.delete_records(node, topic, partition, begins)
        self.stop(ctx, node)
        written = self._written(ctx, node)
        self.start(ctx, node)
        await_led(ctx, topic, {partition}, timeout_ms=_TIMEOUT_MS)
        self.detail["looked"] = self.comes(
            ctx, self.look_ms, lambda: self._written(ctx, node) != written
        )
        remake(ctx, topic, apart_ms=self.apart_ms, timeout_ms=_TIMEOUT_MS)
        self.wait(
            ctx,
            f"its namesake has {self.few} records",
            lambda: self._end(ctx, node) >= self.few,
        )
        self.kill(ctx, node)
        took = self._end(ctx, node)
        self.detail |= {"topic": topic, "begins": begins, "took": took}
        self.start(ctx, node)
        await_led(ctx, topic, {partition}, timeout_ms=_TIMEOUT_MS)
        self.took_hold = took < begins

    def _written(self, ctx: Context, node: int) -> int:
        """When the broker last wrote down where its logs begin; 0: never."""
        path = Path(ctx.nodes.log_dir(node)) / _CHECKPOINT
        return path.stat().st_mtime_ns if path.is_file() else 0

    def _end(self, ctx: Context, node: int) -> int:
        """0 where there is no log, as when one topic is gone and the next was only just made."""
        with suppress(FaultFailed):
            return log_end(ctx, node, *self.partition)
        return 0

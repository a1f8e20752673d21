"""What all floods share: targets, topics of their own, workers, and whether it took hold.

A flood's life: `prepare` resolves the targets, makes its topic, spawns a worker for each target and
waits until every connection is dialled (dialling 640 connections under load takes seconds and
spoils the measurement); `inject` gives the word and returns once the target answers; `heal` ends
the workers. A target that may move ("leader:t-0") is resolved again at `inject`, and dialled again
when it did.

Floods write to topics of their own (``flood-<id>-<node>``, one replica, led by the target): they
must load the target and nobody else, and the checked topics must hold the workload's records only.
Their logs are kept short by the topic's retention.

Workers reach the listener directly: a proxy in between would take CPU that the flood is to put on
the broker. ``"direct": false`` goes through the proxy of the client link.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from faults.base import BaseFault, wait_for
from faults.flood.launch import FloodWorker, wait_all_ready
from faults.flood.spec import FloodSpec
from faults.params import Params
from faults.protocol import Context, Entry, FaultFailed, Link
from faults.targets import aim, may_move, read_targets

_READY_TIMEOUT_S: Final = 90.0
_HOLD_TIMEOUT_MS: Final = 15_000
_GRACE_MS: Final = 60_000
TOPIC_CONFIGS: Final = {
    "retention.bytes": str(64 * 1024 * 1024),
    "segment.bytes": str(16 * 1024 * 1024),
    "min.insync.replicas": "1",
}


class Flood(BaseFault):
    """Common parameters:

    target: see `faults.targets`; connections, workers: per target broker; queued_max_requests: the
    broker's, for took_hold; max_requests: an upper bound a worker; direct: see the module.
    """

    default_connections: ClassVar[int] = 64
    fills_queue: ClassVar[bool] = False  # took hold only with more connections than queue places
    link: ClassVar[Link] = Link.CLIENT

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params)
        self.connections = params.integer(
            "connections", self.default_connections, low=1, high=20_000
        )
        self.workers_per_node = params.integer("workers", 1, low=1, high=16)
        self.max_requests = params.integer("max_requests", 1_000_000_000, low=1, high=10**12)
        self.queue_places = params.integer("queued_max_requests", 500, low=1)
        self.direct = params.flag("direct", True)
        self.read(params)
        params.done()
        self._workers: list[FloodWorker] = []
        self._made = 0

    def read(self, params: Params) -> None:
        """A flood's own parameters."""

    def workload(self, ctx: Context, node: int) -> dict[str, Any]:
        """The fields of `FloodSpec` that say what is sent; makes the topic when it needs one."""
        raise NotImplementedError

    # -- life -----------------------------------------------------------------------------------

    def prepare(self, ctx: Context) -> None:
        """Dial before the clock starts. On failure nothing is left behind."""
        try:
            self._prepare(ctx, aim(ctx, self.targets))
        except BaseException:
            self.heal(ctx)
            raise

    def _prepare(self, ctx: Context, nodes: list[int]) -> None:
        self.nodes = nodes
        for node in nodes:
            what = self.workload(ctx, node)
            host, port = ctx.links.address(node, self.link, direct=self.direct)
            for index in range(self.workers_per_node):
                self._made += 1
                process = f"flood-{self.id}-{node}-{self._made}"
                share, rest = divmod(self.connections, self.workers_per_node)
                fields: dict[str, Any] = {
                    "id": self.id,
                    "process": process,
                    "output": f"{ctx.store}/{process}.jsonl",
                    "node": node,
                    "host": host,
                    "port": port,
                    "mode": "request",
                    "connections": share + (index < rest) or 1,
                    "duration_ms": self.entry.duration_ms + _GRACE_MS,
                    "max_requests": self.max_requests,
                    "seed": ctx.rng.getrandbits(31),
                }
                self._workers.append(FloodWorker(FloodSpec(**(fields | what))))
        wait_all_ready(self._workers, sleep=ctx.sleep, timeout_s=_READY_TIMEOUT_S)

    def apply(self, ctx: Context) -> None:
        if self._workers and self._moved(ctx):
            self._end_workers()
        if not self._workers:
            self._prepare(ctx, aim(ctx, self.targets))
        for worker in self._workers:
            worker.go()
        self.detail["targets"] = dict.fromkeys(self.targets, self.nodes)
        wait_for(
            ctx,
            self._answered,
            timeout_ms=_HOLD_TIMEOUT_MS,
            what=f"every worker of {self.name} {self.id} was answered by its broker",
        )
        self._judge()
        self._record_metrics(ctx)

    def _moved(self, ctx: Context) -> bool:
        """Whether what was dialled is no longer what is meant."""
        if not set(self.nodes) <= set(ctx.view.live_brokers()):
            return True
        if not may_move(self.targets):
            return False
        return sorted(aim(ctx, self.targets)) != sorted(self.nodes)

    def _answered(self) -> bool:
        for worker in self._workers:
            worker.poll_stats()
            if not worker.alive() and not self._held(worker):
                raise FaultFailed(f"flood worker {worker.spec.process} has ended")
        return all(self._held(worker) for worker in self._workers)

    def _held(self, worker: FloodWorker) -> bool:
        return worker.completed > worker.errors

    def _judge(self) -> None:
        per_node = {
            node: sum(w.connections for w in self._workers if w.spec.node == node)
            for node in self.nodes
        }
        enough = not self.fills_queue or all(n > self.queue_places for n in per_node.values())
        self.took_hold = bool(self._workers) and enough and all(map(self._held, self._workers))
        self.detail["connections"] = {str(node): n for node, n in per_node.items()}
        if self.fills_queue:
            self.detail["queue_places"] = self.queue_places
        if not self.direct:
            self.detail["proxied"] = True
        if not enough:
            self.detail["why"] = (
                f"no more connections than queued.max.requests={self.queue_places}: "
                "the request queue cannot fill"
            )

    def undo(self, ctx: Context) -> None:
        if not self._workers:
            return
        if self.took_hold is not None:
            self._record_metrics(ctx)
        over = {w.spec.process: w.exit_code for w in self._workers if not w.alive()}
        sent, totals = self._end_workers()
        if self.took_hold is None:
            return
        self.detail["totals"] = totals
        # Whether it lasted is judged from what the workers wrote (checkers/floods.py); only their
        # parent knows how they ended.
        bounded = [process for process in over if sent[process] >= self.max_requests]
        ended = {process: code for process, code in over.items() if process not in bounded}
        self.detail |= {k: v for k, v in (("bounded", bounded), ("ended", ended)) if v}

    def _record_metrics(self, ctx: Context) -> None:
        """What they say of the planes as it sets in, and just before it ends: it is a load that the
        metrics have to show, on the one plane and not on the other."""
        for node in self.nodes:
            ctx.record_plane_metrics(node, self.id)

    def _end_workers(self) -> tuple[dict[str, int], dict[str, int]]:
        """Stop all; what each sent, and sums over all."""
        workers, self._workers = self._workers, []
        sent: dict[str, int] = {}
        totals: dict[str, int] = {"completed": 0, "errors": 0, "sent": 0, "bytes": 0}
        for worker in workers:
            reached = worker.stop()
            sent[worker.spec.process] = int(reached.get("sent", 0))
            for key in totals:
                totals[key] += int(reached.get(key, 0))
        return sent, totals

    # -- topics ---------------------------------------------------------------------------------

    def own_topic(self, ctx: Context, node: int, partitions: int) -> str:
        """Make (once) this flood's topic on ``node`` and wait until it is led there."""
        topic = f"flood-{self.id}-{node}"
        if not ctx.view.partitions(topic):
            ctx.admin.create_topic(topic, {p: [node] for p in range(partitions)}, TOPIC_CONFIGS)
        wait_for(
            ctx,
            lambda: sum(s.leader == node for s in ctx.view.partitions(topic)) >= partitions,
            timeout_ms=15_000,
            what=f"all partitions of {topic} are led by broker {node}",
        )
        return topic

    def led_partitions(self, ctx: Context, topic: str, node: int) -> tuple[int, ...]:
        """The partitions of an existing topic that the target leads; `FaultFailed` when none."""
        led = tuple(sorted(s.partition for s in ctx.view.partitions(topic) if s.leader == node))
        if not led:
            raise FaultFailed(f"broker {node} leads no partition of topic {topic!r}")
        return led

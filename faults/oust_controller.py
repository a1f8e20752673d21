"""``oust-controller``: the controller hangs in the middle of an election and is replaced meanwhile.

A controller that hangs (a long collection, a stopped virtual machine) still holds ``/controller``
as long as its session lasts. Operators who do not want to wait for that delete the znode, and
another broker is elected. Kafka calls it a soft failure: unlike after `depose-controller`, the old
one wakes up with a *living session*, goes on with whatever it was doing, and ZooKeeper takes its
writes. Only that each of them is conditioned on the version of the controller epoch's znode
(KAFKA-6082) keeps it from overwriting what it no longer rules.

    reorder replicas -> slow its answers from ZooKeeper -> ask it for the preferred leaders
      -> SIGSTOP between what it read and what it writes -> delete /controller
      -> a successor is in office, and says so to clients -> SIGCONT: it goes on with its election

The slow link only makes the moment between reading and writing long enough to hit. The stop must be
shorter than the session: it lasts as long as a succession without waiting for one to expire.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from faults.base import BaseFault, wait_for
from faults.leadership import find_partitions, read_partitions, reorder
from faults.params import Params
from faults.probe import told_controller
from faults.protocol import Capability, Context, Entry, FaultFailed, Link
from faults.targets import aim

_ASK_TIMEOUT_S = 1.0


class OustController(BaseFault):
    """Parameters: partitions whose leaders it is to elect (see `move-leadership`); latency_ms of
    ZooKeeper's answers (kazoo gives up a connection on which a ping takes 250 ms); takeover_ms: how
    long a successor may take; timeout_ms for the reordering.
    """

    name = "oust-controller"
    needs = frozenset(
        {Capability.ZOOKEEPER, Capability.LINKS, Capability.PAUSE, Capability.ELECT_LEADERS}
    )

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.partitions = read_partitions(params)
        self.latency_ms = params.integer("latency_ms", 240, low=1, high=10_000)
        self.takeover_ms = params.integer("takeover_ms", 45_000, low=1)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()
        self._election: _Election | None = None

    def apply(self, ctx: Context) -> None:
        (old,) = aim(ctx, ["controller"])
        old_epoch = ctx.view.controller_epoch()
        self.nodes = [old]
        self.detail |= {"deposed": old, "controller_epoch": old_epoch, "how": "oust"}
        states = find_partitions(self.partitions, ctx)
        chosen = sorted(reorder(ctx, states, "next", ctx.rng, self.timeout_ms))
        self.detail["partitions"] = [f"{topic}-{partition}" for topic, partition in chosen]
        registered = ctx.view.broker_epoch(old)
        self.delay_answers(ctx, old, Link.ZOOKEEPER, self.latency_ms)
        self._election = _Election(ctx, chosen)
        ctx.sleep(0.6 * self.latency_ms / 1000)  # it has read by then, and has no answer yet
        self.pause(ctx, old)
        if self._election.outcome is not None:
            raise FaultFailed(f"the election did not last: {self._election.outcome}")
        self._replace(ctx, old, old_epoch)
        # With a session that ended meanwhile nothing is tried: ZooKeeper itself refuses its writes.
        session_lived = ctx.view.broker_epoch(old) == registered
        self.detail["session_lived"] = session_lived
        self.resume(ctx, old)
        self.took_hold = session_lived

    def _replace(self, ctx: Context, old: int, old_epoch: int) -> None:
        """Returns when a successor has not only been elected but acts."""
        started = ctx.now_ns()
        ctx.admin.remove_controller()

        def succeeded() -> bool:
            epoch, now = ctx.view.controller_epoch(), ctx.view.controller()
            if now is None or now == old or epoch <= old_epoch:
                return False
            address = ctx.links.address(now, Link.CLIENT)
            return told_controller(address, timeout_s=_ASK_TIMEOUT_S) == now

        wait_for(
            ctx,
            succeeded,
            timeout_ms=self.takeover_ms,
            what=f"another controller than broker {old}, with an epoch above {old_epoch}, acts",
        )
        self.detail |= {
            "successor": ctx.view.controller(),
            "successor_epoch": ctx.view.controller_epoch(),
            "takeover_ns": ctx.now_ns() - started,
        }

    def undo(self, ctx: Context) -> None:
        super().undo(ctx)
        if self._election is not None:
            self.detail["election"] = self._election.outcome or "not answered yet"


class _Election:
    """Asked for on a thread of its own, which nobody waits for: Apache Kafka does not answer an
    election in the middle of which it learns that it was succeeded."""

    def __init__(self, ctx: Context, partitions: Sequence[tuple[str, int]]) -> None:
        self.outcome: str | None = None
        self._ctx, self._partitions = ctx, partitions
        self.thread = threading.Thread(
            target=self._hold, name="oust-controller-election", daemon=True
        )
        self.thread.start()

    def _hold(self) -> None:
        try:
            self._ctx.admin.elect_preferred(self._partitions)
        except Exception as error:  # told, whatever it is, and of no consequence
            self.outcome = str(error) or repr(error)
        else:
            self.outcome = "done"

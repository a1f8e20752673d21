"""``crossed-epochs``: two logs have a leader epoch each that the other never heard of.

    the second of two followers is stopped; the first is elected, and takes records
    the second is elected, the first is stopped, and the second goes on: it takes records, too, of
        which the first hears nothing; who led before cuts its log to the second's, and follows
    the first is elected again, and goes on with its own

Who follows it now asks where its own last epoch ends, and is told of one that it does not know, for
that is the largest that the leader has below. There it must not cut: what it has up to that offset
is of an epoch that the leader lacks. It has to cut to the end of its own epoch before, and to ask
again (KIP-279). Who cuts where it is told keeps what the leader never had, and asks for ever, or
fetches behind it.

Nobody ends, and all are in sync: nothing may be lost but what acks=1 had acknowledged alone. The
controller elects, and so is not stopped. Needs a partition of three replicas, the controller's
among them, and load with acks=1 that goes to whoever leads.
"""

from __future__ import annotations

from faults.leadership import elect
from faults.led_in_turn import MOVE_MS, TOLD_S, LedInTurn
from faults.observing import await_all_in_sync
from faults.params import Params
from faults.protocol import Capability, Context


class CrossedEpochs(LedInTurn):
    """Parameters: partition ("t-0"); records: how many each of the two must take alone; in_sync_ms:
    for a full in-sync set before; asked_ms: for the others to have what the first has.

    Took hold: the first led again with what it had taken alone, the second had records of its own,
    and no session had ended for that: else all of it may be anew, and is waited for. All ends are
    in ``detail``, and whether both followed in time (``agreed``).
    """

    name = "crossed-epochs"
    needs = frozenset({Capability.PAUSE, Capability.ELECT_LEADERS, Capability.LOG_FILES})

    def read(self, params: Params) -> None:
        self.records = params.integer("records", 10, low=1)
        self.in_sync_ms = params.integer("in_sync_ms", 20_000, low=1)
        self.asked_ms = params.integer("asked_ms", 2_000, low=1)

    def apply(self, ctx: Context) -> None:
        _, first, second = self.nodes = self.cast(ctx, self.in_sync_ms)
        chosen = self.preferred(ctx, first)
        self.pause(ctx, second)
        elect(ctx, chosen, MOVE_MS)
        self._takes(ctx, first)
        chosen = self.preferred(ctx, second)
        elect(ctx, chosen, MOVE_MS)
        ctx.sleep(TOLD_S)
        self.pause(ctx, first)
        alone = self.end(ctx, first)
        self.resume(ctx, second)
        self._takes(ctx, second)
        chosen = self.preferred(ctx, first)
        elect(ctx, chosen, MOVE_MS)
        ctx.sleep(TOLD_S)
        ends = {"first": alone, "second": self.end(ctx, second)}
        self.resume(ctx, first)
        self.detail["agreed"] = self.comes(ctx, self.asked_ms, lambda: self._agree(ctx, alone))
        ends["again"] = self.end(ctx, first)
        self.detail["ends"] = ends
        self.took_hold = ends["again"] >= alone and self._live(ctx)
        if not self._live(ctx):
            await_all_in_sync(ctx, timeout_ms=self.in_sync_ms)

    def _takes(self, ctx: Context, node: int) -> None:
        begun = self.end(ctx, node)
        self.wait(
            ctx,
            f"broker {node} has taken {self.records} records",
            lambda: self.end(ctx, node) >= begun + self.records,
        )

    def _live(self, ctx: Context) -> bool:
        return set(self.nodes) <= set(ctx.view.live_brokers())

    def _agree(self, ctx: Context, end: int) -> bool:
        return all(self.end(ctx, node) >= end for node in self.nodes)

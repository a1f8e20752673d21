"""``forsaken-orders``: a controller's session ends while an operator's orders wait in its queue.

It is cut from ZooKeeper: the first order keeps its event thread waiting, and the others wait behind
that. Another broker is elected. When the first one hears that its session has ended it drops what
waits, for none of that may be acted upon, and is to tell whoever gave it (NOT_CONTROLLER), who then
asks the successor (ControllerEventManager.clearAndPut, KafkaController.preempt).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from faults.base import BaseFault, wait_for
from faults.contrary_orders import turned
from faults.leadership import reorder
from faults.meanwhile import Meanwhile
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link, PartitionState
from faults.succession import await_another
from faults.targets import aim

_ELECT: Final = "elect"
_MOVE: Final = "move"
_MOVE_MS: Final = 30_000


class ForsakenOrders(BaseFault):
    """Parameters: topic; order ("elect": the preferred leader, which another has become before;
    "move": the replicas, into another order); orders: of how many of its partitions, of two
    replicas or more; apart_ms, from one order to the next; takeover_ms: how long a successor may
    take; timeout_ms, for all answers after that.

    Took hold: no order was answered until another controller was in office, and all came to an end
    then; ``refused`` has what those said that were not carried out. Nothing to heal.
    """

    name = "forsaken-orders"
    needs = frozenset({Capability.LINKS, Capability.ZOOKEEPER, Capability.ELECT_LEADERS})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic = params.text("topic")
        self.order = params.choice("order", (_ELECT, _MOVE), _ELECT)
        self.orders = params.integer("orders", 3, low=2, high=100)
        self.apart_ms = params.integer("apart_ms", 100, low=1)
        self.takeover_ms = params.integer("takeover_ms", 45_000, low=1)
        self.timeout_ms = params.integer("timeout_ms", 40_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        states = [s for s in ctx.view.partitions(self.topic) if len(s.replicas) > 1]
        if len(states) < self.orders:
            raise FaultFailed(
                f"topic {self.topic} has {len(states)} partitions of two replicas or more; "
                f"allowed: at least {self.orders}"
            )
        orders = self._orders(ctx, states[: self.orders])
        (old,) = aim(ctx, ["controller"])
        old_epoch = ctx.view.controller_epoch()
        self.nodes = [old]
        self.cut(ctx, old, Link.ZOOKEEPER)
        given: list[Meanwhile] = []
        for order in orders:
            if given:
                ctx.sleep(self.apart_ms / 1000)
            given.append(Meanwhile(order))
        await_another(ctx, old, old_epoch, timeout_ms=self.takeover_ms)
        waited = not any(order.is_over for order in given)
        self.mend(ctx, old, Link.ZOOKEEPER)
        self.detail |= {"forsaken": old, "let_go_t": ctx.now_ns()}
        wait_for(
            ctx,
            lambda: all(order.is_over for order in given),
            timeout_ms=self.timeout_ms,
            what=f"{self.orders} orders about {self.topic} were answered",
        )
        self.detail["refused"] = [str(order.error) for order in given if order.error]
        self.took_hold = waited

    def _orders(self, ctx: Context, states: list[PartitionState]) -> Sequence[Callable[[], None]]:
        if self.order == _MOVE:
            return [_move(ctx, state) for state in states]
        chosen = reorder(ctx, states, "next", ctx.rng, _MOVE_MS)
        return [_elect(ctx, tp) for tp in chosen]


def _elect(ctx: Context, tp: tuple[str, int]) -> Callable[[], None]:
    return lambda: ctx.admin.elect_preferred([tp])


def _move(ctx: Context, state: PartitionState) -> Callable[[], None]:
    order = turned(state.replicas, 1)
    return lambda: ctx.admin.begin_reassign({(state.topic, state.partition): order})

"""``contrary-orders``: an operator thinks better of it, twice, while the controller waits.

The controller's ZooKeeper answers late, so that the first order keeps its event thread busy and the
others wait in its queue. Each comes from a connection of its own, for on one of them the second
would not be read before the first is answered, and well after the one before; each puts the
replicas of one partition into another order, which is done at once. Which of them was the last is
for the queue alone to know (ControllerEventManager: first in, first out).
"""

from __future__ import annotations

from collections.abc import Sequence

from faults.base import BaseFault, wait_for
from faults.meanwhile import Meanwhile
from faults.observing import read_partition
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link
from faults.targets import partition_state


class ContraryOrders(BaseFault):
    """Parameters: partition ("t-0", of two replicas or more); orders: how many; apart_ms, from one
    to the next; late_ms, by how much ZooKeeper's answers are late; timeout_ms, for all of them.

    Took hold: all were carried out, and when the last was sent the first was not answered yet. heal
    lets the answers go.
    """

    name = "contrary-orders"
    needs = frozenset({Capability.LINKS, Capability.ZOOKEEPER})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic, self.partition = read_partition(params)
        self.orders = params.integer("orders", 3, low=2, high=100)
        self.apart_ms = params.integer("apart_ms", 500, low=1)
        self.late_ms = params.integer("late_ms", 600, low=1)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        controller, name = ctx.view.controller(), f"{self.topic}-{self.partition}"
        replicas = partition_state(ctx.view, self.topic, self.partition).replicas
        if controller is None or len(replicas) < 2:
            raise FaultFailed(f"nobody is controller, or {name} has no two replicas")
        self.nodes = [controller]
        orders = [turned(replicas, turn) for turn in range(1, self.orders + 1)]
        self.detail |= {"partition": name, "orders": orders}
        self.delay_answers(ctx, controller, Link.ZOOKEEPER, self.late_ms)
        given: list[Meanwhile] = []
        for order in orders:
            if given:
                ctx.sleep(self.apart_ms / 1000)
            given.append(self._give(ctx, order))
        waited = not given[0].is_over
        self.let_answers(ctx, controller, Link.ZOOKEEPER)
        wait_for(
            ctx,
            lambda: all(order.is_over for order in given),
            timeout_ms=self.timeout_ms,
            what=f"{self.orders} orders about {name} were answered",
        )
        for each in given:
            each.result()
        self.took_hold = waited

    def _give(self, ctx: Context, order: Sequence[int]) -> Meanwhile:
        return Meanwhile(lambda: ctx.admin.begin_reassign({(self.topic, self.partition): order}))


def turned(replicas: Sequence[int], turn: int) -> list[int]:
    """Another first one with each turn, as on a wheel."""
    at = turn % len(replicas)
    return [*replicas[at:], *replicas[:at]]

"""``broker-config``: brokers are given other values of a config while they run (KIP-226).

By request, as kafka-configs does it; a broker hears of it through ZooKeeper or the metadata log and
puts it in place. Each value is in place everywhere before the next one is sent: what a broker makes
of the second must not undo what it knew before the first (KAFKA-9254: the configs of topics).
"""

from __future__ import annotations

from faults.base import BaseFault, wait_for
from faults.params import Params
from faults.protocol import Context, Entry
from faults.targets import aim, read_targets

_TIMEOUT_MS = 30_000


class BrokerConfig(BaseFault):
    """Parameters: config (one that may change while a broker runs); values, one after the other;
    target (default: all). Nothing to heal: the last value stays.

    Took hold: every broker said that it had each of the values, in their order.
    """

    name = "broker-config"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.config = params.text("config")
        self.values = params.texts("values")
        self.targets = read_targets(params, default="all")
        params.done()

    def apply(self, ctx: Context) -> None:
        self.nodes = aim(ctx, self.targets)
        self.detail |= {"targets": self.targets, "set": []}
        for value in self.values:
            for node in self.nodes:
                ctx.admin.set_broker_config(node, self.config, value)
            for node in self.nodes:
                self._await_value(ctx, node, value)
            self.detail["set"].append(value)
        self.took_hold = bool(self.nodes)

    def _await_value(self, ctx: Context, node: int, value: str) -> None:
        wait_for(
            ctx,
            lambda: ctx.admin.broker_config(node, self.config) == value,
            timeout_ms=_TIMEOUT_MS,
            what=f"broker {node} has {self.config}={value}",
        )

"""``unseen-settings``: two topics get other settings while a broker is cut from ZooKeeper.

It keeps its session, and learns of both when it is back: by notifications that stay for a quarter
of an hour (ZkNodeChangeNotificationListener). Others are told of the second when they have long
taken in the first, and clear away then what is old.
"""

from __future__ import annotations

from typing import Final

from faults.altered_topic import settings_of
from faults.base import BaseFault
from faults.params import Params
from faults.protocol import Capability, Context, Entry, Link
from faults.targets import aim, read_targets

_MOMENT_S: Final = 0.3


class UnseenSettings(BaseFault):
    """Parameters: target (one broker, not the controller, which is asked to set them); topic,
    configs: all that it has from then on, each as ``name=value``; then, then_configs: another one,
    `between_ms` later.

    Took hold: both requests were answered, and the broker is registered still. The link is up again
    when inject returns; nothing to heal.
    """

    name = "unseen-settings"
    needs = frozenset({Capability.LINKS, Capability.ZOOKEEPER})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params, default="not-controller")
        self.topic, self.configs = params.text("topic"), settings_of(params, "configs")
        self.then, self.then_configs = params.text("then"), settings_of(params, "then_configs")
        self.between_ms = params.integer("between_ms", 2_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        node = aim(ctx, self.targets)[0]
        self.nodes = [node]
        self.detail |= {"topic": self.topic, "configs": self.configs, "then": self.then}
        before = ctx.view.broker_epoch(node)
        self.cut(ctx, node, Link.ZOOKEEPER)
        ctx.sleep(_MOMENT_S)
        ctx.admin.alter_topic_configs(self.topic, self.configs)
        ctx.sleep(self.between_ms / 1000)
        ctx.admin.alter_topic_configs(self.then, self.then_configs)
        ctx.sleep(_MOMENT_S)
        self.mend(ctx, node, Link.ZOOKEEPER)
        self.took_hold = ctx.view.broker_epoch(node) == before

"""``alter-topic``: a topic under test is given other settings while clients use it.

Brokers hear of it by a notification in ZooKeeper (ZkConfigManager), or by their metadata log, and
go by the new settings from then on; who had no session then has to look for what it missed.
"""

from __future__ import annotations

from faults.base import BaseFault
from faults.params import Params
from faults.protocol import Context, Entry, FaultFailed


def settings_of(params: Params, parameter: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in params.texts(parameter):
        name, equals, value = text.partition("=")
        if not equals:
            raise params.error(parameter, f"{text!r} is not allowed; allowed: name=value")
        found[name] = value
    return found


class AlterTopic(BaseFault):
    """Parameters: topic; configs: all that it has from then on, each as ``name=value``; or cleared:
    it has none of its own any more, and goes by the brokers' defaults.

    Took hold: the request was answered. Nothing to heal.
    """

    name = "alter-topic"

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic = params.text("topic")
        cleared = params.flag("cleared", False)
        self.configs = {} if cleared else settings_of(params, "configs")
        params.done()

    def apply(self, ctx: Context) -> None:
        if not ctx.view.partitions(self.topic):
            raise FaultFailed(f"there is no topic {self.topic}")
        # Said beforehand: what is answered by nobody may have been done all the same.
        self.detail |= {"topic": self.topic, "configs": self.configs}
        ctx.admin.alter_topic_configs(self.topic, self.configs)
        self.took_hold = True

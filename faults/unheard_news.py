"""``unheard-news``: a leader changes while a broker that has nothing to do with it hears nothing.

Whoever leads or follows a partition is sent a LeaderAndIsr of it first, and what waits behind that
is sent once it was heard. Of partitions of others a broker is told by UpdateMetadata alone
(ControllerBrokerRequestBatch): here that is what the dead link meets. It must be sent again until
it is heard, or the broker's clients are sent to the former leader until something else happens. And
what comes after it must wait behind it: news of another partition, where there is one, says nothing
of the first.
"""

from __future__ import annotations

from typing import Final

from faults.base import BaseFault
from faults.leadership import elect, reorder
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link, PartitionState

_TOLD_S: Final = 1.0
"""In which everybody is told of the reordered replicas."""


class UnheardNews(BaseFault):
    """Parameters: topic (of one or two partitions a broker other than the controller has no
    replica); away_ms: so long after the change the link is still down; timeout_ms.

    Took hold: another leads, of each of the two. The link is up again when inject returns; nothing
    to heal.
    """

    name = "unheard-news"
    needs = frozenset({Capability.LINKS, Capability.ELECT_LEADERS})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.topic = params.text("topic")
        self.away_ms = params.integer("away_ms", 1000, low=1)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()

    def apply(self, ctx: Context) -> None:
        able = strangers(ctx, self.topic)
        if not able:
            raise FaultFailed(
                f"topic {self.topic}: no live broker but the controller is without a replica of a "
                "partition that can move"
            )
        state, node = ctx.rng.choice(able)
        others = [each for each, stranger in able if stranger == node and each != state]
        self.nodes = [node]
        self.detail |= {"partition": f"{state.topic}-{state.partition}"}
        news = [
            reorder(ctx, [each], "next", ctx.rng, self.timeout_ms) for each in (state, *others[:1])
        ]
        ctx.sleep(_TOLD_S)
        self.cut(ctx, node, Link.CONTROL)
        self.detail["moves"] = [
            move for chosen in news for move in elect(ctx, chosen, self.timeout_ms)
        ]
        ctx.sleep(self.away_ms / 1000)
        self.mend(ctx, node, Link.CONTROL)
        self.took_hold = True


def strangers(ctx: Context, topic: str) -> list[tuple[PartitionState, int]]:
    """Partitions that can move, each with a live broker that has no replica of it and is not the
    controller (who speaks to itself by the same link)."""
    live = set(ctx.view.live_brokers())
    return [
        (state, node)
        for state in sorted(ctx.view.partitions(topic), key=lambda s: s.partition)
        if state.leader in live and len(live & set(state.isr)) > 1
        for node in sorted(live - set(state.replicas) - {ctx.view.controller()})
    ]

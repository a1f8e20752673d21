"""Churn: the control plane kept busy with lawful work, from inject to heal.

``topic-churn`` creates and deletes topics; ``leadership-churn`` moves leaders between live brokers;
``controller-churn`` makes one controller after the other lose ZooKeeper, so that elections repeat.
Each runs in the background; a turn that fails under chaos is counted, not fatal. It took hold when
at least one turn was done (known for sure at heal).
"""

from __future__ import annotations

import random

from faults.base import Background, BaseFault, wait_for
from faults.leadership import find_partitions, move, read_partitions
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, Link


class _Churn(BaseFault):
    """inject does the first turn itself (so that it is seen), then goes on in the background."""

    default_interval_ms = 500

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.interval_ms = params.integer("interval_ms", self.default_interval_ms, low=1)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        self.read(params)
        params.done()
        self._background: Background | None = None

    def read(self, params: Params) -> None:
        """A churn's own parameters."""

    def turn(self, ctx: Context, rng: random.Random) -> None:
        raise NotImplementedError

    def apply(self, ctx: Context) -> None:
        self.turn(ctx, ctx.rng)
        self.took_hold = True
        self._background = Background(
            ctx,
            self.turn,
            interval_ms=self.interval_ms,
            name=f"{self.name}-{self.id}",
        )

    def undo(self, ctx: Context) -> None:
        if self._background is not None:
            self._background.stop()
            self.detail |= self._background.summary()
            self._background = None
        self.restore(ctx)

    def restore(self, ctx: Context) -> None:
        """Undo what a turn that was interrupted left behind."""


class TopicChurn(_Churn):
    """Parameters: partitions and replicas of each topic; keep: how many to have at a time.

    At heal the topics are left as they are (deleting them all at once is a fault of its own) unless
    ``delete_at_heal``.
    """

    name = "topic-churn"

    def read(self, params: Params) -> None:
        self.partitions = params.integer("partitions", 5, low=1, high=1000)
        self.replicas = params.integer("replicas", 2, low=1, high=100)
        self.keep = params.integer("keep", 2, low=0, high=1000)
        self.delete_at_heal = params.flag("delete_at_heal", False)
        self._topics: list[str] = []
        self._made = 0
        self._deleted = 0

    def turn(self, ctx: Context, rng: random.Random) -> None:
        live = sorted(ctx.view.live_brokers())
        if not live:
            raise FaultFailed("no live broker")
        topic = f"churn-{self.id}-{self._made}"
        self._made += 1
        replicas = min(self.replicas, len(live))
        assignment = {p: rng.sample(live, replicas) for p in range(self.partitions)}
        ctx.admin.create_topic(topic, assignment, {})
        self._topics.append(topic)
        if len(self._topics) > self.keep:
            ctx.admin.delete_topic(self._topics[0])
            self._topics.pop(0)
            self._deleted += 1
        self.detail |= {"created": self._made, "deleted": self._deleted}

    def restore(self, ctx: Context) -> None:
        while self.delete_at_heal and self._topics:
            ctx.admin.delete_topic(self._topics.pop())


class LeadershipChurn(_Churn):
    """Parameters: partitions (see `move-leadership`); at_once: how many move in one turn."""

    name = "leadership-churn"
    needs = frozenset({Capability.ELECT_LEADERS})

    def read(self, params: Params) -> None:
        self.partitions = read_partitions(params)
        self.at_once = params.integer("at_once", 1000, low=1)

    def turn(self, ctx: Context, rng: random.Random) -> None:
        states = find_partitions(self.partitions, ctx)
        rng.shuffle(states)
        moves = move(ctx, states[: self.at_once], "random", rng, self.timeout_ms)
        self.detail["moves"] = self.detail.get("moves", 0) + len(moves)


class ControllerChurn(_Churn):
    """Each turn: the controller's way to ZooKeeper is cut until another is elected, then back."""

    name = "controller-churn"
    needs = frozenset({Capability.ZOOKEEPER, Capability.LINKS})
    default_interval_ms = 2000

    def read(self, params: Params) -> None:
        self._cut: list[int] = []

    def turn(self, ctx: Context, rng: random.Random) -> None:
        controller, controller_epoch = ctx.view.controller(), ctx.view.controller_epoch()
        if controller is None:
            raise FaultFailed("there is no active controller")
        self._cut.append(controller)
        ctx.links.disable(controller, Link.ZOOKEEPER)
        try:
            wait_for(
                ctx,
                lambda: (
                    ctx.view.controller() not in (None, controller)
                    and ctx.view.controller_epoch() > controller_epoch
                ),
                timeout_ms=self.timeout_ms,
                what=f"a controller after broker {controller}",
            )
            self.detail["elections"] = self.detail.get("elections", 0) + 1
        finally:
            self.restore(ctx)
        wait_for(
            ctx,
            lambda: controller in ctx.view.live_brokers(),
            timeout_ms=self.timeout_ms,
            what=f"broker {controller} is registered again",
        )

    def restore(self, ctx: Context) -> None:
        while self._cut:
            ctx.links.enable(self._cut[-1], Link.ZOOKEEPER)
            self._cut.pop()

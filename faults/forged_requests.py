"""``forged-requests``: control requests from someone who is no controller (any more).

Each lie is one stale epoch in an otherwise true request; the table of what a broker must answer is
in the reference sheet (real parts, section 5). What a request would *do* if it were believed is
made harmful (another leader, leader epoch + 1), so that a broker that lets it pass shows it: in its
metadata, in its log, in what it accepts. One request carries one partition, and is one ``forged``
row; whether the answer was right is the checkers' business.

Traps: a StopReplica with leader epoch -1 or -2 means "no epoch" and "being deleted", and is
lawfully applied, so stale leader epochs are forged only below an epoch of at least 1 for that API;
UpdateMetadata carries leader epochs that brokers do not fence, so that lie does not exist for it.

A ControlledShutdown is no controller's request but a broker's, to its controller, and about no
partition. Told with the epoch of a registration of the past it is what a broker said before it
went, and comes now (KIP-380): whoever believes it relieves the broker that is back, for good. It is
forged with that lie alone, in the name of each target, and only when it is asked for.

``old_news`` is what a controller of the past would really say: leaders and leader epochs as they
were committed before the plan began. Registrations are remembered from then, too: a broker that has
registered anew since is sent the epoch of its former registration, others one that never was.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any, Final

from faults.base import Background, BaseFault
from faults.leadership import find_partitions, read_partitions
from faults.params import Params
from faults.protocol import (
    Capability,
    Context,
    ControlAnswer,
    Entry,
    FaultFailed,
    Link,
    PartitionState,
)
from faults.targets import aim, read_targets

LIES: Final = (
    "stale_controller_epoch",
    "stale_broker_epoch",
    "stale_leader_epoch",
    "future_controller_epoch",
)
APIS: Final = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")
SHUTDOWN: Final = "CONTROLLED_SHUTDOWN"
_LINKS: Final = (str(Link.CONTROL), str(Link.INTER_BROKER), str(Link.CLIENT))
_FUTURE: Final = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Forgery:
    """One request, as sent."""

    api: str
    lie: str
    node: int
    link: Link
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    state: PartitionState


def forge(
    api: str,
    lie: str,
    *,
    node: int,
    link: Link,
    controller_id: int,
    controller_epoch: int,
    broker_epoch: int,
    state: PartitionState,
    truthful: bool = False,
    former: PartitionState | None = None,
    former_broker_epoch: int | None = None,
) -> Forgery | None:
    """The forged request, made from the true epochs and state; None when it cannot be told.

    ``former``: tell this older state of the partition instead; what has not changed since is no
    news, old or new, and is not told. ``former_broker_epoch``: of an earlier registration.
    """
    other = next((r for r in state.replicas if r != state.leader), state.leader)
    if former is not None:
        if former.leader_epoch >= state.leader_epoch:
            return None
        told = former
    elif truthful:
        told = state
    else:
        told = dataclasses.replace(state, leader=other, leader_epoch=state.leader_epoch + 1)
    if lie == "stale_controller_epoch":
        controller_epoch -= 1
        told = dataclasses.replace(told, controller_epoch=controller_epoch)
    elif lie == "future_controller_epoch":
        controller_epoch += _FUTURE
        told = dataclasses.replace(told, controller_epoch=controller_epoch)
    elif lie == "stale_broker_epoch":
        broker_epoch = _of_the_past(broker_epoch, former_broker_epoch)
    elif lie == "stale_leader_epoch":
        if api == "UPDATE_METADATA" or (api == "STOP_REPLICA" and state.leader_epoch < 1):
            return None
        if former is None:
            told = dataclasses.replace(told, leader_epoch=state.leader_epoch - 1)
    if controller_epoch < 0 or broker_epoch < 0:
        return None  # -1 bypasses the broker epoch check
    return Forgery(
        api=api,
        lie=lie,
        node=node,
        link=link,
        controller_id=controller_id,
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        state=told,
    )


def _of_the_past(broker_epoch: int, former: int | None) -> int:
    """That of an earlier registration, or one that never was."""
    return broker_epoch - 1 if former is None or former >= broker_epoch else former


class ForgedRequests(BaseFault):
    """Parameters: target; lie, api, link: one or several; partitions (see `move-leadership`), of
    which each round takes ``per_round``; truthful: send the true leader and leader epoch but for
    the lie; old_news: send those from before the plan began; interval_ms: one round each, from
    inject to heal (0: one round only); delete: for StopReplica.

    ``future_controller_epoch`` is lawfully believed and makes brokers refuse the true controller
    until the next election: it is not among the default lies.
    """

    name = "forged-requests"
    needs = frozenset({Capability.CONTROL_REQUESTS})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.targets = read_targets(params, default="all")
        self.lies = params.choices("lie", LIES, list(LIES[:3]))
        self.apis = params.choices("api", (*APIS, SHUTDOWN), list(APIS))
        self.links = [Link(name) for name in params.choices("link", _LINKS, str(Link.CONTROL))]
        self.partitions = read_partitions(params)
        self.per_round = params.integer("per_round", 1, low=1, high=1000)
        self.truthful = params.flag("truthful", False)
        self.old_news = params.flag("old_news", False)
        if self.truthful and self.old_news:
            raise params.error("old_news", "is not allowed; allowed: one of truthful, old_news")
        self.interval_ms = params.integer("interval_ms", 500, low=0)
        self.delete = params.flag("delete", False)
        self.timeout_ms = params.integer("timeout_ms", 5000, low=1)
        params.done()
        self._background: Background | None = None
        self._op = 0
        self.answered = 0
        self.sent = 0
        self._former: dict[tuple[str, int], PartitionState] = {}
        self._former_broker_epochs: dict[int, int | None] = {}

    def prepare(self, ctx: Context) -> None:
        """Remember what is true before the plan begins: it is what will be old later."""
        states = find_partitions(self.partitions, ctx)
        self._former = {(s.topic, s.partition): s for s in states}
        self._former_broker_epochs = {n: ctx.view.broker_epoch(n) for n in ctx.view.live_brokers()}

    def apply(self, ctx: Context) -> None:
        self.round(ctx, ctx.rng)
        if not self.sent:
            raise FaultFailed("no request could be forged: no partition, or no epoch to go below")
        self.took_hold = self.answered > 0
        if self.interval_ms:
            self._background = Background(
                ctx, self.round, interval_ms=self.interval_ms, name=f"{self.name}-{self.id}"
            )

    def undo(self, ctx: Context) -> None:
        if self._background is not None:
            self._background.stop()
            self.detail |= self._background.summary()
            self._background = None
        if self.sent:
            self.detail |= {"sent": self.sent, "answered": self.answered}
            self.took_hold = self.answered > 0

    def round(self, ctx: Context, rng: random.Random) -> None:
        """Every lie, in every API, to every target over every link, about some partitions."""
        targets = aim(ctx, self.targets, rng)
        for node in targets:
            if node not in self.nodes:
                self.nodes.append(node)
        if SHUTDOWN in self.apis and "stale_broker_epoch" in self.lies:
            for node in targets:
                self._say_goodbye_for(ctx, node)
        states = find_partitions(self.partitions, ctx)
        for node in targets:
            here = [s for s in states if node in s.replicas] or states
            if self.old_news:  # what has not changed since would be no lie
                here = [s for s in here if self._is_old(s)] or here
            chosen = rng.sample(here, min(self.per_round, len(here)))
            for state in chosen:
                for link in self.links:
                    self._lie_about(ctx, node, link, state)

    def _is_old(self, state: PartitionState) -> bool:
        former = self._former.get((state.topic, state.partition))
        return former is not None and former.leader_epoch < state.leader_epoch

    def _lie_about(self, ctx: Context, node: int, link: Link, state: PartitionState) -> None:
        for api in (api for api in self.apis if api != SHUTDOWN):
            for lie in self.lies:
                controller, broker_epoch = ctx.view.controller(), ctx.view.broker_epoch(node)
                if controller is None or broker_epoch is None:
                    continue  # nobody to impersonate, or the broker is not registered
                forged = forge(
                    api,
                    lie,
                    node=node,
                    link=link,
                    controller_id=controller,
                    controller_epoch=ctx.view.controller_epoch(),
                    broker_epoch=broker_epoch,
                    state=state,
                    truthful=self.truthful,
                    former=self._told_of(state),
                    former_broker_epoch=self._former_broker_epochs.get(node),
                )
                if forged is not None:
                    self._send(ctx, forged)

    def _told_of(self, state: PartitionState) -> PartitionState | None:
        """Old news of a partition; itself (nothing to be told) when none is remembered."""
        if not self.old_news:
            return None
        return self._former.get((state.topic, state.partition), state)

    def _send(self, ctx: Context, forged: Forgery) -> None:
        send: dict[str, Callable[..., ControlAnswer]] = {
            "LEADER_AND_ISR": ctx.control.leader_and_isr,
            "UPDATE_METADATA": ctx.control.update_metadata,
            "STOP_REPLICA": ctx.control.stop_replica,
        }
        more: dict[str, Any] = {"delete": self.delete} if forged.api == "STOP_REPLICA" else {}
        states: Sequence[PartitionState] = [forged.state]
        answer = send[forged.api](
            forged.node,
            forged.link,
            controller_id=forged.controller_id,
            controller_epoch=forged.controller_epoch,
            broker_epoch=forged.broker_epoch,
            states=states,
            timeout_s=self.timeout_ms / 1000,
            **more,
        )
        state = forged.state
        self._tell(
            ctx,
            answer,
            node=forged.node,
            topic=state.topic,
            partition=state.partition,
            api=forged.api,
            plane="control" if forged.link is Link.CONTROL else "data",
            lie=forged.lie,
            controller_id=forged.controller_id,
            controller_epoch=forged.controller_epoch,
            broker_epoch=forged.broker_epoch,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_error=answer.partition_errors.get((state.topic, state.partition)),
        )

    def _say_goodbye_for(self, ctx: Context, node: int) -> None:
        controller, broker_epoch = ctx.view.controller(), ctx.view.broker_epoch(node)
        if controller is None or broker_epoch is None:
            return
        past = _of_the_past(broker_epoch, self._former_broker_epochs.get(node))
        if past < 0:
            return  # -1 bypasses the check
        if controller not in self.nodes:
            self.nodes.append(controller)
        answer = ctx.control.controlled_shutdown(
            controller,
            Link.INTER_BROKER,
            broker=node,
            broker_epoch=past,
            timeout_s=self.timeout_ms / 1000,
        )
        self._tell(
            ctx,
            answer,
            node=controller,
            api=SHUTDOWN,
            plane="data",
            lie="stale_broker_epoch",
            controller_id=controller,
            controller_epoch=ctx.view.controller_epoch(),
            broker_epoch=past,
            broker=node,
        )

    def _tell(self, ctx: Context, answer: ControlAnswer, **fields: Any) -> None:
        self._op += 1
        self.sent += 1
        self.answered += answer.failure is None
        ctx.record(
            "forged",
            t=answer.t,
            process=f"forger-{self.id}",
            # an answer is certain knowledge, whatever it says; without one nobody knows
            type="ok" if answer.failure is None else "info",
            op=self._op,
            invoke_t=answer.invoke_t,
            error=answer.error,
            failure=answer.failure,
            correlation_id=answer.correlation_id,
            client_id=answer.client_id,
            **fields,
        )

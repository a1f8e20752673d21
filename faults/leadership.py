"""``move-leadership``: a partition's leader changes between two live brokers.

Done as an operator would: reorder the replicas so that another in-sync one comes first (a
reassignment to the same set), then elect the preferred leader. The old leader stays alive and keeps
its clients: the case in which a late LeaderAndIsr costs acknowledged records, and a late
UpdateMetadata keeps clients at the wrong broker.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from faults.base import BaseFault, wait_for
from faults.meanwhile import Meanwhile
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed, PartitionState
from faults.targets import parse_partition, partition_state


def read_partitions(params: Params, name: str = "partitions", default: Any = "all") -> list[str]:
    """Partitions as ``t-0``, whole topics as ``t`` followed by ``-*``, or ``all``."""
    names = params.texts(name, default)
    for text in names:
        if text != "all" and not text.endswith("-*") and parse_partition(text) is None:
            raise params.error(
                name, f"{text!r} is not allowed; allowed: all, topic-*, topic-partition"
            )
    return names


def find_partitions(names: list[str], ctx: Context) -> list[PartitionState]:
    """The states meant; ``all`` leaves out Kafka's own topics and floods'."""
    found: list[PartitionState] = []
    for name in names:
        parsed = parse_partition(name)
        if name == "all":
            found += [
                s
                for s in ctx.view.partitions()
                if not s.topic.startswith(("__", "flood-", "churn-"))
            ]
        elif name.endswith("-*"):
            found += ctx.view.partitions(name[:-2])
        elif parsed is not None:
            found.append(partition_state(ctx.view, *parsed))
    return found


def choose_successor(
    state: PartitionState, to: str, live: set[int], rng: random.Random
) -> int | None:
    """Who is to lead next: a live in-sync replica other than the leader; None when none is."""
    able = [r for r in state.replicas if r in live and r in state.isr and r != state.leader]
    if to not in ("next", "random"):
        return int(to) if int(to) in able else None
    if not able:
        return None
    if to == "random":
        return rng.choice(sorted(able))
    after = state.replicas.index(state.leader) if state.leader in state.replicas else -1
    order = state.replicas[after + 1 :] + state.replicas[: after + 1]
    return next(r for r in order if r in able)


Chosen = dict[tuple[str, int], tuple[PartitionState, int]]
"""By partition: its state before the move, and who is to lead next."""


ORDERS: Final = ("front", "rotate")
_ANSWERED_MS: Final = 1500
_LOOK_S: Final = 0.005


def ordered(replicas: Sequence[int], first: int, order: str) -> list[int]:
    """The replicas with ``first`` before all others: put to the front (who led before is then next
    in line), or turned like a wheel (who led before comes last or nearly so)."""
    if order == "rotate":
        at = list(replicas).index(first)
        return [*replicas[at:], *replicas[:at]]
    return [first, *(r for r in replicas if r != first)]


def move(
    ctx: Context,
    states: list[PartitionState],
    to: str,
    rng: random.Random,
    timeout_ms: int,
    order: str = "front",
) -> list[dict[str, Any]]:
    """Move what can be moved and see it committed; the moves, as told in ``detail``."""
    return elect(ctx, reorder(ctx, states, to, rng, timeout_ms, order), timeout_ms)


def reorder(
    ctx: Context,
    states: list[PartitionState],
    to: str,
    rng: random.Random,
    timeout_ms: int,
    order: str = "front",
) -> Chosen:
    """Make another in-sync replica the preferred one. The leader stays, its epoch goes up by one:
    Kafka ends a reassignment so, and tells every replica."""
    live = set(ctx.view.live_brokers())
    chosen = {
        (s.topic, s.partition): (s, successor)
        for s in states
        if s.leader >= 0 and (successor := choose_successor(s, to, live, rng)) is not None
    }
    if not chosen:
        raise FaultFailed(f"no partition can move: no other in-sync live replica ({to!r})")
    ctx.admin.reassign(
        {tp: ordered(state.replicas, successor, order) for tp, (state, successor) in chosen.items()}
    )
    wait_for(
        ctx,
        lambda: is_reordered(ctx, chosen),
        timeout_ms=timeout_ms,
        what="the reordered assignment is in place",
    )
    return chosen


def is_reordered(ctx: Context, chosen: Chosen) -> bool:
    """Whether the chosen ones are (still) the preferred replicas."""
    return all(
        partition_state(ctx.view, *tp).replicas[:1] == (successor,)
        for tp, (_, successor) in chosen.items()
    )


def elect(ctx: Context, chosen: Chosen, timeout_ms: int) -> list[dict[str, Any]]:
    """Elect the preferred leaders and see it committed; the moves, as told in ``detail``.

    Who answers that they are elected has committed it. Where that can be read at once there is no
    other way for them to come to lead later on: an election that another fault brings about is not
    this one. But another fault may end whom it brought about before it is answered."""
    started = ctx.now_ns()
    at_once = Capability.ZOOKEEPER in ctx.capabilities
    before = {tp: partition_state(ctx.view, *tp) for tp in chosen}
    led: dict[tuple[str, int], int] = {}

    def all_led() -> bool:
        for tp, (_, successor) in chosen.items():
            state = partition_state(ctx.view, *tp)
            if state.leader == successor:
                led.setdefault(tp, state.leader_epoch)
        return len(led) == len(chosen)

    asked = Meanwhile(lambda: ctx.admin.elect_preferred(sorted(chosen)))
    while not asked.is_over:
        all_led()
        ctx.sleep(_LOOK_S)
    try:
        asked.result()
    except FaultFailed as error:
        # The controller may have moved the leader by itself already.
        if "ELECTION_NOT_NEEDED" not in str(error):
            raise
    wait_for(
        ctx,
        all_led,
        timeout_ms=min(timeout_ms, _ANSWERED_MS) if at_once else timeout_ms,
        what=f"{len(chosen)} partitions are led by their preferred replica, as was answered",
        poll_s=_LOOK_S,
    )
    return [
        {
            "partition": f"{topic}-{partition}",
            "from": state.leader,
            "to": successor,
            "from_leader_epoch": before[topic, partition].leader_epoch,
            "to_leader_epoch": led[topic, partition],
            "took_ns": ctx.now_ns() - started,
        }
        for (topic, partition), (state, successor) in chosen.items()
    ]


class MoveLeadership(BaseFault):
    """Parameters: partitions; to: "next" (in assignment order), "random" or a broker; order of the
    replicas then (`ordered`); times and interval_ms: repeat, to and fro; timeout_ms for each move.
    Nothing to heal."""

    name = "move-leadership"
    needs = frozenset({Capability.ELECT_LEADERS})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        self.partitions = read_partitions(params)
        self.to = params.text("to", "next")
        if self.to not in ("next", "random") and not self.to.isdigit():
            raise params.error("to", f"{self.to!r} is not allowed; allowed: next, random, a broker")
        self.order = params.choice("order", ORDERS, ORDERS[0])
        self.times = params.integer("times", 1, low=1, high=10_000)
        self.interval_ms = params.integer("interval_ms", 1000)
        self.timeout_ms = params.integer("timeout_ms", 30_000, low=1)
        params.done()
        self._prepared: Chosen | None = None

    def prepare(self, ctx: Context) -> None:
        """Reorder the replicas before the clock starts, so that the move itself is one election:
        the demoted leader then has one LeaderAndIsr to wait for, the one that demotes it."""
        states = find_partitions(self.partitions, ctx)
        self._prepared = reorder(ctx, states, self.to, ctx.rng, self.timeout_ms, self.order)

    def apply(self, ctx: Context) -> None:
        moves: list[dict[str, Any]] = []
        self.detail["moves"] = moves
        for turn in range(self.times):
            if turn:
                ctx.sleep(self.interval_ms / 1000)
            moves += self._move(ctx)
        self.nodes = sorted({m["from"] for m in moves} | {m["to"] for m in moves})
        self.took_hold = bool(moves)

    def _move(self, ctx: Context) -> list[dict[str, Any]]:
        prepared, self._prepared = self._prepared, None
        if prepared is not None and self._still_holds(ctx, prepared):
            return elect(ctx, prepared, self.timeout_ms)
        states = find_partitions(self.partitions, ctx)
        return move(ctx, states, self.to, ctx.rng, self.timeout_ms, self.order)

    def _still_holds(self, ctx: Context, prepared: Chosen) -> bool:
        """Another entry may have moved the partition meanwhile, or its successor fallen out."""
        live = set(ctx.view.live_brokers())
        for tp, (before, successor) in prepared.items():
            now = partition_state(ctx.view, *tp)
            if now.leader != before.leader or successor not in now.isr or successor not in live:
                return False
        return is_reordered(ctx, prepared)

"""Symbolic targets: what a plan says instead of a broker's number, and what it means here and now.

    "2"                 broker 2
    "leader:t-0"        the leader of partition 0 of t, as committed
    "follower:t-0"      one of its other replicas, drawn from the seed
    "successor:t-0"     the replica that comes after its leader in the order of the assignment
    "controller"        the active controller
    "not-controller"    a live broker that is not it, drawn from the seed
    "not-controller:1"  such a broker, the same while nobody else comes or goes: by number, from 0
    "other-leader"      such a broker that leads a partition, drawn from the seed
    "random"            a live broker, drawn from the seed
    "all"               every live broker

Resolution reads the committed state (the view), never a broker's idea of it. A leader or controller
that is just being replaced is there again a moment later: `aim` waits for it, as long as that takes
where nothing else is wrong.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence

from faults.params import Params
from faults.protocol import Context, FaultFailed, PartitionState, View

_FORM = re.compile(
    r"(-?\d+|all|random|controller|not-controller(?::(\d+))?|other-leader"
    r"|(leader|follower|successor):(.+)-(\d+))\Z"
)
PATIENCE_S = 5.0
_POLL_S = 0.02
ALLOWED = (
    "a broker's number, all, random, controller, not-controller, not-controller:N, other-leader, "
    "leader:T-P, follower:T-P, successor:T-P"
)


class NotNow(FaultFailed):
    """Nobody is meant by the words at this moment."""


def read_targets(params: Params, name: str = "target", default: str = "random") -> list[str]:
    """The target parameter of a fault, each form checked."""
    targets = params.texts(name, default)
    for target in targets:
        if not _FORM.match(target):
            raise params.error(name, f"{target!r} is not allowed; allowed: {ALLOWED}")
    return targets


def may_move(targets: Iterable[str]) -> bool:
    """Whether the same words may mean other brokers later in a run."""
    return any(t == "controller" or ":" in t for t in targets)


def aim(ctx: Context, targets: Sequence[str], rng: random.Random | None = None) -> list[int]:
    """`resolve` for a fault that is to begin now; ``rng`` is the context's if not given.

    However often it looks, it draws once: the same seed means the same brokers."""
    rng = rng or ctx.rng
    deadline_ns = ctx.now_ns() + int(PATIENCE_S * 1e9)
    drawn = rng.getstate()
    while True:
        try:
            return resolve(targets, ctx.view, rng)
        except NotNow:
            if ctx.now_ns() >= deadline_ns:
                raise
        rng.setstate(drawn)
        ctx.sleep(_POLL_S)


def resolve(targets: Sequence[str], view: View, rng: random.Random) -> list[int]:
    """The brokers meant, without repetition, in the order named."""
    found: list[int] = []
    for target in targets:
        for node in _resolve(target, view, rng):
            if node not in found:
                found.append(node)
    return found


def resolve_one(target: str, view: View, rng: random.Random) -> int:
    return resolve([target], view, rng)[0]


def _resolve(target: str, view: View, rng: random.Random) -> list[int]:
    form = _FORM.match(target)
    if form is None:
        raise FaultFailed(f"target {target!r} is not allowed; allowed: {ALLOWED}")
    if target == "all":
        return sorted(view.live_brokers())
    if target == "random":
        return [_draw(sorted(view.live_brokers()), rng, target)]
    named = form.group(2)
    if target in ("controller", "not-controller", "other-leader") or named is not None:
        controller = view.controller()
        others = [n for n in sorted(view.live_brokers()) if n != controller]
        if named is not None:
            return [_at(others, int(named), target)]
        if target == "not-controller":
            return [_draw(others, rng, target)]
        if target == "other-leader":
            leaders = {state.leader for state in view.partitions()}
            return [_draw([n for n in others if n in leaders], rng, target)]
        if controller is None:
            raise NotNow("target 'controller': there is none at the moment")
        return [controller]
    role, topic, partition = form.group(3), form.group(4), form.group(5)
    if role is None:
        return [int(target)]
    state = partition_state(view, topic, int(partition))
    if role == "follower":
        return [_draw([n for n in state.replicas if n != state.leader], rng, target)]
    if state.leader < 0:
        raise NotNow(f"target {target!r}: the partition has no leader at the moment")
    if role == "leader":
        return [state.leader]
    at = state.replicas.index(state.leader)
    return [state.replicas[(at + 1) % len(state.replicas)]]


def _draw(nodes: Sequence[int], rng: random.Random, target: str) -> int:
    return _at(nodes, rng.randrange(len(nodes)) if nodes else 0, target)


def _at(nodes: Sequence[int], number: int, target: str) -> int:
    if number >= len(nodes):
        raise NotNow(f"target {target!r}: no broker fits at the moment")
    return nodes[number]


def partition_state(view: View, topic: str, partition: int) -> PartitionState:
    """The committed state of one partition; `FaultFailed` when there is none."""
    for state in view.partitions(topic):
        if state.partition == partition:
            return state
    raise FaultFailed(f"partition {topic}-{partition} does not exist")


def parse_partition(text: str) -> tuple[str, int] | None:
    """``t-0`` as (t, 0); None when it is not of that form."""
    topic, dash, partition = text.rpartition("-")
    return (topic, int(partition)) if dash and topic and partition.isdigit() else None

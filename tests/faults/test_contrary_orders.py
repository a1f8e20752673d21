"""Orders that contradict each other, while the controller waits."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from faults.protocol import FaultFailed, Link
from faults.registry import build

APART = {"partition": "w-0", "apart_ms": 20, "timeout_ms": 2000}


class Waiting:
    """A controller that answers nothing while ZooKeeper is late."""

    def __init__(self, ctx: Any, refuses: str = "") -> None:
        self.cluster, self.refuses = ctx.cluster, refuses
        self.asked: list[Any] = []
        self.let = threading.Event()
        remove = ctx.cluster.remove_toxic

        def remove_toxic(*where: Any, **more: Any) -> None:
            remove(*where, **more)
            self.let.set()

        ctx.cluster.remove_toxic = remove_toxic

    def __call__(self, assignment: Any) -> None:
        ((key, wanted),) = assignment.items()
        assert key == ("w", 0)
        assert self.cluster.toxics, "it is late as soon as the first is given"
        self.asked.append(wanted)
        assert self.let.wait(10)
        if self.refuses:
            raise FaultFailed(self.refuses)


def test_each_order_is_given_while_the_first_one_waits(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2]})
    ctx.cluster.begin_reassign = waiting = Waiting(ctx)
    fault = build(entry("contrary-orders", **APART))
    fault.inject(ctx)
    assert waiting.asked == [[2, 1], [1, 2], [2, 1]]
    assert fault.detail == {"partition": "w-0", "orders": waiting.asked}
    assert (fault.nodes, fault.took_hold) == ([1], True)
    assert not ctx.cluster.toxics
    ((_, *toxic),) = (call for call in ctx.cluster.calls if call[0] == "add_toxic")
    assert toxic == [1, Link.ZOOKEEPER, "e1"]


def test_where_none_waits_it_did_not_take_hold(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2, 3]})
    asked: list[Any] = []
    ctx.cluster.begin_reassign = lambda assignment: asked.extend(assignment.values())
    fault = build(entry("contrary-orders", **APART))
    fault.inject(ctx)
    assert asked == [[2, 3, 1], [3, 1, 2], [1, 2, 3]]
    assert fault.took_hold is False


def test_a_refused_order_is_told(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2]})
    ctx.cluster.begin_reassign = Waiting(ctx, refuses="NOT_NOW")
    fault = build(entry("contrary-orders", **APART))
    with pytest.raises(FaultFailed, match="NOT_NOW"):
        fault.inject(ctx)
    assert fault.took_hold is None


def test_who_never_answers_is_told_and_healed(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2]})
    never = threading.Event()
    ctx.cluster.begin_reassign = lambda assignment: never.wait(10)
    fault = build(entry("contrary-orders", **APART | {"timeout_ms": 50}))
    with pytest.raises(FaultFailed, match="3 orders about w-0 were answered"):
        fault.inject(ctx)
    never.set()
    fault.heal(ctx)
    assert not ctx.cluster.toxics


@pytest.mark.parametrize("controller", [None, 1])
def test_it_needs_a_controller_and_two_replicas(ctx: Any, entry: Any, controller: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1] if controller else [1, 2]})
    ctx.cluster.the_controller = controller
    with pytest.raises(FaultFailed, match="no two replicas"):
        build(entry("contrary-orders", **APART)).inject(ctx)
    assert not ctx.cluster.toxics

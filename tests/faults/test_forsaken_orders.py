"""Orders that a controller loses its session with."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from faults.protocol import FaultFailed, Link
from faults.registry import build

ASKED = {
    **{"topic": "t", "order": "move", "orders": 2},
    **{"apart_ms": 10, "takeover_ms": 2000, "timeout_ms": 2000},
}


class Forsaken:
    """A controller that answers nothing until it reaches ZooKeeper again, and is succeeded when it
    has been given so many orders."""

    def __init__(self, ctx: Any, *, orders: int = 2, error: str = "") -> None:
        self.cluster, self.orders, self.error = ctx.cluster, orders, error
        self.asked: dict[tuple[str, int], list[int]] = {}
        self.let = threading.Event()
        self.settle, enable = ctx.cluster._settle, ctx.cluster.enable
        ctx.cluster._settle = lambda: None
        ctx.cluster.begin_reassign = self

        def enabled(*where: Any) -> None:
            enable(*where)
            self.let.set()

        ctx.cluster.enable = enabled

    def __call__(self, assignment: Any) -> None:
        assert self.cluster.cut == {(1, Link.ZOOKEEPER)}
        self.asked |= assignment
        if len(self.asked) == self.orders:
            self.settle()
        assert self.let.wait(10)
        if self.error:
            raise FaultFailed(self.error)


def test_the_orders_wait_until_another_is_in_office(ctx: Any, entry: Any) -> None:
    waiting = Forsaken(ctx)
    fault = build(entry("forsaken-orders", **ASKED))
    before = ctx.now_ns()
    fault.inject(ctx)
    assert waiting.asked == {("t", 0): [2, 3, 1], ("t", 1): [3, 1, 2]}
    assert (fault.nodes, fault.took_hold) == ([1], True)
    assert (fault.detail["forsaken"], fault.detail["refused"]) == (1, [])
    assert before < fault.detail["let_go_t"] < ctx.now_ns()
    assert not ctx.cluster.cut
    assert ctx.cluster.controller() == 2


def test_elections_are_of_who_has_become_preferred_before(ctx: Any, entry: Any) -> None:
    waiting = Forsaken(ctx)
    elected: list[Any] = []

    def elect(partitions: Any) -> None:
        elected.append(partitions)
        waiting({partitions[0]: []})

    ctx.cluster.elect_preferred = elect
    fault = build(entry("forsaken-orders", **ASKED | {"order": "elect"}))
    fault.inject(ctx)
    assert elected == [[("t", 0)], [("t", 1)]]
    assert [s.replicas[0] != s.leader for s in ctx.cluster.partitions("t")] == [True, True]
    assert fault.took_hold


def test_what_they_say_is_told(ctx: Any, entry: Any) -> None:
    Forsaken(ctx, error="NOT_CONTROLLER")
    fault = build(entry("forsaken-orders", **ASKED))
    fault.inject(ctx)
    assert fault.took_hold
    assert fault.detail["refused"] == ["NOT_CONTROLLER", "NOT_CONTROLLER"]


def test_no_more_are_given_than_asked_for(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("t", {2: [3, 1, 2]})
    waiting = Forsaken(ctx)
    build(entry("forsaken-orders", **ASKED)).inject(ctx)
    assert sorted(waiting.asked) == [("t", 0), ("t", 1)]


@pytest.mark.parametrize("answered", [[0], [1], [0, 1]])
def test_who_answers_before_has_not_forsaken_it(ctx: Any, entry: Any, answered: list[int]) -> None:
    waiting = Forsaken(ctx)

    def give(assignment: Any) -> None:
        ((_topic, partition),) = assignment
        if partition not in answered:
            waiting(assignment)

    waiting.orders -= len(answered)
    if not waiting.orders:
        ctx.cluster._settle = waiting.settle
    ctx.cluster.begin_reassign = give
    fault = build(entry("forsaken-orders", **ASKED))
    fault.inject(ctx)
    assert fault.took_hold is False


def test_who_never_answers_is_told_and_healed(ctx: Any, entry: Any) -> None:
    never = threading.Event()
    ctx.cluster.begin_reassign = lambda assignment: never.wait(10)
    fault = build(entry("forsaken-orders", **ASKED | {"timeout_ms": 50}))
    with pytest.raises(FaultFailed, match="2 orders about t were answered"):
        fault.inject(ctx)
    assert "let_go_t" in fault.detail
    never.set()
    fault.heal(ctx)
    assert not ctx.cluster.cut


def test_it_needs_as_many_partitions(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("alone", {0: [1], 1: [1, 2]})
    fault = build(entry("forsaken-orders", **ASKED | {"topic": "alone"}))
    with pytest.raises(FaultFailed, match="has 1 partitions of two replicas or more"):
        fault.inject(ctx)
    assert not ctx.cluster.cut

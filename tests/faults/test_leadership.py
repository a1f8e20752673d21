"""Leaders that are moved."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import Any

import pytest

from faults import build
from faults.errors import PlanError
from faults.leadership import choose_successor, ordered
from faults.protocol import FaultFailed, PartitionState

STATE = PartitionState("t", 0, 1, 4, (1, 2), (1, 2, 3), 5, 9)


def test_successor_is_live_and_in_sync() -> None:
    rng = random.Random(0)
    assert choose_successor(STATE, "next", {1, 2, 3}, rng) == 2
    assert choose_successor(STATE, "next", {1, 3}, rng) is None
    assert choose_successor(STATE, "3", {1, 2, 3}, rng) is None  # not in sync
    assert choose_successor(STATE, "2", {1, 2, 3}, rng) == 2
    assert choose_successor(STATE, "random", {1, 2, 3}, rng) == 2


def test_moving_leadership_there_and_back(ctx: Any, entry: Any) -> None:
    fault = build(entry("move-leadership", partitions="t-0", times=2, interval_ms=0))
    fault.inject(ctx)
    moves = fault.detail["moves"]
    assert [(m["from"], m["to"]) for m in moves] == [(1, 2), (2, 1)]
    assert moves[0]["to_leader_epoch"] == moves[0]["from_leader_epoch"] + 1
    assert fault.took_hold is True


def test_replicas_are_put_to_the_front_or_turned() -> None:
    assert ordered((1, 2, 3, 4), 3, "front") == [3, 1, 2, 4]
    assert ordered((1, 2, 3, 4), 3, "rotate") == [3, 4, 1, 2]


def test_turning_visits_every_replica(ctx: Any, entry: Any) -> None:
    moving = {"partitions": "t-0", "times": 3, "interval_ms": 0}
    fault = build(entry("move-leadership", order="rotate", **moving))
    fault.prepare(ctx)
    fault.inject(ctx)
    assert [(m["from"], m["to"]) for m in fault.detail["moves"]] == [(1, 2), (2, 3), (3, 1)]
    with pytest.raises(PlanError, match="order"):
        build(entry("move-leadership", order="sideways"))


def test_a_prepared_move_is_one_election(ctx: Any, entry: Any) -> None:
    fault = build(entry("move-leadership", partitions="t-0"))
    fault.prepare(ctx)
    assert ctx.view.partitions("t")[0].leader == 1

    def reassign(_assignment: Any) -> None:
        raise AssertionError("the replicas were reordered before")

    ctx.cluster.reassign = reassign
    fault.inject(ctx)
    assert [(m["from"], m["to"]) for m in fault.detail["moves"]] == [(1, 2)]


def test_a_move_that_was_overtaken_is_prepared_anew(ctx: Any, entry: Any) -> None:
    first = build(entry("move-leadership", partitions="t-0"))
    second = build(entry("move-leadership", partitions="t-0"))
    first.prepare(ctx)
    second.prepare(ctx)
    first.inject(ctx)
    leader = ctx.view.partitions("t")[0].leader
    second.inject(ctx)
    (move,) = second.detail["moves"]
    assert move["from"] == leader
    assert move["to"] != leader
    assert ctx.view.partitions("t")[0].leader == move["to"]


def test_a_leader_that_the_reassignment_moved_already_is_fine(ctx: Any, entry: Any) -> None:
    real = ctx.cluster.reassign

    def reassign(assignment: Any) -> None:
        real(assignment)
        ctx.cluster.elect_preferred(list(assignment))

    ctx.cluster.reassign = reassign
    fault = build(entry("move-leadership", partitions=["t-0"]))
    fault.inject(ctx)
    assert fault.took_hold is True


def test_who_comes_to_lead_by_something_else_was_not_elected(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller answers that it elected, and did not; later on the leader goes, and is followed
    by whom it should have elected."""
    elect = ctx.cluster.elect_preferred
    asked: list[Any] = []
    monkeypatch.setattr(ctx.cluster, "elect_preferred", asked.append)
    monkeypatch.setattr("faults.leadership._ANSWERED_MS", 50)
    fault = build(entry("move-leadership", partitions="t-0"))
    with pytest.raises(FaultFailed, match="as was answered"):
        fault.inject(ctx)
    assert len(asked) == 1
    assert fault.took_hold is None
    elect(asked[0])
    assert ctx.view.partitions("t")[0].leader == 2


def test_who_was_elected_may_have_ended_before_that_is_answered(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    elect = ctx.cluster.elect_preferred
    seen = threading.Event()
    look = ctx.cluster.partitions

    def partitions(topic: str | None = None) -> list[PartitionState]:
        states: list[PartitionState] = look(topic)
        if states[0].leader == 2:
            seen.set()
        return states

    def elect_late(wanted: Any) -> None:
        elect(wanted)
        assert seen.wait(10)
        state = ctx.cluster.states["t", 0]
        ctx.cluster.states["t", 0] = replace(state, leader=1, leader_epoch=state.leader_epoch + 1)

    monkeypatch.setattr(ctx.cluster, "partitions", partitions)
    monkeypatch.setattr(ctx.cluster, "elect_preferred", elect_late)
    fault = build(entry("move-leadership", partitions="t-0"))
    fault.inject(ctx)
    (move,) = fault.detail["moves"]
    assert fault.took_hold is True
    assert (move["from"], move["to"]) == (1, 2)
    last = look("t")[0]
    assert (last.leader, last.leader_epoch) == (1, move["to_leader_epoch"] + 1)


def test_nobody_to_move_to(ctx: Any, entry: Any) -> None:
    for node in (2, 3):
        ctx.cluster.running[node] = False
    with pytest.raises(FaultFailed, match="no other in-sync"):
        build(entry("move-leadership", partitions="t-0")).inject(ctx)

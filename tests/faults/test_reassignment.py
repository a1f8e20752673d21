"""Replicas that are moved."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed, Link
from tests.faults.situations import elect


def test_replicas_wander_along_the_ring(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2], 1: [3, 1]})
    real = ctx.cluster.reassign

    def reassign(assignment: Any) -> None:
        real(assignment)
        for key, replicas in assignment.items():
            elect(ctx.cluster, key, replicas[0], isr=tuple(replicas))

    ctx.cluster.reassign = reassign
    fault = build(entry("reassign", partitions="w-*", times=2, interval_ms=0))
    fault.inject(ctx)
    assert [(m["partition"], m["added"], m["removed"]) for m in fault.detail["moves"]] == [
        ("w-0", [3], [1]),
        ("w-1", [2], [3]),
        ("w-0", [1], [2]),
        ("w-1", [3], [1]),
    ]
    assert fault.took_hold is True


def test_a_leader_is_left_without_its_replica(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2, 3]})
    elect(ctx.cluster, ("w", 0), 2)
    real = ctx.cluster.reassign

    def reassign(assignment: Any) -> None:
        real(assignment)
        elect(ctx.cluster, ("w", 0), 1, isr=(1, 3))

    ctx.cluster.reassign = reassign
    fault = build(entry("reassign", partitions="w-0", to="followers", interval_ms=0))
    fault.inject(ctx)
    assert [(m["added"], m["removed"]) for m in fault.detail["moves"]] == [([], [2])]
    assert fault.nodes == [2]
    assert fault.took_hold is True


def test_a_move_that_changes_no_replica_is_none(ctx: Any, entry: Any) -> None:
    fault = build(entry("reassign", partitions="t-0", interval_ms=0))  # on every broker already
    fault.inject(ctx)
    assert fault.took_hold is False
    ctx.cluster.add_topic("w", {0: [1, 2]})
    ctx.cluster.reassign = lambda assignment: None
    with pytest.raises(FaultFailed, match="w-0 is on"):
        build(entry("reassign", partitions="w-0")).inject(ctx)


class Moving:
    """A reassignment that goes on when its leader's answers leave again, under a new controller."""

    def __init__(self, ctx: Any, how: str) -> None:
        self.cluster, self.how = ctx.cluster, how
        self.elected_at = self.cluster.the_controller_epoch

    def __call__(self, assignment: Any) -> None:
        ((key, wanted),) = assignment.items()
        if self.how == "refused":
            raise FaultFailed("reassigning partitions: NOT_NOW")
        before = self.cluster.states[key]
        both = tuple(dict.fromkeys([*wanted, *before.replicas]))
        self.cluster.states[key] = replace(before, replicas=both)
        deadline = time.monotonic() + 30
        while self.cluster.toxics or self.cluster.the_controller_epoch == self.elected_at:
            assert time.monotonic() < deadline
            time.sleep(0.001)
        if self.how != "forgotten":
            elect(self.cluster, key, wanted[0], isr=tuple(wanted))
            self.cluster.states[key] = replace(self.cluster.states[key], replicas=tuple(wanted))


def test_a_controller_is_succeeded_in_the_middle_of_a_move(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2]})
    ctx.cluster.reassign = Moving(ctx, "sound")
    fault = build(entry("reassign-succeeded", partitions="w-0", interval_ms=0))
    fault.inject(ctx)
    calls = [c for c in ctx.cluster.calls if "toxic" in c[0] or c[0] == "remove_controller"]
    assert calls == [
        ("add_toxic", 1, Link.INTER_BROKER, "e1"),
        ("remove_controller",),
        ("remove_toxic", 1, Link.INTER_BROKER, "e1"),
    ]
    assert [(m["added"], m["removed"]) for m in fault.detail["moves"]] == [([3], [1])]
    assert fault.detail["successor"] == 2
    assert fault.took_hold is True


@pytest.mark.parametrize("how", ["refused", "forgotten"])
def test_a_move_that_nobody_goes_on_with_is_told(ctx: Any, entry: Any, how: str) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2]})
    ctx.cluster.reassign = Moving(ctx, how)
    fault = build(entry("reassign-succeeded", partitions="w-0", interval_ms=0, timeout_ms=200))
    with pytest.raises(FaultFailed, match=r"to have a replica|w-0 is on"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert fault.took_hold is None
    assert not ctx.cluster.toxics


def test_a_partition_on_every_broker_cannot_be_moved_meanwhile(ctx: Any, entry: Any) -> None:
    with pytest.raises(FaultFailed, match="would not move"):
        build(entry("reassign-succeeded", partitions="t-0")).inject(ctx)
    assert not ctx.cluster.toxics


class CalledOff:
    """A move that is under way at once, and where it was as soon as it is called off."""

    def __init__(self, ctx: Any, how: str) -> None:
        self.cluster, self.how = ctx.cluster, how
        self.before = self.cluster.states["w", 0]
        self.asked: list[Any] = []

    def __call__(self, assignment: Any) -> None:
        ((key, wanted),) = assignment.items()
        self.asked.append(wanted)
        if wanted is not None and self.how != "never begun":
            replicas = tuple(dict.fromkeys([*wanted, *self.before.replicas]))
            self.cluster.states[key] = replace(self.before, replicas=replicas)
        elif self.how == "sound":
            assert self.cluster.toxics, "nobody catches up before"
            self.cluster.states[key] = self.before


def test_a_move_is_called_off_while_nobody_can_catch_up(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2]})
    ctx.cluster.begin_reassign = moving = CalledOff(ctx, "sound")
    fault = build(entry("reassign-called-off", partition="w-0", settle_ms=1))
    fault.inject(ctx)
    assert moving.asked == [[2, 3], [3, 1], None]
    assert {name: fault.detail[name] for name in ("partition", "replicas", "turned")} == {
        **{"partition": "w-0", "replicas": [1, 2], "turned": [3, 1]}
    }
    assert fault.detail["called_off_t"] < ctx.now_ns()
    assert fault.took_hold is True
    assert not ctx.cluster.toxics
    ((_, occasion, replicas),) = (c for c in ctx.cluster.calls if c[0] == "record_moves")
    assert (occasion, replicas["w", 0]) == (fault.id, (3, 1, 2)), "it is asked while it moves"


def test_a_move_that_goes_on_did_not_take_hold(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2]})
    ctx.cluster.begin_reassign = CalledOff(ctx, "in vain")
    fault = build(entry("reassign-called-off", partition="w-0", settle_ms=1))
    fault.inject(ctx)
    assert "called_off_t" in fault.detail
    assert fault.took_hold is False


def test_only_what_moves_can_be_called_off(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("w", {0: [1, 2]})
    ctx.cluster.begin_reassign = CalledOff(ctx, "never begun")
    fault = build(entry("reassign-called-off", partition="w-0", timeout_ms=20))
    with pytest.raises(FaultFailed, match="to have a replica"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not ctx.cluster.toxics
    with pytest.raises(FaultFailed, match="would not move"):
        build(entry("reassign-called-off", partition="t-0")).inject(ctx)

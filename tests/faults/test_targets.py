"""Whom a fault means: by the committed state, when its time comes."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from faults import targets
from faults.protocol import FaultFailed
from faults.targets import aim, may_move, resolve


def test_targets_mean_the_committed_state(cluster: Any) -> None:
    rng = random.Random(0)
    assert resolve(["leader:t-1"], cluster, rng) == [2]
    assert resolve(["controller", "1", "all"], cluster, rng) == [1, 2, 3]
    assert resolve(["not-controller"], cluster, rng)[0] in (2, 3)
    assert resolve(["follower:t-0"], cluster, rng)[0] in (2, 3)
    assert resolve(["successor:t-0"], cluster, rng) == [2]
    assert resolve(["successor:t-1"], cluster, rng) == [3]
    assert may_move(["leader:t-0"])
    assert may_move(["successor:t-0"])
    assert not may_move(["2", "random"])
    with pytest.raises(FaultFailed, match="t-7"):
        resolve(["leader:t-7"], cluster, rng)
    cluster.the_controller = None
    with pytest.raises(FaultFailed, match="controller"):
        resolve(["controller"], cluster, rng)


def test_one_who_is_not_the_controller_is_named_by_its_place_among_these(cluster: Any) -> None:
    rng = random.Random(0)
    for controller, meant in ((1, (2, 3)), (2, (1, 3)), (3, (1, 2))):
        cluster.the_controller = controller
        found = [resolve([f"not-controller:{place}"], cluster, rng)[0] for place in (0, 1)]
        assert tuple(found) == meant
    with pytest.raises(FaultFailed, match="no broker fits"):
        resolve(["not-controller:2"], cluster, rng)


def test_another_leader_than_the_controller(cluster: Any) -> None:
    rng = random.Random(0)
    partitions = cluster.partitions()
    for leaders in ({1, 3}, {3}):
        cluster.partitions = lambda topic=None, leaders=leaders: [
            replace(state, leader=leader)
            for state, leader in zip(partitions, sorted(leaders), strict=False)
        ]
        assert {resolve(["other-leader"], cluster, rng)[0] for _ in range(20)} == {3}
    cluster.partitions = lambda topic=None: [replace(state, leader=1) for state in partitions]
    with pytest.raises(FaultFailed, match="no broker fits"):
        resolve(["other-leader"], cluster, rng)


def test_a_leader_that_is_just_being_replaced_is_waited_for(cluster: Any, ctx: Any) -> None:
    looks = 0
    partitions = cluster.partitions

    def leaderless_at_first(topic: str | None = None) -> Any:
        nonlocal looks
        looks += 1
        states = partitions(topic)
        return [replace(state, leader=-1) for state in states] if looks < 4 else states

    cluster.partitions = leaderless_at_first
    once = random.Random(1)
    meant = [*resolve(["random"], cluster, once), 2]
    assert aim(ctx, ["random", "leader:t-1"], random.Random(1)) == list(dict.fromkeys(meant))
    assert looks == 4


def test_a_leader_that_does_not_come_back_is_no_target(
    cluster: Any, ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "PATIENCE_S", 0.05)
    cluster.states["t", 1] = replace(cluster.states["t", 1], leader=-1)
    with pytest.raises(FaultFailed, match="'leader:t-1': the partition has no leader"):
        aim(ctx, ["leader:t-1"])
    with pytest.raises(FaultFailed, match="t-7 does not exist"):  # will not be: not waited for
        aim(ctx, ["leader:t-7"])

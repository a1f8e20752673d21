"""Two deaths: of a leader and its successor, of a broker and the controller; and one that others
answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed, PartitionState
from tests.faults.situations import elect, succession

# ---- two deaths ----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_the_successor_dies_as_well(ctx: Any, entry: Any, how: str) -> None:
    succession(ctx)
    fault = build(entry("double-failover", partition="t-0", how=how))
    fault.inject(ctx)
    assert ctx.cluster.calls == [(how, 1), ("kill", 2)]
    assert fault.took_hold is True
    assert fault.nodes == [1, 2]
    assert [leader for leader, _ in fault.detail["leaders"]] == [1, 2, 3]
    fault.heal(ctx)
    assert all(ctx.cluster.running.values())


def test_a_leader_that_is_not_there_yet_is_no_successor(ctx: Any, entry: Any) -> None:
    """Nor is one in whose name only the epoch went up."""
    succession(ctx, ends=False)
    cluster, real, looks = ctx.cluster, ctx.cluster.partitions, 0

    def partitions(topic: str | None = None) -> list[PartitionState]:
        nonlocal looks
        down = [n for n in cluster.ids if not cluster.running[n]]
        if down:
            looks += 1
            elect(cluster, ("t", 0), -1 if looks % 8 < 6 else [2, 3][len(down) - 1])
        return list(real(topic))

    cluster.partitions = partitions
    fault = build(entry("double-failover", partition="t-0"))
    fault.inject(ctx)
    assert cluster.calls == [("kill", 1), ("kill", 2)]
    assert fault.took_hold is True


def test_without_a_successor_nobody_else_dies(ctx: Any, entry: Any) -> None:
    succession(ctx, ends=False)
    fault = build(entry("double-failover", partition="t-0", elect_ms=20))
    with pytest.raises(FaultFailed, match="has a leader after broker 1"):
        fault.inject(ctx)
    assert ctx.cluster.calls == [("kill", 1)]
    fault.heal(ctx)
    assert all(ctx.cluster.running.values())


# ---- the controller, and another -----------------------------------------------------------------


@pytest.mark.parametrize(("controller", "first", "successor"), [(3, 1, 2), (1, 2, 3)])
def test_the_controller_dies_before_it_can_hear_of_a_death(
    ctx: Any, entry: Any, controller: int, first: int, successor: int
) -> None:
    """The leader of t-0 is 1; where that is the controller, the next in line dies first."""
    cluster = ctx.cluster
    cluster.the_controller = controller
    real = cluster.kill

    def kill(node: int) -> None:
        real(node)
        if node == controller:
            cluster.the_controller = successor
            cluster.the_controller_epoch += 1

    cluster.kill = kill
    fault = build(entry("joint-death", partition="t-0", gap_ms=1))
    fault.inject(ctx)
    assert cluster.calls == [("kill", first), ("kill", controller)]
    assert fault.nodes == [first, controller]
    assert fault.took_hold is True
    assert fault.detail["successor"] == successor
    fault.heal(ctx)
    fault.heal(ctx)
    assert set(cluster.calls[2:]) == {("start", first), ("start", controller)}


def test_a_death_that_the_controller_heard_of_is_none(ctx: Any, entry: Any) -> None:
    cluster = ctx.cluster
    cluster.the_controller = 3
    real = cluster.kill

    def kill(node: int) -> None:
        real(node)
        if node == 1:
            elect(cluster, ("t", 0), 2, isr=(2, 3))
        else:
            cluster.the_controller = 2
            cluster.the_controller_epoch += 1

    cluster.kill = kill
    fault = build(entry("joint-death", partition="t-0", gap_ms=1))
    fault.inject(ctx)
    assert fault.took_hold is False
    fault.heal(ctx)


def test_nobody_dies_where_there_is_no_controller(ctx: Any, entry: Any) -> None:
    ctx.cluster.the_controller = None
    with pytest.raises(FaultFailed, match="no controller"):
        build(entry("joint-death", partition="t-0")).inject(ctx)
    assert not ctx.cluster.calls


# ---- a death that others answer ------------------------------------------------------------------


def test_a_kill_may_last_until_others_have_replaced_who_is_gone(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, looks, real = ctx.cluster, 0, ctx.cluster.partitions

    def partitions(topic: str | None = None) -> list[PartitionState]:
        nonlocal looks
        looks += 1
        if looks == 5:
            elect(cluster, ("t", 0), 2, isr=(2, 3))
        if looks == 9:
            elect(cluster, ("t", 1), 2, isr=(2, 3))
            cluster.states["t", 2] = replace(cluster.states["t", 1], leader=1, isr=(1,))
        return list(real(topic))

    cluster.partitions = partitions
    fault = build(entry("kill", target="1", until_replaced=True))
    fault.inject(ctx)
    assert looks == 9  # in which 1 is all of a set: there nobody can replace it
    assert fault.took_hold is True
    fault.heal(ctx)
    monkeypatch.setattr("faults.restart._REPLACE_MS", 30)
    elect(cluster, ("t", 0), 3, isr=(1, 3))
    with pytest.raises(FaultFailed, match=r"others lead and are in sync without brokers \[1\]"):
        build(entry("kill", target="1", until_replaced=True)).inject(ctx)

"""Elections while nobody writes."""

from __future__ import annotations

from typing import Any

from faults import build
from tests.faults.situations import succession


def test_elections_wait_for_an_idle_moment(ctx: Any, entry: Any, logs: Any) -> None:
    looks = 0
    real = ctx.cluster.log_dir

    def log_dir(node: int) -> str:
        nonlocal looks
        looks += 1
        if looks < 20:
            logs(1, "t-0", 5 + looks)
        return str(real(node))

    ctx.cluster.log_dir = log_dir
    fault = build(entry("idle-elections", partitions="t-*", times=2))
    fault.inject(ctx)
    assert fault.took_hold is True
    assert len(fault.detail["moves"]) == 4
    assert looks > 20


def test_elections_under_load_are_not_idle(ctx: Any, entry: Any, logs: Any) -> None:
    real = ctx.cluster.elect_preferred

    def elect_preferred(partitions: Any) -> None:
        real(partitions)
        logs(2, "t-1", 6)

    ctx.cluster.elect_preferred = elect_preferred
    fault = build(entry("idle-elections", partitions="t-*", times=1))
    fault.inject(ctx)
    assert fault.took_hold is False
    assert fault.detail["grown"] == {"t-1@2": 6}


def test_a_leader_dies_in_the_idle_moment(ctx: Any, entry: Any, logs: Any) -> None:
    succession(ctx)
    fault = build(entry("idle-elections", partitions="t-0", times=1, kill=True))
    fault.inject(ctx)
    assert fault.took_hold is True
    assert (fault.detail["killed"], fault.detail["succeeded"]) == (2, 1)
    assert not ctx.cluster.running[2]
    fault.heal(ctx)
    assert ctx.cluster.running[2]

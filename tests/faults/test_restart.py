"""Brokers that go and come back: what is done, and that it is undone."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.protocol import Capability, FaultFailed, Link, PartitionState


@pytest.mark.parametrize(
    ("fault", "down", "up"),
    [("kill", "kill", "start"), ("stop", "stop", "start"), ("pause", "pause", "resume")],
)
def test_down_at_inject_and_back_at_heal(
    ctx: Any, entry: Any, fault: str, down: str, up: str
) -> None:
    under_test = build(entry(fault, target="leader:t-0", until_unregistered=True))
    under_test.inject(ctx)
    assert ctx.cluster.calls == [(down, 1)]
    assert under_test.took_hold is True
    assert under_test.nodes == [1]
    under_test.heal(ctx)
    under_test.heal(ctx)
    assert ctx.cluster.calls == [(down, 1), (up, 1)]


@pytest.mark.parametrize("way", ["kill", "stop"])
@pytest.mark.parametrize("able", [True, False])
def test_before_it_ends_clients_may_have_waited_for_answers(
    ctx: Any, entry: Any, able: bool, way: str
) -> None:
    if not able:
        ctx.capabilities = frozenset({Capability.KILL, Capability.CONTROLLED_STOP})
    slept: list[float] = []
    ctx.sleep = slept.append
    fault = build(entry(way, target="2", held_ms=40))
    fault.inject(ctx)
    held = [call for call in ctx.cluster.calls if call[0] != way]
    if able:
        first, then, last = ctx.cluster.calls
        assert (first[:3], then, last[:3]) == (
            ("add_toxic", 2, Link.CLIENT),
            (way, 2),
            ("remove_toxic", 2, Link.CLIENT),
        )
        assert slept == [0.04]
    else:
        assert not held
        assert not slept
    assert fault.detail["held_ms"] == (40 if able else 0)
    assert not ctx.cluster.toxics
    fault.heal(ctx)
    assert ctx.cluster.calls[-1] == ("start", 2)


def test_a_half_done_kill_is_healed(ctx: Any, entry: Any) -> None:
    real = ctx.cluster.kill

    def kill(node: int) -> None:
        real(node)
        if node == 2:
            raise FaultFailed("the second kill went wrong")

    ctx.cluster.kill = kill
    fault = build(entry("kill", target="all"))
    with pytest.raises(FaultFailed):
        fault.inject(ctx)
    fault.heal(ctx)
    assert all(ctx.cluster.running.values())


def test_missing_capabilities_are_refused(ctx: Any, entry: Any) -> None:
    ctx.capabilities = frozenset({Capability.LINKS})
    with pytest.raises(FaultFailed, match="kill"):
        build(entry("kill")).inject(ctx)
    assert not ctx.cluster.calls


def test_rolling_restart_waits_for_each_to_be_in_sync(ctx: Any, entry: Any) -> None:
    fault = build(entry("rolling-restart"))
    fault.inject(ctx)
    assert ctx.cluster.calls == [(what, n) for n in (1, 2, 3) for what in ("stop", "start")]
    assert fault.detail["restarts"] == 3
    stuck = build(entry("rolling-restart", wait_in_sync_ms=30))
    ctx.cluster.add_topic("u", {0: [3, 1]})
    state = ctx.cluster.states["u", 0]
    ctx.cluster.states["u", 0] = PartitionState("u", 0, 3, 1, (3,), state.replicas, 5, 0)
    with pytest.raises(FaultFailed, match="broker 1 is in every ISR"):
        stuck.inject(ctx)


def test_repeated_kill_and_its_heal_when_stopped_in_the_middle(ctx: Any, entry: Any) -> None:
    fault = build(entry("repeated-kill", target="2", times=2, down_ms=0, up_ms=0))
    fault.inject(ctx)
    assert ctx.cluster.calls == [("kill", 2), ("start", 2)] * 2
    ctx.stopped.set()
    interrupted = build(entry("repeated-kill", target="2"))
    with pytest.raises(RuntimeError):
        interrupted.inject(ctx)
    assert not ctx.cluster.running[2]
    interrupted.heal(ctx)
    assert ctx.cluster.running[2]

"""Two followers lead in turn, each while the other one is stopped; then the first leads again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from faults import build, staged
from faults.protocol import FaultFailed
from tests.faults.situations import elect

CONTROLLER, FIRST, SECOND = 1, 2, 3
BEGIN = 8


def play(
    ctx: Any,
    entry: Any,
    logs: Any,
    *,
    takes: int = 20,
    cut: Callable[[], None] = lambda: None,
    **params: Any,
) -> Any:
    """Who is stopped lives. Whoever leads and runs takes so many records, in its turn; ``cut``: as
    the first goes on."""
    cluster = ctx.cluster
    cluster._out = lambda node: not cluster.running[node]
    ends = dict.fromkeys((CONTROLLER, FIRST, SECOND), BEGIN)
    stopped, resumed, elected, sleep = (
        *(cluster.pause, cluster.resume, cluster.elect_preferred, ctx.sleep),
    )
    turn: list[int] = []

    def write(node: int, end: int) -> None:
        ends[node] = end
        logs(node, "t-0", end)

    def rest(seconds: float) -> None:
        sleep(seconds)
        leader = leads(ctx)
        if leader not in cluster.paused and turn and turn[-1] == leader and takes:
            write(leader, ends[leader] + takes)
            turn.append(0)

    def pause(node: int) -> None:
        stopped(node)

    def resume(node: int) -> None:
        resumed(node)
        if node == SECOND:
            turn.append(SECOND)
        else:
            for other in (CONTROLLER, SECOND):
                write(other, ends[FIRST])
            cut()

    def elect_preferred(partitions: Any) -> None:
        elected(partitions)
        if leads(ctx) == FIRST and FIRST not in cluster.paused:
            turn.append(FIRST)

    for node in ends:
        write(node, BEGIN)
    cluster.pause, cluster.resume, cluster.elect_preferred = pause, resume, elect_preferred
    ctx.sleep = rest
    fault = build(entry("crossed-epochs", partition="t-0", **params))
    try:
        fault.inject(ctx)
    finally:
        fault.heal(ctx)
        assert not cluster.paused
    return fault


def leads(ctx: Any) -> int:
    leader: int = ctx.cluster.states["t", 0].leader
    return leader


def test_each_leads_while_the_other_is_stopped(ctx: Any, entry: Any, logs: Any) -> None:
    leaders = []
    real = ctx.cluster.elect_preferred

    def elect_preferred(partitions: Any) -> None:
        real(partitions)
        leaders.append((leads(ctx), set(ctx.cluster.paused)))

    ctx.cluster.elect_preferred = elect_preferred
    fault = play(ctx, entry, logs)
    assert leaders == [(FIRST, {SECOND}), (SECOND, {SECOND}), (FIRST, {FIRST})]
    assert [call[:2] for call in ctx.cluster.calls if call[0] in ("pause", "resume")] == [
        *(("pause", SECOND), ("pause", FIRST), ("resume", SECOND), ("resume", FIRST)),
    ]
    assert (fault.took_hold, fault.nodes) == (True, [CONTROLLER, FIRST, SECOND])
    assert fault.detail["ends"] == {"first": 28, "second": 28, "again": 28}
    assert fault.detail["agreed"]


def test_the_controller_leads_first(ctx: Any, entry: Any, logs: Any) -> None:
    """It hears of both, and cuts after each."""
    elect(ctx.cluster, ("t", 0), FIRST)
    assert play(ctx, entry, logs).took_hold
    assert [call[0] for call in ctx.cluster.calls][:4] == [
        *("reassign", "elect_preferred", "reassign", "pause"),
    ]


def test_who_has_cut_what_it_took_alone_leads_again_in_vain(
    ctx: Any, entry: Any, logs: Any
) -> None:
    fault = play(ctx, entry, logs, cut=lambda: logs(FIRST, "t-0", BEGIN), asked_ms=30)
    assert not fault.took_hold


def test_whose_session_ended_is_waited_for(ctx: Any, entry: Any, logs: Any) -> None:
    cluster, slept = ctx.cluster, 0
    wait = ctx.sleep

    def gone() -> None:
        cluster._out = lambda node: node == FIRST and slept < 3

    def rest(seconds: float) -> None:
        nonlocal slept
        wait(seconds)
        slept += cluster._out(FIRST)

    ctx.sleep = rest
    fault = play(ctx, entry, logs, cut=gone)
    assert (fault.took_hold, slept) == (False, 3)


def test_whether_the_others_follow_is_told(ctx: Any, entry: Any, logs: Any) -> None:
    fault = play(ctx, entry, logs, cut=lambda: logs(CONTROLLER, "t-0", BEGIN), asked_ms=30)
    assert (fault.took_hold, fault.detail["agreed"]) == (True, False)


def test_who_takes_nothing_is_not_succeeded(
    ctx: Any, entry: Any, logs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "_TIMEOUT_MS", 30)
    with pytest.raises(FaultFailed, match="broker 2 has taken 10 records"):
        play(ctx, entry, logs, takes=9)
    assert leads(ctx) == FIRST


def test_a_controller_without_a_replica_is_refused(ctx: Any, entry: Any, logs: Any) -> None:
    ctx.cluster.the_controller = 4
    with pytest.raises(FaultFailed, match=r"the controller \(4\) among them"):
        play(ctx, entry, logs)
    assert ctx.cluster.calls == []

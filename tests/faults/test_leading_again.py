"""A leader leads again, of whose followers one has not what it had when it led before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from faults import build, staged
from faults.observing import log_end
from faults.protocol import FaultFailed
from tests.faults.situations import elect

FIRST, BEHIND, AHEAD = 1, 2, 3
Ends = Mapping[int, int]
LAGS: Ends = {FIRST: 30, AHEAD: 30}
CUT: Ends = {FIRST: 8, BEHIND: 8, AHEAD: 8}
GOES_ON: Ends = {FIRST: 12, BEHIND: 12}


def play(
    ctx: Any,
    entry: Any,
    logs: Any,
    *,
    lags: Ends = LAGS,
    cut: Ends = CUT,
    again: Ends = GOES_ON,
    **params: Any,
) -> Any:
    """Who is stopped lives; logs end as told when the first is stopped, when it goes on, and once
    the leader of before leads again."""
    cluster = ctx.cluster
    cluster._out = lambda node: not cluster.running[node]
    stopped, resumed, elected = cluster.pause, cluster.resume, cluster.elect_preferred

    def write(ends: Ends) -> None:
        for node, end in ends.items():
            logs(node, "t-0", end)

    def pause(node: int) -> None:
        stopped(node)
        write(lags if node == BEHIND else {})

    def resume(node: int) -> None:
        resumed(node)
        write(cut if node == BEHIND else {})

    def elect_preferred(partitions: Any) -> None:
        elected(partitions)
        write(again if cluster.paused == {AHEAD} and leads(ctx) == FIRST else {})

    cluster.pause, cluster.resume, cluster.elect_preferred = pause, resume, elect_preferred
    fault = build(entry("leading-again", partition="t-0", records=20, **params))
    try:
        fault.inject(ctx)
    finally:
        fault.heal(ctx)
        assert not cluster.paused
    return fault


def leads(ctx: Any) -> int:
    leader: int = ctx.cluster.states["t", 0].leader
    return leader


def test_who_is_stopped_leads_before_it_and_after_it(ctx: Any, entry: Any, logs: Any) -> None:
    leaders = []
    real = ctx.cluster.elect_preferred

    def elect_preferred(partitions: Any) -> None:
        real(partitions)
        leaders.append((leads(ctx), set(ctx.cluster.paused)))

    ctx.cluster.elect_preferred = elect_preferred
    fault = play(ctx, entry, logs)
    assert leaders == [(BEHIND, {BEHIND}), (FIRST, {AHEAD}), (AHEAD, {AHEAD})]
    # Nobody is stopped for longer than it takes: its session goes on.
    assert [call[:2] for call in ctx.cluster.calls if call[0] in ("pause", "resume")] == [
        *(("pause", BEHIND), ("resume", BEHIND), ("pause", AHEAD), ("resume", AHEAD)),
    ]
    assert [call[0] for call in ctx.cluster.calls] == [
        *("reassign", "pause", "elect_preferred", "resume"),
        *("reassign", "pause", "elect_preferred", "reassign", "elect_preferred", "resume"),
    ]
    assert (fault.took_hold, fault.nodes) == (True, [FIRST, BEHIND, AHEAD])
    assert fault.detail["ends"] == {"reported": 30, "begun": 12, "leader": 12, "lacking": 8}


def test_who_leads_again_is_asked_by_the_other_before_it_is_succeeded(
    ctx: Any, entry: Any, logs: Any
) -> None:
    """Nothing is acknowledged, by whomever, before that."""
    sleep, elected = ctx.sleep, ctx.cluster.elect_preferred
    slept, then = 0, -1

    def look(seconds: float) -> None:
        nonlocal slept
        sleep(seconds)
        slept += leads(ctx) == FIRST and ctx.cluster.paused == {AHEAD}
        if slept == 3:
            logs(BEHIND, "t-0", 12)

    def elect_preferred(partitions: Any) -> None:
        nonlocal then
        elected(partitions)
        then = log_end(ctx, BEHIND, "t", 0)

    ctx.sleep, ctx.cluster.elect_preferred = look, elect_preferred
    play(ctx, entry, logs, again={FIRST: 8})
    assert then == 12


def test_the_controller_leads_first(ctx: Any, entry: Any, logs: Any) -> None:
    """And so it is it that leads again."""
    elect(ctx.cluster, ("t", 0), AHEAD)
    assert play(ctx, entry, logs).took_hold
    assert [call[0] for call in ctx.cluster.calls][:4] == [
        *("reassign", "elect_preferred", "reassign", "pause"),
    ]


@pytest.mark.parametrize(
    ("again", "took"),
    [(GOES_ON, True), ({FIRST: 30}, False), ({FIRST: 8, BEHIND: 8}, False)],
)
def test_it_must_begin_below_what_was_reported_and_take_something(
    ctx: Any, entry: Any, logs: Any, again: Ends, took: bool
) -> None:
    assert play(ctx, entry, logs, again=again, asked_ms=30).took_hold is took


def test_who_does_not_lag_is_not_elected(ctx: Any, entry: Any, logs: Any) -> None:
    with pytest.raises(FaultFailed, match="broker 2 is 20 records behind broker 3"):
        play(ctx, entry, logs, lags={AHEAD: 24}, lag_ms=30)
    assert leads(ctx) == FIRST


@pytest.mark.parametrize("uncut", [FIRST, AHEAD])
def test_nobody_leads_again_before_both_have_cut(
    ctx: Any, entry: Any, logs: Any, uncut: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged, "_TIMEOUT_MS", 30)
    with pytest.raises(FaultFailed, match="brokers 1 and 3 have cut their logs"):
        play(ctx, entry, logs, cut={**CUT, uncut: 30})
    assert leads(ctx) == BEHIND


def test_a_controller_without_a_replica_is_refused(ctx: Any, entry: Any, logs: Any) -> None:
    ctx.cluster.the_controller = 4
    with pytest.raises(FaultFailed, match=r"the controller \(4\) among them"):
        play(ctx, entry, logs)
    assert ctx.cluster.calls == []

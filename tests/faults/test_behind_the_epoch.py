"""A leader that forgot how far all had come, asked by who lacks some of it, dies once more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed, Link
from tests.faults.situations import elect

AT = ("t", 0)


def told(ctx: Any, logs: Any, *, joins: bool = False) -> None:
    """Broker 1 leads t-0, 2 follows it and is away, 3 is the controller. ``joins``: who is behind
    is taken for one that is in sync by who leads anew."""
    cluster = ctx.cluster
    cluster.the_controller = 3
    kill, start, enable = cluster.kill, cluster.start, cluster.enable

    def isr(*members: int) -> None:
        cluster.states[AT] = replace(cluster.states[AT], isr=members)

    def dies(node: int) -> None:
        kill(node)
        if node == 2:
            isr(1, 3)
            logs(1, "t-0", 30)
        elif node == 3:
            isr(1)
        else:
            able = [n for n in cluster.states[AT].isr if n != node]
            elect(cluster, AT, able[0] if able else -1)

    def comes(node: int) -> None:
        start(node)
        if node == 1 and cluster.states[AT].leader < 0:
            elect(cluster, AT, 1)

    def mended(*link: Any) -> None:
        enable(*link)
        if joins:
            isr(1, 2)

    cluster.kill, cluster.start, cluster.enable = dies, comes, mended


def written_down(ctx: Any, offset: int) -> None:

    path = Path(ctx.cluster.log_dir(1)) / "replication-offset-checkpoint"
    path.write_text(f"0\n2\nother 0 99\nt 0 {offset}\n")


@pytest.mark.parametrize(("offset", "took_hold"), [(None, True), (4, True), (12, False)])
def test_nobody_leads_who_lacks_what_was_acknowledged(
    ctx: Any, entry: Any, logs: Any, offset: int | None, took_hold: bool
) -> None:
    """With a high watermark beyond its end nobody would take it for one that is in sync."""
    told(ctx, logs)
    if offset is not None:
        written_down(ctx, offset)
    fault = build(entry("behind-the-epoch", partition="t-0", asked_ms=1, alone_ms=1))
    fault.inject(ctx)
    inside, name = Link.INTER_BROKER, "e1"
    assert ctx.cluster.calls == [
        *(("kill", 2), ("add_toxic", 1, inside, name), ("start", 2), ("kill", 3)),
        *(("kill", 1), ("remove_toxic", 1, inside, name), ("disable", 1, inside), ("start", 1)),
        *(("add_toxic", 1, inside, name), ("enable", 1, inside)),
        *(("kill", 1), ("remove_toxic", 1, inside, name)),
    ]
    assert fault.took_hold is took_hold
    found = {key: fault.detail[key] for key in ("leader", "away", "joined", "behind", "led_by")}
    assert found == {"leader": 1, "away": 2, "joined": False, "behind": 25, "led_by": -1}
    fault.heal(ctx)
    assert ctx.cluster.running == {1: True, 2: True, 3: True}


def test_who_leads_all_the_same_is_for_others_to_judge(ctx: Any, entry: Any, logs: Any) -> None:
    told(ctx, logs, joins=True)
    fault = build(entry("behind-the-epoch", partition="t-0", asked_ms=1, alone_ms=1))
    fault.inject(ctx)
    assert (fault.took_hold, fault.detail["joined"], fault.detail["led_by"]) == (True, True, 2)


def test_who_is_no_controller_is_made_to_lead_first(ctx: Any, entry: Any, logs: Any) -> None:
    told(ctx, logs)
    state = ctx.cluster.states[AT]
    ctx.cluster.states[AT] = replace(state, replicas=(3, 1, 2), leader=3)
    fault = build(entry("behind-the-epoch", partition="t-0", asked_ms=1, alone_ms=1))
    fault.inject(ctx)
    assert ctx.cluster.calls[:3] == [
        *(("reassign", (AT,)), ("elect_preferred", (AT,)), ("kill", 2)),
    ]
    assert (fault.took_hold, fault.detail["leader"], fault.detail["away"]) == (True, 1, 2)


def test_two_replicas_are_too_few(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("t", {0: [1, 2]})
    fault = build(entry("behind-the-epoch", partition="t-0"))
    with pytest.raises(FaultFailed, match="2 replicas, not 3"):
        fault.inject(ctx)
    assert not ctx.cluster.calls

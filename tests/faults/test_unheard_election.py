"""A leader that changes while the controller's answers to itself are late."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed, Link

LATE = (1, Link.CONTROL, "e1")


def test_the_controllers_own_answers_are_late_as_it_is_asked(ctx: Any, entry: Any) -> None:
    cluster = ctx.cluster
    cluster.add_topic("o", {0: [2, 3]})
    late: dict[str, bool] = {}
    reassign, elected = cluster.reassign, cluster.elect_preferred
    cluster.reassign = lambda *a: (late.update(reordered=LATE in cluster.toxics), reassign(*a))[1]
    cluster.elect_preferred = lambda *a: (late.update(led=LATE in cluster.toxics), elected(*a))[1]
    fault = build(entry("unheard-election", partition="o-0", late_ms=1))
    fault.inject(ctx)
    assert late == {"reordered": True, "led": True}
    assert fault.nodes == [cluster.controller()] == [1]
    assert cluster.states["o", 0].leader == 3
    assert fault.took_hold
    assert not cluster.toxics


def test_they_are_in_time_again_where_nobody_could_be_elected(ctx: Any, entry: Any) -> None:
    cluster = ctx.cluster
    cluster.add_topic("o", {0: [2, 3]})

    def refuse(_partitions: Any) -> None:
        assert cluster.toxics
        raise FaultFailed("no")

    cluster.elect_preferred = refuse
    fault = build(entry("unheard-election", partition="o-0", late_ms=1))
    with pytest.raises(FaultFailed, match="no"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not cluster.toxics
    assert not fault.took_hold


def test_somebody_is_to_be_controller(ctx: Any, entry: Any) -> None:
    ctx.cluster.controller = lambda: None
    with pytest.raises(FaultFailed, match="nobody"):
        build(entry("unheard-election", partition="t-0")).inject(ctx)

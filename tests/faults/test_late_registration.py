"""A broker whose registration everybody knows but itself."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed, Link


def test_it_is_told_late_what_is_so_already(ctx: Any, entry: Any) -> None:
    cluster = ctx.cluster
    toxics_at: list[tuple[Any, ...]] = []
    enable = cluster.enable

    def register(node: int, link: Link) -> None:
        toxics_at.extend((*at, toxic["stream"]) for at, toxic in cluster.toxics.items())
        enable(node, link)
        cluster.epochs[node] += 50

    cluster.enable = register
    before = cluster.epochs[2]
    fault = build(entry("late-registration", target="2", delay_ms=5))
    fault.inject(ctx)
    assert fault.took_hold
    assert fault.nodes == [2]
    assert fault.detail["broker_epoch"] == before < fault.detail["new_broker_epoch"]
    assert toxics_at == [(2, Link.ZOOKEEPER, "e1", "downstream")], (
        "the delay is there before the way is"
    )
    fault.heal(ctx)
    fault.heal(ctx)
    assert not cluster.toxics
    assert (2, Link.ZOOKEEPER) not in cluster.cut


def test_a_way_that_was_cut_is_open_after_healing_whatever_happened(ctx: Any, entry: Any) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise FaultFailed("no")

    ctx.cluster.add_toxic = refuse
    fault = build(entry("late-registration", target="2"))
    with pytest.raises(FaultFailed, match="no"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert (2, Link.ZOOKEEPER) not in ctx.cluster.cut

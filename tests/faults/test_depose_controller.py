"""The controller put out of office, where there is a ZooKeeper and where there is none."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.protocol import Capability, FaultFailed, Link


def test_paused_until_it_is_healed(ctx: Any, entry: Any) -> None:
    fault = build(entry("depose-controller"))
    fault.inject(ctx)
    assert fault.took_hold
    assert (fault.detail["deposed"], fault.detail["successor"]) == (1, 2)
    assert (fault.detail["controller_epoch"], fault.detail["successor_epoch"]) == (5, 6)
    assert ctx.cluster.paused == {1}
    fault.heal(ctx)
    fault.heal(ctx)
    assert ctx.cluster.calls == [("pause", 1), ("resume", 1)]


def test_cut_from_zookeeper(ctx: Any, entry: Any) -> None:
    fault = build(entry("depose-controller", how="cut"))
    fault.inject(ctx)
    assert ctx.cluster.cut == {(1, Link.ZOOKEEPER)}
    fault.heal(ctx)
    assert not ctx.cluster.cut


def test_cut_from_its_quorum(ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ctx.capabilities = ctx.capabilities - {Capability.ZOOKEEPER}
    cluster = ctx.cluster
    monkeypatch.setattr(cluster, "_out", lambda node: (node, Link.CONTROL) in cluster.cut)
    fault = build(entry("depose-controller", how="cut"))
    fault.inject(ctx)
    assert cluster.cut == {(1, Link.CONTROL)}
    assert (fault.detail["link"], fault.detail["successor"]) == ("control", 2)
    fault.heal(ctx)
    assert not cluster.cut


def test_who_is_elected_again_has_no_successor(ctx: Any, entry: Any) -> None:
    def again() -> None:
        ctx.cluster.the_controller_epoch += 1

    ctx.cluster._settle = again
    with pytest.raises(FaultFailed, match="another controller than broker 1"):
        build(entry("depose-controller", how="cut", takeover_ms=20)).inject(ctx)


@pytest.mark.parametrize("how", ["pause", "cut"])
def test_without_a_successor_it_fails_and_heals(ctx: Any, entry: Any, how: str) -> None:
    ctx.cluster._settle = lambda: None
    fault = build(entry("depose-controller", how=how, takeover_ms=20))
    with pytest.raises(FaultFailed, match="another controller than broker 1"):
        fault.inject(ctx)
    assert not fault.took_hold
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert not ctx.cluster.paused

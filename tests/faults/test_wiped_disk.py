"""A broker that comes back empty."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed
from tests.faults.situations import elect, succession


def test_a_wiped_broker_keeps_only_its_name(
    ctx: Any, entry: Any, logs: Any, tmp_path: Path
) -> None:
    succession(ctx)
    home = tmp_path / "1"
    for name in ("meta.properties", "biplane.boot", "recovery-point-offset-checkpoint"):
        (home / name).write_text("x")
    (tmp_path / "2" / "meta.properties").write_text("x")
    elect(ctx.cluster, ("t", 1), 2)
    real = ctx.cluster.kill

    def kill(node: int) -> None:
        real(node)
        for key, state in list(ctx.cluster.states.items()):
            ctx.cluster.states[key] = replace(state, isr=tuple(r for r in state.isr if r != node))

    ctx.cluster.kill = kill
    fault = build(entry("wipe-disk", target="leader:t-0"))
    fault.inject(ctx)
    assert fault.detail["held_batches"] == 10
    assert ctx.cluster.calls == [("kill", 1)]
    assert sorted(p.name for p in home.iterdir()) == ["biplane.boot", "meta.properties"]
    assert (tmp_path / "2" / "t-0").exists()
    assert fault.took_hold is True
    assert fault.nodes == [1]
    fault.heal(ctx)
    assert ctx.cluster.calls == [("kill", 1), ("start", 1)]


def test_who_is_all_of_a_set_is_not_wiped(
    ctx: Any, entry: Any, logs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka would elect it with nothing, and the loss would be lawful."""
    ctx.cluster.add_topic("alone", {0: [1]})
    with pytest.raises(FaultFailed, match="broker 1 is all of the in-sync set of alone-0"):
        build(entry("wipe-disk", target="1")).inject(ctx)
    elect(ctx.cluster, ("t", 0), 1, isr=(1,))
    with pytest.raises(FaultFailed, match="every in-sync set is full"):
        build(entry("wipe-disk", target="1", in_sync_ms=20)).inject(ctx)
    assert not ctx.cluster.calls


def test_who_is_still_in_a_set_is_not_wiped(
    ctx: Any, entry: Any, logs: Any, tmp_path: Path
) -> None:
    fault = build(entry("wipe-disk", target="1", in_sync_ms=30))
    with pytest.raises(FaultFailed, match="no in-sync set names broker 1"):
        fault.inject(ctx)
    assert (tmp_path / "1" / "t-0").exists()
    fault.heal(ctx)
    assert ctx.cluster.running[1]

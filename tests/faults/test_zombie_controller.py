"""Controllers that are cut off or paused, and succeeded."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.protocol import Capability, FaultFailed, Link


def test_a_controller_cut_from_zookeeper(ctx: Any, entry: Any) -> None:
    fault = build(entry("zombie-controller"))
    fault.inject(ctx)
    assert fault.detail["zombie"] == 1
    assert (fault.detail["controller_epoch"], fault.detail["successor_epoch"]) == (5, 6)
    assert ctx.cluster.cut == {(1, Link.ZOOKEEPER)}
    fault.heal(ctx)
    assert not ctx.cluster.cut


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """What the witness says its controller is, one answer after the other; the last one stays."""
    answers: list[int | None] = []

    def next_answer(_address: object, *, timeout_s: float) -> int | None:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    monkeypatch.setattr("faults.zombie_controller.told_controller", next_answer)
    return answers


@pytest.mark.parametrize("how", ["pause", "zookeeper-cut"])
def test_a_backlog_is_let_loose_when_the_witness_has_heard_of_the_successor(
    ctx: Any, entry: Any, told: list[int | None], how: str
) -> None:
    told += [None, 1, -1, 2]
    fault = build(entry("zombie-controller", how=how, backlog=True, speak_ms=0))
    fault.inject(ctx)
    assert told == [2]  # nothing less was enough
    witness = fault.detail["witness"]
    gone = [("pause", 1), ("disable", 1, Link.ZOOKEEPER)]
    assert ctx.cluster.calls == [
        ("disable", witness, Link.CONTROL),
        ("create_topic", "zombie-e1"),
        *(gone if how == "pause" else reversed(gone)),
        ("enable", witness, Link.CONTROL),
        ("resume", 1),
    ]
    assert ctx.cluster.cut == {(1, Link.ZOOKEEPER)}  # it speaks before it can learn
    assert ctx.cluster.states["zombie-e1", 0].replicas == (1, witness)
    assert fault.took_hold is True
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert not ctx.cluster.paused


def test_a_witness_that_never_hears_of_the_successor_fails_and_heals(
    ctx: Any, entry: Any, told: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told += [1]
    monkeypatch.setattr("faults.zombie_controller._HEARD_TIMEOUT_MS", 30)
    fault = build(entry("zombie-controller", backlog=True))
    with pytest.raises(FaultFailed, match="names the successor"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert not ctx.cluster.paused


def test_where_nobody_can_be_paused_zombie_and_successor_race(ctx: Any, entry: Any) -> None:
    ctx.capabilities -= {Capability.PAUSE}
    fault = build(entry("zombie-controller", backlog=True))
    fault.inject(ctx)
    assert ctx.cluster.calls[-1] == ("enable", fault.detail["witness"], Link.CONTROL)
    assert ("pause", 1) not in ctx.cluster.calls
    fault.heal(ctx)


def test_no_successor_fails_and_heals(ctx: Any, entry: Any) -> None:
    ctx.cluster._settle = lambda: None
    fault = build(entry("zombie-controller", takeover_ms=20, backlog=True))
    with pytest.raises(FaultFailed, match="another controller"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not ctx.cluster.cut

"""Followers that lag under one controller, and come back under another."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.plan import PlanError
from faults.protocol import FaultFailed, Link
from tests.faults.situations import following_the_links

PARAMS = {"partition": "t-0", "how": "cut", "hold_ms": 1, "untold_ms": 1, "timeout_ms": 200}


@pytest.mark.parametrize("apart", [True, False])
def test_the_leader_is_told_of_the_successor_after_its_followers_fetch(
    ctx: Any, entry: Any, apart: bool
) -> None:
    following_the_links(ctx)
    ctx.cluster.the_controller = 3
    if apart:
        ctx.cluster.addresses[1, Link.CONTROL] = ("127.0.0.1", 2)
    fault = build(entry("isr-lag-succeeded", **PARAMS))
    fault.inject(ctx)
    assert fault.took_hold is True
    assert fault.nodes == [1, 3]
    assert (fault.detail["former"], fault.detail["successor"]) == (3, 1)
    assert fault.detail["held_t"] < fault.detail["let_go_t"]
    names = ("disable", "enable", "add_toxic", "remove_toxic", "remove_controller")
    done = [call[:3] for call in ctx.cluster.calls if call[0] in names]
    control = [("disable", 1, Link.CONTROL), ("enable", 1, Link.CONTROL)] if apart else []
    assert done == [
        ("disable", 1, Link.INTER_BROKER),
        ("add_toxic", 3, Link.ZOOKEEPER),
        *control[:1],
        ("remove_controller",),
        ("remove_toxic", 3, Link.ZOOKEEPER),
        ("enable", 1, Link.INTER_BROKER),
        *control[1:],
    ]
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert not ctx.cluster.toxics


def test_who_leads_is_not_in_office(ctx: Any, entry: Any) -> None:
    following_the_links(ctx)
    fault = build(entry("isr-lag-succeeded", **PARAMS))
    with pytest.raises(FaultFailed, match="is the controller, and leads"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert fault.took_hold is None


def test_who_succeeds_itself_is_no_other(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    following_the_links(ctx)
    ctx.cluster.the_controller = 3

    def again() -> None:
        ctx.cluster.the_controller_epoch += 1

    monkeypatch.setattr(ctx.cluster, "remove_controller", again)
    fault = build(entry("isr-lag-succeeded", **PARAMS))
    with pytest.raises(FaultFailed, match="broker 3 succeeded itself"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert fault.took_hold is None


def test_a_set_that_stays_small_did_not_take_hold(ctx: Any, entry: Any) -> None:
    following_the_links(ctx)
    ctx.cluster.the_controller = 3
    enable = ctx.cluster.enable
    ctx.cluster.enable = lambda node, link: None  # they never come back
    fault = build(entry("isr-lag-succeeded", **PARAMS))
    with pytest.raises(FaultFailed, match="in sync"):
        fault.inject(ctx)
    assert fault.took_hold is None
    assert "let_go_t" in fault.detail
    enable(1, Link.INTER_BROKER)


def test_only_who_is_cut_off_comes_back_so(entry: Any) -> None:
    with pytest.raises(PlanError, match="is to be cut"):
        build(entry("isr-lag-succeeded", partition="t-0", how="latency"))

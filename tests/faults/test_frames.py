"""Faults on single frames, and what they ask of the proxy."""

from __future__ import annotations

import re
from typing import Any

import pytest

from faults import PlanError, build
from faults.frames import client_of
from faults.protocol import FaultFailed, Link


def test_roles_become_listeners_and_clients(ctx: Any, entry: Any) -> None:
    fault = build(
        entry(
            "frames",
            api="FETCH",
            action="hold",
            direction="response",
            target="leader:t-0",
            sender="successor:t-0",
            link="inter-broker",
        )
    )
    leader = ctx.cluster.states["t", 0].leader
    follower = ctx.cluster.states["t", 0].replicas[1]
    fault.inject(ctx)
    (rule,) = ctx.frames.rules.values()
    assert (rule["node"], rule["link"], rule["direction"]) == (
        leader,
        Link.INTER_BROKER,
        "response",
    )
    assert rule["client"] == client_of(follower)
    assert fault.took_hold is None  # nobody was waited for
    fault.heal(ctx)
    assert fault.took_hold is True
    assert fault.detail["applied"] == 1
    assert not ctx.frames.rules
    fault.heal(ctx)
    assert ctx.frames.removed == [f"e1-{leader}"]


@pytest.mark.parametrize(
    ("client_id", "meant"),
    [("3", True), ("broker-3-fetcher-1", True), ("33", False), ("broker-33-fetcher-1", False)],
)
def test_a_broker_is_known_by_its_client_ids(client_id: str, meant: bool) -> None:
    assert (re.fullmatch(client_of(3), client_id) is not None) is meant


def test_anywhere_is_one_rule(ctx: Any, entry: Any) -> None:
    fault = build(entry("frames", api="ALTER_PARTITION", action="drop", target="anywhere", times=1))
    fault.inject(ctx)
    assert [rule["node"] for rule in ctx.frames.rules.values()] == [None]
    ctx.frames.met = 0
    fault.heal(ctx)
    assert fault.took_hold is False


def test_who_waits_and_meets_nobody_fails(ctx: Any, entry: Any) -> None:
    ctx.frames.met = 0
    fault = build(entry("frames", api="VOTE", action="drop", target="anywhere", within_ms=20))
    with pytest.raises(FaultFailed, match="a request of VOTE to be met"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not ctx.frames.rules


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"api": "Fetch", "action": "hold"}, "params.api"),
        ({"api": "FETCH", "action": "eat"}, "params.action"),
        ({"api": "FETCH", "action": "error"}, "params.error.*required there"),
        ({"api": "FETCH", "action": "drop", "error": "NONE"}, "params.error"),
        ({"api": "FETCH", "action": "delay"}, "params.delay_ms"),
        ({"api": "FETCH", "action": "hold", "link": "radio"}, "params.link"),
        ({"api": "FETCH", "action": "hold", "sender": "nobody"}, "params.sender"),
        (
            {"api": "FETCH", "action": "error", "error": "NONE", "direction": "response"},
            "params.action",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(entry: Any, params: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        build(entry("frames", **params))

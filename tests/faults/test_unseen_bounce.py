"""A restart that the controller does not see."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed


@pytest.fixture
def asleep(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stops are shorter than sessions: nobody is out for being stopped."""
    cluster = ctx.cluster
    monkeypatch.setattr(cluster, "_out", lambda node: not cluster.running[node])
    start = cluster.start

    def anew(node: int, *, wait_ready: bool = True) -> None:
        start(node, wait_ready=wait_ready)
        cluster.epochs[node] += 100

    monkeypatch.setattr(cluster, "start", anew)
    return cluster


def test_the_controller_sleeps_through_it(ctx: Any, entry: Any, asleep: Any) -> None:
    fault = build(entry("unseen-bounce", target="2"))
    fault.inject(ctx)
    assert asleep.calls == [("pause", 1), ("stop", 2), ("start", 2), ("resume", 1)]
    assert fault.took_hold
    assert fault.detail["new_broker_epoch"] == fault.detail["broker_epoch"] + 100
    fault.heal(ctx)
    assert asleep.calls[-1] == ("resume", 1), "there is nothing left to heal"


def test_a_controller_that_lost_its_session_saw_it(ctx: Any, entry: Any, asleep: Any) -> None:
    stop = asleep.stop

    def slow(node: int) -> None:
        stop(node)
        asleep.the_controller_epoch += 1

    asleep.stop = slow
    fault = build(entry("unseen-bounce", target="2"))
    with pytest.raises(FaultFailed, match="lost its session"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not asleep.paused


def test_a_controller_that_loses_its_session_once_it_goes_on_saw_it(
    ctx: Any, entry: Any, asleep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleep = ctx.sleep

    def late(seconds: float) -> None:
        sleep(seconds)
        if not asleep.paused and ("resume", 1) in asleep.calls:
            asleep.the_controller_epoch += 1

    monkeypatch.setattr(ctx, "sleep", late)
    fault = build(entry("unseen-bounce", target="2"))
    with pytest.raises(FaultFailed, match="lost its session"):
        fault.inject(ctx)


def test_it_waits_for_the_new_registration_not_for_the_old(
    ctx: Any, entry: Any, asleep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def epoch(node: int) -> int:
        nonlocal looks
        looks += 1
        return 102 if looks < 5 else 250

    monkeypatch.setattr(asleep, "broker_epoch", epoch)
    fault = build(entry("unseen-bounce", target="2"))
    fault.inject(ctx)
    assert fault.detail["new_broker_epoch"] == 250


def test_the_controller_itself_is_not_bounced(ctx: Any, entry: Any, asleep: Any) -> None:
    fault = build(entry("unseen-bounce", target="controller"))
    with pytest.raises(FaultFailed, match="allowed: another broker"):
        fault.inject(ctx)
    assert asleep.calls == []


def test_what_was_down_when_it_failed_is_up_after_healing(
    ctx: Any, entry: Any, asleep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(node: int, *, wait_ready: bool = True) -> None:
        raise FaultFailed("no port")

    start = asleep.start
    monkeypatch.setattr(asleep, "start", fails)
    fault = build(entry("unseen-bounce", target="2"))
    with pytest.raises(FaultFailed, match="no port"):
        fault.inject(ctx)
    monkeypatch.setattr(asleep, "start", start)
    fault.heal(ctx)
    assert asleep.running[2]
    assert not asleep.paused

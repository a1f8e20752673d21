"""The controller that is replaced in the middle of an election, its session alive."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from faults import PlanError, build
from faults.protocol import FaultFailed, Link


@pytest.fixture
def answered(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The controller answers an election only once this is set; stops are shorter than sessions."""
    event = threading.Event()
    cluster = ctx.cluster
    elect = cluster.elect_preferred

    def later(partitions: Any) -> None:
        cluster.calls.append(("asked", tuple(partitions)))
        assert event.wait(120)
        elect(partitions)

    monkeypatch.setattr(cluster, "elect_preferred", later)
    monkeypatch.setattr(cluster, "_out", lambda _node: False)
    yield event
    event.set()


@pytest.fixture(autouse=True)
def told(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """What brokers answer who the controller is, one after the other; then the truth."""
    answers: list[int | None] = []

    def next_answer(_address: object, *, timeout_s: float) -> int | None:
        return answers.pop(0) if answers else ctx.cluster.the_controller

    monkeypatch.setattr("faults.oust_controller.told_controller", next_answer)
    return answers


def test_it_is_stopped_before_and_woken_after_its_successor_acts(
    ctx: Any, entry: Any, answered: threading.Event, told: list[int | None], wait_until: Any
) -> None:
    told += [None, 1]
    fault = build(entry("oust-controller", partitions="t-*", latency_ms=20))
    fault.inject(ctx)
    both = (("t", 0), ("t", 1))
    # The election is asked for on a thread of its own: its place among the calls is not certain.
    wait_until(lambda: ("asked", both) in ctx.cluster.calls)
    assert [call for call in ctx.cluster.calls if call[0] != "asked"] == [
        ("reassign", both),
        ("add_toxic", 1, Link.ZOOKEEPER, "e1"),
        ("pause", 1),
        ("remove_controller",),
        ("resume", 1),
    ]
    (toxic,) = ctx.cluster.toxics.values()
    assert (toxic["stream"], toxic["attributes"]["latency"]) == ("downstream", 20)
    assert not told  # a successor that has not spoken yet was not enough
    assert fault.took_hold
    assert (fault.detail["deposed"], fault.detail["successor"]) == (1, 2)
    assert (fault.detail["controller_epoch"], fault.detail["successor_epoch"]) == (5, 6)
    assert fault.detail["session_lived"]
    fault.heal(ctx)
    assert not ctx.cluster.toxics
    assert fault.detail["election"] == "not answered yet"
    answered.set()
    wait_until(lambda: fault._election.outcome is not None)  # type: ignore[attr-defined]
    fault.heal(ctx)
    assert fault.detail["election"] == "done"


def test_a_session_that_ends_meanwhile_shows_nothing(
    ctx: Any, entry: Any, answered: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    registrations = [7, None]  # before, and when it is woken
    monkeypatch.setattr(ctx.cluster, "broker_epoch", lambda _node: registrations.pop(0))
    fault = build(entry("oust-controller", partitions="t-*", latency_ms=20))
    fault.inject(ctx)
    assert not fault.took_hold
    assert not fault.detail["session_lived"]
    assert ctx.cluster.calls[-1] == ("resume", 1)
    fault.heal(ctx)


def test_an_election_that_is_over_before_the_stop_shows_nothing(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def refuse(_partitions: Any) -> None:
        asked.set()
        raise FaultFailed("NOT_CONTROLLER")

    monkeypatch.setattr(ctx.cluster, "elect_preferred", refuse)
    fault = build(entry("oust-controller"))
    pause = ctx.cluster.pause

    def pause_then(node: int) -> None:
        pause(node)
        assert asked.wait(60)
        fault._election.thread.join(60)  # type: ignore[attr-defined]

    monkeypatch.setattr(ctx.cluster, "pause", pause_then)
    with pytest.raises(FaultFailed, match="did not last: NOT_CONTROLLER"):
        fault.inject(ctx)
    assert ("remove_controller",) not in ctx.cluster.calls
    fault.heal(ctx)
    assert not ctx.cluster.paused
    assert not ctx.cluster.toxics


def test_without_a_successor_it_fails_and_heals(
    ctx: Any, entry: Any, answered: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctx.cluster, "remove_controller", lambda: None)
    fault = build(entry("oust-controller", takeover_ms=20))
    with pytest.raises(FaultFailed, match="another controller than broker 1"):
        fault.inject(ctx)
    assert not fault.took_hold
    fault.heal(ctx)
    assert not ctx.cluster.paused
    assert not ctx.cluster.toxics


def test_a_latency_that_is_none_is_refused(entry: Any) -> None:
    with pytest.raises(PlanError, match=r"params\.latency_ms"):
        build(entry("oust-controller", latency_ms=0))

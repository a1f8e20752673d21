"""A broker that hangs past its session while its controller waits for an answer of it."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed


@pytest.fixture
def dropped(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Whoever is paused has its session until the replicas of something were reordered."""
    cluster = ctx.cluster
    cluster.add_topic("o", {0: [2, 3], 1: [3, 2]})
    gone: set[int] = set()
    monkeypatch.setattr(cluster, "_out", lambda node: node in gone & cluster.paused)
    sleep = ctx.sleep
    monkeypatch.setattr(ctx, "sleep", lambda seconds: (gone.update(cluster.paused), sleep(seconds)))
    return cluster


def test_it_is_told_of_something_while_it_hangs(ctx: Any, entry: Any, dropped: Any) -> None:
    fault = build(entry("hung-broker", topic="o", target="3", stays_ms=1))
    fault.inject(ctx)
    # Of what it leads itself it could not be told by another leader's election.
    assert dropped.calls == [("pause", 3), ("reassign", (("o", 0),)), ("resume", 3)]
    assert fault.took_hold
    assert (fault.nodes, fault.detail["told_of"]) == ([3], ["o-0"])


def test_who_was_dropped_before_that_was_not_waited_for(
    ctx: Any, entry: Any, dropped: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reassign = dropped.reassign

    def late(assignment: Any) -> None:
        reassign(assignment)
        monkeypatch.setattr(dropped, "_out", lambda node: node in dropped.paused)

    monkeypatch.setattr(dropped, "reassign", late)
    fault = build(entry("hung-broker", topic="o", target="3", stays_ms=1))
    with pytest.raises(FaultFailed, match="before it had anything to be told"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not dropped.paused
    assert not fault.took_hold


def test_the_controller_does_not_wait_for_itself(ctx: Any, entry: Any, dropped: Any) -> None:
    fault = build(entry("hung-broker", topic="o", target="1"))
    with pytest.raises(FaultFailed, match="is the controller"):
        fault.inject(ctx)
    assert dropped.calls == []

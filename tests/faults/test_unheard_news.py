"""A leader that changes while somebody who has no part in it cannot be told."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed, Link


def test_the_link_of_who_has_no_replica_is_down_while_it_is_elected(ctx: Any, entry: Any) -> None:
    """Not while the replicas are reordered: of that it may hear."""
    cluster = ctx.cluster
    cluster.add_topic(
        "o", {0: [1, 2], 1: [2, 3]}
    )  # of 1, the controller, no partition is another's
    down: dict[str, bool] = {}
    reassign, elected = cluster.reassign, cluster.elect_preferred
    away = (3, Link.CONTROL)
    cluster.reassign = lambda *a: (down.update(reordered=away in cluster.cut), reassign(*a))[1]
    cluster.elect_preferred = lambda *a: (down.update(led=away in cluster.cut), elected(*a))[1]
    fault = build(entry("unheard-news", topic="o", away_ms=1))
    fault.inject(ctx)
    assert down == {"reordered": False, "led": True}
    assert fault.took_hold
    assert fault.nodes == [3]
    assert cluster.states["o", 0].leader == 2
    assert not cluster.cut


def test_what_is_told_of_two_partitions_is_told_of_each(ctx: Any, entry: Any) -> None:
    cluster = ctx.cluster
    cluster.add_topic("o", {0: [1, 2], 1: [2, 3], 2: [2, 1], 3: [1, 2]})
    elected = cluster.elect_preferred
    asked: list[tuple[Any, bool]] = []
    cluster.elect_preferred = lambda of: (asked.append((*of, bool(cluster.cut))), elected(of))[1]
    fault = build(entry("unheard-news", topic="o", away_ms=1))
    fault.inject(ctx)
    assert fault.nodes == [3]
    assert len({tp for tp, _ in asked}) == len(asked) == len(fault.detail["moves"]) == 2
    assert all(tp in {("o", 0), ("o", 2), ("o", 3)} and down for tp, down in asked)


def test_a_link_that_was_cut_is_mended_where_nobody_could_be_elected(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ctx.cluster
    cluster.add_topic("o", {0: [1, 2]})

    def refuse(_partitions: Any) -> None:
        assert cluster.cut
        raise FaultFailed("no")

    monkeypatch.setattr(cluster, "elect_preferred", refuse)
    fault = build(entry("unheard-news", topic="o", away_ms=1))
    with pytest.raises(FaultFailed):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not cluster.cut
    assert not fault.took_hold


def test_who_holds_everything_hears_of_nothing_by_metadata_alone(ctx: Any, entry: Any) -> None:
    fault = build(entry("unheard-news", topic="t"))
    with pytest.raises(FaultFailed, match="without a replica"):
        fault.inject(ctx)
    ctx.cluster.add_topic("o", {0: [2, 3]})  # only the controller has none
    fault = build(entry("unheard-news", topic="o"))
    with pytest.raises(FaultFailed, match="without a replica"):
        fault.inject(ctx)

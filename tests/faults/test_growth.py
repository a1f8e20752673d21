"""A topic that grows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults.protocol import FaultFailed, Link
from faults.registry import build


def test_each_new_partition_is_led(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("t", {0: [1, 2], 1: [2, 3]})
    fault = build(entry("grow-topic", topic="t", partitions=3))
    fault.inject(ctx)
    assert ("add_partitions", "t", {2: [1, 2], 3: [2, 3], 4: [1, 2]}) in ctx.cluster.calls
    assert fault.took_hold
    assert fault.nodes == [1, 2, 3]


def test_one_that_nobody_leads_did_not_take_hold(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ctx.cluster.add_topic("t", {0: [1, 2]})
    add = type(ctx.cluster).add_topic

    def add_without_leader(cluster: Any, topic: str, assignment: Any) -> None:
        add(cluster, topic, assignment)
        for key in [key for key in cluster.states if key[1]]:
            cluster.states[key] = replace(cluster.states[key], leader=-1)

    monkeypatch.setattr(type(ctx.cluster), "add_topic", add_without_leader)
    fault = build(entry("grow-topic", topic="t", timeout_ms=50))
    with pytest.raises(FaultFailed, match="each new partition of topic t has a leader"):
        fault.inject(ctx)
    assert not fault.took_hold


def test_of_no_topic_there_is_nothing_to_grow(ctx: Any, entry: Any) -> None:
    with pytest.raises(FaultFailed, match="there is no topic other"):
        build(entry("grow-topic", topic="other")).inject(ctx)


def test_a_topic_grows_by_its_znode_while_the_controller_looks_away(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = ctx.cluster
    cluster.add_topic("t", {0: [1, 2], 1: [2, 3]})
    monkeypatch.setattr(cluster, "_settle", lambda: None)  # its session lasts
    fault = build(entry("unseen-growth", topic="t", partitions=3, away_ms=1))
    fault.inject(ctx)
    assert cluster.calls == [
        ("disable", 1, Link.ZOOKEEPER),
        ("write_partitions", "t", {2: [1, 2], 3: [2, 3], 4: [1, 2]}),
        ("enable", 1, Link.ZOOKEEPER),
    ]
    assert fault.took_hold
    assert fault.nodes == [1]


def test_a_successor_would_look_at_everything(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("t", {0: [1, 2]})
    fault = build(entry("unseen-growth", topic="t", away_ms=1))
    fault.inject(ctx)
    assert not fault.took_hold
    assert not ctx.cluster.cut

"""A partition without a leader that is allowed an unclean election."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed, PartitionState


def led_by_who_is_in_sync(ctx: Any, *, heeded: bool = True) -> None:
    """What a controller makes of it; ``heeded``: also of what an operator allows."""
    cluster = ctx.cluster
    out: dict[tuple[str, int], tuple[int, ...]] = {}
    allowed: set[str] = set()
    real: Callable[..., list[PartitionState]] = cluster.partitions
    alter = cluster.alter_topic_configs

    def partitions(topic: str | None = None) -> list[PartitionState]:
        found = []
        for full in real(topic):
            isr = out.get((full.topic, full.partition), full.isr)
            live = tuple(n for n in full.replicas if cluster.running[n])
            isr = tuple(n for n in isr if n in live) or isr[:1]
            if full.topic in allowed and not set(isr) & set(live):
                isr = live[:1]
            out[full.topic, full.partition] = isr
            leader = next((n for n in isr if n in live), -1)
            found.append(replace(full, leader=leader, isr=isr))
        return found

    def alter_topic_configs(topic: str, configs: Any) -> None:
        alter(topic, configs)
        if heeded:
            allowed.add(topic)

    cluster.partitions, cluster.alter_topic_configs = partitions, alter_topic_configs


@pytest.fixture(name="two")
def two_replicas(ctx: Any) -> Any:
    ctx.cluster.the_controller = 3
    ctx.cluster.add_topic("two", {0: [1, 2]})
    return ctx


@pytest.mark.parametrize("heeded", [True, False])
def test_whether_anybody_leads_then_is_for_others_to_judge(
    two: Any, entry: Any, heeded: bool
) -> None:
    led_by_who_is_in_sync(two, heeded=heeded)
    fault = build(entry("unclean-allowed", partition="two-0", looked_ms=100))
    fault.inject(two)
    assert fault.took_hold is True
    assert fault.nodes == [1, 2]
    assert fault.detail["led_by"] == (2 if heeded else -1)
    assert fault.detail["partition"] == "two-0"
    looked_ns = fault.detail["looked_until_t"] - fault.detail["allowed_t"]
    assert (looked_ns >= 100_000_000) is not heeded
    fault.heal(two)
    names = ("stop", "kill", "start", "alter_topic_configs")
    done = [call for call in two.cluster.calls if call[0] in names]
    configs = {"unclean.leader.election.enable": "true"}
    assert done == [
        ("stop", 2),
        ("kill", 1),
        ("start", 2),
        ("alter_topic_configs", "two", configs),
        ("start", 1),
    ]


def test_who_is_led_all_the_same_did_not_take_hold(two: Any, entry: Any) -> None:
    led_by_who_is_in_sync(two)
    two.cluster.alter_topic_configs("two", {})  # it was allowed before
    start = two.cluster.start

    def comes_back(node: int, **how: Any) -> None:
        start(node, **how)
        two.cluster.partitions("two")

    two.cluster.start = comes_back
    fault = build(entry("unclean-allowed", partition="two-0"))
    fault.inject(two)
    assert fault.took_hold is False


@pytest.mark.parametrize(("controller", "partition"), [(1, "two-0"), (2, "two-0"), (3, "t-0")])
def test_both_replicas_are_of_others_than_the_controller(
    two: Any, entry: Any, controller: int, partition: str
) -> None:
    two.cluster.the_controller = controller
    with pytest.raises(FaultFailed, match="allowed: two replicas, neither of them"):
        build(entry("unclean-allowed", partition=partition)).inject(two)
    assert all(two.cluster.running.values())


def test_who_is_not_missed_is_started_again(
    two: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two.cluster, "kill", lambda node: None)
    led_by_who_is_in_sync(two)
    fault = build(entry("unclean-allowed", partition="two-0", timeout_ms=50))
    with pytest.raises(FaultFailed, match="nobody leads"):
        fault.inject(two)
    fault.heal(two)
    assert all(two.cluster.running.values())
    assert fault.took_hold is None

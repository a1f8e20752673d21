"""Another order of a partition's replicas, under the same leader."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults import PlanError, build


@pytest.mark.parametrize(("raised", "took_hold"), [(1, True), (0, False)])
def test_the_leader_stays_and_its_epoch_rises(
    ctx: Any, entry: Any, raised: int, took_hold: bool
) -> None:
    cluster = ctx.cluster
    reassign = cluster.reassign

    def as_kafka_does(assignment: Any) -> None:
        reassign(assignment)
        for tp in assignment:
            state = cluster.states[tp]
            cluster.states[tp] = replace(state, leader_epoch=state.leader_epoch + raised)

    cluster.reassign = as_kafka_does
    before = cluster.states["t", 0]
    fault = build(entry("reorder", partitions="t-0"))
    fault.inject(ctx)
    after = cluster.states["t", 0]
    assert after.leader == before.leader
    assert after.replicas[0] != before.replicas[0]
    assert set(after.replicas) == set(before.replicas)
    assert fault.took_hold is took_hold
    assert fault.detail["partitions"] == {"t-0": [2, 2 + raised]}
    fault.heal(ctx)


def test_to_whom_is_checked(entry: Any) -> None:
    with pytest.raises(PlanError, match=r"params\.to"):
        build(entry("reorder", to="nobody"))

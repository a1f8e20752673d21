"""Topics that come and go."""

from __future__ import annotations

from typing import Any

from faults import build


def test_topic_churn_creates_and_deletes(ctx: Any, entry: Any) -> None:
    fault = build(entry("topic-churn", interval_ms=1, keep=1, delete_at_heal=True))
    fault.inject(ctx)
    while fault.detail.get("deleted", 0) < 2:
        ctx.sleep(0.001)
    fault.heal(ctx)
    assert fault.detail["turns"] >= 2
    assert not [tp for tp in ctx.cluster.states if tp[0].startswith("churn-")]


def test_controller_churn_gives_zookeeper_back(ctx: Any, entry: Any) -> None:
    fault = build(entry("controller-churn", interval_ms=1))
    fault.inject(ctx)
    while fault.detail["elections"] < 3:
        ctx.sleep(0.001)
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert ctx.cluster.the_controller_epoch >= 8


def test_leadership_churn_survives_turns_that_fail(ctx: Any, entry: Any) -> None:
    fault = build(entry("leadership-churn", interval_ms=1, timeout_ms=10))
    fault.inject(ctx)
    assert fault.detail["moves"] >= 2
    ctx.cluster.running |= {1: False, 2: False, 3: False}
    while not fault._background.failures:
        ctx.sleep(0.001)
    fault.heal(ctx)
    assert fault.detail["failed_turns"] >= 1

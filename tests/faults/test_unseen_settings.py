"""Settings that change while a broker cannot see it."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.plan import PlanError
from faults.protocol import Link

SET = {"topic": "t", "configs": ["a=1"], "then": "o", "then_configs": ["b=2"], "between_ms": 1}


def test_both_are_set_while_the_broker_is_cut_off(ctx: Any, entry: Any) -> None:
    cluster = ctx.cluster
    seen: list[tuple[str, dict[str, str], bool]] = []
    cluster.alter_topic_configs = lambda topic, configs: seen.append(
        (topic, configs, (2, Link.ZOOKEEPER) in cluster.cut)
    )
    fault = build(entry("unseen-settings", target="2", **SET))
    fault.inject(ctx)
    assert seen == [("t", {"a": "1"}, True), ("o", {"b": "2"}, True)]
    assert not cluster.cut
    assert fault.took_hold
    assert fault.nodes == [2]
    assert (fault.detail["topic"], fault.detail["configs"]) == ("t", {"a": "1"})


def test_who_lost_its_session_looks_anew_anyway(ctx: Any, entry: Any) -> None:
    cluster = ctx.cluster

    def lost(*_: Any) -> None:
        cluster.epochs[2] += 1

    cluster.alter_topic_configs = lost
    fault = build(entry("unseen-settings", target="2", **SET))
    fault.inject(ctx)
    assert not fault.took_hold


def test_settings_have_values(entry: Any) -> None:
    with pytest.raises(PlanError, match="name=value"):
        build(entry("unseen-settings", **{**SET, "then_configs": ["b"]}))

"""A topic that is given other settings."""

from __future__ import annotations

from typing import Any

import pytest

from faults.errors import PlanError
from faults.protocol import FaultFailed
from faults.registry import build


def test_it_has_these_settings_from_then_on(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("t", {0: [1]})
    fault = build(entry("alter-topic", topic="t", configs=["a=1", "b=x=y"]))
    fault.inject(ctx)
    assert ctx.cluster.calls == [("alter_topic_configs", "t", {"a": "1", "b": "x=y"})]
    assert fault.took_hold
    assert fault.detail["configs"] == {"a": "1", "b": "x=y"}


def test_its_settings_are_taken_from_it(ctx: Any, entry: Any) -> None:
    ctx.cluster.add_topic("t", {0: [1]})
    fault = build(entry("alter-topic", topic="t", cleared=True))
    fault.inject(ctx)
    assert ctx.cluster.calls == [("alter_topic_configs", "t", {})]
    assert fault.detail["configs"] == {}


def test_none_are_taken_where_some_are_given(entry: Any) -> None:
    with pytest.raises(PlanError, match="configs"):
        build(entry("alter-topic", topic="t", configs=["a=1"], cleared=True))


def test_what_is_no_setting_is_none(entry: Any) -> None:
    with pytest.raises(PlanError, match="name=value"):
        build(entry("alter-topic", topic="t", configs=["a"]))


def test_of_no_topic_nothing_is_altered(ctx: Any, entry: Any) -> None:
    with pytest.raises(FaultFailed, match="there is no topic other"):
        build(entry("alter-topic", topic="other", configs=["a=1"])).inject(ctx)
    assert not ctx.cluster.calls

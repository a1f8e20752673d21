"""Configs that change while brokers run: each value everywhere before the next."""

from __future__ import annotations

from typing import Any

import pytest

from faults import PlanError, build
from faults.protocol import FaultFailed

NAME = "log.segment.delete.delay.ms"


class Configs:
    """Brokers that put a value in place after some looks, or never."""

    def __init__(self, ctx: Any, *, looks: int) -> None:
        self.steps: list[tuple[Any, ...]] = []
        self.asked: dict[tuple[int, str], int] = {}
        self.looks = looks
        self.value: dict[int, str] = {}
        ctx.cluster.set_broker_config, ctx.cluster.broker_config = self.set, self.get

    def set(self, node: int, name: str, value: str) -> None:
        assert name == NAME
        self.value[node] = value
        self.steps.append(("set", node, value))

    def get(self, node: int, name: str) -> str | None:
        assert name == NAME
        key = (node, self.value[node])
        self.asked[key] = self.asked.get(key, 0) + 1
        if self.asked[key] <= self.looks:
            return None
        self.steps.append(("has", node, self.value[node]))
        return self.value[node]


def test_a_value_is_in_place_everywhere_before_the_next(ctx: Any, entry: Any) -> None:
    configs = Configs(ctx, looks=2)
    fault = build(entry("broker-config", config=NAME, values=["1", "2"]))
    fault.inject(ctx)
    assert configs.steps == [
        *(("set", 1, "1"), ("set", 2, "1"), ("set", 3, "1")),
        *(("has", 1, "1"), ("has", 2, "1"), ("has", 3, "1")),
        *(("set", 1, "2"), ("set", 2, "2"), ("set", 3, "2")),
        *(("has", 1, "2"), ("has", 2, "2"), ("has", 3, "2")),
    ]
    assert fault.took_hold
    assert fault.detail["set"] == ["1", "2"]
    fault.heal(ctx)


def test_a_broker_that_never_has_it_is_a_fault_that_failed(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faults.broker_config._TIMEOUT_MS", 20)
    Configs(ctx, looks=10**9)
    fault = build(entry("broker-config", config=NAME, values="1", target="2"))
    with pytest.raises(FaultFailed, match=f"broker 2 has {NAME}=1"):
        fault.inject(ctx)
    assert not fault.took_hold


def test_what_is_set_must_be_said(entry: Any) -> None:
    with pytest.raises(PlanError, match=r"params\.values"):
        build(entry("broker-config", config=NAME))

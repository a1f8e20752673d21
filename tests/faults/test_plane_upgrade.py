"""A control plane for a running cluster."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed, Link


@pytest.fixture
def upgradable(ctx: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Brokers that listen for controllers once they were started with the listener."""
    cluster = ctx.cluster
    cluster.pending, cluster.listening, cluster.refused = {}, set(), "needs {name}: no listener"
    real = cluster.start

    def start(node: int, **how: Any) -> None:
        real(node, **how)
        if node in cluster.pending:
            cluster.listening.add(node)

    def reconfigure(node: int, properties: Any, *, without: Any = ()) -> None:
        cluster.calls.append(("reconfigure", node, dict(properties), list(without)))
        cluster.pending[node] = properties

    def refusal(node: int, properties: Any, *, without: Any = ()) -> str:
        cluster.calls.append(("refusal", node, dict(properties), list(without)))
        return cluster.refused.format(name=next(iter(properties)))  # type: ignore[no-any-return]

    def set_broker_config(node: int, name: str, value: str) -> None:
        cluster.calls.append(("set", node, name, value))
        if cluster.refused:
            raise FaultFailed(f"INVALID_REQUEST: {name}")

    cluster.start, cluster.reconfigure, cluster.refusal = start, reconfigure, refusal
    cluster.set_broker_config = set_broker_config
    cluster.address = lambda node, link, direct=False: (str(node), 0)

    def probe(address: tuple[str, int], *, timeout_s: float) -> Any:
        class Seen:
            failure = None if int(address[0]) in cluster.listening else "closed"

        return Seen()

    monkeypatch.setattr("faults.plane_upgrade.probe", probe)
    return cluster


NAME = "control.plane.listener.name"


def test_two_rounds_first_the_listener_then_its_name(ctx: Any, entry: Any, upgradable: Any) -> None:
    fault = build(entry("plane-upgrade"))
    fault.inject(ctx)
    order = fault.detail["order"]
    assert sorted(order) == [1, 2, 3]
    assert upgradable.calls == [
        step
        for value in ("", "CONTROLLER")
        for n in order
        for step in (("reconfigure", n, {NAME: value}, []), ("stop", n), ("start", n))
    ]
    assert fault.took_hold is True
    with pytest.raises(FaultFailed, match="have a control listener already"):
        build(entry("plane-upgrade")).inject(ctx)


def test_leaders_move_when_all_is_done(ctx: Any, entry: Any, upgradable: Any) -> None:
    fault = build(entry("plane-upgrade", then_move="t-0"))
    fault.inject(ctx)
    last_start = max(n for n, call in enumerate(upgradable.calls) if call[0] == "start")
    assert [c for c in upgradable.calls[last_start:] if c[0] == "elect_preferred"]
    assert [move["partition"] for move in fault.detail["moves"]] == ["t-0"]
    assert fault.took_hold is True


def test_the_last_of_each_round_may_straggle(ctx: Any, entry: Any, upgradable: Any) -> None:
    slept: list[float] = []
    ctx.sleep = slept.append
    fault = build(entry("plane-upgrade", straggle_ms=1500))
    real = upgradable.reconfigure

    def reconfigure(node: int, *how: Any, **more: Any) -> None:
        assert (1.5 in slept) is (node == fault.detail["order"][-1])
        slept.clear()
        real(node, *how, **more)

    upgradable.reconfigure = reconfigure
    fault.inject(ctx)
    assert fault.took_hold is True


def test_what_must_be_refused_is_tried_first(ctx: Any, entry: Any, upgradable: Any) -> None:
    fault = build(entry("plane-upgrade", wrong_order=True, dynamic=True))
    fault.inject(ctx)
    first = fault.detail["order"][0]
    assert upgradable.calls[:2] == [
        ("refusal", first, {NAME: "CONTROLLER"}, [Link.CONTROL]),
        ("set", first, NAME, "CONTROLLER"),
    ]
    assert fault.took_hold is True


@pytest.mark.parametrize("wrong", ["wrong_order", "dynamic"])
def test_what_is_not_refused_as_it_should_be_ends_the_upgrade(
    ctx: Any, entry: Any, upgradable: Any, wrong: str
) -> None:
    upgradable.refused = ""
    with pytest.raises(FaultFailed, match=r"for another reason|accepted"):
        build(entry("plane-upgrade", **{wrong: True})).inject(ctx)
    assert not [c for c in upgradable.calls if c[0] == "stop"]


def test_a_broker_without_the_listener_after_round_one_fails_it(
    ctx: Any, entry: Any, upgradable: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faults.plane_upgrade._LISTENS_MS", 20)
    upgradable.listening = frozenset()
    upgradable.start = lambda node, **how: upgradable.running.update({node: True})
    with pytest.raises(FaultFailed, match="has a control listener"):
        build(entry("plane-upgrade")).inject(ctx)

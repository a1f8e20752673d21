"""A controller that is out of office, and hears of it by its watch alone."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed


def test_it_is_removed_and_left_alone(ctx: Any, entry: Any) -> None:
    fault = build(entry("remove-controller"))
    fault.inject(ctx)
    assert fault.took_hold
    assert fault.nodes == [1]
    assert (fault.detail["deposed"], fault.detail["successor"]) == (1, 2)
    assert (fault.detail["controller_epoch"], fault.detail["successor_epoch"]) == (5, 6)
    fault.heal(ctx)
    assert ctx.cluster.calls == [("remove_controller",)]


def test_without_a_successor_it_fails(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctx.cluster, "remove_controller", lambda: None)
    fault = build(entry("remove-controller", takeover_ms=20))
    with pytest.raises(FaultFailed, match="a controller with an epoch above 5"):
        fault.inject(ctx)
    assert not fault.took_hold

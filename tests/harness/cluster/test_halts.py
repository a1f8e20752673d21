"""A broker that ends by itself because of what the harness did: that is a kill, no desertion."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from faults.protocol import FaultFailed
from harness.cluster.fleet import NodeFleet


@pytest.fixture
def told() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def fleet(told: list[dict[str, Any]], tmp_path: Path) -> NodeFleet:
    made = NodeFleet(
        cast("Any", None),
        {1: cast("Any", None)},
        cast("Any", None),
        {1: tmp_path},
        view=cast("Any", None),
        links=cast("Any", None),
        record=lambda kind, **fields: told.append({"kind": kind, **fields}),
        session_timeout_ms=1_000,
    )
    made._handles[1] = cast(
        "Any",
        SimpleNamespace(
            alive=True, paused=False, starts=1, exit_code=None, output=tmp_path / "out"
        ),
    )
    return made


def _ends(fleet: NodeFleet) -> None:
    handle = cast("Any", fleet._handles[1])
    handle.alive, handle.exit_code = False, 1


def test_who_halts_was_killed(fleet: NodeFleet, told: list[dict[str, Any]]) -> None:
    assert fleet.halts(1, lambda: _ends(fleet), 5.0) is True
    assert [row["event"] for row in told] == ["kill"]
    assert json.loads(told[0]["detail"]) == {"halted": 1}
    assert fleet.note_exits() == []
    assert not fleet.has_deserted(1)


def test_who_goes_on_was_not(fleet: NodeFleet, told: list[dict[str, Any]]) -> None:
    done: list[int] = []
    assert fleet.halts(1, lambda: done.append(1), 0.05) is False
    assert done == [1]
    assert told == []


def test_who_ended_before_did_so_by_itself(fleet: NodeFleet, told: list[dict[str, Any]]) -> None:
    _ends(fleet)
    with pytest.raises(FaultFailed, match="does not run"):
        fleet.halts(1, lambda: None, 5.0)
    assert told == []


def test_nobody_waits_for_it_once_all_is_ended(fleet: NodeFleet) -> None:
    fleet.wind_up()
    with pytest.raises(FaultFailed, match="is being ended"):
        fleet.halts(1, lambda: None, 60.0)

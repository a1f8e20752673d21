"""Rows are held back, what silences is not; what is shown once more is no news."""

from __future__ import annotations

from typing import Any

import pytest

from checkers.live.intake import Intake
from checkers.live.watch import _Seen
from tests.checkers.conftest import MS


def row(kind: str, t_ms: float, **fields: Any) -> dict[str, Any]:
    return {"f": kind, "t": int(t_ms * MS), "process": "p", **fields}


def shown(t_ms: float, epoch: int, node: int = 1) -> dict[str, Any]:
    t = int(t_ms * MS)
    place = {"topic": "t", "partition": 0, "node": node}
    return row("metadata", t_ms, type="ok", invoke_t=t - MS, leader_epoch=epoch, **place)


def test_rows_come_through_once_when_it_is_time() -> None:
    intake = Intake("a", 3)
    for t_ms in (1, 3, 2):
        intake.take(row("probe", t_ms, type="ok"))
    intake.take(row("probe", 1, type="invoke"))
    intake.take(row("flood", 1))  # nobody asks for it
    first = intake.let_through(2 * MS)
    assert sorted(one["t"] for one in first["probe"]) == [MS, 2 * MS]
    assert {(one["arm"], one["trial"]) for one in first["probe"]} == {("a", 3)}
    assert [one["t"] for one in intake.let_through(9 * MS)["probe"]] == [3 * MS]
    assert not intake.let_through(9 * MS)


def test_what_silences_counts_at_once() -> None:
    intake = Intake("a", 0)
    intake.take(row("node_event", 50, node=1, event="start"))
    intake.take(row("node_event", 40, node=1, event="kill"))
    intake.take(row("node_event", 45, node=1, event="registered"))
    assert intake.died[1] == [40 * MS, 50 * MS]
    intake.take(row("replica_stop", 1, node=2, topic="t", partition=0, delete=False))
    assert not intake.silenced.topics
    intake.take(row("topic_deletion", 1, topic="t", step="requested"))
    assert intake.silenced.topics == {"t"}
    assert not intake.let_through(99 * MS).keys() & {"node_event", "topic_deletion"}


def test_only_a_lie_that_may_be_believed_silences() -> None:
    intake = Intake("a", 0)
    forged = {"topic": "t", "partition": 0, "api": "LEADER_AND_ISR", "type": "ok"}
    intake.take(row("forged", 1, node=1, lie="stale_broker_epoch", error=0, **forged))
    intake.take(row("forged", 1, node=1, lie="none", error=11, **forged))
    intake.take(row("forged", 1, node=1, lie="none", error=0, partition_error=74, **forged))
    assert not intake.silenced.lied
    assert not intake.silenced.loss(("t", 0), 5)
    timeout = {**forged, "type": "info"}
    intake.take(row("forged", 1, node=2, lie="none", failure="timeout", **timeout))
    assert intake.silenced.lied == {(2, "t", 0)}
    assert intake.silenced.loss(("t", 0), 5)
    assert not intake.silenced.loss(("t", 1), 5)


@pytest.mark.parametrize(
    ("told_t", "dead_t", "newer", "believed"),
    [
        (10, None, True, False),
        (21, None, True, True),  # the new controller came later
        (10, 15, True, True),  # it was told in a former life
        (10, None, False, True),
    ],
)
@pytest.mark.parametrize("lie", ["stale_controller_epoch", "stale_leader_epoch"])
def test_a_stale_lie_is_believed_by_who_has_not_been_told(
    lie: str, told_t: int, dead_t: int | None, newer: bool, believed: bool
) -> None:
    intake = Intake("a", 0)
    at = {"node": 1, "topic": "t", "partition": 0}
    told = {"api": "LEADER_AND_ISR", "controller_epoch": 3, "leader_epoch": 7, "error": 0}
    intake.take(row("forged", 22, lie=lie, invoke_t=20 * MS, type="ok", **told, **at))
    if dead_t is not None:
        intake.take(row("node_event", dead_t, node=1, event="kill"))
    for t in (5, told_t):
        epoch = int(newer and t == told_t)
        of = {"controller_epoch": 3 + epoch, "error": 0, "api": "UPDATE_METADATA"}
        intake.take(row("control_request", t, node=1, **of))
        intake.take(row("leader_change", t, leader_epoch=7 + epoch, **at))
    intake.let_through(99 * MS)
    assert not intake.silenced.loss(("t", 0), 5)
    intake.weigh()
    assert intake.silenced.lied == ({(1, "t", 0)} if believed else set())
    assert intake.silenced.unheard == ({("t", 0)} if believed else set())
    assert intake.silenced.loss(("t", 0), 5) is believed


def test_a_forger_is_at_work_until_it_was_healed() -> None:
    intake = Intake("a", 0)
    for phase, at_work in (("inject", True), ("injected", True), ("heal", True), ("healed", False)):
        intake.take(row("fault", 1, fault="forged-requests", id="f", phase=phase))
        assert bool(intake.forging) is at_work
    intake.take(row("fault", 1, fault="kill", id="k", phase="inject"))
    assert not intake.forging


def test_what_is_shown_once_more_is_no_news() -> None:
    intake = Intake("a", 0)
    seen = _Seen(intake)

    def news(*rows: dict[str, Any]) -> list[tuple[float, int]]:
        kept = seen.news({"metadata": list(rows)})["metadata"]
        return [(one["t"] / MS, one["leader_epoch"]) for one in kept]

    assert news(shown(20, 4), shown(10, 4), shown(30, 4)) == [(10, 4)]
    assert news(shown(40, 4), shown(40, 4, node=2)) == [(40, 4)]
    assert news(shown(50, 5), shown(60, 4), shown(70, 5)) == [(50, 5), (60, 4)]
    intake.take(row("node_event", 80, node=1, event="kill"))
    assert news(shown(90, 5), shown(100, 5)) == [(90, 5)]

"""Requests that no controller sent."""

from __future__ import annotations

from typing import Any

import pytest

from faults import build
from faults.errors import PlanError
from faults.forged_requests import forge
from faults.protocol import FaultFailed, Link, PartitionState

STATE = PartitionState("t", 0, 1, 4, (1, 2), (1, 2, 3), 5, 9)


TRUE = {
    "node": 1,
    "link": Link.CONTROL,
    "controller_id": 1,
    "controller_epoch": 5,
    "broker_epoch": 101,
    "state": STATE,
}


def test_a_lie_is_one_epoch_off_and_harmful_if_believed() -> None:
    stale = forge("LEADER_AND_ISR", "stale_controller_epoch", **TRUE)
    assert stale is not None
    assert (stale.controller_epoch, stale.broker_epoch) == (4, 101)
    assert (stale.state.leader, stale.state.leader_epoch) == (2, 5)
    bounced = forge("STOP_REPLICA", "stale_broker_epoch", **TRUE)
    assert bounced is not None
    assert (bounced.controller_epoch, bounced.broker_epoch) == (5, 100)
    old = forge("LEADER_AND_ISR", "stale_leader_epoch", **TRUE)
    assert old is not None
    assert old.state.leader_epoch == 3
    future = forge("LEADER_AND_ISR", "future_controller_epoch", **TRUE)
    assert future is not None
    assert future.controller_epoch == 15


def test_lies_that_would_be_lawful_are_not_told() -> None:
    young = {**TRUE, "state": PartitionState("t", 0, 1, 0, (1, 2), (1, 2), 5, 9)}
    assert forge("STOP_REPLICA", "stale_leader_epoch", **young) is None  # -1: no epoch given
    assert forge("UPDATE_METADATA", "stale_leader_epoch", **TRUE) is None
    assert forge("LEADER_AND_ISR", "stale_broker_epoch", **{**TRUE, "broker_epoch": 0}) is None


def test_old_news_is_what_was_true_before() -> None:
    former = PartitionState("t", 0, 3, 2, (1, 2, 3), (1, 2, 3), 5, 4)
    told = forge("UPDATE_METADATA", "stale_controller_epoch", former=former, **TRUE)
    assert told is not None
    assert (told.controller_epoch, told.state.leader, told.state.leader_epoch) == (4, 3, 2)
    fenced = forge("LEADER_AND_ISR", "stale_leader_epoch", former=former, **TRUE)
    assert fenced is not None
    assert (fenced.controller_epoch, fenced.broker_epoch) == (5, 101)
    assert fenced.state == former
    # What has not changed since is no news of any kind.
    assert forge("LEADER_AND_ISR", "stale_controller_epoch", former=STATE, **TRUE) is None


def test_a_former_registration_is_named_when_there_was_one() -> None:
    told = forge("LEADER_AND_ISR", "stale_broker_epoch", former_broker_epoch=90, **TRUE)
    assert told is not None
    assert told.broker_epoch == 90
    same = forge("LEADER_AND_ISR", "stale_broker_epoch", former_broker_epoch=101, **TRUE)
    assert same is not None
    assert same.broker_epoch == 100


def test_old_news_is_gathered_before_the_plan_begins(ctx: Any, entry: Any) -> None:
    fault = build(
        entry("forged-requests", target="2", interval_ms=0, old_news=True, api="UPDATE_METADATA")
    )
    fault.prepare(ctx)
    ctx.cluster.reassign({("t", 0): [2, 3, 1]})
    ctx.cluster.elect_preferred([("t", 0)])
    ctx.cluster.epochs[2] = 300
    fault.inject(ctx)
    told = {row["lie"]: row for row in ctx.rows}
    assert set(told) == {"stale_controller_epoch", "stale_broker_epoch"}
    assert {(r["partition"], r["leader"], r["leader_epoch"]) for r in ctx.rows} == {(0, 1, 2)}
    assert told["stale_broker_epoch"]["broker_epoch"] == 102
    with pytest.raises(PlanError, match="old_news"):
        build(entry("forged-requests", old_news=True, truthful=True))


def test_without_any_change_there_is_no_old_news(ctx: Any, entry: Any) -> None:
    fault = build(entry("forged-requests", interval_ms=0, old_news=True))
    fault.prepare(ctx)
    with pytest.raises(FaultFailed, match="no request could be forged"):
        fault.inject(ctx)


def test_every_forgery_is_a_row_with_its_answer(ctx: Any, entry: Any) -> None:
    fault = build(
        entry("forged-requests", target="1", link=["control", "client"], interval_ms=0, per_round=2)
    )
    fault.inject(ctx)
    fault.heal(ctx)
    rows = ctx.rows
    assert (
        len(rows) == 2 * 2 * 8
    )  # partitions x links x (api, lie) but UpdateMetadata's leader epoch
    assert {row["f"] for row in rows} == {"forged"}
    assert {(r["lie"], r["error"]) for r in rows if r["api"] == "LEADER_AND_ISR"} == {
        ("stale_controller_epoch", 11),
        ("stale_broker_epoch", 77),
        ("stale_leader_epoch", 0),
    }
    fenced = [r for r in rows if r["lie"] == "stale_leader_epoch"]
    assert {(r["api"], r["partition_error"]) for r in fenced} == {
        ("LEADER_AND_ISR", 11),
        ("STOP_REPLICA", 74),
    }
    assert {r["plane"] for r in rows} == {"control", "data"}
    assert len({r["op"] for r in rows}) == len(rows)
    assert fault.detail["answered"] == len(rows)


def test_forged_rows_fit_the_schema(ctx: Any, entry: Any) -> None:
    from checkers.history import problem_with

    build(entry("forged-requests", interval_ms=0)).inject(ctx)
    assert [problem_with(row) for row in ctx.rows] == [None] * len(ctx.rows)


def test_a_goodbye_is_said_to_the_controller_in_the_name_of_the_past(ctx: Any, entry: Any) -> None:
    from checkers.history import problem_with

    goodbye = {"api": "CONTROLLED_SHUTDOWN", "lie": ["stale_broker_epoch", "stale_leader_epoch"]}
    fault = build(entry("forged-requests", target="all", interval_ms=0, **goodbye))
    fault.prepare(ctx)
    ctx.cluster.epochs[2] = 300
    fault.inject(ctx)
    fault.heal(ctx)
    rows = ctx.rows
    assert {row["api"] for row in rows} == {"CONTROLLED_SHUTDOWN"}
    assert {row["node"] for row in rows} == {ctx.cluster.the_controller}
    assert {row["broker"]: row["broker_epoch"] for row in rows}[2] == 102
    assert [row["error"] for row in rows] == [77] * len(ctx.cluster.ids)
    assert [problem_with(row) for row in rows] == [None] * len(rows)
    assert ctx.cluster.the_controller in fault.nodes


def test_a_goodbye_is_told_with_a_registration_of_the_past_alone(ctx: Any, entry: Any) -> None:
    lies = {"api": "CONTROLLED_SHUTDOWN", "lie": "stale_leader_epoch"}
    with pytest.raises(FaultFailed, match="no request could be forged"):
        build(entry("forged-requests", interval_ms=0, **lies)).inject(ctx)

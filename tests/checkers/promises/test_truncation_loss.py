"""Truncation loss, both ways: what is lawful, what is avoidable, what is a violation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checkers.judging.witness import attach
from checkers.promises.truncation_loss import check
from tests.checkers.conftest import MS
from tests.checkers.together import Asks, apart, judging


def demotion(story: Any, *, commit: float = 100, send: float = 120, cut: float = 200) -> None:
    """Node 1 led epoch 0; node 2 is to lead epoch 1; node 1 cuts [10, 20) when it hears of it."""
    story.commit(0, 1, 0)
    story.commit(commit, 2, 1)
    state = {"topic": "t", "partition": 0, "leader": 2, "leader_epoch": 1}
    story.add("control_send", send, node=3, to=1, api="LEADER_AND_ISR", partitions=[state])
    story.add(
        "leader_change", cut - 1, node=1, role="follower", leader=2, leader_epoch=1,
        controller_epoch=1,
    )  # fmt: skip
    story.add("truncation", cut, node=1, leader_epoch=1, from_offset=20, to_offset=10)


@judging(check)
def test_what_was_acknowledged_is_there(story: Any) -> Asks:
    story.commit(0, 1, 0)
    for value in range(20):
        story.produce(10 + value, value, value, acks=[1, -1][value % 2])
    story.final_log({v: v for v in range(20)})
    found = yield story
    assert not found.counts
    assert not found.unknowns
    assert found.looked_at == 20
    assert found.arms[story.arm]["acked_all_present"] == 10


@pytest.mark.parametrize(("told", "rule"), [(1, "acked-all-moved"), (2, None), (None, None)])
@judging(check)
def test_a_record_stays_at_the_offset_that_acks_all_acknowledged(
    story: Any, told: int | None, rule: str | None
) -> Asks:
    """Where nobody was told an offset, any will do."""
    story.commit(0, 1, 0)
    story.produce(10, 7, told, acks=-1)
    story.final_log({0: 5, 1: 6, 2: 7})
    assert (yield apart(story)).counts == ({rule: 1} if rule else {})


@judging(check)
def test_no_final_log_is_unknown(story: Any) -> Asks:
    story.produce(10, 1, 0)
    assert (yield apart(story)).unknowns


@judging(check)
def test_a_partition_that_was_not_read_is_unknown_not_lost(story: Any) -> Asks:
    story.produce(10, 1, 0, acks=-1)
    story.produce(10, 2, 0, acks=-1, partition=1)
    story.final_log({0: 1})
    found = yield story
    assert not found.counts
    assert len(found.unknowns) == 1


@pytest.mark.parametrize(
    ("append_ms", "category"),
    [(50, "before_commit"), (110, "between"), (150, "avoidable"), (119.9, "edge")],
)
@judging(check)
def test_lost_with_acks_1_is_dated(story: Any, append_ms: float, category: str) -> Asks:
    demotion(story)
    story.produce(180, 7, 12, node=1, invoke_t=30, log_append_time_ms=int(append_ms))
    story.final_log({v: v + 100 for v in range(30)}, node=2, leader_epoch=1)
    found = yield story
    assert not found.counts
    figures = found.arms[story.arm]
    assert figures["lost"] == {category: 1}
    assert figures["avoidable"] == (category == "avoidable")
    assert figures["avoidable_at_most"] == (category in ("avoidable", "edge"))


@judging(check)
def test_the_operations_own_span_dates_it_without_a_stamp(story: Any) -> Asks:
    demotion(story)
    story.produce(180, 7, 12, node=1, invoke_t=130)
    story.produce(190, 8, 13, node=1, invoke_t=30)
    story.final_log({0: 100}, node=2)
    assert (yield story).arms[story.arm]["lost"] == {"avoidable": 1, "edge": 1}


@judging(check)
def test_only_a_send_to_that_broker_counts(story: Any) -> Asks:
    demotion(story)
    story.rows["control_send"][0]["to"] = 2
    story.produce(180, 7, 12, node=1, invoke_t=130)
    story.final_log({0: 100}, node=2)
    assert (yield story).arms[story.arm]["lost"] == {"undated": 1}


@judging(check)
def test_an_earlier_demotion_is_not_the_one(story: Any) -> Asks:
    """Node 1 was demoted, led again, and was demoted again: only the last one lost the record."""
    demotion(story)
    story.commit(300, 1, 2)
    story.commit(400, 2, 3)
    state = {"topic": "t", "partition": 0, "leader": 2, "leader_epoch": 3}
    story.add("control_send", 420, node=3, to=1, api="LEADER_AND_ISR", partitions=[state])
    story.add("truncation", 500, node=1, leader_epoch=3, from_offset=30, to_offset=10)
    story.produce(350, 7, 12, node=1, invoke_t=340)
    story.final_log({0: 100}, node=2)
    assert (yield story).arms[story.arm]["lost"] == {"before_commit": 1}


@judging(check)
def test_lost_with_acks_all_is_a_violation(story: Any, spark: Any) -> Asks:
    demotion(story)
    story.produce(90, 7, 12, acks=-1)
    story.final_log({v: v + 100 for v in range(30)}, node=2, leader_epoch=1)
    found = yield story
    assert found.counts == {"acked-all-lost": 1}
    (violation,) = attach(story.history(spark), found.findings)
    kinds = [e["f"] for e in violation.events]
    assert kinds == ["produce", "leadership", "truncation", "log_read", "log_end"]


@judging(check)
def test_lost_without_a_truncation_is_a_violation_where_brokers_trace(story: Any) -> Asks:
    demotion(story)
    story.produce(90, 7, 5, node=1)  # below the cut
    story.final_log({v: v + 100 for v in range(4)}, node=1, leader=False, leader_epoch=1)
    story.final_log({v: v + 100 for v in range(4)}, node=2, leader_epoch=1)
    assert (yield story).counts == {"unexplained-loss": 1}
    del story.rows["truncation"], story.rows["leader_change"]
    found = yield story
    assert not found.counts
    assert found.arms[story.arm]["lost"] == {"untraced": 1}


@judging(check)
def test_acks_0_and_unknown_operations_are_only_counted(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.produce(10, 1, -1, acks=0, type="info")
    story.produce(10, 2, None, acks=0)
    story.produce(10, 3, None, acks=-1, type="info")
    story.produce(10, 4, None, acks=1, type="fail", error=6)
    story.produce(10, 5, None, acks=1, type="fail", error=10)
    story.final_log({0: 1, 1: 4})
    found = yield story
    assert not found.counts
    figures = found.arms[story.arm]
    assert figures["acks_0_landed"] == 1
    assert figures["acks_0_missing"] == 1
    assert figures["info_landed"] == 1
    assert figures["info_missing"] == 1
    assert figures["failed"] == 1


@judging(check)
def test_read_and_gone_is_a_violation(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.add("fetch", 50, offset=0, value=7, poll=0)
    story.add("fetch", 51, offset=1, value=8, poll=0)
    story.add("fetch", 52, offset=5, value=9, poll=0)
    story.final_log({0: 7, 1: 99})
    assert (yield story).counts == {"read-then-changed": 1, "read-then-gone": 1}


@pytest.mark.parametrize(("append_ms", "category"), [(150, "avoidable"), (125, "edge")])
@judging(check)
def test_a_send_that_is_known_roughly_widens_the_edge(
    story: Any, append_ms: int, category: str
) -> Asks:
    demotion(story)
    for row in story.rows["control_send"]:
        row["error_ns"] = 10_000_000
    story.produce(180, 7, 12, node=1, invoke_t=30, log_append_time_ms=append_ms)
    story.final_log({v: v + 100 for v in range(30)}, node=2, leader_epoch=1)
    assert (yield story).arms[story.arm]["lost"] == {category: 1}


@pytest.mark.parametrize("offset", [None, -1])
@judging(check)
def test_an_acknowledgement_without_an_offset_is_one_all_the_same(
    story: Any, offset: int | None
) -> Asks:
    story.commit(0, 1, 0)
    story.produce(10, 1, offset, acks=-1)
    story.produce(10, 2, offset, acks=-1)
    story.final_log({5: 1})
    assert (yield story).counts == {"acked-all-lost": 1}


def _wiped(story: Any, node: int) -> None:
    story.add("fault", 150, fault="wipe-disk", id="w", phase="inject", nodes=[])
    story.add("fault", 300, fault="wipe-disk", id="w", phase="injected", nodes=[node])


def _emptied_on_its_way(story: Any, node: int) -> None:
    told = json.dumps({"emptied": {"node": node, "t": 150 * MS}})
    fields = {"phase": "injected", "nodes": [1, 3], "detail": told}
    story.add("fault", 300, fault="last-standing", id="l", **fields)


@pytest.mark.parametrize("lose", [_wiped, _emptied_on_its_way])
@pytest.mark.parametrize(
    ("wiped", "acks", "broken"),
    [(1, 1, {}), (3, 1, {"unexplained-loss": 1}), (1, -1, {"acked-all-lost": 1})],
)
@judging(check)
def test_a_wiped_leader_takes_what_only_it_had(
    story: Any, lose: Any, wiped: int, acks: int, broken: dict[str, int]
) -> Asks:
    """Another's lost disk explains nothing, and no disk what acks=all promised."""
    story.commit(0, 1, 0)
    story.add("leader_change", 1, node=1, role="leader", leader_epoch=0, leader=1)
    story.produce(90, 7, 5, acks, node=1)
    story.commit(200, 2, 1)
    story.add("leader_change", 201, node=2, role="leader", leader_epoch=1, leader=2)
    lose(story, wiped)
    for node in (2, 1):
        story.final_log({v: v + 100 for v in range(4)}, node=node, leader=node == 2)
    counts = (yield story).counts
    lost = {rule: n for rule, n in counts.items() if rule in ("unexplained-loss", "acked-all-lost")}
    assert lost == broken

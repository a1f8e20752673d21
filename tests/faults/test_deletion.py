"""Topics that are deleted, while a replica or the controller goes, and made again."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed


def test_a_topic_of_its_own_is_made_before_and_deleted(ctx: Any, entry: Any) -> None:
    under_test = build(entry("delete-topic", partitions=2, replicas=9))
    under_test.prepare(ctx)
    states = ctx.view.partitions(under_test.topic)
    assert [s.replicas for s in states] == [(1, 2, 3), (2, 3, 1)]
    under_test.inject(ctx)
    assert under_test.took_hold is True
    assert ctx.view.partitions(under_test.topic) == []
    under_test.heal(ctx)
    assert [c[0] for c in ctx.cluster.calls] == ["create_topic", "delete_topic"]


def calls_but(ctx: Any, *topics: str) -> list[tuple[Any, ...]]:
    """Those that have nothing to do with these topics."""
    return [call for call in list(ctx.cluster.calls) if not {*call[1:2]} & {*topics}]


def test_a_deletion_waits_for_a_broker_that_is_away(ctx: Any, entry: Any) -> None:
    deleted: list[str] = []
    start, delete = ctx.cluster.start, ctx.cluster.delete_topic

    def come_back(node: int, **how: Any) -> None:
        start(node, **how)
        ctx.cluster.delete_topic = delete
        delete(deleted[0])

    ctx.cluster.start, ctx.cluster.delete_topic = come_back, deleted.append
    under_test = build(entry("delete-topic-away", partitions=1, target="2", away_ms=1))
    under_test.prepare(ctx)
    under_test.inject(ctx)
    assert deleted == [under_test.topic]
    assert [c[0] for c in calls_but(ctx, under_test.alone)] == [
        *("create_topic", "stop", "create_topic", "start", "delete_topic", "delete_topic")
    ]
    made = [c[1] for c in calls_but(ctx, under_test.alone) if c[0] == "create_topic"]
    assert made == [under_test.topic, under_test.made]
    of_alone = [c[0] for c in ctx.cluster.calls if c[1:2] == (under_test.alone,)]
    assert of_alone == ["create_topic", "delete_topic"]
    assert (under_test.detail["away"], under_test.detail["gone_meanwhile"]) == (2, False)
    assert under_test.took_hold is True
    under_test.heal(ctx)
    assert len(calls_but(ctx, under_test.alone)) == 6


def test_a_topic_of_who_is_away_alone_is_led_as_it_is_back(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    create, start = ctx.cluster.create_topic, ctx.cluster.start
    under_test = build(entry("delete-topic-away", target="2", away_ms=1))
    unled: list[tuple[Any, ...]] = []
    back = threading.Event()

    def making(topic: str, assignment: Any, configs: Any) -> None:
        if topic == under_test.alone:
            unled.append((dict(assignment), ctx.cluster.running[2]))
            assert back.wait(5)
        create(topic, assignment, configs)

    def come_back(node: int, **how: Any) -> None:
        start(node, **how)
        assert not ctx.view.partitions(under_test.alone)
        back.set()

    ctx.cluster.create_topic, ctx.cluster.start = making, come_back
    under_test.inject(ctx)
    assert unled == [({0: [2]}, False)]
    assert under_test.took_hold is True
    assert not ctx.view.partitions(under_test.alone)


def test_another_controller_is_elected_while_a_deletion_waits(ctx: Any, entry: Any) -> None:
    under_test = build(entry("delete-topic-away", target="2", away_ms=1, succeeded=True))
    under_test.inject(ctx)
    calls = [c[0] for c in calls_but(ctx, under_test.alone)]
    assert calls == [
        *("create_topic", "stop", "delete_topic", "create_topic", "remove_controller"),
        *("start", "delete_topic"),
    ]
    assert (under_test.detail["successor"], under_test.detail["successor_epoch"]) == (2, 6)


@pytest.mark.parametrize("goes_on", [True, False])
def test_another_controller_is_elected_in_the_middle_of_a_deletion(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch, goes_on: bool
) -> None:
    """Who takes over goes on with it; one that was done before is no such deletion."""
    delete = ctx.cluster.delete_topic
    under_test = build(entry("delete-topic", succeeded=True))
    if goes_on:
        monkeypatch.setattr(ctx.cluster, "delete_topic", lambda topic: None)
        monkeypatch.setattr(under_test, "_await_gone", lambda _ctx, topic: delete(topic))
    under_test.inject(ctx)
    detail = under_test.detail
    assert (detail["successor"], detail["successor_epoch"]) == (2, 6)
    assert (under_test.took_hold, detail["gone_meanwhile"]) == (goes_on, not goes_on)
    calls = [c[0] for c in ctx.cluster.calls]
    order = ["remove_controller", "delete_topic"]
    assert calls == ["create_topic", *(order if goes_on else reversed(order))]


def test_without_a_successor_who_is_away_comes_back(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctx.cluster, "remove_controller", lambda: None)
    away = {"target": "2", "away_ms": 1, "succeeded": True, "timeout_ms": 50}
    under_test = build(entry("delete-topic-away", **away))
    with pytest.raises(FaultFailed, match="a controller with an epoch above 5"):
        under_test.inject(ctx)
    under_test.heal(ctx)
    assert ctx.cluster.running[2]
    assert under_test.took_hold is None


@pytest.mark.parametrize("halts", [True, False])
def test_a_deletion_waits_for_the_end_of_a_move(ctx: Any, entry: Any, halts: bool) -> None:
    delete, remove, begin = (
        getattr(ctx.cluster, name) for name in ("delete_topic", "remove_toxic", "begin_reassign")
    )
    deleted: list[str] = []

    def moving(assignment: Any) -> None:
        begin(assignment)
        ((key, replicas),) = assignment.items()
        state = ctx.cluster.states[key]
        both = tuple(dict.fromkeys([*replicas, *state.replicas]))
        ctx.cluster.states[key] = replace(state, replicas=both)

    def let_go(*which: Any, **how: Any) -> None:
        remove(*which, **how)
        for topic in deleted:
            delete(topic)

    ctx.cluster.begin_reassign, ctx.cluster.remove_toxic = moving, let_go
    if halts:
        ctx.cluster.delete_topic = deleted.append
    under_test = build(entry("delete-topic-moving", partitions=1, replicas=2, halted_ms=1))
    under_test.inject(ctx)
    (began,) = (call[1] for call in ctx.cluster.calls if call[0] == "begin_reassign")
    assert began == {(under_test.topic, 0): [1, 3]}
    assert (under_test.took_hold, under_test.detail["gone_meanwhile"]) == (True, not halts)
    assert not ctx.view.partitions(under_test.topic)
    assert not ctx.cluster.toxics


def test_a_topic_is_made_again_with_the_replicas_that_it_had(ctx: Any, entry: Any) -> None:
    under_test = build(entry("recreate-topic", topic="t", apart_ms=1))
    under_test.inject(ctx)
    assert [c[0] for c in ctx.cluster.calls] == ["delete_topic", "create_topic"]
    assert [s.replicas for s in ctx.view.partitions("t")] == [(1, 2, 3), (2, 3, 1)]
    assert under_test.took_hold is True
    assert under_test.nodes == [1, 2, 3]


@pytest.mark.parametrize("how", ["stays", "is not led", "never was"])
def test_what_is_not_made_again_did_not_take_hold(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    topic, create = "other" if how == "never was" else "t", ctx.cluster.create_topic

    def unled(*asked: Any) -> None:
        create(*asked)
        for key, state in ctx.cluster.states.items():
            ctx.cluster.states[key] = replace(state, leader=-1)

    if how == "stays":
        monkeypatch.setattr(ctx.cluster, "delete_topic", lambda topic: None)
    if how == "is not led":
        monkeypatch.setattr(ctx.cluster, "create_topic", unled)
    under_test = build(entry("recreate-topic", topic=topic, apart_ms=1, timeout_ms=50))
    says = {"stays": "t is gone", "is not led": "has a leader", "never was": "no topic other"}
    with pytest.raises(FaultFailed, match=says[how]):
        under_test.inject(ctx)
    assert under_test.took_hold is None


def test_a_topic_that_is_gone_too_early_is_told_and_the_broker_started(
    ctx: Any, entry: Any
) -> None:
    under_test = build(entry("delete-topic-away", target="2", away_ms=1))
    under_test.inject(ctx)
    assert under_test.detail["gone_meanwhile"] is True
    assert ctx.cluster.running[2]
    stranger = build(entry("delete-topic-away", replicas=1, partitions=1, target="3"))
    with pytest.raises(FaultFailed, match="broker 3 has no replica"):
        stranger.inject(ctx)
    assert ctx.cluster.running[3]


def test_a_topic_that_stays_is_no_deletion(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_test = build(entry("delete-topic", timeout_ms=50))
    monkeypatch.setattr(ctx.cluster, "delete_topic", lambda topic: None)
    with pytest.raises(FaultFailed, match="is gone"):
        under_test.inject(ctx)
    assert under_test.took_hold is None

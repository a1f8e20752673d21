"""Stories of deaths and waiting frames, on a cluster whose controller obeys, or does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults import PlanError, build
from faults.frames import client_of
from faults.outdated_expansion import lose_disk
from faults.protocol import FaultFailed

AT = ("t", 0)


class Told:
    """What becomes of partition t-0: each call of the cluster's goes through here first.

    ``bad``: the controller and the leaders have the bug that the fault is about."""

    def __init__(self, ctx: Any, replicas: tuple[int, ...], bad: bool) -> None:
        self.ctx, self.cluster, self.bad = ctx, ctx.cluster, bad
        self.steps: list[tuple[Any, ...]] = []
        self.held: dict[str, dict[str, Any]] = {}
        self.cluster.the_controller = 3
        self.set(leader=replicas[0], isr=replicas, replicas=replicas)
        self._kill, self._start = self.cluster.kill, self.cluster.start
        self._add, self._remove = ctx.frames.add, ctx.frames.remove
        self.cluster.kill, self.cluster.start = self.kill, self.start
        ctx.frames.add, ctx.frames.remove = self.add, self.remove

    def set(self, **fields: Any) -> None:
        self.cluster.states[AT] = replace(self.cluster.states[AT], **fields)

    @property
    def state(self) -> Any:
        return self.cluster.states[AT]

    def kill(self, node: int) -> None:
        self.steps.append(("kill", node))
        self._kill(node)
        isr = tuple(n for n in self.state.isr if n != node)
        self.set(isr=isr or self.state.isr)
        if self.state.leader == node:
            able = [n for n in self.state.replicas if n in isr and self.cluster.running[n]]
            self.set(leader=able[0] if able else -1)

    def start(self, node: int, *, wait_ready: bool = True) -> None:
        self.steps.append(("start", node))
        self._start(node)
        if self.state.leader == -1 and node in self.state.isr:
            self.set(leader=node)

    def add(self, rule: str, **fields: Any) -> None:
        self.steps.append(("hold", rule.removeprefix("e1-"), fields["api"]))
        self._add(rule, **fields)
        self.held[rule] = fields
        if rule == "e1-answer" and self.bad:  # it will be counted as soon as it asks
            self.set(isr=(*self.state.isr, 1))
        if rule == "e1-alone" and len(self.state.replicas) == 3 and fields.get("node") == 1:
            self.alone()

    def alone(self) -> None:
        """Overwritten where followers that fetch nothing leave the set."""

    def remove(self, rule: str) -> Any:
        self.steps.append(("release", rule.removeprefix("e1-")))
        if rule == "e1-late" and self.bad:
            self.set(isr=self.state.replicas)
        return self._remove(rule)


@pytest.mark.parametrize("bad", [True, False])
def test_a_request_about_a_former_life_arrives_in_the_next(ctx: Any, entry: Any, bad: bool) -> None:
    folder = ctx.cluster.root / "t-0"
    folder.mkdir()
    told = Told(ctx, (1, 2), bad)
    fault = build(entry("outdated-expansion", partition="t-0", obeyed_ms=50))
    fault.inject(ctx)
    assert told.steps == [
        ("kill", 2),
        ("hold", "late", "ALTER_PARTITION"),
        ("start", 2),
        ("kill", 2),
        ("hold", "empty", "FETCH"),
        ("start", 2),
        ("release", "late"),
        ("kill", 1),
    ]
    assert not folder.exists()
    assert fault.took_hold
    assert (fault.detail["obeyed"], fault.detail["led"]) == (bad, bad)
    fault.heal(ctx)
    fault.heal(ctx)
    assert told.steps[-2:] == [("release", "empty"), ("start", 1)]
    assert all(ctx.cluster.running.values())
    assert not ctx.frames.rules


@pytest.mark.parametrize("bad", [True, False])
def test_a_leader_of_before_asks_its_successor(ctx: Any, entry: Any, bad: bool) -> None:
    told = Told(ctx, (1, 2, 3), bad)
    fault = build(entry("diverging-fetch", partition="t-0", alone_ms=1, counted_ms=50))
    fault.inject(ctx)
    assert [step[:2] for step in told.steps] == [
        *(("hold", "alone"), ("hold", "few-2"), ("hold", "few-3")),
        *(("kill", 1), ("release", "alone"), ("hold", "answer"), ("start", 1), ("kill", 2)),
    ]
    held = told.held["e1-answer"]
    assert (held["direction"], held["client"]) == ("response", client_of(1)), "to whom it led"
    assert held["node"] == 2
    assert fault.took_hold
    assert (fault.detail["counted"], fault.detail["led"]) == (bad, bad)
    fault.heal(ctx)
    assert all(ctx.cluster.running.values())
    assert not ctx.frames.rules


def test_the_last_of_a_set_loses_its_disk(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (ctx.cluster.root / "t-0").mkdir()
    monkeypatch.setattr(Told, "alone", lambda self: self.set(isr=(1,)))
    told = Told(ctx, (1, 2, 3), False)
    fault = build(entry("last-standing", partition="t-0", elected_ms=20))
    fault.inject(ctx)
    assert [step[:2] for step in told.steps] == [
        *(("hold", "alone"), ("kill", 1), ("release", "alone"), ("start", 1)),
    ]
    assert fault.took_hold
    assert fault.detail["another_led"] is False
    fault.heal(ctx)


def test_a_question_of_the_last_epoch_but_one_is_answered_late(ctx: Any, entry: Any) -> None:
    told = Told(ctx, (1, 2, 3), False)
    reassign = ctx.cluster.reassign

    def as_kafka_does(assignment: Any) -> None:
        told.steps.append(("reassign", told.state.leader_epoch + 1))
        reassign(assignment)
        told.set(leader_epoch=told.state.leader_epoch + 1)

    ctx.cluster.reassign = as_kafka_does
    fault = build(entry("late-epoch-answer", partition="t-0"))
    fault.inject(ctx)
    assert [step[:2] for step in told.steps] == [
        *(("hold", "question"), ("reassign", 3)),
        *(("hold", "told-1"), ("hold", "told-2"), ("reassign", 4), ("release", "question")),
    ]
    held = told.held["e1-question"]
    assert (held["node"], held["client"]) == (1, client_of(2)), (
        "asked of the leader, by one of them"
    )
    assert told.held["e1-told-2"]["action"] == "delay", "what is only counted passes"
    assert fault.detail["epochs"] == [2, 3, 4]
    assert fault.took_hold
    fault.heal(ctx)
    assert not ctx.frames.rules


@pytest.mark.parametrize(
    ("name", "replicas"),
    [
        ("outdated-expansion", (1, 2, 3)),
        ("outdated-expansion", (3, 1)),  # the controller leads
        ("diverging-fetch", (1, 2)),
        ("last-standing", (1, 2)),
        ("last-standing", (3, 1, 2)),
        ("late-epoch-answer", (1,)),
    ],
)
def test_a_partition_that_does_not_fit_is_refused_before_anything_dies(
    ctx: Any, entry: Any, name: str, replicas: tuple[int, ...]
) -> None:
    told = Told(ctx, replicas, True)
    fault = build(entry(name, partition="t-0"))
    with pytest.raises(FaultFailed, match="allowed: "):
        fault.inject(ctx)
    assert told.steps == []


def test_wherever_it_ends_what_is_down_is_started_and_what_is_held_let_go(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(ctx, (1, 2), True)
    monkeypatch.setattr("faults.staged._TIMEOUT_MS", 30)
    ctx.frames.met = 0  # the leader never asks
    fault = build(entry("outdated-expansion", partition="t-0"))
    with pytest.raises(FaultFailed, match="the leader asks for it"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert all(ctx.cluster.running.values())
    assert ("release", "late") in told.steps
    with pytest.raises(PlanError, match=r"params\.partition"):
        build(entry("outdated-expansion", partition="nonsense"))


def test_a_disk_keeps_the_clusters_metadata_and_whose_it_is(tmp_path: Any) -> None:
    for name in ("t-0", "t-1", "__consumer_offsets-2", "__cluster_metadata-0"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.log").write_bytes(b"x")
    for name in ("meta.properties", "replication-offset-checkpoint", "bootstrap.checkpoint"):
        (tmp_path / name).touch()
    assert lose_disk(tmp_path) == ["__consumer_offsets-2", "t-0", "t-1"]
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["__cluster_metadata-0", "bootstrap.checkpoint", "meta.properties"]

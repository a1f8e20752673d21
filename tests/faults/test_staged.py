"""Stories of deaths and waiting frames, on a cluster whose controller obeys, or does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from faults import PlanError, build
from faults.frames import client_of
from faults.protocol import FaultFailed
from faults.staged import remove_logs

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


def as_kafka_does(told: Told) -> None:
    """A reassignment begins a leader epoch."""
    reassign, elect = told.cluster.reassign, told.cluster.elect_preferred

    def reassigned(assignment: Any) -> None:
        told.steps.append(("reassign", assignment[AT][0]))
        reassign(assignment)
        told.set(leader_epoch=told.state.leader_epoch + 1)

    def elected(partitions: Any) -> None:
        told.steps.append(("elect", told.state.replicas[0]))
        elect(partitions)

    told.cluster.reassign, told.cluster.elect_preferred = reassigned, elected


def like(ctx: Any, partition: int, *replicas: int) -> None:
    """Another partition of t."""
    ctx.cluster.add_topic("t", {partition: replicas})


def test_a_question_of_a_former_epoch_is_answered_late(ctx: Any, entry: Any) -> None:
    like(ctx, 1, 1, 2)
    told = Told(ctx, (1, 2, 3), False)
    as_kafka_does(told)
    fault = build(entry("late-epoch-answer", partition="t-0"))
    fault.inject(ctx)
    assert [step[:2] for step in told.steps] == [
        *(("hold", "question"), ("reassign", 3), ("elect", 3), ("reassign", 1)),
        *(("hold", "told-1"), ("hold", "told-2"), ("elect", 1), ("release", "question")),
    ]
    held = told.held["e1-question"]
    assert (held["node"], held["client"]) == (1, client_of(2)), (
        "asked of the leader, by one of them"
    )
    assert told.held["e1-told-2"]["action"] == "delay", "what is only counted passes"
    assert fault.detail["epochs"] == [2, 3, 4, 6]
    assert fault.took_hold
    fault.heal(ctx)
    assert not ctx.frames.rules


def test_a_question_needs_a_connection_that_stays(ctx: Any, entry: Any) -> None:
    """Without another partition to fetch the follower closes it when somebody else leads."""
    told = Told(ctx, (1, 2, 3), False)
    fault = build(entry("late-epoch-answer", partition="t-0"))
    with pytest.raises(FaultFailed, match="another partition like it"):
        fault.inject(ctx)
    assert told.steps == []


def test_a_partition_moves_while_its_follower_asks_about_others(ctx: Any, entry: Any) -> None:
    """The follower is not the controller, which is 3; it goes after the replicas have their order,
    and comes back before they are led by another."""
    like(ctx, 1, 1, 2, 3)
    told = Told(ctx, (1, 3, 2), False)
    as_kafka_does(told)
    stop = ctx.cluster.stop

    def stopped(node: int) -> None:
        told.steps.append(("stop", node))
        stop(node)

    ctx.cluster.stop = stopped
    fault = build(entry("moved-while-asking", partition="t-1", moved="t-0"))
    fault.inject(ctx)
    assert [step[:2] for step in told.steps] == [
        *(("reassign", 3), ("hold", "question"), ("stop", 2), ("start", 2)),
        *(("hold", "told"), ("elect", 3), ("release", "question")),
    ]
    held = told.held["e1-question"]
    assert (held["node"], held["client"]) == (1, client_of(2))
    assert told.held["e1-told"]["action"] == "delay", "what is only counted passes"
    assert fault.took_hold
    fault.heal(ctx)
    assert not ctx.frames.rules


@pytest.mark.parametrize(
    ("asked", "moved"), [((1, 3), (1, 3)), ((1, 2), (1, 2)), ((1, 2, 3), (2, 1, 3))]
)
def test_who_asks_and_who_leads_next_follow_one_leader(
    ctx: Any, entry: Any, asked: tuple[int, ...], moved: tuple[int, ...]
) -> None:
    like(ctx, 1, *asked)
    told = Told(ctx, moved, False)
    fault = build(entry("moved-while-asking", partition="t-1", moved="t-0"))
    with pytest.raises(FaultFailed, match="allowed: one leader"):
        fault.inject(ctx)
    assert told.steps == []
    with pytest.raises(PlanError, match=r"params\.moved"):
        build(entry("moved-while-asking", partition="t-1", moved="nonsense"))


class Ends:
    """Where logs end: broker 1 writes as long as it leads, broker 2 what it is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, told: Told, given: int) -> None:
        self.told, self.given, self.first = told, given, 100
        monkeypatch.setattr("faults.empty_epoch.log_end", self)

    def __call__(self, _ctx: Any, node: int, _topic: str, _partition: int) -> int:
        if node == 1:
            self.first += 5
            return self.first
        led = ("elect", 2) in self.told.steps
        return 100 + (self.given if led else 0)


@pytest.mark.parametrize(("given", "bad"), [(0, True), (0, False), (3, False)])
def test_a_follower_leads_without_a_record(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch, given: int, bad: bool
) -> None:
    told = Told(ctx, (1, 2, 3), bad)
    Ends(monkeypatch, told, given)
    as_kafka_does(told)
    remove = ctx.frames.remove

    def removed(rule: str) -> Any:
        if rule == "e1-alone" and bad:
            told.set(isr=(1, 3))
        return remove(rule)

    ctx.frames.remove = removed
    fault = build(entry("empty-epoch", partition="t-0", dropped_ms=50))
    fault.inject(ctx)
    assert [step[:2] for step in told.steps] == [
        *(("hold", "alone"), ("reassign", 2), ("hold", "untold"), ("hold", "quiet")),
        *(("hold", "led"), ("elect", 2), ("reassign", 1), ("hold", "follows"), ("elect", 1)),
        *(("release", "untold"), ("release", "alone"), ("release", "quiet")),
    ]
    assert told.held["e1-untold"]["node"] == 1, "who led is not told that another does"
    assert told.held["e1-quiet"]["node"] == 2, "who leads now is given nothing"
    assert fault.took_hold == (given == 0), "an epoch with records is none of this"
    assert fault.detail["dropped"] == bad
    fault.heal(ctx)
    assert not ctx.frames.rules


@pytest.mark.parametrize("in_time", [True, False])
def test_a_controller_is_asked_and_loses_its_session(
    ctx: Any, entry: Any, in_time: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    like(ctx, 1, 2, 1)
    told = Told(ctx, (1, 2), False)
    count = ctx.frames.count

    def counted(rule: str) -> Any:
        met = count(rule)
        return met if in_time or "answered" in rule else replace(met, matched=0)

    ctx.frames.count = counted
    broker_epoch, looks = ctx.cluster.broker_epoch, iter(range(99))

    def ends_after_a_while(node: int) -> Any:
        return 103 if node == 3 and in_time and next(looks) < 2 else broker_epoch(node)

    monkeypatch.setattr(ctx.cluster, "broker_epoch", ends_after_a_while)
    add = ctx.frames.add

    def added(rule: str, **fields: Any) -> None:
        add(rule, **fields)
        at = {"e1-out-1": AT, "e1-out-2": ("t", 1)}.get(rule)
        if at is not None:  # the follower falls out
            leader = ctx.cluster.states[at].leader
            ctx.cluster.states[at] = replace(ctx.cluster.states[at], isr=(leader,))

    ctx.frames.add = added
    fault = build(entry("forgotten-expansion", partition="t-0", also="t-1"))
    fault.inject(ctx)
    assert [step[:2] for step in told.steps] == [
        *(("hold", "answered-1"), ("hold", "answered-2"), ("hold", "out-1"), ("hold", "out-2")),
        *(("hold", "asked-1"), ("hold", "asked-2")),
        *(("release", "out-1"), ("release", "out-2")),
    ]
    assert told.held["e1-out-1"]["client"] == client_of(2)
    assert told.held["e1-asked-1"]["client"] == "1", "who asks, whoever is asked"
    assert told.held["e1-answered-1"]["direction"] == "response", "who asks before asks no more"
    links = [call[:2] for call in ctx.cluster.calls if call[0] in ("disable", "enable")]
    assert links == [("disable", 3), ("enable", 3)]
    assert fault.detail["successor"] == 1
    assert fault.took_hold == in_time, "who asks its successor asks nobody who forgets"
    fault.heal(ctx)
    assert not ctx.frames.rules


@pytest.mark.parametrize("bad", [True, False])
def test_an_answer_comes_when_the_leader_has_asked_anew(ctx: Any, entry: Any, bad: bool) -> None:
    told = Told(ctx, (1, 2, 3), bad)
    ctx.frames.met = 3
    add, remove, kill = ctx.frames.add, ctx.frames.remove, ctx.cluster.kill

    def added(rule: str, **fields: Any) -> None:
        add(rule, **fields)
        if rule == "e1-out":
            told.set(isr=(1, 2))

    def removed(rule: str) -> Any:
        if rule == "e1-answer" and not bad:
            told.set(isr=(1, 3))
        return remove(rule)

    def killed(node: int) -> None:
        kill(node)
        told.set(leader_epoch=told.state.leader_epoch + 1)

    ctx.frames.add, ctx.frames.remove, ctx.cluster.kill = added, removed, killed
    fault = build(entry("outlived-answer", partition="t-0", joined_ms=50))
    fault.inject(ctx)
    assert [step[:2] for step in told.steps] == [
        *(("hold", "answer"), ("hold", "out"), ("kill", 2), ("release", "out")),
        *(("hold", "fetches"), ("release", "answer"), ("release", "fetches")),
    ]
    answer = told.held["e1-answer"]
    assert (answer["direction"], answer["client"]) == ("response", "1"), "to the leader"
    assert told.held["e1-out"]["client"] == client_of(3), "the controller follows"
    assert fault.took_hold
    assert fault.detail["leader_epochs"] == [2, 3]
    assert fault.detail["joined"] is not bad
    fault.heal(ctx)
    assert all(ctx.cluster.running.values())
    assert not ctx.frames.rules


def test_a_controller_that_is_never_succeeded_gets_zookeeper_back(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told(ctx, (1, 2), False)
    told.set(isr=(1,))
    monkeypatch.setattr("faults.staged._TIMEOUT_MS", 30)
    monkeypatch.setattr(ctx.cluster, "controller", lambda: 3)
    fault = build(entry("forgotten-expansion", partition="t-0"))
    with pytest.raises(FaultFailed, match="is succeeded"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert not ctx.frames.rules


@pytest.mark.parametrize("cut", [False, True])
def test_a_leader_is_stopped_ahead_of_its_followers_and_leads_again(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    told = Told(ctx, (1, 2, 3), False)
    as_kafka_does(told)
    ends = {1: 100, 2: 100, 3: 99}

    def end(_ctx: Any, node: int, _topic: str, _partition: int) -> int:
        if node == 1 and ctx.cluster.running[1]:
            ends[1] += 4  # it goes on alone
        return ends[node]

    def stop(node: int) -> None:
        told.steps.append(("stop", node))
        if cut:  # it heard of its successor before it ended
            ends[1] = 100
        ctx.cluster.running[node] = False
        told.set(leader=2, isr=(2, 3))

    def start(node: int, *, wait_ready: bool = True) -> None:
        told.steps.append(("start", node))
        ctx.cluster.running[node] = True
        told.set(isr=(1, 2, 3))

    begun = [70, 70, 100, 95]  # the followers have nothing of the one that begins at 100

    def segment(*_: Any) -> int:
        assert not told.steps or ("stop", 1) in told.steps, "it is young when all else begins"
        return begun.pop(0) if len(begun) > 1 else begun[0]

    monkeypatch.setattr("faults.stopped_ahead.log_end", end)
    monkeypatch.setattr("faults.stopped_ahead.segment_start", segment)
    ctx.cluster.stop, ctx.cluster.start = stop, start
    slept: list[tuple[float, int]] = []
    sleep = ctx.sleep
    monkeypatch.setattr(ctx, "sleep", lambda s: (slept.append((s, len(told.steps))), sleep(s)))
    fault = build(entry("stopped-ahead", partition="t-0", records=10, age_ms=30, asked_ms=1))
    fault.inject(ctx)
    assert (0.03, 0) in slept, "the segment comes of age before anything else begins"
    assert [step[:2] for step in told.steps] == [
        *(("hold", "alone"), ("hold", "uncut"), ("stop", 1)),
        *(("release", "alone"), ("release", "uncut"), ("start", 1), ("elect", 1)),
    ]
    assert told.held["e1-alone"]["client"] == f"{client_of(2)}|{client_of(3)}"
    assert told.held["e1-uncut"]["client"] == client_of(1), "it asks nobody where to cut"
    assert "node" not in told.held["e1-uncut"], "whoever leads next"
    assert fault.took_hold is not cut
    assert (fault.detail["shared"], fault.detail["segment"], begun) == (100, 95, [95])
    assert told.state.leader == 1
    fault.heal(ctx)
    assert all(ctx.cluster.running.values())
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
        ("empty-epoch", (1,)),
        ("empty-epoch", (3, 1)),
        ("forgotten-expansion", (1, 2, 3)),
        ("forgotten-expansion", (3, 1)),
        ("outlived-answer", (1, 3)),
        ("outlived-answer", (3, 1, 2)),
        ("stopped-ahead", (1,)),
        ("stopped-ahead", (3, 1)),
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
    assert remove_logs(tmp_path) == ["__consumer_offsets-2", "t-0", "t-1"]
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["__cluster_metadata-0", "bootstrap.checkpoint", "meta.properties"]

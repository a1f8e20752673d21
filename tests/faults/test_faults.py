"""Faults that act on nodes, ZooKeeper links and leadership: what they do, and that they undo it."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults import build, targets
from faults.errors import PlanError
from faults.forged_requests import forge
from faults.leadership import choose_successor, ordered
from faults.protocol import Capability, FaultFailed, Link, PartitionState
from faults.targets import aim, may_move, resolve
from faults.torn_tail import batches, tear
from nodes.wire.records import build_batch, check_crc, iter_batches, iter_records, rewrite_base

STATE = PartitionState("t", 0, 1, 4, (1, 2), (1, 2, 3), 5, 9)


# ---- targets -------------------------------------------------------------------------------------


def test_targets_mean_the_committed_state(cluster: Any) -> None:
    rng = random.Random(0)
    assert resolve(["leader:t-1"], cluster, rng) == [2]
    assert resolve(["controller", "1", "all"], cluster, rng) == [1, 2, 3]
    assert resolve(["not-controller"], cluster, rng)[0] in (2, 3)
    assert resolve(["follower:t-0"], cluster, rng)[0] in (2, 3)
    assert resolve(["successor:t-0"], cluster, rng) == [2]
    assert resolve(["successor:t-1"], cluster, rng) == [3]
    assert may_move(["leader:t-0"])
    assert may_move(["successor:t-0"])
    assert not may_move(["2", "random"])
    with pytest.raises(FaultFailed, match="t-7"):
        resolve(["leader:t-7"], cluster, rng)
    cluster.the_controller = None
    with pytest.raises(FaultFailed, match="controller"):
        resolve(["controller"], cluster, rng)


def test_a_leader_that_is_just_being_replaced_is_waited_for(cluster: Any, ctx: Any) -> None:
    looks = 0
    partitions = cluster.partitions

    def leaderless_at_first(topic: str | None = None) -> Any:
        nonlocal looks
        looks += 1
        states = partitions(topic)
        return [replace(state, leader=-1) for state in states] if looks < 4 else states

    cluster.partitions = leaderless_at_first
    once = random.Random(1)
    meant = [*resolve(["random"], cluster, once), 2]
    assert aim(ctx, ["random", "leader:t-1"], random.Random(1)) == list(dict.fromkeys(meant))
    assert looks == 4


def test_a_leader_that_does_not_come_back_is_no_target(
    cluster: Any, ctx: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "PATIENCE_S", 0.05)
    cluster.states["t", 1] = replace(cluster.states["t", 1], leader=-1)
    with pytest.raises(FaultFailed, match="'leader:t-1': the partition has no leader"):
        aim(ctx, ["leader:t-1"])
    with pytest.raises(FaultFailed, match="t-7 does not exist"):  # will not be: not waited for
        aim(ctx, ["leader:t-7"])


# ---- nodes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "down", "up"),
    [("kill", "kill", "start"), ("stop", "stop", "start"), ("pause", "pause", "resume")],
)
def test_down_at_inject_and_back_at_heal(
    ctx: Any, entry: Any, fault: str, down: str, up: str
) -> None:
    under_test = build(entry(fault, target="leader:t-0", until_unregistered=True))
    under_test.inject(ctx)
    assert ctx.cluster.calls == [(down, 1)]
    assert under_test.took_hold is True
    assert under_test.nodes == [1]
    under_test.heal(ctx)
    under_test.heal(ctx)
    assert ctx.cluster.calls == [(down, 1), (up, 1)]


@pytest.mark.parametrize("able", [True, False])
def test_before_a_kill_clients_may_have_waited_for_answers(
    ctx: Any, entry: Any, able: bool
) -> None:
    if not able:
        ctx.capabilities = frozenset({Capability.KILL})
    slept: list[float] = []
    ctx.sleep = slept.append
    fault = build(entry("kill", target="2", held_ms=40))
    fault.inject(ctx)
    held = [call for call in ctx.cluster.calls if call[0] != "kill"]
    if able:
        first, then, last = ctx.cluster.calls
        assert (first[:3], then, last[:3]) == (
            ("add_toxic", 2, Link.CLIENT),
            ("kill", 2),
            ("remove_toxic", 2, Link.CLIENT),
        )
        assert slept == [0.04]
    else:
        assert not held
        assert not slept
    assert fault.detail["held_ms"] == (40 if able else 0)
    assert not ctx.cluster.toxics
    fault.heal(ctx)
    assert ctx.cluster.calls[-1] == ("start", 2)


def test_a_half_done_kill_is_healed(ctx: Any, entry: Any) -> None:
    real = ctx.cluster.kill

    def kill(node: int) -> None:
        real(node)
        if node == 2:
            raise FaultFailed("the second kill went wrong")

    ctx.cluster.kill = kill
    fault = build(entry("kill", target="all"))
    with pytest.raises(FaultFailed):
        fault.inject(ctx)
    fault.heal(ctx)
    assert all(ctx.cluster.running.values())


def test_missing_capabilities_are_refused(ctx: Any, entry: Any) -> None:
    ctx.capabilities = frozenset({Capability.LINKS})
    with pytest.raises(FaultFailed, match="kill"):
        build(entry("kill")).inject(ctx)
    assert not ctx.cluster.calls


def test_rolling_restart_waits_for_each_to_be_in_sync(ctx: Any, entry: Any) -> None:
    fault = build(entry("rolling-restart"))
    fault.inject(ctx)
    assert ctx.cluster.calls == [(what, n) for n in (1, 2, 3) for what in ("stop", "start")]
    assert fault.detail["restarts"] == 3
    stuck = build(entry("rolling-restart", wait_in_sync_ms=30))
    ctx.cluster.add_topic("u", {0: [3, 1]})
    state = ctx.cluster.states["u", 0]
    ctx.cluster.states["u", 0] = PartitionState("u", 0, 3, 1, (3,), state.replicas, 5, 0)
    with pytest.raises(FaultFailed, match="broker 1 is in every ISR"):
        stuck.inject(ctx)


def test_repeated_kill_and_its_heal_when_stopped_in_the_middle(ctx: Any, entry: Any) -> None:
    fault = build(entry("repeated-kill", target="2", times=2, down_ms=0, up_ms=0))
    fault.inject(ctx)
    assert ctx.cluster.calls == [("kill", 2), ("start", 2)] * 2
    ctx.stopped.set()
    interrupted = build(entry("repeated-kill", target="2"))
    with pytest.raises(RuntimeError):
        interrupted.inject(ctx)
    assert not ctx.cluster.running[2]
    interrupted.heal(ctx)
    assert ctx.cluster.running[2]


# ---- torn tails ----------------------------------------------------------------------------------


def log_of(batch_count: int, *, zeros: int = 0) -> bytes:
    data = bytearray()
    for offset in range(batch_count):
        batch = bytearray(build_batch([(None, b"v" * 100, 1)]))
        rewrite_base(batch, 0, offset, 3)
        data += batch
    return bytes(data) + b"\0" * zeros


@pytest.mark.parametrize("mode", ["torn", "garbage", "scrambled", "cut"])
def test_tearing_leaves_the_whole_batches_before_it(tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    segment = folder / "00000000000000000000.log"
    segment.write_bytes(log_of(3, zeros=4096))
    size = len(log_of(1))
    done = tear(segment, mode, cut_bytes=20, rng=random.Random(1))
    data = segment.read_bytes()
    assert done["end"] == 3 * size
    if mode == "cut":
        assert (done["from_offset"], done["next_offset"]) == (2, 3)
    whole = 2 if mode == "cut" else 3
    assert data[: whole * size] == log_of(3)[: whole * size]
    assert len(data) == 3 * size - 20 if mode == "cut" else len(data) > 3 * size
    found = batches(data)
    assert [b[2] for b in found][:whole] == list(range(1, whole + 1))
    if mode == "torn":  # it looks like the next batch, and is not all there
        base_offset, length = struct.unpack_from(">qi", data, 3 * size)
        assert base_offset == 3
        assert 3 * size + 12 + length > len(data)
        assert len(found) == 3
    if mode == "scrambled":  # it is the next batch in all but its checksum
        assert [b[2] for b in found] == [1, 2, 3, 4]
        assert [check_crc(data, b[0], b[1]) for b in found] == [True, True, True, False]
        assert [r.offset for r in iter_records(data[3 * size :])] == [3]


def test_batches_agree_with_the_brokers_own_reader() -> None:
    data = log_of(5)
    assert [b[0] for b in batches(data)] == [view.position for view in iter_batches(data)]


def test_torn_tail_kills_tears_and_restarts(ctx: Any, entry: Any, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(log_of(2))
    (tmp_path / "u-0").mkdir()
    (tmp_path / "u-0" / "00000000000000000000.log").write_bytes(b"")
    fault = build(entry("torn-tail", target="3"))
    fault.inject(ctx)
    assert fault.detail["partition"] == "t-0"
    assert ctx.cluster.calls == [("kill", 3)]
    fault.heal(ctx)
    assert ctx.cluster.calls == [("kill", 3), ("start", 3)]
    with pytest.raises(FaultFailed, match="u-0"):
        build(entry("torn-tail", target="3", partition="u-0")).inject(ctx)


# ---- leadership ----------------------------------------------------------------------------------


def test_successor_is_live_and_in_sync() -> None:
    rng = random.Random(0)
    assert choose_successor(STATE, "next", {1, 2, 3}, rng) == 2
    assert choose_successor(STATE, "next", {1, 3}, rng) is None
    assert choose_successor(STATE, "3", {1, 2, 3}, rng) is None  # not in sync
    assert choose_successor(STATE, "2", {1, 2, 3}, rng) == 2
    assert choose_successor(STATE, "random", {1, 2, 3}, rng) == 2


def test_moving_leadership_there_and_back(ctx: Any, entry: Any) -> None:
    fault = build(entry("move-leadership", partitions="t-0", times=2, interval_ms=0))
    fault.inject(ctx)
    moves = fault.detail["moves"]
    assert [(m["from"], m["to"]) for m in moves] == [(1, 2), (2, 1)]
    assert moves[0]["to_leader_epoch"] == moves[0]["from_leader_epoch"] + 1
    assert fault.took_hold is True


def test_replicas_are_put_to_the_front_or_turned() -> None:
    assert ordered((1, 2, 3, 4), 3, "front") == [3, 1, 2, 4]
    assert ordered((1, 2, 3, 4), 3, "rotate") == [3, 4, 1, 2]


def test_turning_visits_every_replica(ctx: Any, entry: Any) -> None:
    moving = {"partitions": "t-0", "times": 3, "interval_ms": 0}
    fault = build(entry("move-leadership", order="rotate", **moving))
    fault.prepare(ctx)
    fault.inject(ctx)
    assert [(m["from"], m["to"]) for m in fault.detail["moves"]] == [(1, 2), (2, 3), (3, 1)]
    with pytest.raises(PlanError, match="order"):
        build(entry("move-leadership", order="sideways"))


def test_a_prepared_move_is_one_election(ctx: Any, entry: Any) -> None:
    fault = build(entry("move-leadership", partitions="t-0"))
    fault.prepare(ctx)
    assert ctx.view.partitions("t")[0].leader == 1

    def reassign(_assignment: Any) -> None:
        raise AssertionError("the replicas were reordered before")

    ctx.cluster.reassign = reassign
    fault.inject(ctx)
    assert [(m["from"], m["to"]) for m in fault.detail["moves"]] == [(1, 2)]


def test_a_move_that_was_overtaken_is_prepared_anew(ctx: Any, entry: Any) -> None:
    first = build(entry("move-leadership", partitions="t-0"))
    second = build(entry("move-leadership", partitions="t-0"))
    first.prepare(ctx)
    second.prepare(ctx)
    first.inject(ctx)
    leader = ctx.view.partitions("t")[0].leader
    second.inject(ctx)
    (move,) = second.detail["moves"]
    assert move["from"] == leader
    assert move["to"] != leader
    assert ctx.view.partitions("t")[0].leader == move["to"]


def test_a_leader_that_the_reassignment_moved_already_is_fine(ctx: Any, entry: Any) -> None:
    real = ctx.cluster.reassign

    def reassign(assignment: Any) -> None:
        real(assignment)
        ctx.cluster.elect_preferred(list(assignment))

    ctx.cluster.reassign = reassign
    fault = build(entry("move-leadership", partitions=["t-0"]))
    fault.inject(ctx)
    assert fault.took_hold is True


def test_who_comes_to_lead_by_something_else_was_not_elected(
    ctx: Any, entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller answers that it elected, and did not; later on the leader goes, and is followed
    by whom it should have elected."""
    elect = ctx.cluster.elect_preferred
    asked: list[Any] = []
    monkeypatch.setattr(ctx.cluster, "elect_preferred", asked.append)
    monkeypatch.setattr("faults.leadership._ANSWERED_MS", 50)
    fault = build(entry("move-leadership", partitions="t-0"))
    with pytest.raises(FaultFailed, match="as was answered"):
        fault.inject(ctx)
    assert len(asked) == 1
    assert fault.took_hold is None
    elect(asked[0])
    assert ctx.view.partitions("t")[0].leader == 2


def test_nobody_to_move_to(ctx: Any, entry: Any) -> None:
    for node in (2, 3):
        ctx.cluster.running[node] = False
    with pytest.raises(FaultFailed, match="no other in-sync"):
        build(entry("move-leadership", partitions="t-0")).inject(ctx)


# ---- zombies -------------------------------------------------------------------------------------


def test_a_controller_cut_from_zookeeper(ctx: Any, entry: Any) -> None:
    fault = build(entry("zombie-controller"))
    fault.inject(ctx)
    assert fault.detail["zombie"] == 1
    assert (fault.detail["controller_epoch"], fault.detail["successor_epoch"]) == (5, 6)
    assert ctx.cluster.cut == {(1, Link.ZOOKEEPER)}
    fault.heal(ctx)
    assert not ctx.cluster.cut


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """What the witness says its controller is, one answer after the other; the last one stays."""
    answers: list[int | None] = []

    def next_answer(_address: object, *, timeout_s: float) -> int | None:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    monkeypatch.setattr("faults.zombie_controller.told_controller", next_answer)
    return answers


@pytest.mark.parametrize("how", ["pause", "zookeeper-cut"])
def test_a_backlog_is_let_loose_when_the_witness_has_heard_of_the_successor(
    ctx: Any, entry: Any, told: list[int | None], how: str
) -> None:
    told += [None, 1, -1, 2]
    fault = build(entry("zombie-controller", how=how, backlog=True, speak_ms=0))
    fault.inject(ctx)
    assert told == [2]  # nothing less was enough
    witness = fault.detail["witness"]
    gone = [("pause", 1), ("disable", 1, Link.ZOOKEEPER)]
    assert ctx.cluster.calls == [
        ("disable", witness, Link.CONTROL),
        ("create_topic", "zombie-e1"),
        *(gone if how == "pause" else reversed(gone)),
        ("enable", witness, Link.CONTROL),
        ("resume", 1),
    ]
    assert ctx.cluster.cut == {(1, Link.ZOOKEEPER)}  # it speaks before it can learn
    assert ctx.cluster.states["zombie-e1", 0].replicas == (1, witness)
    assert fault.took_hold is True
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert not ctx.cluster.paused


def test_a_witness_that_never_hears_of_the_successor_fails_and_heals(
    ctx: Any, entry: Any, told: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    told += [1]
    monkeypatch.setattr("faults.zombie_controller._HEARD_TIMEOUT_MS", 30)
    fault = build(entry("zombie-controller", backlog=True))
    with pytest.raises(FaultFailed, match="names the successor"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert not ctx.cluster.paused


def test_where_nobody_can_be_paused_zombie_and_successor_race(ctx: Any, entry: Any) -> None:
    ctx.capabilities -= {Capability.PAUSE}
    fault = build(entry("zombie-controller", backlog=True))
    fault.inject(ctx)
    assert ctx.cluster.calls[-1] == ("enable", fault.detail["witness"], Link.CONTROL)
    assert ("pause", 1) not in ctx.cluster.calls
    fault.heal(ctx)


def test_no_successor_fails_and_heals(ctx: Any, entry: Any) -> None:
    ctx.cluster._settle = lambda: None
    fault = build(entry("zombie-controller", takeover_ms=20, backlog=True))
    with pytest.raises(FaultFailed, match="another controller"):
        fault.inject(ctx)
    fault.heal(ctx)
    assert not ctx.cluster.cut


# ---- churn ---------------------------------------------------------------------------------------


def test_topic_churn_creates_and_deletes(ctx: Any, entry: Any) -> None:
    fault = build(entry("topic-churn", interval_ms=1, keep=1, delete_at_heal=True))
    fault.inject(ctx)
    while fault.detail.get("deleted", 0) < 2:
        ctx.sleep(0.001)
    fault.heal(ctx)
    assert fault.detail["turns"] >= 2
    assert not [tp for tp in ctx.cluster.states if tp[0].startswith("churn-")]


def test_controller_churn_gives_zookeeper_back(ctx: Any, entry: Any) -> None:
    fault = build(entry("controller-churn", interval_ms=1))
    fault.inject(ctx)
    while fault.detail["elections"] < 3:
        ctx.sleep(0.001)
    fault.heal(ctx)
    assert not ctx.cluster.cut
    assert ctx.cluster.the_controller_epoch >= 8


def test_leadership_churn_survives_turns_that_fail(ctx: Any, entry: Any) -> None:
    fault = build(entry("leadership-churn", interval_ms=1, timeout_ms=10))
    fault.inject(ctx)
    assert fault.detail["moves"] >= 2
    ctx.cluster.running |= {1: False, 2: False, 3: False}
    while not fault._background.failures:
        ctx.sleep(0.001)
    fault.heal(ctx)
    assert fault.detail["failed_turns"] >= 1


# ---- forged requests -----------------------------------------------------------------------------

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


# ---- deletion ------------------------------------------------------------------------------------


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


def test_a_deletion_waits_for_a_broker_that_is_away(ctx: Any, entry: Any) -> None:
    deleted: list[str] = []
    start, delete = ctx.cluster.start, ctx.cluster.delete_topic

    def come_back(node: int, **how: Any) -> None:
        start(node, **how)
        delete(deleted[0])

    ctx.cluster.start, ctx.cluster.delete_topic = come_back, deleted.append
    under_test = build(entry("delete-topic-away", partitions=1, target="2", away_ms=1))
    under_test.prepare(ctx)
    under_test.inject(ctx)
    assert deleted == [under_test.topic]
    assert [c[0] for c in ctx.cluster.calls] == ["create_topic", "stop", "start", "delete_topic"]
    assert (under_test.detail["away"], under_test.detail["gone_meanwhile"]) == (2, False)
    assert under_test.took_hold is True
    under_test.heal(ctx)
    assert len(ctx.cluster.calls) == 4


def test_another_controller_is_elected_while_a_deletion_waits(ctx: Any, entry: Any) -> None:
    under_test = build(entry("delete-topic-away", target="2", away_ms=1, succeeded=True))
    under_test.inject(ctx)
    calls = [c[0] for c in ctx.cluster.calls]
    assert calls == ["create_topic", "stop", "delete_topic", "remove_controller", "start"]
    assert (under_test.detail["successor"], under_test.detail["successor_epoch"]) == (2, 6)


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

"""Stale metadata, both ways."""

from __future__ import annotations

import random
from typing import Any

import pytest

from checkers.judging.verdict import Verdict
from checkers.judging.witness import attach
from checkers.promises.stale_metadata import check
from tests.checkers.conftest import Story, judged_together
from tests.checkers.together import Asks, apart, judging


@judging(check)
def test_fresh_reads_are_neither_stale_nor_violations(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.read(10, 1, 0)
    story.commit(20, 2, 1)
    story.read(25, 1, 1, invoke_t=22)
    found = yield story
    assert not found.counts
    assert not found.unknowns
    assert found.arms[story.arm]["stale_reads"] == 0
    assert found.looked_at == 2


@judging(check)
def test_staleness_is_the_time_since_the_next_commit(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(20, 2, 1)
    story.read(70, 1, 0, invoke_t=60)
    found = yield story
    assert not found.counts
    figures = found.arms[story.arm]
    assert figures["stale_reads"] == 1
    assert figures["staleness"]["max_ms"] == 40
    assert figures["staleness"]["p50_ms"] == pytest.approx(40, rel=0.03)


@judging(check)
def test_a_read_under_way_during_the_commit_is_not_stale(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(20, 2, 1)
    story.read(30, 1, 0, invoke_t=19)
    assert (yield story).arms[story.arm]["stale_reads"] == 0


@judging(check)
def test_a_coalesced_watch_implies_the_epoch_between(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(20, 2, 2)  # epoch 1 was never seen
    story.read(30, 1, 1, invoke_t=15)
    story.read(60, 2, 1, invoke_t=50)
    story.commit(9_000, 2, 3)
    found = yield story
    assert not found.counts
    assert found.arms[story.arm]["stale_reads"] == 1


@judging(check)
def test_going_back_is_found_with_its_witness(story: Any, spark: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(20, 2, 1)
    story.read(30, 1, 1)
    story.read(50, 1, 0, invoke_t=40)
    found = yield story
    assert found.counts == {"metadata-went-back": 1}
    (violation,) = attach(story.history(spark), found.findings)
    assert [e["leader_epoch"] for e in violation.events if e["f"] == "metadata"] == [1, 0]


@pytest.mark.parametrize("why", ["overlap", "other node", "restart"])
@judging(check)
def test_no_going_back_when_it_cannot_be_told(story: Any, why: str) -> Asks:
    story.commit(0, 1, 0)
    story.commit(20, 2, 1)
    story.read(30, 1, 1)
    if why == "restart":
        story.add("node_event", 33, node=1, event="kill")
        story.add("node_event", 35, node=1, event="start")
    story.read(50, 2 if why == "other node" else 1, 0, invoke_t=29 if why == "overlap" else 40)
    assert not (yield story).counts


@judging(check)
def test_an_epoch_never_committed_is_found(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.read(30, 1, 4)
    story.commit(5_000, 2, 1)
    assert (yield story).counts == {"metadata-never-committed": 1}


@judging(check)
def test_an_epoch_that_the_watch_may_have_missed_is_not(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(1_000, 2, 1)
    story.read(1_500, 1, 2)  # committed as the watch was being closed
    assert not (yield story).counts


@pytest.mark.parametrize(
    ("lie", "violations"), [("future_leader_epoch", 0), ("stale_controller_epoch", 1)]
)
@judging(check)
def test_a_forged_epoch_is_the_forgers(story: Any, lie: str, violations: int) -> Asks:
    story.commit(0, 1, 0)
    story.add("forged", 20, node=1, api="UPDATE_METADATA", lie=lie, error=0, leader_epoch=5)
    story.read(30, 1, 5)
    story.commit(5_000, 2, 1)
    assert sum((yield story).counts.values()) == violations


@judging(check)
def test_a_topic_made_again_starts_anew(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(10, 2, 1)
    story.commit(20, 2, 2)
    story.read(30, 1, 2)
    story.commit(100, 1, 0)  # deleted and created again between 20 and 100
    story.read(110, 1, 0, invoke_t=105)
    story.read(90, 1, 0, invoke_t=89)
    found = yield story
    assert not found.counts
    assert found.arms[story.arm]["stale_reads"] == 0


@judging(check)
def test_the_end_of_the_watch_is_excused_and_counted(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(1_000, 2, 1)
    story.read(1_500, 1, 2)
    found = yield story
    assert [(e.rule, e.n, e.share) for e in found.excuses()] == [("metadata-never-committed", 1, 1)]
    assert found.verdict()[0] is Verdict.UNKNOWN
    # ZooKeeper's own log misses nothing: then there is nothing to be excused.
    story.add("zk_write", 0, what="broker", step="created", zxid=1)
    assert (yield story).counts == {"metadata-never-committed": 1}
    state = {"leader": 2, "leader_epoch": 2, "partition_epoch": 2, "isr": [2]}
    story.add("zk_write", 1_400, what="state", step="set", zxid=2, **state)
    assert not (yield story).counts


def made_again(story: Any) -> None:
    """Epochs 0 to 2; deleted; epochs 0 and 1 of a namesake. Nodes 1 and 2 had replicas."""
    replicas = {"what": "topic", "replicas": [1, 2]}
    story.add("zk_write", 0, step="created", zxid=1, **replicas)
    for epoch in (0, 1, 2):
        story.commit(10 * epoch, 1, epoch, commit_ms=10 * epoch)
    story.add("topic_deletion", 80, step="requested", commit_ms=80)
    story.add("topic_deletion", 90, step="gone", commit_ms=90)
    story.add("zk_write", 90, what="topic", step="removed", partition=None, zxid=8)
    story.add("zk_write", 95, step="created", zxid=9, **replicas)
    for epoch in (0, 1):
        story.commit(100 + 10 * epoch, 1, epoch, commit_ms=100 + 10 * epoch)


def test_going_back_in_each_life_of_a_topic(spark: Any) -> None:
    wanted: dict[str, tuple[int, list[tuple[int, int]], int]] = {
        "from one life to the next": (1, [(30, 2), (105, 0), (115, 1)], 0),
        "in the first": (1, [(30, 2), (40, 1)], 1),
        "in the second": (1, [(30, 2), (112, 1), (118, 0)], 1),
        "who had no replica may hear of it late": (3, [(30, 2), (95, 2), (105, 0)], 0),
        "under way: nobody knows which": (1, [(82, 2), (92, 1)], 0),
    }
    cases = {name: Story() for name in wanted}
    for name, (node, reads, _) in wanted.items():
        made_again(cases[name])
        for t, epoch in reads:
            cases[name].read(t, node, epoch, invoke_t=t - 1)
    for name, (rules, _) in judged_together(spark, check, cases).items():
        assert rules.get("metadata-went-back", 0) == wanted[name][2], name


@judging(check)
def test_who_came_back_just_now_owes_nothing_yet(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(1_000, 2, 1)
    story.add("phase", 10_000, name="chaos", event="end")
    story.add("phase", 11_000, name="quiesce", event="end")
    story.add("node_event", 15_000, node=1, event="start")
    story.read(16_000, 1, 0)
    for node in (2, 3, 4):
        story.read(16_000, node, 1)
    found = yield story
    assert found.verdict([(story.arm, 0)]) == (Verdict.VALID, [])
    story.rows["node_event"] = []
    assert (yield story).counts == {"metadata-never-converged": 1}


@judging(check)
def test_too_many_that_were_behind_too_early_are_unknown(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(1_000, 2, 1)
    story.add("phase", 10_000, name="chaos", event="end")
    story.add("phase", 11_000, name="quiesce", event="end")
    story.read(12_000, 1, 0)
    story.read(12_000, 2, 1)
    verdict, reasons = (yield story).verdict([(story.arm, 0)])
    assert verdict is Verdict.UNKNOWN
    assert "1 of 2 brokers and partitions were behind" in reasons[0]


@judging(check)
def test_a_lie_lasts_until_the_truth_is_told(story: Any) -> Asks:
    story.commit(0, 1, 0)
    lie = {"lie": "future_controller_epoch", "api": "UPDATE_METADATA", "error": 0}
    story.add("forged", 20, node=1, leader_epoch=5, **lie)
    story.add("metadata_update", 19.5, node=1, leader=1, leader_epoch=5)
    story.read(30, 1, 5)
    for t in range(40, 50):
        story.read(t, 2, 0)
    story.commit(5_000, 2, 1)
    found = yield story
    assert not found.counts
    assert [(e.rule, e.excuse, e.n) for e in found.excuses()] == [
        ("metadata-never-committed", "forged", 1)
    ]
    story.add("metadata_update", 25, node=1, leader=1, leader_epoch=0)
    assert (yield story).counts == {"metadata-never-committed": 1}


@judging(check)
def test_never_converging_is_found_only_after_healing(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(1_000, 2, 1)
    story.add("phase", 10_000, name="chaos", event="end")
    story.add("phase", 11_000, name="quiesce", event="end")
    story.read(14_000, 1, 0)
    assert not (yield story).counts
    story.read(15_500, 1, 0)
    found = yield story
    assert found.counts == {"metadata-never-converged": 1}
    story.add("fault", 500, fault="cut", id="a", phase="injected")
    assert not (yield story).counts  # never healed


@pytest.mark.parametrize(
    ("settling_ms", "last_read", "epoch", "end"),
    [
        (None, 14_900, 0, "not_judged"),
        (None, 15_100, 0, "behind"),
        (2_000, 11_900, 0, "not_judged"),
        (2_000, 12_100, 0, "behind"),
        (2_000, 12_100, 1, "converged"),
        (2_000, 10_001, 1, "converged"),  # however soon
    ],
)
@judging(check)
def test_a_run_says_how_long_brokers_may_take(
    story: Any, settling_ms: int | None, last_read: int, epoch: int, end: str
) -> Asks:
    if settling_ms is not None:
        story.run["expectations"] = {"settling_ms": settling_ms}
    story.commit(0, 1, 0)
    story.commit(1_000, 2, 1)
    story.add("phase", 10_000, name="chaos", event="end")
    story.add("phase", 11_000, name="quiesce", event="end")
    story.read(last_read, 1, epoch)
    found = yield story
    ends = {"converged": 0, "behind": 0, "not_judged": 0}
    assert found.arms[story.arm]["convergence"] == ends | {end: 1}
    assert bool(found.counts) is (end == "behind")


@judging(check)
def test_no_run_may_ask_for_less_where_replicas_never_caught_up(story: Any) -> Asks:
    story.run["expectations"] = {"settling_ms": 2_000}
    story.commit(0, 1, 0)
    story.commit(1_000, 2, 1)
    story.add("phase", 10_000, name="chaos", event="end")
    story.add("phase", 11_000, name="quiesce", event="timeout")
    story.read(19_000, 1, 0)
    found = yield story
    assert found.arms[story.arm]["convergence"]["not_judged"] == 1
    assert not found.counts


@judging(check)
def test_propagation_counts_from_the_commit(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(100, 2, 1)
    for t, epoch in ((50, 0), (130, 1)):
        story.add("metadata_update", t, node=3, leader=1, leader_epoch=epoch, controller_epoch=1)
    story.read(50, 3, 0)
    story.read(150, 3, 1, invoke_t=149)
    figures = (yield story).arms[story.arm]
    assert figures["propagation_applied"]["max_ms"] == 30
    assert figures["propagation_shown"]["max_ms"] == 50
    assert figures["propagation_applied"]["stale_time_ms"] == 30


def flood(story: Any, node: int, begin: int, end: int, fault_id: str = "a") -> None:
    for t, phase in ((begin, "injected"), (end, "heal")):
        story.add("fault", t, fault="flood-produce", id=fault_id, phase=phase, nodes=[node])
    story.add("flood", begin + 1, id=fault_id, node=node, connections=9, sent=1, completed=1)


@judging(check)
def test_the_flooded_broker_is_told_apart_from_those_beside_it(story: Any) -> Asks:
    """Epoch 1 comes before the flood of broker 1, 2 and 3 under it, 4 after it."""
    late = {1: (100, {1: 7, 2: 7}), 2: (1100, {1: 150, 2: 4}), 3: (1500, {1: 170, 2: 6}),
            4: (3000, {1: 9, 2: 9})}  # fmt: skip
    flood(story, 1, 1000, 2000)
    story.commit(0, 1, 0)
    for node in (1, 2):
        story.add("metadata_update", 10, node=node, leader=1, leader_epoch=0)
    for epoch, (t, nodes) in late.items():
        story.commit(t, 1, epoch)
        for node, ms in nodes.items():
            story.add("metadata_update", t + ms, node=node, leader=1, leader_epoch=epoch)
    figures = (yield story).arms[story.arm]
    assert figures["propagation_applied"]["stale_time_ms"] == 150 + 4 + 170 + 6 + 2 * (7 + 9)
    assert figures["propagation_applied_by_node"]["1"]["stale_time_ms"] == 336
    flooded = figures["propagation_applied_flooded"]
    assert (flooded["count"], flooded["stale_time_ms"], flooded["max_ms"]) == (2, 320, 170)
    beside = figures["propagation_applied_beside"]
    assert (beside["count"], beside["stale_time_ms"]) == (2, 10)


@judging(check)
def test_where_nothing_was_flooded_there_is_no_flooded_broker(story: Any) -> Asks:
    story.commit(0, 1, 0)
    story.commit(100, 2, 1)
    for t, epoch in ((50, 0), (130, 1)):
        story.add("metadata_update", t, node=3, leader=1, leader_epoch=epoch)
        story.read(t, 3, epoch)
    figures = (yield apart(story)).arms[story.arm]
    assert not [name for name in figures if "flooded" in name or "beside" in name]


@judging(check)
def test_reads_of_a_flooded_broker_are_timed(story: Any) -> Asks:
    flood(story, 1, 1000, 2000)
    story.commit(0, 1, 0)
    for partition in (0, 1):
        story.read(1400, 1, 0, invoke_t=1200, read=7, partition=partition)
        story.read(1400, 2, 0, invoke_t=1100, read=8, partition=partition)
        story.read(2500, 1, 0, invoke_t=2100, read=9, partition=partition)
    waits = (yield story).arms[story.arm]["reads_flooded"]
    assert (waits["count"], waits["max_ms"]) == (1, 200)


@judging(check)
def test_agrees_with_a_naive_oracle(story: Any) -> Asks:
    rng = random.Random(7)
    commits: dict[int, list[int]] = {}
    for partition in range(4):
        t = 0
        commits[partition] = []
        for epoch in range(30):
            t += rng.randint(1, 40)
            commits[partition].append(t)
            story.commit(t, epoch % 3, epoch, partition=partition)
    expected = []
    for _ in range(800):
        partition, done = rng.randrange(4), rng.randint(5, 700)
        begun = done - rng.randint(0, 4)
        newest = max((e for e, t in enumerate(commits[partition]) if t <= begun), default=0)
        epoch = max(0, newest - rng.choice([0, 0, 0, 1, 2]))
        story.read(done, rng.randrange(3), epoch, partition=partition, invoke_t=begun)
        later = [t for e, t in enumerate(commits[partition]) if e > epoch]
        shown = [
            r["t"] // 1_000_000
            for r in story.rows["metadata"]
            if r["partition"] == partition and r["leader_epoch"] > epoch
        ]
        expected.append((partition, epoch, begun, min(later, default=None), shown))
    stale = sum(1 for *_, begun, over, _ in expected if over is not None and over < begun)
    assert (yield story).arms[story.arm]["stale_reads"] == stale

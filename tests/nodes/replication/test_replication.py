"""Replication between brokers: ISR, high watermark, acknowledgements, failover, truncation."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from nodes.coordination.errors import SessionExpired
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.mutants import rules_with
from nodes.replication.model import FetchParams, FetchPartitionRequest, ProduceResult
from nodes.replication.partition import Partition
from tests.nodes.replication.conftest import (
    LAG_MAX_MS,
    PATIENT_LAG_MAX_MS,
    TP,
    Broker,
    ClusterFactory,
    MemoryCluster,
    Waiter,
    answer_of,
    batch,
    wait_for,
)


def caught_up(cluster: MemoryCluster, *broker_ids: int) -> None:
    leader = cluster.brokers[cluster.controller.states[TP].leader]
    end = leader.partition().local_log().log_end_offset
    for broker_id in broker_ids:
        log = cluster.brokers[broker_id].partition().local_log()
        wait_for(lambda log=log: log.log_end_offset == end, what=f"broker {broker_id} catches up")


def known_to_have(leader: Broker, follower_id: int, end: int) -> None:
    """Who has all that the leader has does not lag, however long it takes to its next fetch."""
    partition = leader.partition()
    wait_for(lambda: partition.followers[follower_id].log_end_offset == end)


def test_followers_copy_and_the_high_watermark_follows(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    cluster.create()
    leader = cluster.brokers[1]
    for value in range(5):
        assert answer_of(leader.produce(value, acks=-1)) == ProduceResult(0, value, -1, 0)
    assert leader.partition().high_watermark == 5
    for follower in (cluster.brokers[2], cluster.brokers[3]):
        assert follower.values() == [0, 1, 2, 3, 4]
        wait_for(lambda f=follower: f.partition().high_watermark == 5)
        # A consumer that may read followers gets what is committed there.
        assert follower.consume(may_read_follower=True).high_watermark == 5
        assert follower.consume().error == Errors.NOT_LEADER_OR_FOLLOWER
    assert cluster.isr() == {1, 2, 3}


def test_acks_one_answers_before_replication(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    cluster.create()
    cluster.cut = {frozenset({1, 2}), frozenset({1, 3})}
    leader = cluster.brokers[1]
    assert answer_of(leader.produce(1, acks=1)).error == 0
    assert leader.consume().records == b""
    waiting = leader.produce(2, acks=-1)
    assert not waiting.is_answered
    cluster.cut = set()
    assert answer_of(waiting).error == 0


def test_a_lagging_follower_leaves_the_isr_and_comes_back(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    cluster.create()
    leader = cluster.brokers[1]
    assert answer_of(leader.produce(0, acks=-1)).error == 0
    cluster.cut = {frozenset({1, 3})}
    waiting = leader.produce(1, acks=-1)
    known_to_have(leader, 2, 2)
    assert not waiting.is_answered
    cluster.notice_lag()
    assert answer_of(waiting).error == 0, "it commits once 3 has left the ISR"
    assert cluster.isr() == {1, 2}
    shrinks, expands = (f"kafka.server:type=ReplicaManager,name=Isr{n}PerSec" for n in _CHANGES)
    wait_for(lambda: leader.metrics.value(shrinks) == 1)
    assert leader.metrics.value(expands) == 0
    cluster.cut = set()
    wait_for(lambda: cluster.isr() == {1, 2, 3}, what="3 joins again")
    assert cluster.brokers[3].values() == [0, 1]
    changes = wait_for(lambda: len(leader.trace("isr_change")) >= 2 and leader.trace("isr_change"))
    assert [row["isr"] for row in changes] == [[1, 2], [1, 2, 3]]
    assert leader.metrics.value(shrinks) == 1
    wait_for(lambda: leader.metrics.value(expands) == 1)


_CHANGES = ("Shrinks", "Expands")


@pytest.mark.slow
def test_too_small_an_isr_refuses_acks_all_and_stops_the_high_watermark(
    make_cluster: ClusterFactory,
) -> None:
    cluster = make_cluster()
    cluster.create()
    leader = cluster.brokers[1]
    cluster.cut = {frozenset({1, 2}), frozenset({1, 3})}
    leader.produce(0)
    early = leader.produce(1, acks=-1, timeout_ms=LAG_MAX_MS * 4)
    cluster.notice_lag()
    wait_for(lambda: leader.partition().isr_state.isr == {1}, what="the ISR shrinks to the leader")
    assert answer_of(leader.produce(2, acks=-1)).error == Errors.NOT_ENOUGH_REPLICAS
    assert answer_of(leader.produce(2, acks=1)).error == 0
    assert leader.partition().high_watermark == 0
    assert leader.partition().is_under_min_isr
    assert answer_of(early).error == Errors.REQUEST_TIMED_OUT
    assert leader.values() == [0, 1, 2], "what timed out is in the log all the same"


def test_a_delayed_produce_ends_when_the_leader_resigns(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    cluster.create()
    cluster.cut = {frozenset({1, 2}), frozenset({1, 3})}
    old = cluster.brokers[1]
    waiting = old.produce(1, acks=-1)
    cluster.controller.elect(TP, 2)
    cluster.controller.tell(1)
    assert answer_of(waiting).error == Errors.NOT_LEADER_OR_FOLLOWER


def test_regained_leadership_does_not_acknowledge_what_was_cut(
    make_cluster: ClusterFactory,
) -> None:
    cluster = make_cluster()
    cluster.create()
    partition = cluster.brokers[1].partition()
    append = partition.append_as_leader(batch(1), -1)
    cluster.controller.elect(TP, 2)
    cluster.controller.tell_all()
    cluster.controller.elect(TP, 1)
    cluster.controller.tell_all()
    done, error = partition.acknowledgement(append.info.last_offset + 1, append.leader_epoch)
    assert (done, error) == (True, Errors.NOT_LEADER_OR_FOLLOWER)


def test_acks_one_loss_is_cut_from_the_old_leader(make_cluster: ClusterFactory) -> None:
    """The truncation that KIP-291 is about: appended after the new leader was elected."""
    cluster = make_cluster()
    cluster.create()
    old = cluster.brokers[1]
    for value in range(3):
        answer_of(old.produce(value, acks=-1))
    cluster.controller.elect(TP, 2)
    cluster.controller.tell(2)
    cluster.controller.tell(3)
    doomed = answer_of(old.produce(100, acks=1))
    assert (doomed.error, doomed.base_offset) == (0, 3)
    assert answer_of(cluster.brokers[2].produce(3, acks=1)).error == 0
    cluster.controller.tell(1)
    wait_for(lambda: old.values() == [0, 1, 2, 3], what="broker 1 has cut and caught up")
    (cut,) = old.trace("truncation")
    assert (cut["from_offset"], cut["to_offset"], cut["leader_epoch"]) == (4, 3, 1)
    caught_up(cluster, 1, 3)
    roles = [
        (row["role"], row["leader"], row["leader_epoch"]) for row in old.trace("leader_change")
    ]
    assert roles == [("leader", 1, 0), ("follower", 2, 1)]


def test_a_cut_is_told_before_it_is_made(
    make_cluster: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a broker that is killed in between nobody else would know where the records went."""
    cluster = make_cluster()
    cluster.create()
    old = cluster.brokers[1]
    cluster.controller.elect(TP, 2)
    cluster.controller.tell(2)
    cluster.controller.tell(3)
    assert answer_of(old.produce(100, acks=1)).error == 0
    assert answer_of(cluster.brokers[2].produce(0, acks=1)).error == 0
    ends: list[int] = []
    tell = old.manager.truncated

    def told(tp: TopicPartition, *args: Any) -> None:
        partition = old.manager.partition(tp)
        assert partition is not None
        ends.append(partition.local_log().log_end_offset)
        tell(tp, *args)

    monkeypatch.setattr(old.manager, "truncated", told)
    cluster.controller.tell(1)
    wait_for(lambda: old.values() == [0], what="broker 1 has cut and caught up")
    assert ends == [1]


def test_who_comes_to_lead_tells_of_its_log_as_nobody_had_written_or_fetched(
    make_cluster: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who follows it already may fetch, and commit, what only it had, before it comes to tell."""
    cluster = make_cluster()
    cluster.create()
    for value in range(3):
        answer_of(cluster.brokers[1].produce(value, acks=-1))
    caught_up(cluster, 3)
    lead = Partition.make_leader

    def written_to_at_once(partition: Partition, state: Any) -> bool:
        was_not = lead(partition, state)
        partition.append_as_leader(batch(3), -1)
        partition.high_watermark = 4
        return was_not

    before = cluster.brokers[3].partition().high_watermark
    monkeypatch.setattr(Partition, "make_leader", written_to_at_once)
    cluster.controller.elect(TP, 3)
    cluster.controller.tell(3)
    told = cluster.brokers[3].trace("leader_change")[-1]
    assert (told["role"], told["log_end_offset"]) == ("leader", 3)
    assert before <= told["high_watermark"] <= 3


def test_several_lost_epochs_are_cut_round_by_round(make_cluster: ClusterFactory) -> None:
    """KIP-279: two brokers led in turn, in epochs that the other never saw."""
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.create()
    answer_of(cluster.brokers[1].produce(0, acks=-1))
    cluster.cut = {frozenset({1, 2})}
    for turn in range(3):
        for leader in (1, 2):
            cluster.controller.elect(TP, leader)
            cluster.controller.tell(leader)
            answer_of(cluster.brokers[leader].produce(10 * turn + leader, acks=1))
    cluster.cut = set()
    cluster.controller.tell(1)
    wait_for(lambda: cluster.brokers[1].values() == cluster.brokers[2].values())
    assert cluster.brokers[2].values() == [0, 2, 12, 22]
    assert [
        cluster.brokers[1].partition().local_log().end_offset_for_epoch(e) for e in range(7)
    ] == [cluster.brokers[2].partition().local_log().end_offset_for_epoch(e) for e in range(7)]


def test_a_leader_that_wrote_nothing_follows_without_a_cut(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    cluster.create()
    answer_of(cluster.brokers[1].produce(0, acks=-1))
    cluster.cut = {frozenset({2, 1}), frozenset({2, 3})}
    cluster.controller.elect(TP, 2)
    cluster.controller.tell(2)
    cluster.controller.elect(TP, 1)
    cluster.controller.tell_all()
    cluster.cut = set()
    assert answer_of(cluster.brokers[1].produce(1, acks=-1)).error == 0
    wait_for(lambda: cluster.brokers[2].values() == [0, 1])
    assert cluster.brokers[2].trace("truncation") == []


def test_a_restarted_follower_keeps_what_was_committed(make_cluster: ClusterFactory) -> None:
    """No high watermark was checkpointed before the crash; cutting to it would lose all."""
    cluster = make_cluster()
    cluster.create()
    for value in range(4):
        answer_of(cluster.brokers[1].produce(value, acks=-1))
    cluster.kill(2)
    follower = cluster.start(2)
    cluster.controller.tell_metadata(2)
    cluster.cut = {frozenset({1, 2}), frozenset({2, 3})}
    cluster.controller.elect(TP, 1)
    cluster.controller.tell(2)
    assert follower.values() == [0, 1, 2, 3]
    cluster.controller.elect(TP, 2)
    cluster.cut = set()
    cluster.controller.tell_all()
    assert answer_of(follower.produce(4, acks=-1)).error == 0
    wait_for(lambda: cluster.brokers[1].values() == [0, 1, 2, 3, 4])


def test_high_watermarks_survive_a_checkpoint(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster(brokers=1, min_isr=1)
    cluster.create()
    answer_of(cluster.brokers[1].produce(0, acks=-1))
    cluster.alive.discard(1)
    cluster.brokers[1].manager.shutdown(checkpoint=True)
    cluster.brokers[1].log_manager.close()
    again = cluster.start(1)
    again.manager.checkpoint_high_watermarks()
    assert again.log_manager.read_high_watermarks() == {TP: 1}, "kept until the partition is known"
    cluster.controller.elect(TP, 1)
    cluster.controller.tell(1)
    assert again.partition().high_watermark == 1


def test_retention_on_the_leader_starts_a_late_follower_over(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.create()
    cluster.cut = {frozenset({1, 2})}
    leader, follower = cluster.brokers[1], cluster.brokers[2]
    for value in range(6):
        leader.produce(value)
    cluster.notice_lag()
    wait_for(lambda: leader.partition().high_watermark == 6, what="the ISR shrinks to the leader")
    leader.partition().local_log().advance_log_start_offset(4, "test")
    cluster.cut = set()
    wait_for(lambda: cluster.isr() == {1, 2})
    assert follower.partition().local_log().log_start_offset == 4
    assert follower.values()[-2:] == [4, 5]


def test_an_unclean_leader_is_shorter_than_its_follower(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.create()
    cluster.cut = {frozenset({1, 2})}
    for value in range(3):
        cluster.brokers[1].produce(value)
    cluster.notice_lag()
    wait_for(lambda: cluster.isr() == {1})
    cluster.notice_lag(PATIENT_LAG_MAX_MS)
    cluster.controller.elect(TP, 2, (2,))
    cluster.controller.tell_all()
    cluster.cut = set()
    answer_of(cluster.brokers[2].produce(50))
    wait_for(lambda: cluster.brokers[1].values() == [50])
    (cut,) = cluster.brokers[1].trace("truncation")
    assert (cut["from_offset"], cut["to_offset"]) == (3, 0)


@pytest.mark.parametrize("unread_first", [True, False])
def test_configs_that_cannot_be_read_hold_up_their_own_partition_only(
    make_cluster: ClusterFactory, monkeypatch: pytest.MonkeyPatch, unread_first: bool
) -> None:
    """A session that ends in the middle of a LeaderAndIsr: what came before is followed, and what
    did not get through is taken when it is sent again."""
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.create()
    unread = TopicPartition("unread", 0)
    cluster.create(tp=unread)
    cluster.kill(2)
    cluster.brokers[1].produce(5)
    follower = cluster.start(2)

    def expired(topic: str) -> dict[str, str]:
        if topic == unread.topic:
            raise SessionExpired
        return {}

    controller = cluster.controller
    controller.tell_metadata(2)
    orders = [controller.leader_and_isr(unread), controller.leader_and_isr(TP)]
    if not unread_first:
        orders.reverse()
    both = replace(orders[0], topic_states=tuple(t for o in orders for t in o.topic_states))
    with monkeypatch.context() as patched:
        patched.setattr(follower.manager, "_topic_overrides", expired)
        result = follower.manager.become_leader_or_follower(1, both)
    errors = {(row.topic, row.error) for row in result.partition_errors}
    assert errors == {("t", 0), ("unread", Errors.UNKNOWN_SERVER_ERROR)}
    wait_for(lambda: follower.values() == [5])
    assert controller.tell(2, unread) == 0
    cluster.brokers[1].produce(7, tp=unread)
    wait_for(lambda: follower.values(unread) == [7])


def test_a_fetch_waits_for_records_and_is_woken(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster(brokers=1, min_isr=1)
    cluster.create()
    broker = cluster.brokers[1]
    waiter = Waiter()
    request = [(TP, FetchPartitionRequest(0, -1, 1 << 20))]
    broker.manager.fetch_messages(FetchParams(max_wait_ms=60_000), request, waiter)
    assert not waiter.is_answered
    broker.produce(7)
    assert len(waiter.wait()[0][1].records) == len(batch(7))
    idle = Waiter()
    begun = time.monotonic()
    at_end = [(TP, FetchPartitionRequest(1, -1, 1 << 20))]
    broker.manager.fetch_messages(FetchParams(max_wait_ms=50), at_end, idle)
    assert idle.wait()[0][1] == (0, 1, 1, 0, b"", -1, None)
    assert time.monotonic() - begun >= 0.05
    larger = Waiter()
    params = FetchParams(max_wait_ms=60_000, min_bytes=len(batch(8)) * 2)
    broker.manager.fetch_messages(params, at_end, larger)
    broker.produce(8)
    assert not larger.is_answered
    broker.produce(9)
    assert larger.wait()
    assert [waiter.calls, idle.calls, larger.calls] == [1, 1, 1]


def test_limits_of_a_fetch(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster(brokers=1, min_isr=1)
    other = TopicPartition("t", 1)
    cluster.create()
    cluster.create(tp=other)
    broker = cluster.brokers[1]
    for tp in (TP, other):
        for value in range(3):
            broker.produce(value, tp=tp)
    size = len(batch(0))
    waiter = Waiter()
    requests = [(tp, FetchPartitionRequest(0, -1, size)) for tp in (TP, other)]
    broker.manager.fetch_messages(FetchParams(max_bytes=size + 1), requests, waiter)
    assert [len(result.records) for _tp, result in waiter.wait()] == [size, 0]
    assert broker.consume(99).error == Errors.OFFSET_OUT_OF_RANGE


def test_many_partitions_answer_together(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    other = TopicPartition("t", 1)
    cluster.create()
    cluster.create(tp=other)
    unknown = TopicPartition("nowhere", 0)
    waiter = Waiter()
    entries = {TP: batch(1), other: batch(2), unknown: batch(3)}
    cluster.brokers[1].manager.append_records(60_000, -1, entries, waiter)
    results = waiter.wait()
    assert [results[tp].error for tp in entries] == [0, 0, 3]
    refused = Waiter()
    cluster.brokers[1].manager.append_records(5000, 2, {TP: batch(4)}, refused)
    assert refused.wait()[TP].error == Errors.INVALID_REQUIRED_ACKS
    corrupt = bytearray(batch(5))
    corrupt[-1] ^= 1
    broken = Waiter()
    cluster.brokers[1].manager.append_single(TP, bytes(corrupt), -1, 5000, broken)
    assert broken.wait().error == Errors.CORRUPT_MESSAGE


@pytest.mark.parametrize("timeout_ms", [-(2**31), -1, 2**31 - 1])
def test_extreme_timeouts(
    make_cluster: ClusterFactory, monkeypatch: pytest.MonkeyPatch, timeout_ms: int
) -> None:
    """In the past: answered at once, if the records are not committed by then. Far away: the
    answer still comes with the commit, or once the client has gone."""
    monkeypatch.setattr("nodes.replication.purgatory.SWEEP_NS", 10_000_000)
    cluster = make_cluster()
    cluster.create()
    leader = cluster.brokers[1]
    purgatory = leader.manager._produces
    committed = leader.produce(1, acks=-1, timeout_ms=timeout_ms)
    assert committed.wait().error in (0, Errors.REQUEST_TIMED_OUT)
    cluster.brokers[2].manager.fetchers.shutdown()
    cluster.brokers[3].manager.fetchers.shutdown()
    stuck = Waiter()
    gone = timeout_ms < 0
    leader.manager.append_single(TP, batch(2), -1, timeout_ms, stuck, lambda: gone)
    if not gone:
        assert not stuck.is_answered
        assert purgatory.delayed == 1
        gone = True
    assert stuck.wait().error == Errors.REQUEST_TIMED_OUT
    wait_for(lambda: (purgatory.size, purgatory.delayed, purgatory.watched) == (0, 0, {}))


def test_proposals_wait_for_a_controller(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    cluster.create()
    leader = cluster.brokers[1]
    answer_of(leader.produce(0, acks=-1))
    cluster.controller.is_reachable = False
    cluster.cut = {frozenset({1, 3})}
    waiting = leader.produce(1, acks=-1)
    known_to_have(leader, 2, 2)
    cluster.notice_lag()
    wait_for(lambda: leader.partition().isr_state.is_inflight, what="the shrink is proposed")
    assert not waiting.is_answered, "3 counts until the controller has agreed"
    cluster.controller.is_reachable = True
    assert answer_of(waiting).error == 0
    assert cluster.isr() == {1, 2}


class Producers:
    """Threads that produce unique values with acks=all to whoever leads, and note what was
    acknowledged at which offset."""

    def __init__(self, cluster: MemoryCluster, threads: int = 4) -> None:
        self._cluster = cluster
        self._step = threads
        self._stop = threading.Event()
        self.acknowledged: dict[int, int] = {}
        self._threads = [threading.Thread(target=self._run, args=(i,)) for i in range(threads)]

    def __enter__(self) -> Producers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def progress(self, count: int, what: str) -> None:
        target = len(self.acknowledged) + count
        wait_for(lambda: len(self.acknowledged) >= target, what=what)

    def _run(self, value: int) -> None:
        while not self._stop.is_set():
            value += self._step
            leader_id = self._cluster.controller.states[TP].leader
            broker = self._cluster.brokers[leader_id]
            waiter = broker.produce(value, acks=-1, timeout_ms=1500)
            while not waiter.answered_within(0.02) and self._cluster.is_running(broker):
                pass  # who was killed answers no more
            if waiter.is_answered and waiter.value.error == 0:
                self.acknowledged[value] = waiter.value.base_offset
            else:
                self._stop.wait(0.002)


def assert_nothing_was_lost(cluster: MemoryCluster, acknowledged: dict[int, int]) -> None:
    """Every acknowledged record is at its offset, and all replicas agree."""
    wait_for(lambda: cluster.isr() == set(cluster.brokers), what="the full ISR")
    caught_up(cluster, *cluster.brokers)
    log = cluster.brokers[cluster.controller.states[TP].leader].values()
    for value, offset in acknowledged.items():
        assert log[offset] == value
    for broker in cluster.brokers.values():
        assert broker.values() == log


def test_killing_each_leader_in_turn_loses_nothing(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    cluster.create()
    with Producers(cluster) as producers:
        for _turn in range(3):
            victim = cluster.controller.states[TP].leader
            producers.progress(40, "before the kill")
            cluster.kill(victim)
            cluster.fail_over()
            producers.progress(20, "with one dead")
            cluster.start(victim)
            cluster.fail_over()
            wait_for(lambda: cluster.isr() == {1, 2, 3}, what="the full ISR")
    assert len(producers.acknowledged) > 150
    assert_nothing_was_lost(cluster, producers.acknowledged)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_random_kills_moves_and_cuts_lose_nothing(make_cluster: ClusterFactory, seed: int) -> None:
    """At most one broker is dead or cut off at a time; with two in sync nothing may go."""
    random = Random(seed)
    cluster = make_cluster()
    cluster.create()
    with Producers(cluster) as producers:
        for _step in range(8):
            producers.progress(random.randrange(1, 30), "between faults")
            victim = random.choice((1, 2, 3))
            match random.choice(("kill", "move", "cut")):
                case "kill":
                    cluster.kill(victim)
                    cluster.fail_over()
                    producers.progress(5, f"with {victim} dead")
                    cluster.start(victim)
                    cluster.fail_over()
                case "move" if victim in cluster.isr():
                    # The others hear of it first: the old leader goes on appending meanwhile.
                    old = cluster.controller.states[TP].leader
                    cluster.controller.elect(TP, victim)
                    for broker_id in sorted({1, 2, 3} - {old}):
                        cluster.controller.tell(broker_id)
                    cluster.brokers[old].produce(-1 - victim, acks=1)
                    cluster.controller.tell(old)
                case _:
                    cluster.cut = {frozenset({victim, other}) for other in {1, 2, 3} - {victim}}
                    cluster.notice_lag()
                    time.sleep(random.random() * LAG_MAX_MS / 500)
                    cluster.cut = set()
                    # From here on two stay in sync, also when one is killed next.
                    cluster.notice_lag(PATIENT_LAG_MAX_MS)
            wait_for(lambda: cluster.isr() == {1, 2, 3}, what="the full ISR")
    assert_nothing_was_lost(cluster, producers.acknowledged)


def test_planted_bugs_do_what_they_say(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    for broker_id, names in ((1, ["ack-before-replication", "double-append"]), (2, [])):
        cluster.kill(broker_id)
        cluster.start(broker_id, rules_with(names))
    cluster.create()
    cluster.cut = {frozenset({1, 2}), frozenset({1, 3})}
    leader = cluster.brokers[1]
    assert answer_of(leader.produce(5, acks=-1)).error == 0
    assert leader.values() == [5, 5]
    assert leader.partition().high_watermark == 0


def test_cutting_at_the_high_watermark_loses_committed_records(
    make_cluster: ClusterFactory,
) -> None:
    cluster = make_cluster()
    cluster.kill(2)
    cluster.start(2, rules_with(["truncate-to-high-watermark"]))
    cluster.create()
    for value in range(3):
        answer_of(cluster.brokers[1].produce(value, acks=-1))
    follower = cluster.brokers[2]
    cluster.cut = {frozenset({1, 2}), frozenset({2, 3})}
    cluster.kill(2)
    follower = cluster.start(2, rules_with(["truncate-to-high-watermark"]))
    cluster.controller.elect(TP, 1)
    cluster.controller.tell(2)
    wait_for(lambda: follower.values() == [], what="all is cut: nothing was checkpointed")


def test_never_truncating_leaves_logs_that_differ(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.kill(1)
    cluster.start(1, rules_with(["never-truncate"]))
    cluster.create()
    answer_of(cluster.brokers[1].produce(0, acks=-1))
    cluster.cut = {frozenset({1, 2})}
    cluster.controller.elect(TP, 2)
    cluster.controller.tell(2)
    cluster.brokers[1].produce(100)
    for value in (1, 2):
        cluster.brokers[2].produce(value)
    cluster.cut = set()
    cluster.controller.tell(1)
    wait_for(lambda: cluster.brokers[1].values() == [0, 100, 2])
    assert cluster.brokers[2].values() == [0, 1, 2]

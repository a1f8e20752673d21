"""Planted bugs in replication, on brokers joined in memory: what each does that it should not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nodes.core.errors import Errors
from nodes.core.truncation import EpochEnd
from nodes.mutants import rules_with
from nodes.replication.model import FetchParams, FetchPartitionRequest
from tests.nodes.replication.conftest import (
    TP,
    Broker,
    ClusterFactory,
    MemoryCluster,
    Waiter,
    answer_of,
    batch,
    wait_for,
)
from tests.nodes.replication.test_fencing import stop_replica

With = Callable[..., MemoryCluster]


@pytest.fixture
def pair(make_cluster: ClusterFactory) -> With:
    """Two brokers with these bugs, or more, the first leading in epoch 0."""

    def made(*names: str, min_isr: int = 1, brokers: int = 2) -> MemoryCluster:
        cluster = make_cluster(brokers=brokers, min_isr=min_isr)
        for broker_id in list(cluster.brokers):
            cluster.kill(broker_id)
            cluster.start(broker_id, rules_with(names))
        cluster.create()
        return cluster

    return made


def depose(cluster: MemoryCluster) -> Broker:
    """Broker 1 is told that broker 2 leads."""
    cluster.controller.elect(TP, 2)
    cluster.controller.tell(1)
    return cluster.brokers[1]


@pytest.mark.parametrize(
    ("names", "error"), [((), Errors.NOT_LEADER_OR_FOLLOWER), (("append-as-follower",), 0)]
)
def test_a_deposed_leader_is_asked_to_append(
    pair: With, names: tuple[str, ...], error: int
) -> None:
    cluster = pair(*names)
    cluster.cut = {frozenset({1, 2})}
    assert answer_of(depose(cluster).produce(7)).error == error


@pytest.mark.parametrize(
    ("names", "error"), [((), Errors.NOT_LEADER_OR_FOLLOWER), (("ack-after-demotion",), 0)]
)
def test_what_waits_when_its_leader_is_deposed(
    pair: With, names: tuple[str, ...], error: int
) -> None:
    cluster = pair(*names)
    cluster.cut = {frozenset({1, 2})}
    waiting = cluster.brokers[1].produce(7, acks=-1)
    assert not waiting.is_answered
    depose(cluster)
    assert answer_of(waiting).error == error


@pytest.mark.parametrize(("names", "given"), [((), True), (("skip-an-offset",), False)])
def test_a_consumer_is_given_what_it_asked_for(
    pair: With, names: tuple[str, ...], given: bool
) -> None:
    cluster = pair(*names)
    leader = cluster.brokers[1]
    for value in (0, 1):
        assert answer_of(leader.produce(value, acks=-1)).error == 0
    # Both batches, or the second alone.
    assert len(leader.consume(0).records) == (2 if given else 1) * len(batch(0))
    # Followers are given all of it.
    assert cluster.brokers[2].values() == [0, 1]


@pytest.mark.parametrize(("names", "taken"), [((), 2), (("keep-follower-watermark",), 0)])
def test_a_followers_high_watermark(pair: With, names: tuple[str, ...], taken: int) -> None:
    cluster = pair(*names)
    leader, follower = cluster.brokers[1], cluster.brokers[2].partition()
    for value in (0, 1):
        assert answer_of(leader.produce(value, acks=-1)).error == 0
    if taken:
        wait_for(lambda: follower.high_watermark == taken)
    wait_for(lambda: follower.local_log().log_end_offset == 2)
    assert follower.high_watermark == taken


@pytest.mark.parametrize(
    ("names", "sent"), [((), True), (("lose-isr-changes",), False), (("never-expand-isr",), False)]
)
def test_a_follower_that_has_caught_up_joins(
    pair: With, names: tuple[str, ...], sent: bool
) -> None:
    cluster = pair(*names)
    cluster.controller.elect(TP, 1, (1,))
    cluster.controller.tell_all()
    leader = cluster.brokers[1]
    assert answer_of(leader.produce(0)).error == 0
    wait_for(lambda: cluster.brokers[2].values() == [0])
    if sent:
        wait_for(lambda: cluster.isr() == {1, 2})
    else:
        # The next fetch says that the follower has it all; proposals are made with that.
        wait_for(lambda: leader.partition().followers[2].log_end_offset == 1)
        assert cluster.controller.requests == []


@pytest.mark.parametrize(
    ("names", "delete", "kept"),
    [
        ((), True, False),
        ((), False, True),
        (("keep-deleted-logs",), True, True),
        (("delete-at-every-stop",), False, False),
    ],
)
def test_what_a_stop_deletes(pair: With, names: tuple[str, ...], delete: bool, kept: bool) -> None:
    broker = pair(*names).brokers[1]
    directory = broker.partition().local_log().dir
    result = broker.manager.stop_replicas(1, stop_replica(delete=delete))
    assert not any(row.error for row in result.partition_errors)
    assert (broker.manager.partition(TP) is None) is delete
    assert directory.exists() is kept


@pytest.mark.parametrize(("names", "applied"), [((), False), (("apply-what-is-refused",), True)])
def test_a_leader_epoch_that_is_refused(pair: With, names: tuple[str, ...], applied: bool) -> None:
    cluster = pair(*names)
    cluster.controller.elect(TP, 1)
    cluster.controller.tell_all()
    broker = cluster.brokers[1]
    old = cluster.controller.leader_and_isr(state={"leader": 2, "leader_epoch": 0})
    result = broker.manager.become_leader_or_follower(77, old)
    assert [row.error for row in result.partition_errors] == [Errors.STALE_CONTROLLER_EPOCH]
    assert broker.partition().is_leader is not applied
    assert (77 in [row["correlation_id"] for row in broker.trace("leader_change")]) is applied


@pytest.mark.parametrize(("names", "counted"), [((), False), (("count-diverging-fetch",), True)])
def test_a_diverging_follower_proves_nothing(
    pair: With, names: tuple[str, ...], counted: bool
) -> None:
    cluster = pair(*names, min_isr=2)
    old, new = cluster.brokers[1], cluster.brokers[2]
    cluster.cut = {frozenset({1, 2})}
    for value in range(3):
        assert answer_of(old.produce(value)).error == 0
    cluster.controller.elect(TP, 2)
    cluster.controller.tell(2)
    waiting = new.produce(100, acks=-1)
    end = new.partition().local_log().log_end_offset
    # As the old leader fetches: from its own end, which it wrote in epoch 0.
    answer = Waiter()
    fetch = FetchPartitionRequest(3, 0, 1 << 20, 1, 0)
    new.manager.fetch_messages(FetchParams(replica_id=1, max_wait_ms=0), [(TP, fetch)], answer)
    assert answer.wait()[0][1].diverging_epoch is not None
    assert waiting.is_answered is counted
    assert (new.partition().high_watermark == end) is counted


@pytest.mark.parametrize(("names", "believed"), [((), False), (("remember-followers",), True)])
def test_what_followers_reported_to_who_led_before(
    pair: With, names: tuple[str, ...], believed: bool
) -> None:
    cluster = pair(*names, min_isr=2, brokers=3)
    leader, ahead, behind = (cluster.brokers[n].partition() for n in (1, 2, 3))
    cluster.cut = {frozenset({1, 3})}
    for value in range(3):
        assert answer_of(cluster.brokers[1].produce(value)).error == 0
    wait_for(lambda: leader.followers[2].log_end_offset == 3)
    cluster.cut = {frozenset({1, 2}), frozenset({1, 3}), frozenset({2, 3})}
    cluster.controller.elect(TP, 3)
    cluster.controller.tell_all()
    for partition in (leader, ahead):
        assert partition.truncate_to(0, "diverging epoch") == 0
    cluster.cut = {frozenset({1, 2})}
    cluster.controller.elect(TP, 1)
    cluster.controller.tell_all()
    waiting = cluster.brokers[1].produce(7, acks=-1)
    wait_for(lambda: leader.followers[3].log_end_offset == 1)
    assert behind.local_log().log_end_offset == 1
    assert waiting.is_answered is believed
    assert (leader.high_watermark == 1) is believed


@pytest.mark.parametrize(
    ("names", "answered"), [((), True), (("leave-waiting-when-demoted",), False)]
)
def test_who_waits_at_a_leader_that_is_demoted(
    pair: With, names: tuple[str, ...], answered: bool
) -> None:
    cluster = pair(*names, min_isr=2)
    cluster.cut = {frozenset({1, 2})}
    waiting = cluster.brokers[1].produce(7, acks=-1)
    depose(cluster)
    assert waiting.is_answered is answered


@pytest.mark.parametrize(
    ("names", "known"), [((), EpochEnd(0, 0)), (("note-epochs-with-records",), EpochEnd(-1, -1))]
)
def test_what_a_new_leader_knows_of_its_own_epoch(
    pair: With, names: tuple[str, ...], known: EpochEnd
) -> None:
    assert pair(*names).brokers[1].partition().end_offset_for_epoch(0, 0) == known


@pytest.mark.parametrize(("names", "error"), [((), 1), (("serve-below-the-start",), 0)])
def test_who_asks_for_what_was_deleted(pair: With, names: tuple[str, ...], error: int) -> None:
    cluster = pair(*names)
    leader = cluster.brokers[1]
    for value in range(3):
        assert answer_of(leader.produce(value, acks=-1)).error == 0
    wait_for(lambda: leader.partition().high_watermark == 3)
    leader.partition().delete_records(2)
    answer = Waiter()
    request = FetchPartitionRequest(1, -1, 1 << 20)
    leader.manager.fetch_messages(FetchParams(max_wait_ms=0), [(TP, request)], answer)
    assert answer.wait()[0][1].error == error


@pytest.mark.parametrize("names", [(), ("give-up-on-who-has-not-heard",)])
def test_a_leader_that_hears_of_its_epoch_after_its_follower(
    pair: With, names: tuple[str, ...]
) -> None:
    cluster = pair(*names)
    cluster.controller.elect(TP, 1)  # anew, in an epoch of which its follower hears first
    cluster.controller.tell(2)
    follower = cluster.brokers[2].manager.fetchers
    if names:
        wait_for(lambda: follower.failed_count == 1)
        cluster.controller.tell(1)
        assert follower.failed_count == 1
        return
    cluster.controller.tell(1)
    waiting = cluster.brokers[1].produce(7, acks=-1)
    assert answer_of(waiting).error == Errors.NONE
    assert follower.failed_count == 0

"""DeleteRecords waits for the followers, and says the low watermark."""

from __future__ import annotations

from typing import Any

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.replication.record_deletion import (
    DelayedDeleteRecords,
    DeleteRecordsResult,
    _Waiting,
)
from tests.nodes.replication.conftest import (
    TP,
    ClusterFactory,
    MemoryCluster,
    Waiter,
    answer_of,
)


def make(make_cluster: ClusterFactory, values: int) -> MemoryCluster:
    cluster = make_cluster()
    cluster.create()
    for value in range(values):
        assert answer_of(cluster.brokers[1].produce(value, acks=-1)).error == 0
    return cluster


def delete(
    cluster: MemoryCluster, offset: int, timeout_ms: int = 60_000, tp: TopicPartition = TP
) -> Waiter:
    waiter = Waiter()
    cluster.brokers[1].manager.deletions.delete({tp: offset}, timeout_ms, waiter)
    return waiter


def test_is_answered_when_all_replicas_begin_later(make_cluster: ClusterFactory) -> None:
    cluster = make(make_cluster, 5)
    assert delete(cluster, 3).wait() == {TP: (0, 3)}
    for broker in cluster.brokers.values():
        assert broker.partition().local_log().log_start_offset == 3
        assert broker.values() == [3, 4]
    assert delete(cluster, -1).wait() == {TP: (0, 5)}
    assert delete(cluster, 1).wait() == {TP: (0, 5)}


def test_a_replica_that_cannot_follow_is_waited_for(make_cluster: ClusterFactory) -> None:
    cluster = make(make_cluster, 5)
    cluster.cut = {frozenset({1, 3})}
    late = delete(cluster, 2)
    assert delete(cluster, 2, timeout_ms=50).wait() == {TP: (Errors.REQUEST_TIMED_OUT, 0)}
    assert not late.is_answered
    cluster.cut = set()
    assert late.wait() == {TP: (0, 2)}
    assert late.calls == 1


def test_a_leader_that_resigns_says_so(make_cluster: ClusterFactory) -> None:
    cluster = make(make_cluster, 5)
    cluster.cut = {frozenset({1, 3})}
    late = delete(cluster, 2)
    cluster.controller.elect(TP, 2)
    cluster.controller.tell_all()
    assert late.wait() == {TP: (Errors.NOT_LEADER_OR_FOLLOWER, -1)}


def test_only_what_is_committed(make_cluster: ClusterFactory) -> None:
    cluster = make(make_cluster, 2)
    assert delete(cluster, 3).wait() == {TP: (Errors.OFFSET_OUT_OF_RANGE, -1)}
    unknown = TopicPartition("unknown", 0)
    result = delete(cluster, 0, tp=unknown).wait()
    assert result == {unknown: (Errors.UNKNOWN_TOPIC_OR_PARTITION, -1)}


def test_what_is_written_and_not_committed_stays(make_cluster: ClusterFactory) -> None:
    """Partition.deleteRecordsOnLeader: up to the high watermark, not to the log's end."""
    cluster = make(make_cluster, 2)
    cluster.cut = {frozenset({1, 2}), frozenset({1, 3})}
    leader = cluster.brokers[1]
    leader.produce(2)
    assert delete(cluster, 3).wait() == {TP: (Errors.OFFSET_OUT_OF_RANGE, -1)}
    assert leader.values() == [0, 1, 2]


def test_who_is_dead_is_not_waited_for(make_cluster: ClusterFactory) -> None:
    """Partition.lowWatermarkIfLeader: the least of the live replicas' log starts."""
    cluster = make(make_cluster, 5)
    cluster.cut = {frozenset({1, 3})}
    cluster.alive.discard(3)
    cluster.controller.tell_metadata(1)
    assert delete(cluster, 2).wait() == {TP: (0, 2)}
    cluster.alive.add(3)


def test_compacted_topics_lose_nothing_so(make_cluster: ClusterFactory) -> None:
    """POLICY_VIOLATION, unless ``delete`` is among their policies."""
    cluster = make(make_cluster, 5)
    leader = cluster.brokers[1]
    leader.manager.update_topic_config("t", {"cleanup.policy": "compact"})
    assert delete(cluster, 2).wait() == {TP: (Errors.POLICY_VIOLATION, -1)}
    leader.manager.update_topic_config("other", {"cleanup.policy": "delete"})
    assert delete(cluster, 2).wait() == {TP: (Errors.POLICY_VIOLATION, -1)}, "of another topic"
    leader.manager.update_topic_config("t", {"cleanup.policy": "compact,delete"})
    assert delete(cluster, 2).wait() == {TP: (0, 2)}


def test_a_deadline_in_the_middle_of_a_try_takes_back_nothing() -> None:
    """What is settled already is answered as it was settled, though it still stands among what is
    waited for; the rest has timed out with what was seen last."""
    settled, waiting = TopicPartition("t", 0), TopicPartition("t", 1)
    results = {settled: DeleteRecordsResult(Errors.NONE, 7)}
    answers: list[Any] = []
    operation = DelayedDeleteRecords(
        0,
        {settled: _Waiting(7, 3), waiting: _Waiting(9, 4)},
        results,
        lambda _: None,  # type: ignore[arg-type, return-value]
        answers.append,
    )
    assert operation.force_complete()
    assert answers == [
        {
            settled: DeleteRecordsResult(Errors.NONE, 7),
            waiting: DeleteRecordsResult(Errors.REQUEST_TIMED_OUT, 4),
        }
    ]
    assert not operation.force_complete(), "once"

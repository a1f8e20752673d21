"""What a controller's orders set going and stop in a broker (ReplicaManager's
becomeLeaderOrFollower, makeLeaders, makeFollowers, stopReplicas), and what is traced of them."""

from __future__ import annotations

from typing import Any

import pytest

from nodes.core.errors import ApiError, Errors
from nodes.core.truncation import EpochEnd
from nodes.core.types import TopicPartition
from nodes.replication.model import FetchParams, FetchPartitionRequest, FetchResult
from tests.nodes.replication.conftest import (
    TP,
    Broker,
    ClusterFactory,
    MemoryCluster,
    State,
    Waiter,
    batch,
)
from tests.nodes.replication.test_fencing import stop_replica

OTHER = TopicPartition("t", 1)


@pytest.fixture
def cluster(make_cluster: ClusterFactory) -> MemoryCluster:
    """Three brokers; broker 1 leads, the others follow, under controller epoch 5."""
    cluster = make_cluster(brokers=3, min_isr=1)
    cluster.controller.controller_epoch = 5
    cluster.create()
    return cluster


def followed(broker: Broker) -> dict[TopicPartition, int]:
    """Which leader each partition is fetched from."""
    found: dict[TopicPartition, int] = {}
    for (leader_id, _), thread in broker.manager.fetchers._threads.items():
        for tp in list(thread._states):
            assert tp not in found, "by two threads"
            found[tp] = leader_id
    return found


def test_whoever_leads_fetches_nothing(cluster: MemoryCluster) -> None:
    """From when the order is answered on; and a thread without partitions is none any more."""
    broker = cluster.brokers[2]
    assert followed(broker) == {TP: 1}
    cluster.controller.elect(TP, 2)
    assert cluster.controller.tell(2) == 0
    assert followed(broker) == {}
    assert broker.manager.fetchers._threads == {}


def test_a_new_leader_is_fetched_from_and_the_old_one_no_more(cluster: MemoryCluster) -> None:
    broker = cluster.brokers[3]
    cluster.controller.elect(TP, 2)
    assert cluster.controller.tell(3) == 0
    assert followed(broker) == {TP: 2}
    assert set(broker.manager.fetchers._threads) == {(2, 0)}


@pytest.mark.parametrize("delete", [True, False])
def test_a_replica_that_is_stopped_fetches_nothing(cluster: MemoryCluster, delete: bool) -> None:
    """And whoever reads the history knows which order it was."""
    cluster.controller.states[OTHER] = State(1, 0, (1, 2, 3), 0, (1, 2, 3))
    cluster.controller.tell_all(OTHER)
    broker = cluster.brokers[2]
    assert followed(broker) == {TP: 1, OTHER: 1}
    request = stop_replica(leader_epoch=3, delete=delete, controller_epoch=7)
    assert broker.manager.stop_replicas(77, request).partition_errors[0].error == 0
    assert followed(broker) == {OTHER: 1}
    (row,) = broker.trace("replica_stop")
    assert (row["topic"], row["partition"], row["delete"]) == ("t", 0, delete)
    assert (row["leader_epoch"], row["controller_epoch"]) == (3, 7)
    assert row["correlation_id"] == 77


def test_checkpoints_begin_with_the_first_order(make_cluster: ClusterFactory) -> None:
    """Not before: a checkpoint of no partition would forget what the last life knew."""
    cluster = make_cluster(brokers=1, min_isr=1)
    thread = cluster.brokers[1].manager._checkpointer._thread
    assert not thread.is_alive()
    cluster.create()
    assert thread.is_alive()


@pytest.mark.parametrize("leader", [1, 2])
def test_a_disk_that_refuses_is_told_for_its_partition(
    cluster: MemoryCluster, leader: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA_STORAGE_ERROR is what a controller takes for an offline replica, and no other."""
    cluster.controller.states[OTHER] = State(leader, 0, (1, 2, 3), 0, (1, 2, 3))

    def refuses(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    manager = cluster.brokers[1].manager
    monkeypatch.setattr(manager, "ensure_log", refuses)
    result = manager.become_leader_or_follower(1, cluster.controller.leader_and_isr(OTHER))
    assert (result.error, result.partition_errors[0].error) == (0, Errors.KAFKA_STORAGE_ERROR)


def test_who_cannot_begin_to_lead_is_offline(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """makeLeaders, of a KafkaStorageException."""
    manager = cluster.brokers[1].manager
    cluster.controller.elect(TP, 1)
    led = manager.partition(TP)
    assert led is not None
    assert led.log is not None

    def refuses(*_: Any) -> None:
        raise ApiError(Errors.KAFKA_STORAGE_ERROR, "planted")

    monkeypatch.setattr(led.log, "start_epoch", refuses)
    result = manager.become_leader_or_follower(1, cluster.controller.leader_and_isr())
    assert (result.error, result.partition_errors[0].error) == (0, Errors.KAFKA_STORAGE_ERROR)
    assert manager.is_offline(TP)


@pytest.mark.parametrize("when", ["cut at the high watermark", "append", "cut where logs part"])
def test_a_disk_that_refuses_a_follower_is_asked_no_more(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, wait_until: Any, when: str
) -> None:
    """AbstractFetcherThread: such a partition is marked as failed, others are fetched on. (One that
    only rests would be tried again and again until its directory is gone.)"""
    for name, state in (("t", 0), ("t", 1)):
        cluster.controller.states[TopicPartition(name, state)] = State(
            1, 0, (1, 2, 3), 0, (1, 2, 3)
        )
    cluster.controller.tell_all(OTHER)
    broker = cluster.brokers[2]
    partition = broker.manager.partition(TP)
    assert partition is not None
    method = {
        "cut at the high watermark": "truncate_to",
        "append": "append_as_follower",
        "cut where logs part": "truncate",
    }[when]

    def refuses(*_: Any, **__: Any) -> None:
        raise ApiError(Errors.KAFKA_STORAGE_ERROR, "planted")

    monkeypatch.setattr(partition, method, refuses)
    thread = broker.manager.fetchers._threads[1, 0]
    state = thread._states[TP]
    with thread._changed:
        if when == "cut at the high watermark":
            state.cuts_first = True
        elif when == "cut where logs part":
            state.last_fetched_epoch = 0
    if when == "cut where logs part":
        answer = FetchResult(0, 0, 0, 0, b"", -1, EpochEnd(0, 0))
        with thread._changed:
            thread._apply(TP, state, answer)
    else:
        produced = Waiter()
        cluster.brokers[1].manager.append_single(TP, batch(1), 1, 1000, produced)
        assert produced.wait().error == 0
    wait_until(lambda: thread.failed == {TP})
    assert followed(broker) == {OTHER: 1}


def test_what_lies_in_a_lost_log_directory_is_offline(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-112 (handleLogDirFailure, HostedPartition.Offline): for the rest of this life whoever
    asks is answered KAFKA_STORAGE_ERROR, the controller too, and it is fetched no more."""
    storage = Errors.KAFKA_STORAGE_ERROR
    leader, follower = cluster.brokers[1].manager, cluster.brokers[2].manager
    for manager in (leader, follower):
        (directory,) = manager.log_dirs
        manager.take_out(directory)
        assert manager.partition(TP) is None
        assert (manager.offline_count, manager.failed_log_dirs) == (1, {directory})
    assert followed(cluster.brokers[2]) == {}
    produced = Waiter()
    leader.append_single(TP, batch(1), 1, 1000, produced)
    assert produced.wait().error == storage
    fetched = Waiter()
    leader.fetch_messages(
        FetchParams(max_wait_ms=0), [(TP, FetchPartitionRequest(0, 0, 9))], fetched
    )
    assert [result.error for _, result in fetched.wait()] == [storage]
    assert leader.list_offset(TP, -1, -1, 0, -1).error == storage
    assert leader.last_offset_for_leader_epoch(TP, -1, 0).error == storage
    cluster.controller.elect(TP, 2)
    request = cluster.controller.leader_and_isr()
    stop = stop_replica(leader_epoch=9, delete=True, controller_epoch=5)
    for manager in (leader, follower):
        for result in (
            manager.become_leader_or_follower(7, request),
            manager.stop_replicas(7, stop),
        ):
            assert (result.error, [row.error for row in result.partition_errors]) == (0, [storage])
    # Its log may have been there: it is not made anew, and nobody is sent elsewhere for it.
    cluster.controller.states[OTHER] = State(1, 0, (1, 2, 3), 0, (1, 2, 3))
    result = leader.become_leader_or_follower(8, cluster.controller.leader_and_isr(OTHER))
    assert [row.error for row in result.partition_errors] == [storage]
    assert leader.is_offline(OTHER)
    offline = "as the local replica for the partition is in an offline log directory"
    ignored = [r.getMessage() for r in caplog.records if "Ignoring" in r.getMessage()]
    assert [text.partition(" from ")[0] for text in ignored] == [
        f"[Broker id={broker_id}] Ignoring {what}"
        for broker_id in (1, 2)
        for what in ("LeaderAndIsr request", "StopReplica request (delete=true)")
    ]
    assert all(text.endswith(offline) for text in ignored)


def test_a_change_that_was_not_applied_is_not_traced(cluster: MemoryCluster) -> None:
    """An older partition epoch: the partition stays what it is, and no row says otherwise."""
    broker = cluster.brokers[1]
    cluster.controller.elect(TP, 1)
    cluster.controller.tell(1)
    before = broker.trace("leader_change")
    assert before[-1]["leader_epoch"] == 1
    request = cluster.controller.leader_and_isr(
        state={"leader": 2, "leader_epoch": 9, "partition_epoch": 0}
    )
    assert broker.manager.become_leader_or_follower(1, request).partition_errors[0].error == 0
    assert broker.trace("leader_change") == before


def test_metadata_is_traced_with_the_epoch_of_who_told_it(cluster: MemoryCluster) -> None:
    """Not of who decided it: a successor tells what its predecessors wrote."""
    request = cluster.controller.update_metadata(controller_epoch=7)
    assert request.topic_states[0].partition_states[0].controller_epoch == 5
    cluster.brokers[1].manager.maybe_update_metadata_cache(1, request)
    row = cluster.brokers[1].trace("metadata_update")[-1]
    assert (row["controller_epoch"], row["leader_epoch"]) == (7, 0)


def test_whoever_keeps_something_by_leadership_hears_of_every_change(
    cluster: MemoryCluster,
) -> None:
    """``onLeadershipChange``: also when a request only makes followers, or only leaders; and of
    nothing that did not change."""
    broker, heard = cluster.brokers[1], []

    def note(leading: Any, following: Any) -> None:
        heard.append(([p.tp for p in leading], [p.tp for p in following]))

    broker.manager.on_leadership_change = note
    for leader, expected in ((2, ([], [TP])), (3, ([], [TP])), (1, ([TP], []))):
        cluster.controller.elect(TP, leader)
        cluster.controller.tell(1)
        assert heard.pop() == expected
        cluster.controller.tell(1)
        assert heard == [], "the same again is no change"

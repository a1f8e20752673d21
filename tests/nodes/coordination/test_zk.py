"""KafkaZkClient against a real ZooKeeper, and against its tree in memory."""

from __future__ import annotations

import time
from uuid import UUID

import pytest
from kazoo.exceptions import NodeExistsError, NoNodeError

from nodes.coordination import znodes
from nodes.coordination.errors import ControllerMoved, ZooKeeperTimeout
from nodes.coordination.zk import KafkaZkClient
from nodes.core.assignment import ReplicaAssignment
from nodes.core.brokers import Broker, EndPoint
from nodes.core.leader_and_isr import LeaderAndIsr, LeaderIsrAndControllerEpoch
from nodes.core.types import TopicPartition
from tests.nodes.coordination.conftest import SERVER

T0 = TopicPartition("t", 0)
TOPIC_ID = UUID(int=7)


@pytest.fixture
def connect(connect_to_either):
    return connect_to_either


def broker(broker_id: int, port: int = 9092) -> Broker:
    return Broker(broker_id, (EndPoint("CLIENT", "PLAINTEXT", "127.0.0.1", port),))


@pytest.mark.parametrize("connect_to_either", [SERVER], indirect=True)
def test_makes_chroot_and_top_level_paths(zk, zookeeper, zookeeper_chroot):
    plain = KafkaZkClient(zookeeper, 30_000)
    plain._session.start()
    assert plain.path_exists(f"{zookeeper_chroot}/brokers/ids")
    plain.close()
    for path in znodes.PERSISTENT_PATHS:
        assert zk.path_exists(path)


def test_no_zookeeper_is_a_time_out():
    client = KafkaZkClient("127.0.0.1:1", 1000, connection_timeout_ms=200)
    with pytest.raises(ZooKeeperTimeout, match=r"zookeeper\.connect"):
        client.start()


def test_broker_epoch_is_the_czxid_and_grows(connect):
    first, second = connect(), connect()
    epoch = first.register_broker(broker(1))
    assert first.register_broker(broker(1)) == epoch, "a repeated request finds itself"
    assert second.get_all_broker_and_epochs_in_cluster() == {1: (broker(1), epoch)}
    with pytest.raises(NodeExistsError):
        second.register_broker(broker(1))
    first.close()
    assert second.register_broker(broker(1), wait_ms=60_000) > epoch


def test_election_is_one_multi(connect):
    one, two = connect(), connect()
    assert one.get_controller_epoch() is None
    assert one.register_controller(1) == (1, 1)
    with pytest.raises(ControllerMoved):
        two.register_controller(2)
    assert two.get_controller_id() == 1
    assert two.get_controller_epoch() == (1, 1)
    one.delete_controller(1)
    assert two.register_controller(2) == (2, 2)


def test_a_candidate_that_read_an_epoch_of_the_past_is_not_elected(connect, monkeypatch):
    """Between its look and its multi another controller came and went: the same epoch would be
    given twice, but for the version of the epoch's znode."""
    late, other = connect(), connect()
    assert other.register_controller(2) == (1, 1)
    seen = late.get_controller_epoch()
    other.delete_controller(1)
    assert other.register_controller(2) == (2, 2)
    other.delete_controller(2)
    looks = [seen]
    real = late.get_controller_epoch
    monkeypatch.setattr(late, "get_controller_epoch", lambda: looks.pop() if looks else real())
    with pytest.raises(ControllerMoved):
        late.register_controller(1)
    assert (late.get_controller_id(), real()) == (None, (2, 2))
    assert late.register_controller(1) == (3, 3)


def test_an_office_of_ones_own_that_is_there_already_is_not_taken_for_a_new_one(connect):
    """Only a multi of which the answer was lost may find itself: same broker, same epoch."""
    one = connect()
    assert one.register_controller(1) == (1, 1)
    with pytest.raises(ControllerMoved):
        one.register_controller(1)
    assert one.get_controller_epoch() == (1, 1)


def test_what_a_broker_registers_anew_is_no_new_life(connect):
    """The broker epoch is the registration's czxid: its data may change (endpoints do)."""
    one = connect()
    epoch = one.register_broker(broker(1))
    data = znodes.encode_broker(broker(1, 7), jmx_port=-1, now_ms=1)
    one.set_or_create(znodes.broker_id_path(1), data)
    assert one.get_all_broker_and_epochs_in_cluster() == {1: (broker(1, 7), epoch)}


def test_a_commit_has_the_time_of_its_write(connect, wait_until):
    """By ZooKeeper's clock: not of the znode's creation."""
    zk = connect()
    _, version = zk.register_controller(1)
    zk.create_topic_assignment("t", TOPIC_ID, {T0: ReplicaAssignment((1, 2))})
    first = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, (1, 2)), 1)
    zk.create_topic_partition_states({T0: first}, version)
    _, stat = zk._data(znodes.state_path(T0))
    wait_until(lambda: time.time_ns() // 1_000_000 > stat.mtime + 5)
    written = zk.update_leader_and_isr({T0: first.leader_and_isr}, 1, version)[T0]
    _, now = zk._data(znodes.state_path(T0))
    assert written.commit_ms == now.mtime > stat.mtime


def test_a_session_lasts_as_long_as_configured():
    """``zookeeper.session.timeout.ms``, as it is asked of the server."""
    client = KafkaZkClient("127.0.0.1:1", 18_000)
    assert client._session._client._session_timeout == 18_000


def test_every_write_of_a_replaced_controller_is_refused(connect):
    old, new = connect(), connect()
    _, old_version = old.register_controller(1)
    state = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, (1, 2)), 1)
    old.create_topic_assignment("t", TOPIC_ID, {T0: ReplicaAssignment((1, 2))})
    assert old.create_topic_partition_states({T0: state}, old_version)[T0].written
    old.delete_controller(old_version)
    _, new_version = new.register_controller(2)

    changed = LeaderAndIsr(2, (2,), leader_epoch=1, partition_epoch=0)
    other = TopicPartition("t", 1)
    with pytest.raises(ControllerMoved):
        old.update_leader_and_isr({T0: changed}, 1, old_version)
    with pytest.raises(ControllerMoved):
        old.create_topic_partition_states({other: state}, old_version)
    with pytest.raises(ControllerMoved):
        old.delete_topic_znode("t", old_version)
    with pytest.raises(ControllerMoved):
        old.set_topic_assignment("t", TOPIC_ID, {}, old_version)
    with pytest.raises(ControllerMoved):
        old.delete_topic_deletions(["t"], old_version)
    with pytest.raises(ControllerMoved):
        old.delete_controller(old_version)
    assert new.get_topic_partition_states([T0, other]) == {T0: state}
    assert new.update_leader_and_isr({T0: changed}, 2, new_version)[T0].written == LeaderAndIsr(
        2, (2,), leader_epoch=1, partition_epoch=1
    )


def test_without_the_check_a_replaced_controller_writes_on(connect):
    """What the fence above is for, shown by its absence (a planted bug)."""
    old, new = connect(checks_controller_znode=False), connect()
    _, old_version = old.register_controller(1)
    state = LeaderIsrAndControllerEpoch(LeaderAndIsr(1, (1, 2)), 1)
    old.create_topic_assignment("t", TOPIC_ID, {T0: ReplicaAssignment((1, 2))})
    old.create_topic_partition_states({T0: state}, old_version)
    old.delete_controller(old_version)
    new.register_controller(2)

    changed = LeaderAndIsr(2, (2,), leader_epoch=1, partition_epoch=0)
    write = old.update_leader_and_isr({T0: changed}, 1, old_version)[T0]
    assert write.written == changed.with_partition_epoch(1)
    assert new.get_topic_partition_states([T0])[T0].controller_epoch == 1
    # The partition's own znode is versioned all the same, as before KAFKA-6082.
    assert old.update_leader_and_isr({T0: changed}, 1, old_version)[T0].retry
    old.delete_controller(old_version)  # its successor's!
    assert new.get_controller_id() is None


def test_state_writes_are_conditioned_on_the_partition_epoch(zk):
    _, version = zk.register_controller(1)
    zk.create_topic_assignment("t", TOPIC_ID, {T0: ReplicaAssignment((1, 2))})
    first = LeaderAndIsr(1, (1, 2))
    zk.create_topic_partition_states({T0: LeaderIsrAndControllerEpoch(first, 1)}, version)
    shrunk = LeaderAndIsr(1, (1,), partition_epoch=0)
    write = zk.update_leader_and_isr({T0: shrunk}, 1, version)[T0]
    assert write.written == LeaderAndIsr(1, (1,), partition_epoch=1)
    assert write.commit_ms is not None
    assert zk.update_leader_and_isr({T0: shrunk}, 1, version)[T0].retry
    gone = TopicPartition("t", 9)
    assert isinstance(zk.update_leader_and_isr({gone: shrunk}, 1, version)[gone].error, NoNodeError)
    assert isinstance(zk.get_topic_partition_states_raw([gone])[gone], NoNodeError)


def test_many_requests_are_pipelined_in_order(zk):
    _, version = zk.register_controller(1)
    partitions = [TopicPartition("wide", p) for p in range(200)]
    zk.create_topic_assignment("wide", TOPIC_ID, {tp: ReplicaAssignment((1,)) for tp in partitions})
    states = {
        tp: LeaderIsrAndControllerEpoch(LeaderAndIsr(tp.partition, (1,)), 1) for tp in partitions
    }
    assert all(w.written for w in zk.create_topic_partition_states(states, version).values())
    assert zk.get_topic_partition_states(partitions) == states
    assert len(zk.get_full_replica_assignment_for_topic("wide")) == 200


def test_topics_configs_and_deletion(zk):
    _, version = zk.register_controller(1)
    zk.set_or_create_entity_configs("topics", "t", {"retention.ms": "5"})
    zk.create_topic_assignment("t", TOPIC_ID, {T0: ReplicaAssignment((1, 2), (2,), ())})
    assert zk.get_topic_configs("t") == {"retention.ms": "5"}
    assert zk.get_topic_configs("other") == {}
    assert zk.get_all_topics_in_cluster() == {"t"}
    found = zk.get_replica_assignment_and_topic_id_for_topics(["t", "nope"])
    assert [(f.topic, f.topic_id) for f in found] == [("t", TOPIC_ID)]
    assert found[0].assignment == {T0: ReplicaAssignment((1, 2), (2,), ())}
    with pytest.raises(NodeExistsError):
        zk.create_topic_assignment("t", TOPIC_ID, {})
    zk.create_delete_topic_path("t")
    assert zk.get_topic_deletions() == {"t"}
    zk.delete_topic_znode("t", version)
    zk.delete_topic_configs(["t"], version)
    zk.delete_topic_deletions(["t"], version)
    assert not zk.topic_exists("t")
    assert zk.get_topic_deletions() == set()


def test_plain_znodes(zk):
    assert zk.get_data_and_version("/nothing") == (None, -2)
    assert zk.conditional_update_path("/nothing", b"x", 0) is None
    zk.set_or_create("/a/b", b"1")
    assert zk.get_data_and_version("/a/b") == (b"1", 0)
    assert zk.conditional_update_path("/a/b", b"2", 0) == 1
    assert zk.conditional_update_path("/a/b", b"3", 0) is None
    assert zk.create_or_get_cluster_id("abc") == "abc"
    assert zk.create_or_get_cluster_id("def") == "abc"
    assert zk.get_cluster_id() == "abc"


def test_what_cannot_be_a_topic_is_none(zk, caplog):
    zk.create_topic_assignment("t", TOPIC_ID, {T0: ReplicaAssignment((1,))})
    for name in ("a b", "é", "x" * 250, "...", ".ok"):
        zk.make_sure_persistent_path_exists(znodes.topic_path(name))
    assert zk.get_all_topics_in_cluster() == {"t", "...", ".ok"}
    assert "a b" in caplog.text
    assert zk.path_exists(znodes.topic_path("a b"))

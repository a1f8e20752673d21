"""Reassignments (KIP-455: KafkaController.onPartitionReassignment and around it)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nodes.core.types import TopicPartition
from tests.nodes.controller.transcript import Office

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
REASSIGN = "/admin/reassign_partitions"


def begins(o: Office) -> Iterator[None]:
    """Phase A: the assignment, the leader epoch, all replicas; the new ones are told that they are.

    zk = /brokers/topics/t 0:1,3,2 1:2,1 adding 0:3 removing 0:2
    zk = t-0 @0 leader 1 epoch 1 isr 1,2 by 1
    1.1 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2 adding 3
        removing 2
    1.1 > 3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2 adding 3
        removing 2 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2
    1.1 > 3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2 adding 3
        removing 2 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2
    answer NONE, t-0 NONE
    states of t: 0 ONLINE: 1 ONLINE, 3 NEW, 2 ONLINE; 1 ONLINE: 2 ONLINE, 1 ONLINE
    answer NONE, t-0 1,3,2 adding 3 removing 2
    answer NONE, t-0 1,3,2 adding 3 removing 2
    """
    made = o.start(2, 3)
    o.topic("t", (1, 2), (2, 1))
    yield
    o.ask(made.alter_reassignments, {T0: (1, 3)})
    o.look("t")
    o.ask(made.list_reassignments, None)
    o.ask(made.list_reassignments, [T0, T1])


def is_complete(o: Office) -> Iterator[None]:
    """Phase B: the replicas that go are stopped and deleted before the assignment is written.

    zk = t-0 @1 leader 1 epoch 1 isr 1,2,3 by 1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.2 by 1 isr 1,2,3 of 1,3,2
    answer NONE, 0 leader 1 epoch 1.2 isr 1,2,3
    zk = t-0 @2 leader 1 epoch 2 isr 1,2,3 by 1
    1.1 > 1,3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.3 by 1 isr 1,2,3 of 1,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 2.3 by 1 isr 1,2,3 of 1,3
    zk = t-0 @3 leader 1 epoch 3 isr 1,3 by 1
    1.1 > 1,3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 3.4 by 1 isr 1,3 of 1,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 3.4 by 1 isr 1,3 of 1,3
    1.1 > 2 StopReplica: t-0 epoch 2
    1.1 > 2 StopReplica: t-0 epoch 3 delete
    zk = /brokers/topics/t 0:1,3 1:2,1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 3.4 by 1 isr 1,3 of 1,3
    states of t: 0 ONLINE: 1 ONLINE, 3 ONLINE; 1 ONLINE: 2 ONLINE, 1 ONLINE
    """
    made = o.start(2, 3)
    o.topic("t", (1, 2), (2, 1))
    o.run()
    o.ask(made.alter_reassignments, {T0: (1, 3)})
    yield
    o.alter_isr(1, "t-0", (1, 2, 3))
    o.look("t")
    o.answer()


def is_complete_and_the_leader_goes(o: Office) -> Iterator[None]:
    """All of the target must be in the ISR; a leader that is not of the target is replaced by one
    that is.

    zk = t-0 @1 leader 1 epoch 1 isr 1,2,4 by 1
    1.1 > 1,2,3,4 UpdateMetadata live 1,2,3,4: t-0 leader 1 epoch 1.2 by 1 isr 1,2,4 of 3,4,1,2
    answer NONE, 0 leader 1 epoch 1.2 isr 1,2,4
    zk = t-0 @2 leader 1 epoch 1 isr 1,2,4,3 by 1
    1.1 > 1,2,3,4 UpdateMetadata live 1,2,3,4: t-0 leader 1 epoch 1.3 by 1 isr 1,2,4,3 of
        3,4,1,2
    answer NONE, 0 leader 1 epoch 1.3 isr 1,2,4,3
    zk = t-0 @3 leader 3 epoch 2 isr 1,2,4,3 by 1
    1.1 > 3,4 LeaderAndIsr leaders 3: t-0 leader 3 epoch 2.4 by 1 isr 1,2,4,3 of 3,4
    1.1 > 1,2,3,4 UpdateMetadata live 1,2,3,4: t-0 leader 3 epoch 2.4 by 1 isr 1,2,4,3 of 3,4
    zk = t-0 @4 leader 3 epoch 3 isr 2,4,3 by 1
    zk = t-0 @5 leader 3 epoch 4 isr 4,3 by 1
    1.1 > 3,4 LeaderAndIsr leaders 3: t-0 leader 3 epoch 4.6 by 1 isr 4,3 of 3,4
    1.1 > 1,2,3,4 UpdateMetadata live 1,2,3,4: t-0 leader 3 epoch 4.6 by 1 isr 4,3 of 3,4
    1.1 > 1 StopReplica: t-0 epoch 2
    1.1 > 2 StopReplica: t-0 epoch 3
    1.1 > 1,2 StopReplica: t-0 epoch 4 delete
    zk = /brokers/topics/t 0:3,4
    1.1 > 1,2,3,4 UpdateMetadata live 1,2,3,4: t-0 leader 3 epoch 4.6 by 1 isr 4,3 of 3,4
    """
    made = o.start(2, 3, 4)
    o.topic("t", (1, 2))
    o.run()
    o.ask(made.alter_reassignments, {T0: (3, 4)})
    yield
    o.alter_isr(1, "t-0", (1, 2, 4))
    o.alter_isr(1, "t-0", (1, 2, 4, 3))


def is_called_off(o: Office) -> Iterator[None]:
    """The replicas that were being added are stopped; the order is the target's, as in Kafka.

    zk = /brokers/topics/t 0:2,1
    1.1 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 2,1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 2,1
    1.1 > 3 StopReplica: t-0 epoch 1
    1.1 > 3 StopReplica: t-0 epoch 1 delete
    zk = t-0 @1 leader 1 epoch 2 isr 1,2 by 1
    1.1 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 2,1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 2,1
    zk = /brokers/topics/t 0:2,1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 2,1
    answer NONE, t-0 NONE
    answer NONE, t-0 NO_REASSIGNMENT_IN_PROGRESS
    """
    made = o.start(2, 3)
    o.topic("t", (1, 2))
    o.run()
    o.ask(made.alter_reassignments, {T0: (3, 2)})
    yield
    o.ask(made.alter_reassignments, {T0: None})
    o.ask(made.alter_reassignments, {T0: None})


def goes_elsewhere(o: Office) -> Iterator[None]:
    """What was being added and is no longer wanted is stopped.

    zk = /brokers/topics/t 0:1,4,2 adding 0:4 removing 0:2
    1.1 > 1,2,4 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,4,2 adding 4
        removing 2
    1.1 > 1,2,3,4 UpdateMetadata live 1,2,3,4: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,4,2
    1.1 > 3 StopReplica: t-0 epoch 1
    1.1 > 3 StopReplica: t-0 epoch 1 delete
    zk = t-0 @1 leader 1 epoch 2 isr 1,2 by 1
    1.1 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 1,4,2 adding 4
        removing 2
    1.1 > 4 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 1,4,2 adding 4
        removing 2 new
    1.1 > 1,2,3,4 UpdateMetadata live 1,2,3,4: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 1,4,2
    1.1 > 4 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 1,4,2 adding 4
        removing 2 new
    1.1 > 1,2,3,4 UpdateMetadata live 1,2,3,4: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 1,4,2
    answer NONE, t-0 NONE
    """
    made = o.start(2, 3, 4)
    o.topic("t", (1, 2))
    o.run()
    o.ask(made.alter_reassignments, {T0: (1, 3)})
    yield
    o.ask(made.alter_reassignments, {T0: (1, 4)})


def only_the_order_changes(o: Office) -> Iterator[None]:
    """Complete at once; the leader stays.

    zk = /brokers/topics/t 0:2,1
    zk = t-0 @0 leader 1 epoch 1 isr 1,2 by 1
    1.1 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 2,1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 2,1
    zk = /brokers/topics/t 0:2,1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 2,1
    answer NONE, t-0 NONE
    """
    made = o.start(2)
    o.topic("t", (1, 2))
    yield
    o.ask(made.alter_reassignments, {T0: (2, 1)})


def replicas_go(o: Office) -> Iterator[None]:
    """Complete at once, with another leader.

    zk = /brokers/topics/t 0:3,1,2 removing 0:1,2
    zk = t-0 @0 leader 3 epoch 1 isr 1,2,3 by 1
    1.1 > 3 LeaderAndIsr leaders 3: t-0 leader 3 epoch 1.1 by 1 isr 1,2,3 of 3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 1.1 by 1 isr 1,2,3 of 3
    zk = t-0 @1 leader 3 epoch 2 isr 2,3 by 1
    zk = t-0 @2 leader 3 epoch 3 isr 3 by 1
    1.1 > 3 LeaderAndIsr leaders 3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 3
    1.1 > 1 StopReplica: t-0 epoch 1
    1.1 > 2 StopReplica: t-0 epoch 2
    1.1 > 1,2 StopReplica: t-0 epoch 3 delete
    zk = /brokers/topics/t 0:3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 3
    answer NONE, t-0 NONE
    """
    made = o.start(2, 3)
    o.topic("t", (1, 2, 3))
    yield
    o.ask(made.alter_reassignments, {T0: (3,)})


def moves_that_are_refused(o: Office) -> Iterator[None]:
    """Nobody, twice the same, a negative id, one who is not there, one who takes its leave; a
    partition that is not there, a topic that is dying.

    answer NONE, t-0 INVALID_REPLICA_ASSIGNMENT
    answer NONE, t-0 INVALID_REPLICA_ASSIGNMENT
    answer NONE, t-0 INVALID_REPLICA_ASSIGNMENT
    answer NONE, t-0 INVALID_REPLICA_ASSIGNMENT
    answer NONE, t-0 INVALID_REPLICA_ASSIGNMENT
    answer NONE, dying-0 UNKNOWN_TOPIC_OR_PARTITION, t-1 UNKNOWN_TOPIC_OR_PARTITION
    """
    made = o.start(2, 3)
    o.topic("t", (1, 2))
    o.topic("dying", (1, 2))
    o.run()
    o.admin.create_delete_topic_path("dying")
    o.run()
    o.ask(made.controlled_shutdown, 3, -1)
    yield
    for target in ((), (1, 1), (1, -1), (1, 9), (1, 3)):
        o.ask(made.alter_reassignments, {T0: target})
    o.ask(made.alter_reassignments, {T1: (1, 2), TopicPartition("dying", 0): (2, 1)})


def a_dead_replica_stays(o: Office) -> Iterator[None]:
    """Only who is new must live.

    zk = /brokers/topics/t 0:3,2,1 adding 0:3 removing 0:1
    zk = t-0 @1 leader 1 epoch 2 isr 1 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1 of 3,2,1 adding 3 removing
        1
    1.1 > 3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1 of 3,2,1 adding 3 removing
        1 new
    1.1 > 1,3 UpdateMetadata live 1,3: t-0 leader 1 epoch 2.2 by 1 isr 1 of 3,2,1 offline 2
    1.1 > 3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1 of 3,2,1 adding 3 removing
        1 new
    1.1 > 1,3 UpdateMetadata live 1,3: t-0 leader 1 epoch 2.2 by 1 isr 1 of 3,2,1 offline 2
    answer NONE, t-0 NONE
    """
    made = o.start(2, 3)
    o.topic("t", (1, 2))
    o.run()
    o.leave(2)
    yield
    o.run()
    o.ask(made.alter_reassignments, {T0: (3, 2)})


def a_refused_isr_lets_none_end(o: Office) -> Iterator[None]:
    """Only an ISR that was accepted is looked at, whatever ZooKeeper says by now.

    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2
    answer NONE, 0 NOT_CONTROLLER
    zk = t-0 @1 leader 1 epoch 1 isr 1,2,3 by 1 -> BadVersionError
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2
    answer NONE, 0 INVALID_UPDATE_VERSION
    """
    made = o.start(2, 3)
    o.topic("t", (1, 2))
    o.run()
    o.ask(made.alter_reassignments, {T0: (1, 3)})
    state = o.admin.get_topic_partition_states([T0])[T0].leader_and_isr
    o.admin.update_leader_and_isr({T0: replace(state, isr=(1, 2, 3))}, 1, -1)
    yield
    o.alter_isr(1, "t-0", (1, 2), leader_epoch=9)
    o.alter_isr(1, "t-0", (1, 2, 3), partition_epoch=1)


def its_new_replica_dies_and_is_back(o: Office) -> Iterator[None]:
    """It is told again that it is new.

    channel - 3
    1.1 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2 adding 3
        removing 2
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2 offline 3
    channel + 3
    1.1 > 1,2 UpdateMetadata live 1,2,3
    1.1 > 3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2
    1.1 > 3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2 adding 3
        removing 2
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2
    zk = t-0 @1 leader 1 epoch 2 isr 1,2 by 1
    1.1 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 1,3,2 adding 3
        removing 2
    1.1 > 3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 1,3,2 adding 3
        removing 2 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 1,3,2
    """
    made = o.start(2, 3)
    o.topic("t", (1, 2))
    o.run()
    o.ask(made.alter_reassignments, {T0: (1, 3)})
    yield
    o.leave(3)
    o.run()
    o.join(3)


def its_old_replica_dies_and_is_back(o: Office) -> Iterator[None]:
    """maybeResumeReassignments: only who is to hold the partition lets a move go on. Who is to
    leave it is told its role, as anybody.

    channel - 2
    zk = t-0 @1 leader 1 epoch 2 isr 1 by 1
    1.1 > 1,3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1 of 1,3,2 adding 3
        removing 2
    1.1 > 1,3 UpdateMetadata live 1,3: t-0 leader 1 epoch 2.2 by 1 isr 1 of 1,3,2 offline 2
    channel + 2
    1.1 > 1,3 UpdateMetadata live 1,2,3
    1.1 > 2 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 2.2 by 1 isr 1 of 1,3,2
    1.1 > 2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1 of 1,3,2 adding 3
        removing 2
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 2.2 by 1 isr 1 of 1,3,2
    """
    made = o.start(2, 3)
    o.topic("t", (1, 2))
    o.run()
    o.ask(made.alter_reassignments, {T0: (1, 3)})
    yield
    o.leave(2)
    o.run()
    o.join(2)


def through_zookeeper(o: Office) -> Iterator[None]:
    """What is complete or cannot be is removed from the znode, which goes with the last; the latest
    wish counts.

    zk = /brokers/topics/t 0:1,3,2 1:2,1 adding 0:3 removing 0:2
    zk = t-0 @0 leader 1 epoch 1 isr 1,2 by 1
    1.1 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2 adding 3
        removing 2
    1.1 > 3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2 adding 3
        removing 2 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2
    1.1 > 3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2 adding 3
        removing 2 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,3,2
    zk = /brokers/topics/t 0:1,3,2 1:1,2 adding 0:3 removing 0:2
    zk = t-1 @0 leader 2 epoch 1 isr 2,1 by 1
    1.1 > 1,2 LeaderAndIsr leaders 2: t-1 leader 2 epoch 1.1 by 1 isr 2,1 of 1,2
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-1 leader 2 epoch 1.1 by 1 isr 2,1 of 1,2
    zk = /brokers/topics/t 0:1,3,2 1:1,2 adding 0:3 removing 0:2
    zk = /admin/reassign_partitions
        {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,3]},{"topic":"t","partition":7,"replicas":[1,2]}]}
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-1 leader 2 epoch 1.1 by 1 isr 2,1 of 1,2
    zk = /admin/reassign_partitions
        {"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,3]}]}
    zk - /admin/reassign_partitions
    zk = /brokers/topics/t 0:1,2 1:1,2
    1.1 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,2
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.1 by 1 isr 1,2 of 1,2
    1.1 > 3 StopReplica: t-0 epoch 1
    1.1 > 3 StopReplica: t-0 epoch 1 delete
    zk = t-0 @1 leader 1 epoch 2 isr 1,2 by 1
    1.1 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 1,2
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 1,2
    zk = /brokers/topics/t 0:1,2 1:1,2
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 2.2 by 1 isr 1,2 of 1,2
    answer NONE, t-0 NONE
    zk = /brokers/topics/t 0:1,2 1:2,1
    zk = t-1 @1 leader 2 epoch 2 isr 2,1 by 1
    1.1 > 1,2 LeaderAndIsr leaders 2: t-1 leader 2 epoch 2.2 by 1 isr 2,1 of 2,1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-1 leader 2 epoch 2.2 by 1 isr 2,1 of 2,1
    zk = /brokers/topics/t 0:1,2 1:2,1
    zk - /admin/reassign_partitions
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-1 leader 2 epoch 2.2 by 1 isr 2,1 of 2,1
    """
    made = o.start(2, 3)
    o.topic("t", (1, 2), (2, 1))
    yield
    o.admin.set_or_create(
        REASSIGN,
        b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1,3]},'
        b'{"topic":"t","partition":1,"replicas":[1,2]},'
        b'{"topic":"t","partition":7,"replicas":[1,2]}]}',
    )
    o.run()
    o.ask(made.alter_reassignments, {T0: (1, 2)})
    one = b'{"version":1,"partitions":[{"topic":"t","partition":1,"replicas":[2,1]}]}'
    o.admin.set_or_create(REASSIGN, one)

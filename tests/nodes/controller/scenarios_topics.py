"""Topics that are made, grow and go (KafkaController.processTopicChange,
processPartitionModifications, processTopicDeletion; TopicDeletionManager)."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from nodes.coordination import znodes
from nodes.core.assignment import ReplicaAssignment
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from tests.nodes.controller.transcript import Office


def grow(o: Office, topic: str, *replicas: tuple[int, ...]) -> None:
    """As an administrator adds partitions."""
    (known,) = o.admin.get_replica_assignment_and_topic_id_for_topics([topic])
    first = len(known.assignment)
    added = {TopicPartition(topic, first + p): ReplicaAssignment(r) for p, r in enumerate(replicas)}
    o.admin.set_topic_assignment(topic, known.topic_id, {**known.assignment, **added})


def is_made(o: Office) -> Iterator[None]:
    """The states first, then one LeaderAndIsr to each replica, then all brokers' UpdateMetadata.

    zk + /brokers/topics/t/partitions
    zk + /brokers/topics/t/partitions/0
    zk + /brokers/topics/t/partitions/1
    zk + t-0 leader 2 epoch 0 isr 2,3 by 1
    zk + t-1 leader 3 epoch 0 isr 3,1 by 1
    1.1 > 1 LeaderAndIsr leaders 3: t-1 leader 3 epoch 0.0 by 1 isr 3,1 of 3,1 new
    1.1 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 0.0 by 1 isr 2,3 of 2,3 new
    1.1 > 3 LeaderAndIsr leaders 2,3: t-0 leader 2 epoch 0.0 by 1 isr 2,3 of 2,3 new; t-1 leader
        3 epoch 0.0 by 1 isr 3,1 of 3,1 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 0.0 by 1 isr 2,3 of 2,3; t-1
        leader 3 epoch 0.0 by 1 isr 3,1 of 3,1
    states of t: 0 ONLINE: 2 ONLINE, 3 ONLINE; 1 ONLINE: 3 ONLINE, 1 ONLINE
    """
    o.start(2, 3)
    yield
    o.topic("t", (2, 3), (3, 1))
    o.run()
    o.look("t")


def is_made_of_dead_replicas(o: Office) -> Iterator[None]:
    """The ISR is of those that live; a partition without any waits for the first that comes.

    zk + /brokers/topics/t/partitions
    zk + /brokers/topics/t/partitions/0
    zk + t-0 leader 2 epoch 0 isr 2 by 1
    1.1 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 0.0 by 1 isr 2 of 3,2 new
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.0 by 1 isr 2 of 3,2 offline 3
    states of t: 0 ONLINE: 3 ONLINE, 2 ONLINE; 1 NEW: 3 ONLINE, 4 ONLINE
    channel + 4
    1.1 > 1,2 UpdateMetadata live 1,2,4
    1.1 > 4 UpdateMetadata live 1,2,4: t-0 leader 2 epoch 0.0 by 1 isr 2 of 3,2 offline 3
    zk + /brokers/topics/t/partitions -> NodeExistsError
    zk + /brokers/topics/t/partitions/1
    zk + t-1 leader 4 epoch 0 isr 4 by 1
    1.1 > 4 LeaderAndIsr leaders 4: t-1 leader 4 epoch 0.0 by 1 isr 4 of 3,4 new
    1.1 > 1,2,4 UpdateMetadata live 1,2,4: t-1 leader 4 epoch 0.0 by 1 isr 4 of 3,4 offline 3
    """
    o.start(2)
    yield
    o.topic("t", (3, 2), (3, 4))
    o.run()
    o.look("t")
    o.join(4)


def is_made_without_an_id(o: Office) -> Iterator[None]:
    """It is given one before anything else, and all are told of that.

    zk = /brokers/topics/t 0:2,1
    zk + /brokers/topics/t/partitions
    zk + /brokers/topics/t/partitions/0
    zk + t-0 leader 2 epoch 0 isr 2,1 by 1
    1.1 > 1,2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1 new
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1
    """
    o.start(2)
    yield
    tp = TopicPartition("t", 0)
    data = znodes.encode_topic(None, {tp: ReplicaAssignment((2, 1))})
    o.admin.set_or_create("/brokers/topics/t", data)


def two_are_made_at_once(o: Office) -> Iterator[None]:
    """One batch for both.

    zk + /brokers/topics/t/partitions
    zk + /brokers/topics/u/partitions
    zk + /brokers/topics/t/partitions/0
    zk + /brokers/topics/u/partitions/0
    zk + t-0 leader 1 epoch 0 isr 1,2 by 1
    zk + u-0 leader 2 epoch 0 isr 2,1 by 1
    1.1 > 1,2 LeaderAndIsr leaders 1,2: t-0 leader 1 epoch 0.0 by 1 isr 1,2 of 1,2 new; u-0
        leader 2 epoch 0.0 by 1 isr 2,1 of 2,1 new
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 0.0 by 1 isr 1,2 of 1,2; u-0 leader 2
        epoch 0.0 by 1 isr 2,1 of 2,1
    """
    o.start(2)
    yield
    o.topic("t", (1, 2))
    o.topic("u", (2, 1))


def grows_twice(o: Office) -> Iterator[None]:
    """Only the new partitions are made and told.

    zk + /brokers/topics/t/partitions -> NodeExistsError
    zk + /brokers/topics/t/partitions/1
    zk + t-1 leader 2 epoch 0 isr 2,1 by 1
    1.1 > 1,2 LeaderAndIsr leaders 2: t-1 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1 new
    1.1 > 1,2 UpdateMetadata live 1,2: t-1 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1
    zk + /brokers/topics/t/partitions -> NodeExistsError
    zk + /brokers/topics/t/partitions/2
    zk + /brokers/topics/t/partitions/3
    zk + t-2 leader 2 epoch 0 isr 2 by 1
    zk + t-3 leader 1 epoch 0 isr 1 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-3 leader 1 epoch 0.0 by 1 isr 1 of 1 new
    1.1 > 2 LeaderAndIsr leaders 2: t-2 leader 2 epoch 0.0 by 1 isr 2 of 2 new
    1.1 > 1,2 UpdateMetadata live 1,2: t-2 leader 2 epoch 0.0 by 1 isr 2 of 2; t-3 leader 1
        epoch 0.0 by 1 isr 1 of 1
    """
    o.start(2)
    o.topic("t", (1, 2))
    yield
    grow(o, "t", (2, 1))
    o.run()
    grow(o, "t", (2,), (1,))


def grows_while_it_dies(o: Office) -> Iterator[None]:
    """The partitions that it was to get are taken out of its znode again.

    zk = /brokers/topics/t 0:1,2
    zk - /brokers/topics/t/partitions/0/state
    zk - /brokers/topics/t/partitions/0
    zk - /brokers/topics/t/partitions
    zk - /brokers/topics/t
    zk - /config/topics/t -> NoNodeError
    zk - /admin/delete_topics/t
    """
    o.start(2)
    o.topic("t", (1, 2))
    o.run()
    o.admin.create_delete_topic_path("t")
    yield
    grow(o, "t", (2, 1))
    o.run()
    o.answer()


def dies(o: Office) -> Iterator[None]:
    """Leader -2 for all, then StopReplica, then StopReplica with delete; when all have answered its
    znodes go, the wish to delete it last. One of its name may come again.

    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader -2 epoch 0.0 by 1 isr 2,3 of 2,3; t-1
        leader -2 epoch 0.0 by 1 isr 3,1 of 3,1
    zk = t-0 @0 leader -1 epoch 1 isr 3 by 1
    zk = t-0 @1 leader -1 epoch 2 isr 3 by 1
    zk = t-1 @0 leader -1 epoch 1 isr 1 by 1
    zk = t-1 @1 leader -1 epoch 2 isr 1 by 1
    1.1 > 1 StopReplica: t-1 epoch -2
    1.1 > 2 StopReplica: t-0 epoch -2
    1.1 > 3 StopReplica: t-0 epoch -2; t-1 epoch -2
    1.1 > 1 StopReplica: t-1 epoch -2 delete
    1.1 > 2 StopReplica: t-0 epoch -2 delete
    1.1 > 3 StopReplica: t-0 epoch -2 delete; t-1 epoch -2 delete
    zk - /brokers/topics/t/partitions/0/state
    zk - /brokers/topics/t/partitions/0
    zk - /brokers/topics/t/partitions/1/state
    zk - /brokers/topics/t/partitions/1
    zk - /brokers/topics/t/partitions
    zk - /brokers/topics/t
    zk - /config/topics/t
    zk - /admin/delete_topics/t
    zk + /brokers/topics/t/partitions
    zk + /brokers/topics/t/partitions/0
    zk + t-0 leader 1 epoch 0 isr 1,3 by 1
    1.1 > 1,3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 0.0 by 1 isr 1,3 of 1,3 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 0.0 by 1 isr 1,3 of 1,3
    """
    o.start(2, 3)
    o.topic("t", (2, 3), (3, 1))
    o.topic("kept", (1, 2))
    o.admin.set_or_create("/config/topics/t", b"{}")
    yield
    o.admin.create_delete_topic_path("t")
    o.run()
    o.answer()
    o.answer()  # for a controller that was elected meanwhile
    o.run()
    o.topic("t", (1, 3), topic_id=77)


def goes_with_a_dead_replica(o: Office) -> Iterator[None]:
    """It halts until that is back; who has deleted need not again.

    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader -2 epoch 0.0 by 1 isr 2 of 2,3 offline 3; t-1
        leader -2 epoch 0.0 by 1 isr 1,2 of 1,2
    zk = t-0 @1 leader -1 epoch 2 isr 2 by 1
    zk = t-1 @0 leader 1 epoch 1 isr 1 by 1
    zk = t-1 @1 leader -1 epoch 2 isr 1 by 1
    1.1 > 1 StopReplica: t-1 epoch -2
    1.1 > 2 StopReplica: t-0 epoch -2; t-1 epoch -2
    1.1 > 1 StopReplica: t-1 epoch -2 delete
    1.1 > 2 StopReplica: t-0 epoch -2 delete; t-1 epoch -2 delete
    states of t: 0 NON_EXISTENT: 2 DELETION_STARTED, 3 DELETION_INELIGIBLE; 1 NON_EXISTENT: 1
        DELETION_STARTED, 2 DELETION_STARTED
    states of t: 0 NON_EXISTENT: 2 DELETION_SUCCESSFUL, 3 OFFLINE; 1 NON_EXISTENT: 1
        DELETION_SUCCESSFUL, 2 DELETION_SUCCESSFUL
    channel + 3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3
    1.1 > 3 LeaderAndIsr leaders : t-0 leader -1 epoch 2.2 by 1 isr 2 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader -2 epoch 0.0 by 1 isr 2 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader -2 epoch 0.0 by 1 isr 2 of 2,3; t-1 leader
        -2 epoch 0.0 by 1 isr 1 of 1,2
    1.1 > 3 StopReplica: t-0 epoch -2
    1.1 > 3 StopReplica: t-0 epoch -2 delete
    zk - /brokers/topics/t/partitions/0/state
    zk - /brokers/topics/t/partitions/0
    zk - /brokers/topics/t/partitions/1/state
    zk - /brokers/topics/t/partitions/1
    zk - /brokers/topics/t/partitions
    zk - /brokers/topics/t
    zk - /config/topics/t -> NoNodeError
    zk - /admin/delete_topics/t
    """
    o.start(2, 3)
    o.topic("t", (2, 3), (1, 2))
    o.run()
    o.leave(3)
    yield
    o.admin.create_delete_topic_path("t")
    o.run()
    o.look("t")
    o.answer()
    o.look("t")
    o.join(3)
    o.run()
    o.answer()


def a_replica_dies_while_it_goes(o: Office) -> Iterator[None]:
    """As one that was dead before.

    channel - 3
    1.1 > 1,2 UpdateMetadata live 1,2
    states of t: 0 NON_EXISTENT: 2 DELETION_STARTED, 3 DELETION_INELIGIBLE
    zk = t-0 @2 leader -1 epoch 3 isr 3 by 1
    channel + 3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3
    1.1 > 3 LeaderAndIsr leaders : t-0 leader -1 epoch 3.3 by 1 isr 3 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader -2 epoch 0.0 by 1 isr 3 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader -2 epoch 0.0 by 1 isr 3 of 2,3
    zk = t-0 @3 leader -1 epoch 4 isr 3 by 1
    1.1 > 3 StopReplica: t-0 epoch -2
    1.1 > 3 StopReplica: t-0 epoch -2 delete
    zk - /brokers/topics/t/partitions/0/state
    zk - /brokers/topics/t/partitions/0
    zk - /brokers/topics/t/partitions
    zk - /brokers/topics/t
    zk - /config/topics/t -> NoNodeError
    zk - /admin/delete_topics/t
    """
    o.start(2, 3)
    o.topic("t", (2, 3))
    o.run()
    o.answer()
    o.admin.create_delete_topic_path("t")
    yield
    o.leave(3)
    o.run()
    o.look("t")
    o.answer()
    o.join(3)
    o.run()
    o.answer()


def a_broker_cannot_delete(o: Office) -> Iterator[None]:
    """An error halts it until that broker is back.

    zk = t-0 @2 leader -1 epoch 3 isr 2 by 1
    1.1 > 2 StopReplica: t-0 epoch -2
    channel - 2
    channel + 2
    zk = t-0 @3 leader -1 epoch 4 isr 2 by 1
    1.1 > 1 UpdateMetadata live 1
    1.1 > 1,2 UpdateMetadata live 1,2
    1.1 > 2 LeaderAndIsr leaders : t-0 leader -1 epoch 4.4 by 1 isr 2 of 1,2
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader -2 epoch 0.0 by 1 isr 2 of 1,2
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader -2 epoch 0.0 by 1 isr 2 of 1,2
    zk = t-0 @4 leader -1 epoch 5 isr 2 by 1
    1.1 > 2 StopReplica: t-0 epoch -2
    1.1 > 2 StopReplica: t-0 epoch -2 delete
    zk - /brokers/topics/t/partitions/0/state
    zk - /brokers/topics/t/partitions/0
    zk - /brokers/topics/t/partitions
    zk - /brokers/topics/t
    zk - /config/topics/t -> NoNodeError
    zk - /admin/delete_topics/t
    """
    o.start(2)
    o.topic("t", (1, 2))
    o.run()
    o.answer()
    o.admin.create_delete_topic_path("t")
    yield
    o.answers = lambda b, *_: Errors.KAFKA_STORAGE_ERROR if b == 2 else Errors.NONE
    o.run()
    o.answer()
    o.answers = lambda *_: Errors.NONE
    o.leave(2)
    o.join(2)
    o.run()
    o.answer()


def a_topic_that_is_not_there_goes(o: Office) -> Iterator[None]:
    """The wish is removed, each time.

    zk - /admin/delete_topics/nowhere
    zk - /admin/delete_topics/nowhere
    """
    o.start(2)
    o.topic("t", (1, 2))
    yield
    o.admin.create_delete_topic_path("nowhere")
    o.run()
    o.admin.create_delete_topic_path("nowhere")


def topics_do_not_go(o: Office) -> Iterator[None]:
    """With delete.topic.enable=false the wish is removed, and nothing else done.

    zk - /admin/delete_topics/t
    """
    o.start(2, **{"delete.topic.enable": "false"})
    o.topic("t", (1, 2))
    yield
    o.admin.create_delete_topic_path("t")


def goes_while_it_moves(o: Office) -> Iterator[None]:
    """Not before the move is complete; brokers believe it gone already.

    zk = t-0 @1 leader 1 epoch 1 isr 1,2,3 by 1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader -2 epoch 0.0 by 1 isr 1,2,3 of 1,3,2
    answer NONE, 0 leader 1 epoch 1.2 isr 1,2,3
    zk = t-0 @2 leader 1 epoch 2 isr 1,2,3 by 1
    1.1 > 1,3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.3 by 1 isr 1,2,3 of 1,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader -2 epoch 0.0 by 1 isr 1,2,3 of 1,3
    zk = t-0 @3 leader 1 epoch 3 isr 1,3 by 1
    1.1 > 2 StopReplica: t-0 epoch -2
    1.1 > 2 StopReplica: t-0 epoch -2 delete
    zk = /brokers/topics/t 0:1,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader -2 epoch 0.0 by 1 isr 1,3 of 1,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader -2 epoch 0.0 by 1 isr 1,3 of 1,3
    zk = t-0 @4 leader -1 epoch 4 isr 3 by 1
    zk = t-0 @5 leader -1 epoch 5 isr 3 by 1
    1.1 > 1,3 StopReplica: t-0 epoch -2
    1.1 > 1,3 StopReplica: t-0 epoch -2 delete
    zk - /brokers/topics/t/partitions/0/state
    zk - /brokers/topics/t/partitions/0
    zk - /brokers/topics/t/partitions
    zk - /brokers/topics/t
    zk - /config/topics/t -> NoNodeError
    zk - /admin/delete_topics/t
    """
    made = o.start(2, 3)
    o.topic("t", (1, 2))
    o.run()
    o.ask(made.alter_reassignments, {TopicPartition("t", 0): (1, 3)})
    yield
    o.admin.create_delete_topic_path("t")
    o.run()
    o.alter_isr(1, "t-0", (1, 2, 3))
    o.answer()


def the_znode_of_a_topic_vanishes(o: Office) -> Iterator[None]:
    """Without the controller: it says nothing.

    states of t: none
    1.1 > 1,2 UpdateMetadata live 1,2
    answer NONE, 0 UNKNOWN_TOPIC_ID
    """
    o.start(2)
    o.topic("t", (1, 2))
    yield
    o.admin.delete_recursive("/brokers/topics/t")
    o.run()
    o.look("t")
    o.alter_isr(1, "t-0", (1,), topic_id=UUID(int=ord("t")))


def an_isr_of_the_topic_of_that_name_before(o: Office) -> Iterator[None]:
    """Is of no topic that there is.

    1.1 > 1,2 UpdateMetadata live 1,2
    answer NONE, 0 UNKNOWN_TOPIC_ID
    zk = t-0 @0 leader 1 epoch 0 isr 1 by 1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 0.1 by 1 isr 1 of 1,2
    answer NONE, 0 leader 1 epoch 0.1 isr 1
    """
    o.start(2)
    o.topic("t", (1, 2), topic_id=5)
    o.run()
    o.admin.create_delete_topic_path("t")
    o.run()
    o.answer()
    o.topic("t", (1, 2), topic_id=6)
    yield
    o.alter_isr(1, "t-0", (1,), topic_id=UUID(int=5))
    o.alter_isr(1, "t-0", (1,), topic_id=UUID(int=6))


def goes_though_a_replica_was_dead_at_takeover(o: Office) -> Iterator[None]:
    """Nobody wanted it gone then: what would have held up its deletion is over, and forgotten.

    4.2 > 1,2,4 UpdateMetadata live 1,2,4: t-0 leader -2 epoch 0.0 by 2 isr 2 of 2,1
    zk = t-0 @1 leader -1 epoch 2 isr 2 by 2
    4.2 > 1,2 StopReplica: t-0 epoch -2
    4.2 > 1,2 StopReplica: t-0 epoch -2 delete
    zk - /brokers/topics/t/partitions/0/state
    zk - /brokers/topics/t/partitions/0
    zk - /brokers/topics/t/partitions
    zk - /brokers/topics/t
    zk - /config/topics/t -> NoNodeError
    zk - /admin/delete_topics/t
    """
    o.start(2)
    o.topic("t", (2, 1))
    o.run()
    o.leave(1)
    del o.controllers[1]
    o.candidate(4)
    o.run()
    o.join(1)
    o.run()
    o.answer()
    yield
    o.admin.create_delete_topic_path("t")
    o.run()
    o.answer()
    o.answer()

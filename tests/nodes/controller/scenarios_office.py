"""Taking office and losing it (KafkaController.elect, onControllerFailover,
onControllerResignation, triggerControllerMove)."""

from __future__ import annotations

from collections.abc import Iterator

from nodes.coordination import znodes
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.wire.apis import ApiKey
from tests.nodes.controller.scenarios_elections import led_elsewhere
from tests.nodes.controller.transcript import Office, broker


def is_the_first(o: Office) -> Iterator[None]:
    """The epoch's znode is made, and raised with the election; a later candidate only watches.

    unfenced zk + /controller_epoch
    unfenced zk + /controller ephemeral, = /controller_epoch @0
    channel + 1
    channel + 2
    1.1 > 1,2 UpdateMetadata live 1,2
    channel + 3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3
    """
    o.join(2)
    yield
    o.candidate(1)
    o.run()
    o.candidate(3)


def vacant(o: Office) -> None:
    """Broker 1 was the controller, and is gone; 2 stands next."""
    o.run()
    o.leave(1)
    del o.controllers[1]


def finds_all_in_order(o: Office) -> Iterator[None]:
    """Who lives, then the roles as they were, by whom they were; nothing is written.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 2
    channel + 3
    channel + 4
    4.2 > 2,3,4 UpdateMetadata live 2,3,4
    4.2 > 2,3 LeaderAndIsr leaders 2,3: t-0 leader 2 epoch 0.0 by 1 isr 2,3 of 2,3; t-1 leader 3
        epoch 0.0 by 1 isr 3,2 of 3,2
    4.2 > 2,3,4 UpdateMetadata live 2,3,4: t-0 leader 2 epoch 0.0 by 1 isr 2,3 of 2,3; t-1
        leader 3 epoch 0.0 by 1 isr 3,2 of 3,2
    """
    o.start(2, 3)
    o.topic("t", (2, 3), (3, 2))
    vacant(o)
    yield
    o.candidate(4)


def finds_a_dead_leader(o: Office) -> Iterator[None]:
    """Roles as they were, dead replicas out of the ISRs, then the election.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 2
    channel + 3
    channel + 4
    4.2 > 2,3,4 UpdateMetadata live 2,3,4
    4.2 > 2 LeaderAndIsr leaders 2: t-0 leader 1 epoch 0.0 by 1 isr 1,2 of 1,2; t-1 leader 2
        epoch 0.0 by 1 isr 2,1,3 of 2,1,3
    4.2 > 3 LeaderAndIsr leaders 2: t-1 leader 2 epoch 0.0 by 1 isr 2,1,3 of 2,1,3
    4.2 > 2,3,4 UpdateMetadata live 2,3,4: t-0 leader 1 epoch 0.0 by 1 isr 1,2 of 1,2 offline 1;
        t-1 leader 2 epoch 0.0 by 1 isr 2,1,3 of 2,1,3 offline 1
    zk = t-0 @0 leader -1 epoch 1 isr 2 by 2
    zk = t-1 @0 leader 2 epoch 1 isr 2,3 by 2
    zk = t-2 @0 leader -1 epoch 1 isr 1 by 2
    4.2 > 2 LeaderAndIsr leaders 2: t-0 leader -1 epoch 1.1 by 2 isr 2 of 1,2; t-1 leader 2
        epoch 1.1 by 2 isr 2,3 of 2,1,3
    4.2 > 3 LeaderAndIsr leaders 2: t-1 leader 2 epoch 1.1 by 2 isr 2,3 of 2,1,3
    4.2 > 2,3,4 UpdateMetadata live 2,3,4: t-0 leader -1 epoch 1.1 by 2 isr 2 of 1,2 offline 1;
        t-1 leader 2 epoch 1.1 by 2 isr 2,3 of 2,1,3 offline 1; t-2 leader -1 epoch 1.1 by 2 isr
        1 of 1 offline 1
    zk = t-0 @1 leader 2 epoch 2 isr 2 by 2
    4.2 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 2.2 by 2 isr 2 of 1,2
    4.2 > 2,3,4 UpdateMetadata live 2,3,4: t-0 leader 2 epoch 2.2 by 2 isr 2 of 1,2 offline 1
    """
    o.start(2, 3)
    o.topic("t", (1, 2), (2, 1, 3), (1,))
    vacant(o)
    yield
    o.candidate(4)


def finds_new_topics(o: Office) -> Iterator[None]:
    """Those without a state are made; those without a live replica wait.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 2
    channel + 3
    channel + 4
    4.2 > 2,3,4 UpdateMetadata live 2,3,4
    4.2 > 2,3,4 UpdateMetadata live 2,3,4
    zk + /brokers/topics/t/partitions
    zk + /brokers/topics/t/partitions/0
    zk + t-0 leader 2 epoch 0 isr 2,3 by 2
    4.2 > 2,3 LeaderAndIsr leaders 2: t-0 leader 2 epoch 0.0 by 2 isr 2,3 of 2,3 new
    4.2 > 2,3,4 UpdateMetadata live 2,3,4: t-0 leader 2 epoch 0.0 by 2 isr 2,3 of 2,3
    zk + /brokers/topics/u/partitions
    zk + /brokers/topics/u/partitions/0
    zk + u-0 leader 2 epoch 0 isr 2 by 2
    4.2 > 2 LeaderAndIsr leaders 2: u-0 leader 2 epoch 0.0 by 2 isr 2 of 2 new
    4.2 > 2,3,4 UpdateMetadata live 2,3,4: u-0 leader 2 epoch 0.0 by 2 isr 2 of 2
    """
    o.start(2, 3)
    vacant(o)
    o.topic("t", (2, 3), (1,))
    yield
    o.candidate(4)
    o.run()
    o.topic("u", (2,))


def finds_moves(o: Office) -> Iterator[None]:
    """It goes on with each from where it was; what the znode asks for comes first.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 2
    channel + 3
    channel + 4
    channel + 5
    5.2 > 2,3,4,5 UpdateMetadata live 2,3,4,5
    5.2 > 2,4 LeaderAndIsr leaders 2: dying-0 leader 2 epoch 1.1 by 1 isr 2,3 of 2,4,3 adding 4
        removing 3; t-0 leader 2 epoch 1.1 by 1 isr 2,3 of 2,4,3 adding 4 removing 3; t-1 leader
        2 epoch 1.2 by 1 isr 2,3,4 of 2,4,3 adding 4 removing 3
    5.2 > 3 LeaderAndIsr leaders 2,3: dying-0 leader 2 epoch 1.1 by 1 isr 2,3 of 2,4,3 adding 4
        removing 3; t-0 leader 2 epoch 1.1 by 1 isr 2,3 of 2,4,3 adding 4 removing 3; t-1 leader
        2 epoch 1.2 by 1 isr 2,3,4 of 2,4,3 adding 4 removing 3; t-2 leader 3 epoch 0.0 by 1 isr
        3 of 3
    5.2 > 2,3,4,5 UpdateMetadata live 2,3,4,5: dying-0 leader -2 epoch 0.0 by 1 isr 2,3 of
        2,4,3; t-0 leader 2 epoch 1.1 by 1 isr 2,3 of 2,4,3; t-1 leader 2 epoch 1.2 by 1 isr
        2,3,4 of 2,4,3; t-2 leader 3 epoch 0.0 by 1 isr 3 of 3
    zk = /brokers/topics/t 0:2,4,3 1:2,4,3 2:2,3 adding 0:4 1:4 2:2 removing 0:3 1:3 2:3
    zk = t-2 @0 leader 3 epoch 1 isr 3 by 2
    5.2 > 2 LeaderAndIsr leaders 3: t-2 leader 3 epoch 1.1 by 2 isr 3 of 2,3 adding 2 removing 3
        new
    5.2 > 3 LeaderAndIsr leaders 3: t-2 leader 3 epoch 1.1 by 2 isr 3 of 2,3 adding 2 removing 3
    5.2 > 2,3,4,5 UpdateMetadata live 2,3,4,5: t-2 leader 3 epoch 1.1 by 2 isr 3 of 2,3
    5.2 > 2 LeaderAndIsr leaders 3: t-2 leader 3 epoch 1.1 by 2 isr 3 of 2,3 adding 2 removing 3
        new
    5.2 > 2,3,4,5 UpdateMetadata live 2,3,4,5: t-2 leader 3 epoch 1.1 by 2 isr 3 of 2,3
    zk = dying-0 @1 leader 2 epoch 2 isr 2,3 by 2
    5.2 > 2,3 LeaderAndIsr leaders 2: dying-0 leader 2 epoch 2.2 by 2 isr 2,3 of 2,4,3 adding 4
        removing 3
    5.2 > 4 LeaderAndIsr leaders 2: dying-0 leader 2 epoch 2.2 by 2 isr 2,3 of 2,4,3 adding 4
        removing 3 new
    5.2 > 2,3,4,5 UpdateMetadata live 2,3,4,5: dying-0 leader -2 epoch 0.0 by 2 isr 2,3 of 2,4,3
    zk = t-0 @1 leader 2 epoch 2 isr 2,3 by 2
    5.2 > 2,3 LeaderAndIsr leaders 2: t-0 leader 2 epoch 2.2 by 2 isr 2,3 of 2,4,3 adding 4
        removing 3
    5.2 > 4 LeaderAndIsr leaders 2: t-0 leader 2 epoch 2.2 by 2 isr 2,3 of 2,4,3 adding 4
        removing 3 new
    5.2 > 2,3,4,5 UpdateMetadata live 2,3,4,5: t-0 leader 2 epoch 2.2 by 2 isr 2,3 of 2,4,3
    5.2 > 4 LeaderAndIsr leaders 2: t-1 leader 2 epoch 1.2 by 1 isr 2,3,4 of 2,4,3 adding 4
        removing 3
    5.2 > 2,3,4,5 UpdateMetadata live 2,3,4,5: t-1 leader 2 epoch 1.2 by 1 isr 2,3,4 of 2,4,3
    zk = t-1 @2 leader 2 epoch 2 isr 2,3,4 by 2
    5.2 > 2,4 LeaderAndIsr leaders 2: t-1 leader 2 epoch 2.3 by 2 isr 2,3,4 of 2,4
    5.2 > 2,3,4,5 UpdateMetadata live 2,3,4,5: t-1 leader 2 epoch 2.3 by 2 isr 2,3,4 of 2,4
    zk = t-1 @3 leader 2 epoch 3 isr 2,4 by 2
    5.2 > 2,4 LeaderAndIsr leaders 2: t-1 leader 2 epoch 3.4 by 2 isr 2,4 of 2,4
    5.2 > 2,3,4,5 UpdateMetadata live 2,3,4,5: t-1 leader 2 epoch 3.4 by 2 isr 2,4 of 2,4
    5.2 > 3 StopReplica: t-1 epoch 2
    5.2 > 3 StopReplica: t-1 epoch 3 delete
    zk = /brokers/topics/t 0:2,4,3 1:2,4 2:2,3 adding 0:4 2:2 removing 0:3 2:3
    5.2 > 2,3,4,5 UpdateMetadata live 2,3,4,5: t-1 leader 2 epoch 3.4 by 2 isr 2,4 of 2,4
    """
    made = o.start(2, 3)
    o.topic("t", (2, 3), (2, 3), (3,))
    o.topic("dying", (2, 3))
    o.run()
    o.join(4)
    o.run()
    moves = {TopicPartition("t", p): (2, 4) for p in (0, 1)}
    o.ask(made.alter_reassignments, {**moves, TopicPartition("dying", 0): (2, 4)})
    o.admin.create_delete_topic_path("dying")
    vacant(o)
    state = b'{"version":1,"leader":2,"leader_epoch":1,"isr":[2,3,4],"controller_epoch":1}'
    o.admin.set_or_create("/brokers/topics/t/partitions/1/state", state)
    wish = b'{"version":1,"partitions":[{"topic":"t","partition":2,"replicas":[2]}]}'
    o.admin.set_or_create("/admin/reassign_partitions", wish)
    yield
    o.candidate(5)


def finds_deletions(o: Office) -> Iterator[None]:
    """What is whole is deleted, what lacks a replica waits for it.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 2
    channel + 3
    channel + 4
    4.2 > 2,3,4 UpdateMetadata live 2,3,4
    4.2 > 2 LeaderAndIsr leaders 2: kept-0 leader 2 epoch 0.0 by 1 isr 2 of 2; lacking-0 leader
        2 epoch 0.0 by 1 isr 2,1 of 2,1; whole-0 leader 2 epoch 0.0 by 1 isr 2,3 of 2,3
    4.2 > 3 LeaderAndIsr leaders 2: whole-0 leader 2 epoch 0.0 by 1 isr 2,3 of 2,3
    4.2 > 2,3,4 UpdateMetadata live 2,3,4: kept-0 leader 2 epoch 0.0 by 1 isr 2 of 2; lacking-0
        leader -2 epoch 0.0 by 1 isr 2,1 of 2,1 offline 1; whole-0 leader -2 epoch 0.0 by 1 isr
        2,3 of 2,3
    zk = lacking-0 @0 leader 2 epoch 1 isr 2 by 2
    4.2 > 2,3,4 UpdateMetadata live 2,3,4: whole-0 leader -2 epoch 0.0 by 1 isr 2,3 of 2,3
    zk = whole-0 @0 leader -1 epoch 1 isr 3 by 2
    zk = whole-0 @1 leader -1 epoch 2 isr 3 by 2
    4.2 > 2,3 StopReplica: whole-0 epoch -2
    4.2 > 2,3 StopReplica: whole-0 epoch -2 delete
    zk - /brokers/topics/whole/partitions/0/state
    zk - /brokers/topics/whole/partitions/0
    zk - /brokers/topics/whole/partitions
    zk - /brokers/topics/whole
    zk - /config/topics/whole -> NoNodeError
    zk - /admin/delete_topics/whole
    channel + 1
    4.2 > 1 UpdateMetadata live 1,2,3,4: kept-0 leader 2 epoch 0.0 by 1 isr 2 of 2
    4.2 > 2,3,4 UpdateMetadata live 1,2,3,4
    4.2 > 1 LeaderAndIsr leaders 2: lacking-0 leader 2 epoch 1.1 by 2 isr 2 of 2,1
    4.2 > 1,2,3,4 UpdateMetadata live 1,2,3,4: lacking-0 leader -2 epoch 0.0 by 2 isr 2 of 2,1
    4.2 > 1,2,3,4 UpdateMetadata live 1,2,3,4: lacking-0 leader -2 epoch 0.0 by 2 isr 2 of 2,1
    zk = lacking-0 @1 leader -1 epoch 2 isr 2 by 2
    4.2 > 1,2 StopReplica: lacking-0 epoch -2
    4.2 > 1,2 StopReplica: lacking-0 epoch -2 delete
    zk - /brokers/topics/lacking/partitions/0/state
    zk - /brokers/topics/lacking/partitions/0
    zk - /brokers/topics/lacking/partitions
    zk - /brokers/topics/lacking
    zk - /config/topics/lacking -> NoNodeError
    zk - /admin/delete_topics/lacking
    """
    o.start(2, 3)
    o.topic("whole", (2, 3))
    o.topic("lacking", (2, 1))
    o.topic("kept", (2,))
    vacant(o)
    for topic in ("whole", "lacking"):
        o.admin.create_delete_topic_path(topic)
    yield
    o.candidate(4)
    o.run()
    o.answer()
    o.join(1)
    o.run()
    o.answer()


def finds_a_dead_leader_of_what_is_to_go(o: Office) -> Iterator[None]:
    """Nobody is elected for a topic that is to be deleted, and cannot be yet.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 2
    channel + 3
    channel + 4
    4.2 > 2,3,4 UpdateMetadata live 2,3,4
    4.2 > 2 LeaderAndIsr leaders : t-0 leader 1 epoch 0.0 by 1 isr 1,2 of 1,2
    4.2 > 2,3,4 UpdateMetadata live 2,3,4: t-0 leader -2 epoch 0.0 by 1 isr 1,2 of 1,2 offline 1
    zk = t-0 @0 leader -1 epoch 1 isr 2 by 2
    states of t: 0 OFFLINE: 1 OFFLINE, 2 ONLINE
    """
    o.start(2, 3)
    o.topic("t", (1, 2))
    vacant(o)
    o.admin.create_delete_topic_path("t")
    yield
    o.candidate(4)
    o.run()
    o.look("t", by=4)


def finds_deletions_that_it_does_not_do(o: Office) -> Iterator[None]:
    """The wish is removed.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 2
    channel + 4
    zk - /admin/delete_topics/t
    4.2 > 2,4 UpdateMetadata live 2,4
    4.2 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 0.0 by 1 isr 2 of 2
    4.2 > 2,4 UpdateMetadata live 2,4: t-0 leader 2 epoch 0.0 by 1 isr 2 of 2
    """
    o.start(2)
    o.topic("t", (2,))
    vacant(o)
    o.admin.create_delete_topic_path("t")
    yield
    o.candidate(4, **{"delete.topic.enable": "false"})


def finds_an_election_to_hold(o: Office) -> Iterator[None]:
    """After all else; its znode goes then.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 2
    channel + 3
    channel + 4
    4.2 > 2,3,4 UpdateMetadata live 2,3,4
    4.2 > 2,3 LeaderAndIsr leaders 3: t-0 leader 3 epoch 1.2 by 1 isr 2,3 of 2,3; t-1 leader 3
        epoch 1.2 by 1 isr 3,2 of 3,2
    4.2 > 2,3,4 UpdateMetadata live 2,3,4: t-0 leader 3 epoch 1.2 by 1 isr 2,3 of 2,3; t-1
        leader 3 epoch 1.2 by 1 isr 3,2 of 3,2
    zk = t-0 @2 leader 2 epoch 2 isr 2,3 by 2
    4.2 > 2,3 LeaderAndIsr leaders 2: t-0 leader 2 epoch 2.3 by 2 isr 2,3 of 2,3
    4.2 > 2,3,4 UpdateMetadata live 2,3,4: t-0 leader 2 epoch 2.3 by 2 isr 2,3 of 2,3
    zk - /admin/preferred_replica_election
    """
    o.start(2, 3)
    led_elsewhere(o, (2, 3), (3, 2))
    vacant(o)
    wish = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    o.admin.set_or_create("/admin/preferred_replica_election", wish)
    yield
    o.candidate(4)


def loses_it_to_another(o: Office) -> Iterator[None]:
    """It closes its channels and says no more; the other's epoch is higher, partitions keep theirs.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 1
    channel + 2
    channel + 3
    3.2 > 1,2,3 UpdateMetadata live 1,2,3
    3.2 > 1,2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1
    3.2 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1
    channel - 1
    channel - 2
    channel - 3
    """
    o.start(2)
    o.candidate(3)
    o.topic("t", (2, 1))
    yield
    o.admin.delete_recursive("/controller")
    assert o.step(o.controllers[3]) == "Reelect"


def hears_of_brokers_when_it_has_lost_it(o: Office) -> Iterator[None]:
    """What came while it was still in office, and is taken up after: it opens no channel to the new
    one, and tells nobody of the other's new endpoint. Its successor does.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 1
    channel + 2
    channel + 3
    3.2 > 1,2,3 UpdateMetadata live 1,2,3
    channel - 1
    channel - 2
    channel - 3
    channel + 4
    3.2 > 1,2,3,4 UpdateMetadata live 1,2,3,4
    3.2 > 1,2,3,4 UpdateMetadata live 1,2,3,4
    """
    o.start(2)
    o.candidate(3)
    yield
    o.admin.delete_recursive("/controller")
    assert o.step(o.controllers[3]) == "Reelect"
    o.join(4)
    moved = znodes.encode_broker(broker(2, port=9999), jmx_port=-1, now_ms=1)
    o.admin.set_or_create("/brokers/ids/2", moved)


def does_not_notice_and_writes(o: Office) -> Iterator[None]:
    """The write is refused; it resigns and says nothing of what it had decided.

    channel - 2
    zk = t-0 @0 leader 1 epoch 1 isr 1 by 1 -> BadVersionError
    channel - 1
    """
    o.start(2)
    o.topic("t", (2, 1))
    yield
    o.leave(2)
    o.before_write(1, lambda: o.usurp(3))


def its_session_ends_and_others_wait(o: Office) -> Iterator[None]:
    """It stands again with the next session.

    channel - 1
    channel - 2
    channel - 3
    unfenced zk + /brokers/ids/1 ephemeral, = /brokers/ids/1 @0
    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 1
    channel + 2
    channel + 3
    1.2 > 1,2,3 UpdateMetadata live 1,2,3
    1.2 > 1,2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1
    1.2 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1
    """
    o.start(2)
    o.candidate(3)
    o.topic("t", (2, 1))
    yield
    o.expire(1)


def what_it_knew_counts_no_more(o: Office) -> Iterator[None]:
    """Who took its leave, which disk had failed: in the next office nobody has, none is.

    channel - 1
    channel - 2
    channel - 3
    unfenced zk + /brokers/ids/1 ephemeral, = /brokers/ids/1 @0
    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 1
    channel + 2
    channel + 3
    1.2 > 1,2,3 UpdateMetadata live 1,2,3
    1.2 > 2,3 LeaderAndIsr leaders 3: t-0 leader 3 epoch 1.1 by 1 isr 3 of 2,3
    1.2 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 1.1 by 1 isr 3 of 2,3
    states of t: 0 ONLINE: 2 ONLINE, 3 ONLINE
    zk + /brokers/topics/u/partitions
    zk + /brokers/topics/u/partitions/0
    zk + u-0 leader 2 epoch 0 isr 2,3 by 2
    1.2 > 2,3 LeaderAndIsr leaders 2: u-0 leader 2 epoch 0.0 by 2 isr 2,3 of 2,3 new
    1.2 > 1,2,3 UpdateMetadata live 1,2,3: u-0 leader 2 epoch 0.0 by 2 isr 2,3 of 2,3
    """
    made = o.start(2, 3)
    o.topic("t", (2, 3))
    o.run()
    o.answers = lambda b, *_: Errors.KAFKA_STORAGE_ERROR if b == 2 else Errors.NONE
    o.answer(ApiKey.LEADER_AND_ISR)
    o.ask(made.controlled_shutdown, 2, -1)
    yield
    o.expire(1)
    o.look("t")
    o.topic("u", (2, 3))


def it_fails_in_office_with_open_channels(o: Office) -> Iterator[None]:
    """They end before the office is given back: who is elected next speaks alone.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 2
    channel + 3
    channel - 2
    channel - 3
    zk - /controller
    unfenced zk + /controller ephemeral, = /controller_epoch @2
    channel + 2
    channel + 3
    3.3 > 2,3 UpdateMetadata live 2,3
    """
    o.start(2)
    o.candidate(3)
    o.run()
    fail = iter([True])
    real = o.channels[3].startup

    def startup(brokers: object) -> None:
        real(brokers)  # type: ignore[arg-type]
        if next(fail, False):
            raise RuntimeError("no channels today")

    o.channels[3].startup = startup  # type: ignore[method-assign]
    yield
    o.leave(1)
    del o.controllers[1]


def it_fails_in_office(o: Office) -> Iterator[None]:
    """It gives the office back, and stands again.

    unfenced zk + /controller ephemeral, = /controller_epoch @1
    zk - /controller
    unfenced zk + /controller ephemeral, = /controller_epoch @2
    zk - /controller
    unfenced zk + /controller ephemeral, = /controller_epoch @3
    channel + 2
    channel + 3
    3.4 > 2,3 UpdateMetadata live 2,3
    3.4 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1
    3.4 > 2,3 UpdateMetadata live 2,3: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1 offline 1
    zk = t-0 @0 leader 2 epoch 1 isr 2 by 4
    3.4 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 1.1 by 4 isr 2 of 2,1
    3.4 > 2,3 UpdateMetadata live 2,3: t-0 leader 2 epoch 1.1 by 4 isr 2 of 2,1 offline 1
    """
    o.start(2)
    o.candidate(3)
    o.topic("t", (2, 1))
    o.run()
    fail = iter([True, True])
    real = o.channels[3].startup

    def startup(brokers: object) -> None:
        if next(fail, False):
            raise RuntimeError("no channels today")
        real(brokers)  # type: ignore[arg-type]

    o.channels[3].startup = startup  # type: ignore[method-assign]
    yield
    o.leave(1)
    del o.controllers[1]

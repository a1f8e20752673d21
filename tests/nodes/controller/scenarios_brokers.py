"""Brokers that come, go, bounce and move (KafkaController.processBrokerChange,
processBrokerModification, onBrokerStartup, onBrokerFailure, onReplicasBecomeOffline), and those
that take their leave (doControlledShutdown)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from nodes.coordination import znodes
from tests.nodes.controller.transcript import Office, broker


def comes_with_nothing(o: Office) -> Iterator[None]:
    """A new broker: the others hear of it, it hears of every partition.

    channel + 3
    1.1 > 1,2 UpdateMetadata live 1,2,3
    1.1 > 3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 0.0 by 1 isr 1,2 of 1,2
    """
    o.start(2)
    o.topic("t", (1, 2))
    yield
    o.join(3)


def comes_back(o: Office) -> Iterator[None]:
    """It gets its roles again, and leads where nobody else could.

    channel + 3
    1.1 > 1,2 UpdateMetadata live 1,2,3
    1.1 > 3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.1 by 1 isr 2 of 2,3; t-1 leader 1
        epoch 1.1 by 1 isr 1 of 3,1; t-2 leader -1 epoch 1.1 by 1 isr 3 of 3
    1.1 > 3 LeaderAndIsr leaders 1,2: t-0 leader 2 epoch 1.1 by 1 isr 2 of 2,3; t-1 leader 1
        epoch 1.1 by 1 isr 1 of 3,1; t-2 leader -1 epoch 1.1 by 1 isr 3 of 3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.1 by 1 isr 2 of 2,3; t-1 leader
        1 epoch 1.1 by 1 isr 1 of 3,1; t-2 leader -1 epoch 1.1 by 1 isr 3 of 3
    zk = t-2 @1 leader 3 epoch 2 isr 3 by 1
    1.1 > 3 LeaderAndIsr leaders 3: t-2 leader 3 epoch 2.2 by 1 isr 3 of 3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-2 leader 3 epoch 2.2 by 1 isr 3 of 3
    states of t: 0 ONLINE: 2 ONLINE, 3 ONLINE; 1 ONLINE: 3 ONLINE, 1 ONLINE; 2 ONLINE: 3 ONLINE
    """
    o.start(2, 3)
    o.topic("t", (2, 3), (3, 1), (3,))
    o.run()
    o.leave(3)
    yield
    o.join(3)
    o.run()
    o.look("t")


def comes_back_alone_in_the_isr(o: Office) -> Iterator[None]:
    """Who was last in the ISR is waited for; who is not in it may not lead.

    channel + 3
    1.1 > 1,2 UpdateMetadata live 1,2,3
    1.1 > 3 UpdateMetadata live 1,2,3: t-0 leader -1 epoch 2.2 by 1 isr 3 of 2,3
    1.1 > 3 LeaderAndIsr leaders : t-0 leader -1 epoch 2.2 by 1 isr 3 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader -1 epoch 2.2 by 1 isr 3 of 2,3
    zk = t-0 @2 leader 3 epoch 3 isr 3 by 1
    1.1 > 2,3 LeaderAndIsr leaders 3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 3.3 by 1 isr 3 of 2,3
    """
    o.start(2, 3)
    o.topic("t", (2, 3))
    o.run()
    o.leave(2)
    o.run()
    o.leave(3)
    o.run()
    o.join(2)
    yield
    o.join(3)


def goes_with_nothing(o: Office) -> Iterator[None]:
    """Those who are left hear of it.

    channel - 3
    1.1 > 1,2 UpdateMetadata live 1,2
    """
    o.start(2, 3)
    o.topic("t", (1, 2))
    yield
    o.leave(3)


def goes_when_something_can_be_led_again(o: Office) -> Iterator[None]:
    """It had nothing itself; the election that its death brings about tells of the death, too.

    channel - 3
    zk = t-0 @2 leader 4 epoch 3 isr 4 by 1 recovering
    1.1 > 4 LeaderAndIsr leaders 4: t-0 leader 4 epoch 3.3 by 1 isr 4 of 2,4 recovering
    1.1 > 1,4 UpdateMetadata live 1,4: t-0 leader 4 epoch 3.3 by 1 isr 4 of 2,4 offline 2
    """
    o.start(2, 3, 4)
    o.topic("t", (2, 4))
    o.run()
    for broker_id in (4, 2):
        o.leave(broker_id)
        o.run()
    o.join(4)
    o.run()
    o.admin.set_or_create_entity_configs("topics", "t", {"unclean.leader.election.enable": "true"})
    yield
    o.leave(3)


def goes(o: Office) -> Iterator[None]:
    """What it led gets a leader, what it followed a smaller ISR, what only it had no leader.

    channel - 3
    zk = t-1 @0 leader 1 epoch 1 isr 1 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1
    1.1 > 1,2 UpdateMetadata live 1,2: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1 offline 3
    zk = t-0 @0 leader 2 epoch 1 isr 2 by 1
    zk = t-2 @0 leader -1 epoch 1 isr 3 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1
    1.1 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 1.1 by 1 isr 2 of 2,3
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 1.1 by 1 isr 2 of 2,3 offline 3; t-1
        leader 1 epoch 1.1 by 1 isr 1 of 3,1 offline 3; t-2 leader -1 epoch 1.1 by 1 isr 3 of 3
        offline 3
    states of t: 0 ONLINE: 2 ONLINE, 3 OFFLINE; 1 ONLINE: 3 OFFLINE, 1 ONLINE; 2 OFFLINE: 3
        OFFLINE; 3 ONLINE: 2 ONLINE, 1 ONLINE
    """
    o.start(2, 3)
    o.topic("t", (2, 3), (3, 1), (3,), (2, 1))
    yield
    o.leave(3)
    o.run()
    o.look("t")


def goes_from_a_new_partition(o: Office) -> Iterator[None]:
    """The partition that never had a leader is left alone.

    channel - 2
    zk = t-1 @0 leader -1 epoch 1 isr 2 by 1
    1.1 > 1 UpdateMetadata live 1: t-1 leader -1 epoch 1.1 by 1 isr 2 of 2,3 offline 2,3
    """
    o.start(2)
    o.topic("t", (3,), (2, 3))
    yield
    o.leave(2)


def two_go_at_once(o: Office) -> Iterator[None]:
    """The last one in the ISR stays there, dead as it is.

    channel - 2
    channel - 3
    zk = t-0 @0 leader 1 epoch 1 isr 1 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,3,1
    1.1 > 1 UpdateMetadata live 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,3,1 offline 2,3
    zk = t-1 @0 leader 3 epoch 1 isr 3 by 1
    zk = t-1 @1 leader -1 epoch 2 isr 3 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,3,1
    1.1 > 1 UpdateMetadata live 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,3,1 offline 2,3; t-1
        leader -1 epoch 2.2 by 1 isr 3 of 3,2 offline 3,2
    """
    o.start(2, 3)
    o.topic("t", (2, 3, 1), (3, 2))
    yield
    o.leave(2, 3)


def one_goes_one_comes_one_bounces(o: Office) -> Iterator[None]:
    """New ones first, then those that bounced, then the dead. What is said to who bounced before it
    was taken in has its old broker epoch, as in Kafka, and is refused there.

    channel + 4
    channel - 3
    channel + 3
    channel - 2
    1.1 > 1 UpdateMetadata live 1,2,3,4
    1.1 > 3 UpdateMetadata stale live 1,2,3,4
    1.1 > 4 UpdateMetadata live 1,2,3,4: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1; t-1 leader
        3 epoch 0.0 by 1 isr 3,1 of 3,1
    zk = t-1 @0 leader 1 epoch 1 isr 1 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1
    1.1 > 1,4 UpdateMetadata live 1,2,4: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1 offline 3
    1.1 > 1 LeaderAndIsr leaders 1: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1
    1.1 > 1,4 UpdateMetadata live 1,2,4: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1 offline 3
    1.1 > 1,4 UpdateMetadata live 1,2,3,4
    1.1 > 3 UpdateMetadata live 1,2,3,4: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1; t-1 leader
        1 epoch 1.1 by 1 isr 1 of 3,1
    1.1 > 3 LeaderAndIsr leaders 1: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1
    1.1 > 1,3,4 UpdateMetadata live 1,2,3,4: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1
    zk = t-0 @0 leader 1 epoch 1 isr 1 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1
    1.1 > 1,3,4 UpdateMetadata live 1,3,4: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1 offline 2
    1.1 > 1 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1
    1.1 > 1,3,4 UpdateMetadata live 1,3,4: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1 offline 2
    """
    o.start(2, 3)
    o.topic("t", (2, 1), (3, 1))
    yield
    o.leave(2, 3)
    o.join(4, 3)


def bounces(o: Office) -> Iterator[None]:
    """A failure and a startup, through a new channel.

    channel - 3
    channel + 3
    zk = t-1 @0 leader 1 epoch 1 isr 1 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1
    1.1 > 1,2 UpdateMetadata live 1,2: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1 offline 3
    zk = t-0 @0 leader 2 epoch 1 isr 2 by 1
    zk = t-2 @0 leader -1 epoch 1 isr 3 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-1 leader 1 epoch 1.1 by 1 isr 1 of 3,1
    1.1 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 1.1 by 1 isr 2 of 2,3
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 1.1 by 1 isr 2 of 2,3 offline 3; t-1
        leader 1 epoch 1.1 by 1 isr 1 of 3,1 offline 3; t-2 leader -1 epoch 1.1 by 1 isr 3 of 3
        offline 3
    1.1 > 1,2 UpdateMetadata live 1,2,3
    1.1 > 3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.1 by 1 isr 2 of 2,3; t-1 leader 1
        epoch 1.1 by 1 isr 1 of 3,1; t-2 leader -1 epoch 1.1 by 1 isr 3 of 3
    1.1 > 3 LeaderAndIsr leaders 1,2: t-0 leader 2 epoch 1.1 by 1 isr 2 of 2,3; t-1 leader 1
        epoch 1.1 by 1 isr 1 of 3,1; t-2 leader -1 epoch 1.1 by 1 isr 3 of 3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.1 by 1 isr 2 of 2,3; t-1 leader
        1 epoch 1.1 by 1 isr 1 of 3,1; t-2 leader -1 epoch 1.1 by 1 isr 3 of 3
    zk = t-2 @1 leader 3 epoch 2 isr 3 by 1
    1.1 > 3 LeaderAndIsr leaders 3: t-2 leader 3 epoch 2.2 by 1 isr 3 of 3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-2 leader 3 epoch 2.2 by 1 isr 3 of 3
    """
    o.start(2, 3)
    o.topic("t", (2, 3), (3, 1), (3,))
    yield
    o.leave(3)
    o.join(3)


def two_bounce_at_once(o: Office) -> Iterator[None]:
    """Both old channels end before a new one is opened, so that if one of them cannot be reached
    any more, nobody is left with a channel to an earlier life.

    channel - 2
    channel - 3
    channel + 2
    channel + 3
    1.1 > 1 UpdateMetadata live 1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3
    """
    o.start(2, 3)
    yield
    o.leave(2, 3)
    o.join(2, 3)


def the_controller_itself_bounces(o: Office) -> Iterator[None]:
    """Its registration comes before its candidature.

    channel - 1
    channel - 2
    unfenced zk + /brokers/ids/1 ephemeral, = /brokers/ids/1 @0
    unfenced zk + /controller ephemeral, = /controller_epoch @1
    channel + 1
    channel + 2
    1.2 > 1,2 UpdateMetadata live 1,2
    1.2 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 0.0 by 1 isr 1,2 of 1,2
    1.2 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 0.0 by 1 isr 1,2 of 1,2
    """
    o.start(2)
    o.topic("t", (1, 2))
    yield
    o.expire(1)


def tells_other_endpoints(o: Office) -> Iterator[None]:
    """Those are news; the same again is none, nor is a rack.

    1.1 > 1,2 UpdateMetadata live 1,2
    1.1 > 1,2 UpdateMetadata live 1,2
    """
    o.start(2)
    o.topic("t", (1, 2))
    yield
    moved = broker(2, port=9999)
    for data in (moved, moved, dataclasses.replace(moved, rack="r"), broker(2)):
        encoded = znodes.encode_broker(data, jmx_port=-1, now_ms=1)
        o.admin.set_or_create("/brokers/ids/2", encoded)
        o.run()


def tells_other_endpoints_of_who_bounced(o: Office) -> Iterator[None]:
    """Its new life is watched as its first one was.

    1.1 > 1,2 UpdateMetadata live 1,2
    """
    o.start(2)
    o.leave(2)
    o.join(2)
    o.run()
    yield
    encoded = znodes.encode_broker(broker(2, port=9999), jmx_port=-1, now_ms=1)
    o.admin.set_or_create("/brokers/ids/2", encoded)


# ---- controlled shutdown -------------------------------------------------------------------------


def takes_its_leave(o: Office) -> Iterator[None]:
    """What it leads goes to others, what it follows is stopped and leaves the ISR; what nobody else
    has stays with it and is not named.

    zk = t-0 @0 leader 2 epoch 1 isr 2 by 1
    1.1 > 2,3 LeaderAndIsr leaders 2: t-0 leader 2 epoch 1.1 by 1 isr 2 of 3,2
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.1 by 1 isr 2 of 3,2 offline 3
    1.1 > 3 StopReplica: t-1 epoch 0
    zk = t-1 @0 leader 2 epoch 1 isr 2 by 1
    1.1 > 2 LeaderAndIsr leaders 2: t-1 leader 2 epoch 1.1 by 1 isr 2 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-1 leader 2 epoch 1.1 by 1 isr 2 of 2,3 offline 3
    1.1 > 3 StopReplica: t-1 epoch 0
    answer NONE, none
    states of t: 0 ONLINE: 3 ONLINE, 2 ONLINE; 1 ONLINE: 2 ONLINE, 3 OFFLINE; 2 ONLINE: 3
        ONLINE; 3 ONLINE: 1 ONLINE, 2 ONLINE
    """
    made = o.start(2, 3)
    o.topic("t", (3, 2), (2, 3), (3,), (1, 2))
    yield
    o.ask(made.controlled_shutdown, 3, -1)
    o.look("t")


def takes_its_leave_and_goes_and_is_back(o: Office) -> Iterator[None]:
    """When it is back it leads new partitions like anybody.

    channel - 3
    1.1 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 1.1 by 1 isr 2 of 3,2; t-1 leader 2 epoch
        1.1 by 1 isr 2 of 2,3
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 1.1 by 1 isr 2 of 3,2 offline 3; t-1
        leader 2 epoch 1.1 by 1 isr 2 of 2,3 offline 3
    channel + 3
    1.1 > 1,2 UpdateMetadata live 1,2,3
    1.1 > 3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.1 by 1 isr 2 of 3,2; t-1 leader 2
        epoch 1.1 by 1 isr 2 of 2,3
    1.1 > 3 LeaderAndIsr leaders 2: t-0 leader 2 epoch 1.1 by 1 isr 2 of 3,2; t-1 leader 2 epoch
        1.1 by 1 isr 2 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.1 by 1 isr 2 of 3,2; t-1 leader
        2 epoch 1.1 by 1 isr 2 of 2,3
    zk + /brokers/topics/u/partitions
    zk + /brokers/topics/u/partitions/0
    zk + u-0 leader 3 epoch 0 isr 3,2 by 1
    1.1 > 2,3 LeaderAndIsr leaders 3: u-0 leader 3 epoch 0.0 by 1 isr 3,2 of 3,2 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: u-0 leader 3 epoch 0.0 by 1 isr 3,2 of 3,2
    """
    made = o.start(2, 3)
    o.topic("t", (3, 2), (2, 3))
    o.run()
    o.ask(made.controlled_shutdown, 3, -1)
    yield
    o.leave(3)
    o.run()
    o.join(3)
    o.run()
    o.topic("u", (3, 2))


def nobody_can_take_over(o: Office) -> Iterator[None]:
    """It is told what it still leads; who may not lead must be in the ISR first, and no ISR is
    accepted with one that takes its leave.

    answer NONE, t-0
    channel + 2
    1.1 > 1,3 UpdateMetadata live 1,2,3
    1.1 > 2 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 1.1 by 1 isr 3 of 3,2 offline 3
    1.1 > 2 LeaderAndIsr leaders 3: t-0 leader 3 epoch 1.1 by 1 isr 3 of 3,2
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 1.1 by 1 isr 3 of 3,2 offline 3
    answer NONE, t-0
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 3 epoch 1.1 by 1 isr 3 of 3,2 offline 3
    answer NONE, 0 INELIGIBLE_REPLICA
    answer NONE, t-0
    """
    made = o.start(2, 3)
    o.topic("t", (3, 2))
    o.run()
    o.leave(2)
    yield
    o.ask(made.controlled_shutdown, 3, -1)
    o.join(2)
    o.run()
    o.ask(made.controlled_shutdown, 3, -1)
    o.alter_isr(3, "t-0", (3, 2))
    o.ask(made.controlled_shutdown, 3, -1)


def two_take_their_leave(o: Office) -> Iterator[None]:
    """Neither is elected for the other, nor for a new partition.

    zk = t-0 @0 leader 2 epoch 1 isr 2,1 by 1
    1.1 > 1,2,3 LeaderAndIsr leaders 2: t-0 leader 2 epoch 1.1 by 1 isr 2,1 of 3,2,1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 2 epoch 1.1 by 1 isr 2,1 of 3,2,1 offline
        3
    1.1 > 3 StopReplica: t-1 epoch 0
    zk = t-1 @0 leader 2 epoch 1 isr 2 by 1
    1.1 > 2 LeaderAndIsr leaders 2: t-1 leader 2 epoch 1.1 by 1 isr 2 of 2,3
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-1 leader 2 epoch 1.1 by 1 isr 2 of 2,3 offline 3
    1.1 > 3 StopReplica: t-1 epoch 0
    answer NONE, none
    zk = t-0 @1 leader 1 epoch 2 isr 1 by 1
    1.1 > 1,2,3 LeaderAndIsr leaders 1: t-0 leader 1 epoch 2.2 by 1 isr 1 of 3,2,1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 2.2 by 1 isr 1 of 3,2,1 offline
        3,2
    answer NONE, t-1
    zk + /brokers/topics/u/partitions
    zk + /brokers/topics/u/partitions/1
    zk + u-1 leader 1 epoch 0 isr 1 by 1
    1.1 > 1 LeaderAndIsr leaders 1: u-1 leader 1 epoch 0.0 by 1 isr 1 of 2,1 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: u-1 leader 1 epoch 0.0 by 1 isr 1 of 2,1 offline 2
    """
    made = o.start(2, 3)
    o.topic("t", (3, 2, 1), (2, 3))
    yield
    o.ask(made.controlled_shutdown, 3, -1)
    o.ask(made.controlled_shutdown, 2, -1)
    o.topic("u", (3, 2), (2, 1))


def takes_its_leave_from_what_has_no_leader(o: Office) -> Iterator[None]:
    """All of its replicas were taking their leave when it was made: nobody is told to stop it, and
    it stays as new as it is.

    answer NONE, none
    states of u: 0 NEW: 3 ONLINE, 2 ONLINE
    """
    made = o.start(2, 3)
    for leaving in (2, 3):
        o.ask(made.controlled_shutdown, leaving, -1)
    o.topic("u", (3, 2))
    o.run()
    yield
    o.ask(made.controlled_shutdown, 3, -1)
    o.look("u")


def takes_its_leave_from_a_dying_topic(o: Office) -> Iterator[None]:
    """Nothing is moved that is to be deleted.

    answer NONE, none
    """
    made = o.start(2, 3)
    o.topic("t", (3, 2), (2, 3))
    o.run()
    o.admin.create_delete_topic_path("t")
    yield
    o.ask(made.controlled_shutdown, 3, -1)


def shutdowns_that_are_refused(o: Office) -> Iterator[None]:
    """An unknown broker (over whose epoch Kafka trips), an older broker epoch, a broker that is not
    the controller; a newer broker epoch will do.

    answer BROKER_NOT_AVAILABLE, none
    answer UNKNOWN_SERVER_ERROR, none
    answer STALE_BROKER_EPOCH, none
    answer STALE_CONTROLLER_EPOCH, none
    zk + /brokers/topics/u/partitions
    zk + /brokers/topics/u/partitions/0
    zk + u-0 leader 2 epoch 0 isr 2,1 by 1
    1.1 > 1,2 LeaderAndIsr leaders 2: u-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1 new
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: u-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1
    zk = t-0 @0 leader 1 epoch 1 isr 1 by 1
    zk = u-0 @0 leader 1 epoch 1 isr 1 by 1
    1.1 > 1,2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1; u-0 leader 1
        epoch 1.1 by 1 isr 1 of 2,1
    1.1 > 1,2,3 UpdateMetadata live 1,2,3: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1 offline 2;
        u-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1 offline 2
    answer NONE, none
    """
    made = o.start(2)
    o.candidate(3)
    o.topic("t", (2, 1))
    yield
    epoch = o.zookeeper.nodes["/brokers/ids/2"].czxid
    o.ask(made.controlled_shutdown, 9, -1)
    o.ask(made.controlled_shutdown, 9, 0)
    o.ask(made.controlled_shutdown, 2, epoch - 1)
    o.ask(o.controllers[3].controlled_shutdown, 2, epoch)
    o.topic("u", (2, 1))
    o.run()
    o.ask(made.controlled_shutdown, 2, epoch + 1)

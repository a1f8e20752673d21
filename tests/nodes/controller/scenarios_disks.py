"""Brokers that lose a log directory (KIP-112): processLeaderAndIsrResponseReceived,
processLogDirEventNotification, onBrokerLogDirFailure."""

from __future__ import annotations

from collections.abc import Iterator

from nodes.core.errors import Errors
from nodes.wire.apis import ApiKey
from tests.nodes.controller.scenarios_elections import rebalance
from tests.nodes.controller.transcript import Office

NONE, STORAGE = Errors.NONE, Errors.KAFKA_STORAGE_ERROR


def loses_a_disk(o: Office) -> Iterator[None]:
    """A replica that answers KAFKA_STORAGE_ERROR is offline while its broker lives; other errors
    mean nothing.

    zk = t-0 @0 leader 1 epoch 1 isr 1 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1 offline 2
    zk = t-2 @0 leader -1 epoch 1 isr 2 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1 offline 2; t-2
        leader -1 epoch 1.1 by 1 isr 2 of 2 offline 2
    1.1 > 2 StopReplica: t-0 epoch 1; t-2 epoch 0
    """
    o.start(2)
    o.topic("t", (2, 1), (1, 2), (2,))
    yield
    o.answers = lambda b, api, _t, p: STORAGE if b == 2 and p != 1 else NONE
    o.answer(ApiKey.LEADER_AND_ISR)
    o.answers = lambda b, api, _t, p: Errors.STALE_CONTROLLER_EPOCH
    o.answer(ApiKey.LEADER_AND_ISR)


def had_lost_a_disk_when_it_went(o: Office) -> Iterator[None]:
    """Its answer is looked at when it is gone; who comes back has all that it says it has.

    channel + 2
    1.1 > 1 UpdateMetadata live 1,2
    1.1 > 2 UpdateMetadata live 1,2: t-0 leader 1 epoch 1.1 by 1 isr 1 of 1,2
    1.1 > 2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 1,2
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 1.1 by 1 isr 1 of 1,2
    """
    o.start(2)
    o.topic("t", (1, 2))
    o.run()
    o.answers = lambda b, api, _t, p: STORAGE if b == 2 else NONE
    o.leave(2)
    o.answer(ApiKey.LEADER_AND_ISR)
    o.answers = lambda b, api, _t, p: NONE
    yield
    o.join(2)


def says_that_it_lost_a_disk(o: Office) -> Iterator[None]:
    """KIP-112 (processLogDirEventNotification): it does not say what lay there, so it is asked
    about all of its replicas. The notice goes, also one that nobody can read.

    1.1 > 2 LeaderAndIsr leaders 1,2: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1; t-1 leader
        1 epoch 0.0 by 1 isr 1,2 of 1,2
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.0 by 1 isr 2,1 of 2,1; t-1
        leader 1 epoch 0.0 by 1 isr 1,2 of 1,2
    zk - /log_dir_event_notification/log_dir_event_0000000000
    zk = t-0 @0 leader 1 epoch 1 isr 1 by 1
    1.1 > 1 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1 offline 2
    1.1 > 1 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1 offline 2
    1.1 > 2 StopReplica: t-0 epoch 1
    zk - /log_dir_event_notification/log_dir_event_9
    """
    o.start(2)
    o.topic("t", (2, 1), (1, 2))
    o.run()
    o.answer()
    yield
    o.answers = lambda b, api, _t, p: STORAGE if b == 2 and p == 0 else NONE
    o.admin.propagate_log_dir_event(2)
    o.run()
    o.answer(ApiKey.LEADER_AND_ISR)
    o.admin.set_or_create("/log_dir_event_notification/log_dir_event_9", b"what?")
    o.run()


def notices_of_lost_disks_are_of_no_use_to_who_comes(o: Office) -> Iterator[None]:
    """Who takes office tells everybody everything anyway (deleteLogDirEventNotifications), and
    hears of the next one.

    unfenced zk + /controller_epoch
    unfenced zk + /controller ephemeral, = /controller_epoch @0
    zk - /log_dir_event_notification/log_dir_event_0000000000
    channel + 1
    channel + 2
    1.1 > 1,2 UpdateMetadata live 1,2
    zk + /brokers/topics/t/partitions
    zk + /brokers/topics/t/partitions/0
    zk + t-0 leader 2 epoch 0 isr 2 by 1
    1.1 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 0.0 by 1 isr 2 of 2 new
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.0 by 1 isr 2 of 2
    1.1 > 2 LeaderAndIsr leaders 2: t-0 leader 2 epoch 0.0 by 1 isr 2 of 2
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 2 epoch 0.0 by 1 isr 2 of 2
    zk - /log_dir_event_notification/log_dir_event_0000000002
    """
    o.join(2)
    o.topic("t", (2,))
    o.admin.propagate_log_dir_event(2)
    yield
    o.start()
    o.answer()
    o.admin.propagate_log_dir_event(2)
    o.run()


def has_its_disk_again(o: Office) -> Iterator[None]:
    """Its broker's next life is taken for sound.

    channel - 2
    channel + 2
    1.1 > 1 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1
    1.1 > 1 UpdateMetadata live 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1 offline 2
    1.1 > 1 UpdateMetadata live 1,2
    1.1 > 2 UpdateMetadata live 1,2: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1
    1.1 > 2 LeaderAndIsr leaders 1: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1
    1.1 > 1,2 UpdateMetadata live 1,2: t-0 leader 1 epoch 1.1 by 1 isr 1 of 2,1
    """
    o.start(2)
    o.topic("t", (2, 1))
    o.run()
    o.answers = lambda b, api, _t, p: STORAGE if b == 2 else NONE
    o.answer(ApiKey.LEADER_AND_ISR)
    yield
    o.leave(2)
    o.join(2)
    o.run()
    o.answers = lambda *_: NONE
    o.answer()


def hears_of_lost_disks_when_it_has_lost_it(o: Office) -> Iterator[None]:
    """That is its successor's business, and so is the notice."""
    made = o.start(2)
    o.topic("t", (2, 1))
    yield
    o.admin.propagate_log_dir_event(2)
    made._active_controller_id = 3


def is_not_asked_to_lead(o: Office) -> Iterator[None]:
    """Though the leader takes it for in sync: nothing is tried, nothing is complained of."""
    made = o.start(2, **{"leader.imbalance.per.broker.percentage": "0"})
    o.topic("t", (2, 1))
    o.run()
    o.answers = lambda b, api, _t, p: STORAGE if b == 2 else NONE
    o.answer(ApiKey.LEADER_AND_ISR)
    o.alter_isr(1, "t-0", (1, 2))
    yield
    rebalance(made)

"""What a broker is ordered that is old, unknown, careless or said twice, and what it is answered
(ReplicaManager's becomeLeaderOrFollower and stopReplicas)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from tests.nodes.replication.desk import Desk
from tests.nodes.replication.scenarios_roles import follow, lead


def orders_that_are_refused(d: Desk) -> Iterator[None]:
    """Each with its error; nothing is changed by them.

    checkpoints
    answer NONE, t-0 STALE_CONTROLLER_EPOCH, t-1 STALE_CONTROLLER_EPOCH
    checkpoints
    answer NONE, t-0 INCONSISTENT_TOPIC_ID
    checkpoints
    answer NONE, t-0 UNKNOWN_TOPIC_OR_PARTITION
    answer STALE_CONTROLLER_EPOCH, t-0 STALE_CONTROLLER_EPOCH, t-1 STALE_CONTROLLER_EPOCH
    answer NONE, t-0 FENCED_LEADER_EPOCH
    answer STALE_CONTROLLER_EPOCH, t-0 STALE_CONTROLLER_EPOCH
    answer STALE_CONTROLLER_EPOCH
    leads t-0 epoch 3.8 from 0 isr 1,2,3 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    follows 2 in t-1 epoch 3.8 hw 0 end 0 by 1
    """
    d.leader_and_isr(lead(3), follow(epoch=3, tp="t-1"))
    yield
    d.leader_and_isr(lead(3), follow(epoch=2, tp="t-1"))
    d.leader_and_isr(lead(4), topic_id=uuid.UUID(int=8))
    d.leader_and_isr(lead(4, replicas=[2, 3]))
    d.leader_and_isr(lead(4), follow(epoch=4, tp="t-1"), controller_epoch=0)
    d.stop_replica("t-0", leader_epoch=2)
    d.stop_replica("t-0", controller_epoch=0)
    d.metadata(("t-0", 2), controller_epoch=0)
    d.look()
    d.look("t-1")


def orders_of_a_later_controller(d: Desk) -> Iterator[None]:
    """From any of the three requests on, an older one's are refused.

    answer NONE
    answer STALE_CONTROLLER_EPOCH, t-0 STALE_CONTROLLER_EPOCH
    fetches no more t-0
    leads t-0 epoch 4.9 from 0 isr 1,2,3 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    checkpoints
    answer NONE, t-0 NONE
    answer STALE_CONTROLLER_EPOCH, t-9 STALE_CONTROLLER_EPOCH
    fetches no more t-9
    wakes t-9
    answer NONE, t-9 NONE
    answer STALE_CONTROLLER_EPOCH
    """
    d.leader_and_isr(lead(3))
    yield
    d.metadata(controller_epoch=2)
    d.leader_and_isr(lead(4), controller_epoch=1)
    d.leader_and_isr(lead(4), controller_epoch=3)
    d.stop_replica("t-9", controller_epoch=2)
    d.stop_replica("t-9", controller_epoch=4)
    d.metadata(controller_epoch=3)


def orders_of_an_older_partition_epoch(d: Desk) -> Iterator[None]:
    """They are not applied and no error; the same one is. Nor is a log made for them: there is none
    older than 0.

    fetches no more t-0
    checkpoints
    answer NONE, t-0 NONE
    checkpoints
    answer NONE, t-0 NONE
    fetches no more u-0
    checkpoints
    answer NONE, u-0 NONE
    checkpoints
    answer NONE, u-0 NONE
    follows 2 in t-0 epoch 4.12 hw 0 end 0 by 1
    fetches no more t-0
    wakes t-0
    fetches t-0 from 2 epoch 4 at 0
    thread + ReplicaFetcherThread-0-2
    checkpoints
    hears follows t-0
    answer NONE, t-0 NONE
    """
    d.leader_and_isr(lead(3, partition_epoch=12))
    yield
    d.leader_and_isr(lead(4, partition_epoch=11))
    d.leader_and_isr(follow(epoch=4, partition_epoch=11))
    d.leader_and_isr(lead(tp="u-0", partition_epoch=-1))
    d.leader_and_isr(follow(tp="u-0", partition_epoch=-1))
    d.leader_and_isr(follow(epoch=4, partition_epoch=12))


def stops_of_every_epoch(d: Desk) -> Iterator[None]:
    """An older one is refused; -1 and -2 are none.

    answer NONE, t-0 FENCED_LEADER_EPOCH
    fetches no more t-1
    forgets t-1: follows None in t-1 epoch 5.10 no log by 1
    wakes t-1
    log - t-1
    answer NONE, t-1 NONE
    fetches no more t-2
    forgets t-2: follows None in t-2 epoch 5.10 no log by 1
    wakes t-2
    log - t-2
    answer NONE, t-2 NONE
    fetches no more t-3
    forgets t-3: follows None in t-3 epoch 5.10 no log by 1
    wakes t-3
    log - t-3
    answer NONE, t-3 NONE
    fetches no more t-4
    forgets t-4: follows None in t-4 epoch 5.10 no log by 1
    wakes t-4
    log - t-4
    answer NONE, t-4 NONE
    """
    for p in range(5):
        d.leader_and_isr(lead(5, tp=f"t-{p}"))
    yield
    for p, epoch in enumerate((4, 5, 6, -1, -2)):
        d.stop_replica(f"t-{p}", leader_epoch=epoch, delete=True)


def an_id_comes_later(d: Desk) -> Iterator[None]:
    """It is taken over by who had none, with the epoch that is known; who follows may be told none.

    checkpoints
    answer NONE, t-0 STALE_CONTROLLER_EPOCH, t-1 STALE_CONTROLLER_EPOCH
    checkpoints
    answer NONE, t-0 NONE, t-1 NONE
    checkpoints
    answer NONE, t-0 STALE_CONTROLLER_EPOCH, t-1 STALE_CONTROLLER_EPOCH
    checkpoints
    answer NONE, t-0 STALE_CONTROLLER_EPOCH, t-1 NONE
    checkpoints
    answer NONE, t-0 INCONSISTENT_TOPIC_ID, t-1 INCONSISTENT_TOPIC_ID
    """
    d.leader_and_isr(lead(3), follow(epoch=3, tp="t-1"), topic_id=None)
    yield
    for topic_id in (None, uuid.UUID(int=7), uuid.UUID(int=7), None, uuid.UUID(int=8)):
        d.leader_and_isr(lead(3), follow(epoch=3, tp="t-1"), topic_id=topic_id)


def an_epoch_that_is_none(d: Desk) -> Iterator[None]:
    """A new partition has it, and no log that could take the id over: nothing of the request is
    done, as in Kafka. Without an id it is as old as any.

    answer NOT_LEADER_OR_FOLLOWER, t-0 NOT_LEADER_OR_FOLLOWER, t-1 NOT_LEADER_OR_FOLLOWER
    checkpoints
    answer NONE, t-1 STALE_CONTROLLER_EPOCH
    fetches no more t-0
    log + t-0
    leads t-0 epoch 0.5 from 0 isr 1,2,3 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    checkpoints
    hears leads t-0
    answer NONE, t-0 NONE
    """
    yield
    d.leader_and_isr(lead(), lead(-1, tp="t-1"))
    d.leader_and_isr(lead(-1, tp="t-1"), topic_id=None)
    d.leader_and_isr(lead())


def is_named_twice(d: Desk) -> Iterator[None]:
    """The last one that may be counts; of StopReplica the last.

    fetches no more t-0
    log + t-0
    leads t-0 epoch 2.7 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    checkpoints
    hears leads t-0
    answer NONE, t-0 NONE, t-0 NONE, t-0 NONE
    fetches no more t-0
    wakes t-0
    answer NONE, t-0 NONE
    """
    yield
    d.leader_and_isr(lead(1, isr=[1]), lead(2, isr=[1, 2]), lead(-3))
    d.stop_replica("t-0", "t-0", leader_epoch=2)


def a_stale_order_gives_no_id(d: Desk) -> Iterator[None]:
    """Of an older partition epoch nothing is taken over: the next one may have another.

    fetches no more t-0
    checkpoints
    answer NONE, t-0 NONE
    fetches no more t-0
    leads t-0 epoch 5.10 from 0 isr 1,2,3 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    checkpoints
    answer NONE, t-0 NONE
    checkpoints
    answer NONE, t-0 INCONSISTENT_TOPIC_ID
    """
    d.leader_and_isr(lead(3), topic_id=None)
    yield
    d.leader_and_isr(lead(4, partition_epoch=1), topic_id=uuid.UUID(int=7))
    d.leader_and_isr(lead(5), topic_id=uuid.UUID(int=8))
    d.leader_and_isr(lead(6), topic_id=uuid.UUID(int=7))

"""What a leader commits, acknowledges and proposes (Partition's maybeIncrementLeaderHW,
checkEnoughReplicasReachOffset, maybeExpandIsr, maybeShrinkIsr, handleAlterPartitionUpdate and
handleAlterPartitionError)."""

from __future__ import annotations

from collections.abc import Iterator

from nodes.core.errors import Errors
from tests.nodes.replication.desk import LAG_MAX_MS, Desk
from tests.nodes.replication.scenarios_roles import follow, lead


def acks(d: Desk) -> Iterator[None]:
    """0 and 1 are answered at once, all when the last of the ISR has it, others never.

    produced t-0 NONE at 0
    produced t-0 NONE at 1
    produced t-0 INVALID_REQUIRED_ACKS at -1
    produced t-0 INVALID_REQUIRED_ACKS at -1
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records nobody
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records 2
    wakes t-0
    produced t-0 NONE at 2
    fetched t-0 NONE hw 2 start 0 records nobody
    """
    d.leader_and_isr(lead())
    yield
    for required in (0, 1, 2, -2, -1):
        d.produce(acks=required)
    d.fetch(2, 3)
    d.fetch(3, 2)
    d.fetch(3, 3)


def acks_of_several_partitions(d: Desk) -> Iterator[None]:
    """Answered when each is resolved, with what each is.

    wakes t-1
    fetched t-1 NONE hw 0 start 0 records nobody
    follows 2 in t-0 epoch 1.6 hw 0 end 1 by 1
    fetches no more t-0
    wakes t-0
    produced t-0 NOT_LEADER_OR_FOLLOWER at 0, t-1 NONE at 0, t-2 NOT_LEADER_OR_FOLLOWER at -1
    fetches t-0 from 2 epoch 1 at 1
    checkpoints
    hears follows t-0
    answer NONE, t-0 NONE
    """
    d.leader_and_isr(lead(), lead(tp="t-1", replicas=[1, 2], isr=[1, 2]), follow(tp="t-2"))
    yield
    d.produce("t-0", "t-1", "t-2")
    d.fetch(2, 1, "t-1")
    d.leader_and_isr(follow(epoch=1))


def acks_of_which_one_is_refused(d: Desk) -> Iterator[None]:
    """What was refused stays so, however long the others take.

    wakes t-0
    produced t-0 NONE at 0, t-1 NOT_ENOUGH_REPLICAS at -1, t-2 UNKNOWN_TOPIC_OR_PARTITION at -1
    fetched t-0 NONE hw 0 start 0 records nobody
    """
    d.min_isr = 2
    d.leader_and_isr(lead(isr=[1, 2]), lead(tp="t-1", isr=[1]))
    yield
    d.produce("t-0", "t-1", "t-2")
    d.fetch(2, 1, "t-0")


def too_few(d: Desk) -> Iterator[None]:
    """Refused before the append, for acks=all alone, and nothing is committed meanwhile; a
    partition with fewer replicas than the minimum needs all.

    produced t-0 NOT_ENOUGH_REPLICAS at -1
    produced t-1 NONE at 0
    produced t-0 NONE at 0
    fetched t-0 NONE hw 0 start 0 records nobody
    proposes t-0 epoch 0.5 isr 1,2
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records nobody
    leads t-0 epoch 0.5 from 0 isr 1 of 1,2,3 waits for 1,2 hw 0 end 1 by 1
    produced t-0 NOT_ENOUGH_REPLICAS at -1
    wakes t-0
    leads t-0 epoch 0.6 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 1 end 1 by 1
    """
    d.min_isr = 2
    d.leader_and_isr(lead(isr=[1]), lead(tp="t-1", isr=[1], replicas=[1]))
    yield
    d.produce()
    d.produce("t-1")
    d.produce(acks=1)
    d.fetch(-1, 0)
    d.fetch(2, 1)
    d.look()
    d.produce()
    d.answer_proposal()
    d.produce()


def too_few_after_the_append(d: Desk) -> Iterator[None]:
    """It waits for the ISR to grow again.

    proposes t-0 epoch 0.5 isr 1
    leads t-0 epoch 0.6 from 0 isr 1 of 1,2 waits for 1 hw 0 end 1 by 1
    proposes t-0 epoch 0.6 isr 1,2
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records nobody
    wakes t-0
    produced t-0 NONE at 0
    leads t-0 epoch 0.7 from 0 isr 1,2 of 1,2 waits for 1,2 hw 1 end 1 by 1
    """
    d.min_isr = 2
    d.leader_and_isr(lead(isr=[1, 2], replicas=[1, 2]))
    d.produce()
    yield
    d.tick(LAG_MAX_MS + 1)
    d.answer_proposal()
    d.fetch(2, 1)
    d.answer_proposal()


def too_few_when_it_is_looked_at(d: Desk) -> Iterator[None]:
    """Counting who joins; not when it was appended before the present reign.

    below 1 NONE
    fetches no more t-0
    leads t-0 epoch 1.6 from 1 isr 1 of 1,2 waits for 1 hw 1 end 1 by 1
    checkpoints
    answer NONE, t-0 NONE
    below 1 NOT_ENOUGH_REPLICAS_AFTER_APPEND
    proposes t-0 epoch 1.6 isr 1,2
    fetched t-0 NONE hw 1 start 0 records nobody
    below 1 NONE
    below 2 waits
    follows 2 in t-0 epoch 2.7 hw 1 end 1 by 1
    fetches no more t-0
    wakes t-0
    fetches t-0 from 2 epoch 2 at 1
    thread + ReplicaFetcherThread-0-2
    checkpoints
    hears follows t-0
    answer NONE, t-0 NONE
    below 1 NOT_LEADER_OR_FOLLOWER
    fetches no more t-0
    leads t-0 epoch 3.8 from 1 isr 1,2,3 of 1,2,3 waits for 1,2,3 hw 1 end 1 by 1
    checkpoints
    thread - ReplicaFetcherThread-0-2
    hears leads t-0
    answer NONE, t-0 NONE
    below 1 NOT_LEADER_OR_FOLLOWER
    below 1 NONE
    """
    d.min_isr = 2
    d.leader_and_isr(lead(isr=[1, 2], replicas=[1, 2]))
    d.produce(acks=1)
    d.fetch(2, 1)
    yield
    d.acknowledge(1)
    d.leader_and_isr(lead(1, isr=[1], replicas=[1, 2]))
    d.acknowledge(1)
    d.fetch(2, 1)
    d.acknowledge(1)
    d.acknowledge(2)
    d.leader_and_isr(follow(epoch=2))
    d.acknowledge(1)
    d.leader_and_isr(lead(3))
    d.acknowledge(1)
    d.acknowledge(1, epoch=3)


def a_follower_joins(d: Desk) -> Iterator[None]:
    """At the watermark and at the start of the epoch; it counts from the proposal on.

    wakes t-0
    fetched t-0 NONE hw 1 start 0 records 0
    proposes t-0 epoch 0.5 isr 1,2,3
    fetched t-0 NONE hw 1 start 0 records nobody
    fetched t-0 NONE hw 1 start 0 records nobody
    leads t-0 epoch 0.6 from 0 isr 1,2,3 of 1,2,3 waits for 1,2,3 hw 1 end 2 by 1
    wakes t-0
    produced t-0 NONE at 1
    fetched t-0 NONE hw 1 start 0 records nobody
    """
    d.leader_and_isr(lead(isr=[1, 2]))
    d.produce(acks=1)
    d.fetch(2, 1)
    yield
    d.fetch(3, 0)
    d.fetch(3, 1)
    d.produce()
    d.fetch(2, 2)
    d.answer_proposal()
    d.fetch(3, 2)


def who_joined_counts_before_the_answer(d: Desk) -> Iterator[None]:
    """For the watermark, not for the minimum.

    produced t-0 NONE at 0
    produced t-0 NOT_ENOUGH_REPLICAS at -1
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records nobody
    fetched t-0 NONE hw 0 start 0 records nobody
    wakes t-0
    leads t-0 epoch 0.6 from 0 isr 1,2,3 of 1,2,3 waits for 1,2,3 hw 1 end 1 by 1
    fetched t-0 NONE hw 1 start 0 records nobody
    wakes t-0
    produced t-0 NONE at 1
    fetched t-0 NONE hw 1 start 0 records nobody
    """
    d.min_isr = 3
    d.leader_and_isr(lead(isr=[1, 2]))
    d.fetch(3, 0)
    yield
    d.produce(acks=1)
    d.produce()
    d.fetch(2, 1)
    d.fetch(3, 1)
    d.answer_proposal()
    d.produce()
    for replica in (2, 3):
        d.fetch(replica, 2)


def who_may_not_join(d: Desk) -> Iterator[None]:
    """Who is not alive, is below the watermark, or below the start of the epoch.

    answer NONE
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records nobody
    answer NONE
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records 1
    fetched t-0 NONE hw 1 start 0 records 0,1
    proposes t-0 epoch 1.6 isr 1,2,3
    fetched t-0 NONE hw 1 start 0 records 1
    fetched t-0 NONE hw 1 start 0 records nobody
    """
    d.leader_and_isr(follow())
    d.leader_and_isr(lead(1, isr=[1, 2]))
    for _ in range(2):
        d.produce(acks=1)
    yield
    d.alive = {1, 2}
    d.metadata()
    d.fetch(3, 2)
    d.alive = {1, 2, 3}
    d.metadata()
    d.fetch(2, 1)
    d.fetch(3, 0)
    d.fetch(3, 1)
    d.fetch(3, 2)


def followers_lag(d: Desk) -> Iterator[None]:
    """Longer than the limit without having been at the end; who is dropped counts until the answer.

    fetched t-0 NONE hw 0 start 0 records nobody
    proposes t-0 epoch 0.5 isr 1,2
    fetched t-0 NONE hw 0 start 0 records nobody
    wakes t-0
    produced t-0 NONE at 1
    leads t-0 epoch 0.6 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 2 end 2 by 1
    """
    d.leader_and_isr(lead())
    d.produce(acks=1)
    d.fetch(2, 1)
    yield
    d.tick(LAG_MAX_MS)
    d.fetch(2, 1)
    d.tick(1)
    d.produce()
    d.fetch(2, 2)
    d.tick(LAG_MAX_MS)
    d.answer_proposal()


def a_follower_that_always_trails(d: Desk) -> Iterator[None]:
    """Who has what there was at the fetch before is caught up as of then.

    produced t-0 NONE at 0
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records 0
    produced t-0 NONE at 1
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records 1
    produced t-0 NONE at 2
    wakes t-0
    fetched t-0 NONE hw 1 start 0 records 2
    produced t-0 NONE at 3
    wakes t-0
    fetched t-0 NONE hw 2 start 0 records 3
    proposes t-0 epoch 0.5 isr 1
    """
    d.leader_and_isr(lead(replicas=[1, 2], isr=[1, 2]))
    yield
    for offset in range(4):
        d.produce(acks=1)
        d.fetch(2, offset)
        d.tick(LAG_MAX_MS // 2)
    d.tick(LAG_MAX_MS // 2 + 1)


def proposals_that_fail(d: Desk) -> Iterator[None]:
    """One answer proves that nothing was applied: back. Others: again; or wait, as strict as
    before, for an order.

    proposes t-0 epoch 0.5 isr 1,2,3
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records nobody
    leads t-0 epoch 0.5 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    proposes t-0 epoch 0.5 isr 1,2,3
    fetched t-0 NONE hw 0 start 0 records nobody
    leads t-0 epoch 0.5 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    proposes t-0 epoch 0.5 isr 1,2,3
    fetched t-0 NONE hw 0 start 0 records nobody
    proposes t-0 epoch 0.5 isr 1,2,3
    leads t-0 epoch 0.5 from 0 isr 1,2 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    proposes t-0 epoch 0.5 isr 1,2,3
    leads t-0 epoch 0.5 from 0 isr 1,2 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    leads t-0 epoch 0.5 from 0 isr 1,2 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    fetched t-0 NONE hw 0 start 0 records nobody
    fetches no more t-0
    leads t-0 epoch 1.6 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    checkpoints
    answer NONE, t-0 NONE
    proposes t-0 epoch 1.6 isr 1,2,3
    fetched t-0 NONE hw 0 start 0 records nobody
    """
    d.leader_and_isr(lead(isr=[1, 2]))
    yield
    for error in (
        Errors.INELIGIBLE_REPLICA,
        Errors.OPERATION_NOT_ATTEMPTED,
        Errors.UNKNOWN_SERVER_ERROR,
        Errors.NOT_CONTROLLER,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    ):
        if "t-0" not in d.proposals:
            d.fetch(3, 0)
        d.answer_proposal(error=int(error))
    d.fetch(3, 0)
    d.leader_and_isr(lead(1, isr=[1, 2]))
    d.fetch(3, 0)


def refusals_that_are_final(d: Desk) -> Iterator[None]:
    """It waits for an order, and does not ask again.

    fetches no more t-0
    log + t-0
    leads t-0 epoch 0.5 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    checkpoints
    hears leads t-0
    answer NONE, t-0 NONE
    proposes t-0 epoch 0.5 isr 1,2,3
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records nobody
    leads t-0 epoch 0.5 from 0 isr 1,2 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    fetches no more t-0
    leads t-0 epoch 1.6 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    checkpoints
    answer NONE, t-0 NONE
    proposes t-0 epoch 1.6 isr 1,2,3
    fetched t-0 NONE hw 0 start 0 records nobody
    leads t-0 epoch 1.6 from 0 isr 1,2 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    fetches no more t-0
    leads t-0 epoch 2.7 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    checkpoints
    answer NONE, t-0 NONE
    proposes t-0 epoch 2.7 isr 1,2,3
    fetched t-0 NONE hw 0 start 0 records nobody
    leads t-0 epoch 2.7 from 0 isr 1,2 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    fetches no more t-0
    leads t-0 epoch 3.8 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    checkpoints
    answer NONE, t-0 NONE
    proposes t-0 epoch 3.8 isr 1,2,3
    fetched t-0 NONE hw 0 start 0 records nobody
    leads t-0 epoch 3.8 from 0 isr 1,2 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    fetches no more t-0
    leads t-0 epoch 4.9 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    checkpoints
    answer NONE, t-0 NONE
    proposes t-0 epoch 4.9 isr 1,2,3
    fetched t-0 NONE hw 0 start 0 records nobody
    leads t-0 epoch 4.9 from 0 isr 1,2 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    fetches no more t-0
    leads t-0 epoch 5.10 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    checkpoints
    answer NONE, t-0 NONE
    proposes t-0 epoch 5.10 isr 1,2,3
    fetched t-0 NONE hw 0 start 0 records nobody
    leads t-0 epoch 5.10 from 0 isr 1,2 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    """
    yield
    for epoch, error in enumerate(
        (
            Errors.UNKNOWN_TOPIC_OR_PARTITION,
            Errors.UNKNOWN_TOPIC_ID,
            Errors.FENCED_LEADER_EPOCH,
            Errors.INVALID_UPDATE_VERSION,
            Errors.INVALID_REQUEST,
            Errors.NEW_LEADER_ELECTED,
        )
    ):
        d.leader_and_isr(lead(epoch, isr=[1, 2]))
        d.fetch(3, 0)
        d.answer_proposal(error=int(error))


def answers_that_come_late(d: Desk) -> Iterator[None]:
    """Of an older partition epoch, or to a proposal that an order has overtaken: not taken in.

    leads t-0 epoch 0.9 from 0 isr 1,2 of 1,2,3 waits for 1,2,3 hw 0 end 0 by 1
    fetches no more t-0
    leads t-0 epoch 1.10 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    checkpoints
    answer NONE, t-0 NONE
    proposes t-0 epoch 1.10 isr 1,2,3
    fetched t-0 NONE hw 0 start 0 records nobody
    fetches no more t-0
    leads t-0 epoch 2.11 from 0 isr 1 of 1,2,3 waits for 1 hw 0 end 0 by 1
    checkpoints
    answer NONE, t-0 NONE
    leads t-0 epoch 2.11 from 0 isr 1 of 1,2,3 waits for 1 hw 0 end 0 by 1
    proposes t-0 epoch 2.11 isr 1,3
    fetched t-0 NONE hw 0 start 0 records nobody
    leads t-0 epoch 2.11 from 0 isr 1,2 of 1,2,3 waits for 1,2 hw 0 end 0 by 1
    """
    d.leader_and_isr(lead(isr=[1, 2], partition_epoch=9))
    d.fetch(3, 0)
    yield
    d.answer_proposal(partition_epoch=8)
    d.proposals.clear()
    d.leader_and_isr(lead(1, isr=[1, 2], partition_epoch=10))
    d.fetch(3, 0)
    d.leader_and_isr(lead(2, isr=[1], partition_epoch=11))
    d.answer_proposal()
    d.fetch(3, 0)
    d.answer_proposal(partition_epoch=11, isr=(1, 2))


def waits_are_over(d: Desk) -> Iterator[None]:
    """A consumer's with the watermark, a follower's with an append, one of an old epoch with its
    error.

    wakes t-0
    fetched t-0 NONE hw 1 start 0 records 0
    wakes t-0
    produced t-0 NONE at 1
    fetched t-0 NONE hw 1 start 0 records 1
    fetches no more t-0
    leads t-0 epoch 1.6 from 2 isr 1,2 of 1,2,3 waits for 1,2 hw 1 end 2 by 1
    checkpoints
    answer NONE, t-0 NONE
    wakes t-0
    fetches no more t-0
    leads t-0 epoch 2.7 from 2 isr 1 of 1,2,3 waits for 1 hw 2 end 2 by 1
    checkpoints
    answer NONE, t-0 NONE
    produced t-0 NONE at 2
    fetched t-0 FENCED_LEADER_EPOCH
    """
    d.leader_and_isr(lead(isr=[1, 2]))
    d.produce(acks=1)
    yield
    d.fetch(-1, 0, max_wait_ms=1000)
    d.fetch(2, 1, max_wait_ms=1000)
    d.fetch(3, 0, max_wait_ms=1000, min_bytes=1000)
    d.produce(acks=1)
    d.leader_and_isr(lead(1, isr=[1, 2]))
    d.fetch(2, 2, max_wait_ms=1000, epoch=1)
    d.leader_and_isr(lead(2, isr=[1]))
    d.produce(acks=1)


# ---- who may ask what ----------------------------------------------------------------------------


def epochs_of_readers(d: Desk) -> Iterator[None]:
    """An older one is fenced, a newer one unknown; a follower serves only who may read there. A
    replica that is not assigned.

    fetched t-0 NONE hw 0 start 0 records nobody
    fetched t-0 FENCED_LEADER_EPOCH
    fetched t-0 NONE hw 0 start 0 records nobody
    fetched t-0 UNKNOWN_LEADER_EPOCH
    fetched t-1 NOT_LEADER_OR_FOLLOWER
    fetched t-1 FENCED_LEADER_EPOCH
    fetched t-1 NOT_LEADER_OR_FOLLOWER
    fetched t-1 UNKNOWN_LEADER_EPOCH
    fetched t-2 UNKNOWN_TOPIC_OR_PARTITION
    fetched t-2 UNKNOWN_TOPIC_OR_PARTITION
    fetched t-2 UNKNOWN_TOPIC_OR_PARTITION
    fetched t-2 UNKNOWN_TOPIC_OR_PARTITION
    fetched t-1 NONE hw 0 start 0 records nobody
    fetched t-1 NOT_LEADER_OR_FOLLOWER
    fetched t-0 NOT_LEADER_OR_FOLLOWER
    fetched t-0 UNKNOWN_LEADER_EPOCH
    """
    d.leader_and_isr(lead(3), follow(epoch=3, tp="t-1"))
    yield
    for name in ("t-0", "t-1", "t-2"):
        for epoch in (-1, 2, 3, 4):
            d.fetch(-1, 0, name, epoch=epoch)
    d.fetch(-1, 0, "t-1", may_read_follower=True)
    d.fetch(2, 0, "t-1", may_read_follower=True)
    d.fetch(9, 0)
    d.fetch(9, 0, epoch=3)


def offsets_of_readers(d: Desk) -> Iterator[None]:
    """Consumers read to the watermark, replicas to the end; beyond the end nobody.

    fetched t-0 OFFSET_OUT_OF_RANGE
    fetched t-0 NONE hw 2 start 0 records 0,1
    fetched t-0 NONE hw 2 start 0 records nobody
    fetched t-0 NONE hw 2 start 0 records nobody
    fetched t-0 OFFSET_OUT_OF_RANGE
    fetched t-0 OFFSET_OUT_OF_RANGE
    fetched t-0 NONE hw 2 start 0 records 0,1,2
    fetched t-0 NONE hw 2 start 0 records 2
    wakes t-0
    fetched t-0 NONE hw 2 start 0 records nobody
    fetched t-0 OFFSET_OUT_OF_RANGE
    fetched t-0 OFFSET_OUT_OF_RANGE
    fetched t-0 NONE hw 3 start 0 records 0,1,2
    fetched t-0 NONE hw 3 start 0 records 2
    fetched t-0 NONE hw 3 start 0 records nobody
    fetched t-0 OFFSET_OUT_OF_RANGE
    """
    d.leader_and_isr(lead(isr=[1, 2]))
    for _ in range(3):
        d.produce(acks=1)
    d.fetch(2, 2)
    yield
    for replica in (-1, 2, -2):
        for offset in (-1, 0, 2, 3, 4):
            d.fetch(replica, offset)


def where_a_follower_parts(d: Desk) -> Iterator[None]:
    """By the last epoch that it has: its end here, or that of the largest below it; one above all
    is unknown.

    epochs 0 from 0, 2 from 2, 5 from 4
    wakes t-0
    fetched t-0 NONE hw 0 start 0 records 2,3
    fetched t-0 NONE hw 0 start 0 records nobody diverges at 0.2
    fetched t-0 NONE hw 0 start 0 records nobody diverges at 0.2
    fetched t-0 NONE hw 0 start 0 records nobody
    fetched t-0 NONE hw 0 start 0 records nobody diverges at 2.4
    fetched t-0 NONE hw 0 start 0 records nobody diverges at 2.4
    fetched t-0 NONE hw 0 start 0 records nobody
    fetched t-0 OFFSET_OUT_OF_RANGE
    fetched t-0 NONE hw 0 start 0 records 1,2,3
    """
    d.leader_and_isr(lead())
    for epoch in (2, 5):
        d.produce(acks=1)
        d.produce(acks=1)
        d.leader_and_isr(lead(epoch))
    yield
    d.epochs()
    for last, offset in ((0, 2), (0, 3), (1, 2), (2, 4), (2, 5), (4, 4), (5, 4), (6, 4), (0, 1)):
        d.fetch(2, offset, last=last)

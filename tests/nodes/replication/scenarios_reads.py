"""Offsets that are asked for, records that are deleted, positions that are written down
(Partition.fetchOffsetForTimestamp, lastOffsetForLeaderEpoch, deleteRecordsOnLeader,
lowWatermarkIfLeader; ReplicaManager.checkpointHighWatermarks)."""

from __future__ import annotations

from collections.abc import Iterator

from nodes.replication.model import FetchResult
from tests.nodes.replication.desk import Desk, records
from tests.nodes.replication.scenarios_roles import follow, lead

CONSUMER, FOLLOWER, DEBUGGER = -1, 2, -2
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
THEN = 1_700_000_000_000


def offsets(d: Desk) -> Iterator[None]:
    """Consumers up to the watermark, replicas and debuggers to the end; a time that no record has
    is no error.

    t-0 for -1 NONE at 2 epoch 0 time -1
    t-0 for -2 NONE at 0 epoch 0 time -1
    t-0 for -4 NONE at 0 epoch 0 time -1
    t-0 for -3 NONE at 0 epoch 0 time 1700000000000
    t-0 for 1700000000000 NONE at 0 epoch 0 time 1700000000000
    t-0 for 1700000000001 NONE at -1 epoch -1 time -1
    t-0 for -1 NONE at 3 epoch 0 time -1
    t-0 for -2 NONE at 0 epoch 0 time -1
    t-0 for -4 NONE at 0 epoch 0 time -1
    t-0 for -3 NONE at 0 epoch 0 time 1700000000000
    t-0 for 1700000000000 NONE at 0 epoch 0 time 1700000000000
    t-0 for 1700000000001 NONE at -1 epoch -1 time -1
    t-0 for -1 NONE at 3 epoch 0 time -1
    t-0 for -2 NONE at 0 epoch 0 time -1
    t-0 for -4 NONE at 0 epoch 0 time -1
    t-0 for -3 NONE at 0 epoch 0 time 1700000000000
    t-0 for 1700000000000 NONE at 0 epoch 0 time 1700000000000
    t-0 for 1700000000001 NONE at -1 epoch -1 time -1
    """
    d.leader_and_isr(lead(isr=[1, 2]))
    for _ in range(3):
        d.produce(acks=1)
    d.fetch(2, 2)
    yield
    for replica in (CONSUMER, FOLLOWER, DEBUGGER):
        for timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL, MAX_TIMESTAMP, THEN, THEN + 1):
            d.list_offset(timestamp, replica=replica)


def offsets_of_a_new_leader(d: Desk) -> Iterator[None]:
    """Until the watermark has passed the start of its epoch a client is not told an end, nor that a
    time is above it (KIP-207).

    t-0 for -1 OFFSET_NOT_AVAILABLE
    t-0 for -2 NONE at 0 epoch 0 time -1
    t-0 for -3 NONE at 0 epoch 0 time 1700000000000
    t-0 for 1700000000000 NONE at 0 epoch 0 time 1700000000000
    t-0 for 1700000000001 OFFSET_NOT_AVAILABLE
    t-0 for -1 NONE at 3 epoch 1 time -1
    t-0 for -2 NONE at 0 epoch 0 time -1
    t-0 for -3 NONE at 0 epoch 0 time 1700000000000
    t-0 for 1700000000000 NONE at 0 epoch 0 time 1700000000000
    t-0 for 1700000000001 NONE at -1 epoch -1 time -1
    wakes t-0
    fetched t-0 NONE hw 1 start 0 records nobody
    t-0 for -1 NONE at 3 epoch 1 time -1
    """
    d.leader_and_isr(follow())
    d.says["t-0"] = FetchResult(0, 1, 1, 0, records(0, 0, 3))
    d.follow()
    d.leader_and_isr(lead(1, isr=[1, 2]))
    yield
    for replica in (CONSUMER, FOLLOWER):
        for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, THEN, THEN + 1):
            d.list_offset(timestamp, replica=replica)
    d.fetch(2, 3)
    d.list_offset(LATEST)


def offsets_that_are_refused(d: Desk) -> Iterator[None]:
    """By the epoch first, then by the role; a debugger may ask a follower. What is elsewhere is not
    unknown.

    t-0 for -1 NONE at 0 epoch 3 time -1
    t-0 end of 3 NONE 3 at 0
    t-0 for -1 FENCED_LEADER_EPOCH
    t-0 end of 3 FENCED_LEADER_EPOCH
    t-0 for -1 NONE at 0 epoch 3 time -1
    t-0 end of 3 NONE 3 at 0
    t-0 for -1 UNKNOWN_LEADER_EPOCH
    t-0 end of 3 UNKNOWN_LEADER_EPOCH
    t-1 for -1 NOT_LEADER_OR_FOLLOWER
    t-1 end of 3 NOT_LEADER_OR_FOLLOWER
    t-1 for -1 FENCED_LEADER_EPOCH
    t-1 end of 3 FENCED_LEADER_EPOCH
    t-1 for -1 NOT_LEADER_OR_FOLLOWER
    t-1 end of 3 NOT_LEADER_OR_FOLLOWER
    t-1 for -1 UNKNOWN_LEADER_EPOCH
    t-1 end of 3 UNKNOWN_LEADER_EPOCH
    t-2 for -1 UNKNOWN_TOPIC_OR_PARTITION
    t-2 end of 3 UNKNOWN_TOPIC_OR_PARTITION
    t-2 for -1 UNKNOWN_TOPIC_OR_PARTITION
    t-2 end of 3 UNKNOWN_TOPIC_OR_PARTITION
    t-2 for -1 UNKNOWN_TOPIC_OR_PARTITION
    t-2 end of 3 UNKNOWN_TOPIC_OR_PARTITION
    t-2 for -1 UNKNOWN_TOPIC_OR_PARTITION
    t-2 end of 3 UNKNOWN_TOPIC_OR_PARTITION
    t-1 for -1 NONE at 0 epoch 3 time -1
    answer NONE
    t-2 for -1 NOT_LEADER_OR_FOLLOWER
    t-2 end of 0 NOT_LEADER_OR_FOLLOWER
    """
    d.leader_and_isr(lead(3), follow(epoch=3, tp="t-1"))
    yield
    for name in ("t-0", "t-1", "t-2"):
        for epoch in (-1, 2, 3, 4):
            d.list_offset(LATEST, name, epoch=epoch)
            d.epoch_end(3, name, epoch=epoch)
    d.list_offset(LATEST, "t-1", replica=DEBUGGER)
    d.metadata(("t-2", 3))
    d.list_offset(LATEST, "t-2")
    d.epoch_end(0, "t-2")


def ends_of_epochs(d: Desk) -> Iterator[None]:
    """Of the largest not above it; of one above all, and of none, nothing.

    t-0 end of -1 NONE -1 at -1
    t-0 end of 0 NONE 0 at 2
    t-0 end of 1 NONE 0 at 2
    t-0 end of 2 NONE 2 at 4
    t-0 end of 3 NONE 2 at 4
    t-0 end of 5 NONE 5 at 5
    t-0 end of 6 NONE -1 at -1
    """
    d.leader_and_isr(lead())
    for epoch in (2, 5):
        d.produce(acks=1)
        d.produce(acks=1)
        d.leader_and_isr(lead(epoch))
    d.produce(acks=1)
    yield
    for epoch in (-1, 0, 1, 2, 3, 5, 6):
        d.epoch_end(epoch)


def records_go(d: Desk) -> Iterator[None]:
    """The answer waits for every live replica; nothing above the watermark may go.

    deleted t-0 OFFSET_OUT_OF_RANGE low -1
    deleted t-0 OFFSET_OUT_OF_RANGE low -1
    wakes t-0
    fetched t-0 NONE hw 2 start 2 records nobody
    wakes t-0
    deleted t-0 NONE low 1
    fetched t-0 NONE hw 2 start 2 records 2
    wakes t-0
    fetched t-0 NONE hw 2 start 2 records 2
    wakes t-0
    deleted t-0 NONE low 2
    fetched t-0 NONE hw 2 start 2 records nobody
    fetched t-0 OFFSET_OUT_OF_RANGE
    """
    d.leader_and_isr(lead(isr=[1, 2, 3]))
    for _ in range(3):
        d.produce(acks=1)
    d.fetch(2, 3)
    d.fetch(3, 2)
    yield
    for offset in (-2, 3, -1, 1):
        d.delete_records(offset)
    d.fetch(2, 3, start=1)
    d.fetch(3, 2, start=1)
    d.fetch(3, 2, start=2)
    d.fetch(2, 3, start=2)
    d.fetch(-1, 0)


def parts_where_nothing_is_left(d: Desk) -> Iterator[None]:
    """Who asks for what is gone is to begin anew, whatever its last epoch was: where it parts is
    of no use to it.

    fetched t-0 OFFSET_OUT_OF_RANGE
    fetched t-0 NONE hw 4 start 1 records nobody diverges at 0.2
    """
    d.leader_and_isr(lead(isr=[1, 2]))
    for epoch in (2, 3):
        d.produce(acks=1)
        d.produce(acks=1)
        d.leader_and_isr(lead(epoch, isr=[1, 2]))
    d.fetch(2, 4)
    d.delete_records(1)
    yield
    for offset in (0, 1):
        d.fetch(2, offset, last=1)


def records_go_without_who_is_dead(d: Desk) -> Iterator[None]:
    """Who is not alive holds nothing up; what is not led here is refused.

    wakes t-0
    deleted t-0 NONE low 1, t-1 NOT_LEADER_OR_FOLLOWER low -1, t-2 UNKNOWN_TOPIC_OR_PARTITION
        low -1, t-9 NOT_LEADER_OR_FOLLOWER low -1
    fetched t-0 NONE hw 1 start 1 records nobody
    """
    d.leader_and_isr(lead(isr=[1, 2]), follow(tp="t-1"))
    d.produce(acks=1)
    d.fetch(2, 1)
    d.alive = {1, 2}
    d.metadata(("t-9", 2))
    yield
    d.delete_records(1, "t-0", "t-1", "t-2", "t-9")
    d.fetch(2, 1, start=1)


def records_go_and_the_leader_too(d: Desk) -> Iterator[None]:
    """It is answered that it leads no more.

    follows 2 in t-0 epoch 1.6 hw 1 end 1 by 1
    fetches no more t-0
    wakes t-0
    deleted t-0 NOT_LEADER_OR_FOLLOWER low -1
    fetches t-0 from 2 epoch 1 at 1
    thread + ReplicaFetcherThread-0-2
    checkpoints
    hears follows t-0
    answer NONE, t-0 NONE
    """
    d.leader_and_isr(lead(isr=[1, 2], replicas=[1, 2]))
    d.produce(acks=1)
    d.fetch(2, 1)
    yield
    d.delete_records(1)
    d.leader_and_isr(follow(epoch=1, replicas=[1, 2]))


def what_is_written_down(d: Desk) -> Iterator[None]:
    """The watermarks of all that is here, also of what no order has named yet; not of what is
    deleted.

    on disk t-0 1, t-1 2, u-0 1
    answer NONE
    on disk t-0 1, t-1 2, u-0 1
    fetches no more t-0
    leads t-0 epoch 1.6 from 1 isr 1 of 1 waits for 1 hw 1 end 1 by 1
    checkpoints
    hears leads t-0
    answer NONE, t-0 NONE
    produced t-0 NONE at 1
    fetches no more u-0
    wakes u-0
    log - u-0
    answer NONE, u-0 NONE
    on disk t-0 2, t-1 2
    """
    d.leader_and_isr(lead(isr=[1], replicas=[1]), lead(tp="t-1", isr=[1], replicas=[1]))
    d.leader_and_isr(lead(tp="u-0", isr=[1], replicas=[1]))
    for name in ("t-0", "t-1", "t-1", "u-0"):
        d.produce(name, acks=1)
    yield
    d.checkpoint()
    d.logs.close()
    d.boot()
    d.checkpoint()
    d.leader_and_isr(lead(1, isr=[1], replicas=[1]))
    d.produce(acks=1)
    d.stop_replica("u-0", delete=True)
    d.checkpoint()

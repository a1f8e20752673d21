"""A fetch that waits for bytes: how much is read for it, and when it is answered. Bytes are counted
at the system call; nothing here depends on time."""

from __future__ import annotations

import os
from typing import Any

import pytest

from nodes.core.types import TopicPartition
from nodes.log.slices import LogSlice
from nodes.replication.model import FetchParams, FetchPartitionRequest
from nodes.wire.records import build_batch
from tests.nodes.replication.conftest import (
    TP,
    Broker,
    ClusterFactory,
    Waiter,
    batch,
    wait_for,
)

LONG_MS = 600_000
CHUNK_BYTES = 16 << 10
"""What a search for an offset may read of a log."""
KIB = build_batch([(None, b"k" * 1024, 1_700_000_000_000)])


class Reads:
    """Bytes that went through ``pread`` and ``preadv``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        pread, preadv = os.pread, os.preadv

        def counted(fd: int, size: int, at: int) -> bytes:
            data = pread(fd, size, at)
            self.bytes += len(data)
            return data

        def counted_into(fd: int, buffers: Any, at: int) -> int:
            count = preadv(fd, buffers, at)
            self.bytes += count
            return count

        monkeypatch.setattr(os, "pread", counted)
        monkeypatch.setattr(os, "preadv", counted_into)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


@pytest.fixture
def broker(make_cluster: ClusterFactory) -> Broker:
    """Alone, with segments of 64 KiB."""
    cluster = make_cluster(brokers=1, min_isr=1)
    cluster.create()
    return cluster.brokers[1]


def produce(broker: Broker, count: int, data: bytes = KIB, tp: TopicPartition = TP) -> None:
    for _ in range(count):
        waiter = Waiter()
        broker.manager.append_single(tp, data, 1, LONG_MS, waiter)
        assert waiter.wait().error == 0


def fetch(
    broker: Broker, *asked: tuple[TopicPartition, int], min_bytes: int, **params: Any
) -> Waiter:
    waiter = Waiter()
    partition_bytes = params.pop("partition_bytes", 1 << 20)
    broker.manager.fetch_messages(
        FetchParams(max_wait_ms=LONG_MS, min_bytes=min_bytes, **params),
        [(tp, FetchPartitionRequest(offset, -1, partition_bytes)) for tp, offset in asked],
        waiter,
    )
    return waiter


def sizes(waiter: Waiter) -> list[int]:
    return [len(result.records) for _, result in waiter.wait()]


def test_waiting_for_bytes_reads_none(broker: Broker, reads: Reads) -> None:
    """50 appends, each of which asks whether there is enough."""
    waiter = fetch(broker, (TP, 0), min_bytes=50 * len(KIB))
    produce(broker, 1)
    reads.bytes = 0  # the log itself looks once, how old the segment is
    produce(broker, 48)
    assert not waiter.is_answered
    assert reads.bytes == 0
    produce(broker, 1)
    assert sizes(waiter) == [50 * len(KIB)]
    assert reads.bytes <= 2 * CHUNK_BYTES  # where it begins and ends; none of the answer itself
    ((_, result),) = waiter.value
    assert isinstance(result.records, LogSlice)
    before = reads.bytes
    assert len(result.records.read()) == reads.bytes - before == 50 * len(KIB)


def test_one_byte_less_is_not_enough(broker: Broker) -> None:
    just, more = (fetch(broker, (TP, 0), min_bytes=2 * len(KIB) + extra) for extra in (0, 1))
    produce(broker, 1)
    assert not just.is_answered
    produce(broker, 1)
    assert sizes(just) == [2 * len(KIB)]
    assert not more.is_answered
    produce(broker, 1)
    assert sizes(more) == [3 * len(KIB)]


def test_bytes_that_were_there_before_count(broker: Broker, reads: Reads) -> None:
    produce(broker, 3)
    waiter = fetch(broker, (TP, 1), min_bytes=3 * len(KIB))
    before = reads.bytes
    assert not waiter.is_answered  # two of them so far
    produce(broker, 1)
    assert sizes(waiter) == [3 * len(KIB)]
    assert reads.bytes - before <= 2 * CHUNK_BYTES


def test_partitions_count_together_each_up_to_its_share(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster(brokers=1, min_isr=1)
    other = TopicPartition("t", 1)
    cluster.create()
    cluster.create(tp=other)
    broker = cluster.brokers[1]
    waiter = fetch(
        broker, (TP, 0), (other, 0), min_bytes=3 * len(KIB), partition_bytes=2 * len(KIB)
    )
    produce(broker, 5)  # more than its share of two
    assert not waiter.is_answered
    produce(broker, 1, tp=other)
    assert sizes(waiter) == [2 * len(KIB), len(KIB)]


def test_data_in_a_later_segment_is_not_waited_for(broker: Broker) -> None:
    """An answer ends with its segment, so that what is missing would never come."""
    log = broker.partition().local_log()
    while log.segment_count == 1:
        produce(broker, 1)
    base = log.log_end_offset - 1
    last_of_first = fetch(broker, (TP, base - 1), min_bytes=2 * len(KIB))
    assert sizes(last_of_first) == [len(KIB)]
    one_segment = fetch(broker, (TP, base), min_bytes=2 * len(KIB))  # the same amount behind it
    assert not one_segment.is_answered
    produce(broker, 1)
    assert sizes(one_segment) == [2 * len(KIB)]


def test_a_wait_at_the_end_of_a_segment_ends_with_the_roll(broker: Broker) -> None:
    log = broker.partition().local_log()
    while log.size_bytes + len(KIB) <= log.config.segment_bytes:
        produce(broker, 1)
    assert log.segment_count == 1
    waiter = fetch(broker, (TP, log.log_end_offset), min_bytes=10 * len(KIB))
    assert not waiter.is_answered
    produce(broker, 1)
    assert log.segment_count == 2
    assert sizes(waiter) == [len(KIB)]


def test_a_consumer_waits_for_what_is_committed(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.create()
    leader = cluster.brokers[1]
    produce(leader, 1)
    wait_for(lambda: leader.partition().high_watermark == 1)
    cluster.cut.add(frozenset({1, 2}))
    waiter = fetch(leader, (TP, 1), min_bytes=2)
    produce(leader, 3)
    assert not waiter.is_answered
    cluster.cut.clear()
    assert sum(sizes(waiter)) % len(KIB) == 0
    assert sum(sizes(waiter)) > 0


def test_a_followers_place_is_known_without_a_look(
    make_cluster: ClusterFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A high watermark is where a follower fetches from."""
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.create()
    leader = cluster.brokers[1]
    for count in range(1, 4):
        produce(leader, 1)
        wait_for(lambda count=count: leader.partition().high_watermark == count)
    cluster.cut.add(frozenset({1, 2}))
    produce(leader, 5)
    partition = leader.partition()
    assert partition.local_log().log_end_offset == 8

    def forbidden(*_: Any) -> bytes:
        raise AssertionError("read")

    monkeypatch.setattr(os, "pread", forbidden)
    assert partition.position_of(3).position == 3 * len(KIB)
    assert partition.position_of(8).position == 8 * len(KIB)
    with pytest.raises(AssertionError):
        partition.position_of(5)  # nobody fetches there


def test_places_of_an_earlier_reign_are_forgotten(make_cluster: ClusterFactory) -> None:
    """What was there may have been cut since, and other records be in its place."""
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.create()
    leader = cluster.brokers[1]
    produce(leader, 1)
    wait_for(lambda: leader.partition().high_watermark == 1)
    assert leader.partition()._fetched_from
    cluster.cut.add(frozenset({1, 2}))
    for broker_id in (2, 1):
        cluster.controller.elect(TP, broker_id)
        cluster.controller.tell_all(TP)
    assert leader.partition().is_leader
    assert not leader.partition()._fetched_from


def test_limits_of_a_waiting_fetch_are_those_of_any(broker: Broker) -> None:
    waiter = fetch(broker, (TP, 0), min_bytes=len(KIB), max_bytes=len(KIB) + 5)
    produce(broker, 1, data=batch(1))
    assert not waiter.is_answered
    produce(broker, 1)
    (size,) = sizes(waiter)
    assert size == len(batch(1))  # whole batches, and both are more than the limit

"""A write that the disk holds up is the producer's wait, and that of whoever changes the log.

Whoever reads the same partition is answered meanwhile, with what was there before (UnifiedLog.read
and LocalLog.read take no lock; an append holds the log's).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from nodes.core.errors import Errors
from nodes.core.truncation import EpochEnd
from nodes.replication.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    FetchParams,
    FetchPartitionRequest,
)
from nodes.replication.partition import FetchedFrom
from tests.nodes.replication.conftest import (
    TP,
    Broker,
    ClusterFactory,
    MemoryCluster,
    Waiter,
    as_sent,
    batch,
    wait_for,
)

PATIENCE_S = 30.0
LONG_MS = 600_000
FOLLOWER = 2


class Stalled(NamedTuple):
    """A leader with a producer in the disk, and where that one's answer comes."""

    leader: Broker
    produced: Waiter


class HeldWrite:
    """Stands in for ``pwrite``: the next one after `hold` waits, before or after it has written."""

    def __init__(self) -> None:
        self._real = os.pwrite
        self._held = threading.Event()
        self._let_go = threading.Event()
        self._armed = False
        self._after = False

    def hold(self, *, after: bool) -> None:
        self._armed, self._after = True, after

    def __call__(self, fd: int, data: bytes, position: int) -> int:
        if not self._armed:
            return self._real(fd, data, position)
        self._armed = False
        count = self._real(fd, data, position) if self._after else 0
        self._held.set()
        assert self._let_go.wait(2 * PATIENCE_S)
        return count if self._after else self._real(fd, data, position)

    def is_held(self) -> bool:
        return self._held.wait(PATIENCE_S)

    def let_go(self) -> None:
        self._let_go.set()


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldWrite]:
    held = HeldWrite()
    monkeypatch.setattr(os, "pwrite", held)
    yield held
    held.let_go()


@pytest.fixture
def cluster(make_cluster: ClusterFactory) -> MemoryCluster:
    """Broker 1 leads and holds 0, 1, 2, all committed. Its follower is there but asks for nothing
    any more: it stays in the ISR, so what is appended from now on is not committed."""
    cluster = make_cluster(brokers=2, min_isr=1)
    cluster.create()
    leader = cluster.brokers[1]
    for value in range(3):
        assert leader.produce(value, acks=-1).wait().error == 0
    cluster.brokers[FOLLOWER].manager.fetchers.shutdown()
    return cluster


def promptly(question: Callable[[], Any]) -> Any:
    """The answer, which must come while the write is held."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(question()), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert found, "it waits for the append"
    return found[0]


@pytest.fixture(params=[False, True], ids=["before the bytes are there", "after"])
def stalled(cluster: MemoryCluster, write: HeldWrite, request: pytest.FixtureRequest) -> Stalled:
    """The leader, with a producer in the disk."""
    leader = cluster.brokers[1]
    write.hold(after=request.param)
    produced = Waiter()
    threading.Thread(
        target=leader.manager.append_single, args=(TP, batch(3), 1, LONG_MS, produced), daemon=True
    ).start()
    assert write.is_held()
    return Stalled(leader, produced)


def ask(leader: Broker, offset: int, **params: Any) -> Any:
    """One partition's answer to a fetch that does not wait."""
    waiter = Waiter()
    leader.manager.fetch_messages(
        FetchParams(max_wait_ms=0, **params),
        [(TP, FetchPartitionRequest(offset, -1, 1 << 20))],
        waiter,
    )
    return as_sent(waiter.wait()[0][1])


@pytest.mark.parametrize("replica_id", [-1, FOLLOWER], ids=["a consumer", "a follower"])
@pytest.mark.parametrize("offset", [0, 2, 3])
def test_fetches_are_answered_with_what_was_there(
    stalled: Stalled, write: HeldWrite, replica_id: int, offset: int
) -> None:
    found = promptly(lambda: ask(stalled.leader, offset, replica_id=replica_id))
    assert (found.error, found.high_watermark) == (0, 3)
    assert bool(found.records) == (offset < 3)
    before = promptly(lambda: ask(stalled.leader, 0, replica_id=replica_id)).records
    assert not stalled.produced.is_answered
    write.let_go()
    assert stalled.produced.wait().base_offset == 3
    after = ask(stalled.leader, 0, replica_id=replica_id).records
    # Nobody but a follower sees what is not committed, and it too only when it was written.
    assert (after == before) == (replica_id == -1)
    assert after.startswith(before)


def test_a_fetch_that_has_to_wait_is_put_down_and_woken(stalled: Stalled, write: HeldWrite) -> None:
    waiter = Waiter()
    promptly(
        lambda: (
            stalled.leader.manager.fetch_messages(
                FetchParams(replica_id=FOLLOWER, max_wait_ms=LONG_MS, min_bytes=2),
                [(TP, FetchPartitionRequest(3, -1, 1 << 20))],
                waiter,
            )
            or True
        )
    )
    assert not waiter.is_answered
    write.let_go()
    assert as_sent(waiter.wait()[0][1]).records


def test_offsets_are_told(stalled: Stalled) -> None:
    manager = stalled.leader.manager

    def offset(timestamp: int, replica_id: int = -1) -> int:
        found = promptly(lambda: manager.list_offset(TP, timestamp, -1, 0, replica_id))
        assert found.error == 0
        return int(found.offset)

    assert offset(EARLIEST_TIMESTAMP) == 0
    assert offset(LATEST_TIMESTAMP) == 3
    assert offset(LATEST_TIMESTAMP, FOLLOWER) == 3
    assert offset(MAX_TIMESTAMP) == 0
    assert offset(1_700_000_000_000) == 0
    leader_epoch = stalled.leader.partition().leader_epoch
    assert promptly(
        lambda: stalled.leader.partition().end_offset_for_epoch(-1, leader_epoch)
    ) == EpochEnd(leader_epoch, 3)


def test_what_it_holds_up(stalled: Stalled, cluster: MemoryCluster, write: HeldWrite) -> None:
    """A second append, and a change of role: the record belongs to the epoch in which its write
    began, and the new epoch begins after it."""
    second = Waiter()
    threading.Thread(
        target=stalled.leader.manager.append_single,
        args=(TP, batch(4), 1, LONG_MS, second),
        daemon=True,
    ).start()
    old_epoch = stalled.leader.partition().leader_epoch
    cluster.controller.elect(TP, 1)
    told = threading.Thread(target=cluster.controller.tell, args=(1,), daemon=True)
    told.start()
    told.join(0.3)
    assert told.is_alive()
    assert not second.is_answered
    assert promptly(lambda: ask(stalled.leader, 0)).error == 0
    write.let_go()
    assert stalled.produced.wait().error == 0
    wait_for(lambda: not told.is_alive())
    assert second.wait().error == 0
    start = stalled.leader.partition().leader_epoch_start
    assert start is not None
    assert start > 3
    assert stalled.leader.partition().end_offset_for_epoch(-1, old_epoch).end_offset == start


def test_a_follower_that_writes_can_be_read(cluster: MemoryCluster, write: HeldWrite) -> None:
    follower = cluster.brokers[FOLLOWER].partition()
    leader = cluster.brokers[1]
    assert leader.produce(3, acks=1).wait().error == 0
    data = ask(leader, 3, replica_id=FOLLOWER).records
    write.hold(after=False)
    answer = FetchedFrom(follower.local_log().log_end_offset, follower.leader_epoch, 3, 0)
    fetcher = threading.Thread(target=follower.append_as_follower, args=(data, answer), daemon=True)
    fetcher.start()
    assert write.is_held()
    params = FetchParams(max_wait_ms=0, may_read_follower=True)
    request = FetchPartitionRequest(0, -1, 1 << 20)
    result, _ = promptly(lambda: follower.fetch(params, request, 1 << 20, True, False))
    assert as_sent(result).records
    write.let_go()
    wait_for(lambda: not fetcher.is_alive())
    assert follower.local_log().log_end_offset == 4


# ---- a change of role in the middle of a read ----------------------------------------------------


@pytest.mark.parametrize("replica_id", [-1, FOLLOWER], ids=["a consumer", "a follower"])
@pytest.mark.parametrize("fails", [False, True], ids=["found", "refused"])
def test_a_leader_that_resigns_meanwhile_says_so(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch, replica_id: int, fails: bool
) -> None:
    """What was found, or was not, belongs to another reign by then: the client is to look for the
    new leader, not to believe in an offset that is out of range."""
    leader = cluster.brokers[1]
    partition = leader.partition()
    own_log = partition.local_log()
    real = own_log.slice
    position = partition.followers[FOLLOWER]

    def resigns_first(*args: Any, **options: Any) -> Any:
        cluster.controller.elect(TP, FOLLOWER)
        cluster.controller.tell(1)
        if fails:
            own_log.truncate_to(0)
        return real(*args, **options)

    monkeypatch.setattr(own_log, "slice", resigns_first)
    found = ask(leader, 1, replica_id=replica_id)
    assert found.error == Errors.NOT_LEADER_OR_FOLLOWER
    assert not found.records
    assert partition.followers.get(FOLLOWER, position) == position


def test_a_leader_that_goes_on_in_a_new_epoch_answers(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader = cluster.brokers[1]
    own_log = leader.partition().local_log()
    real, pending = own_log.slice, [True]

    def goes_on(*args: Any, **options: Any) -> Any:
        if pending:
            pending.pop()
            cluster.controller.elect(TP, 1)
            cluster.controller.tell(1)
        return real(*args, **options)

    monkeypatch.setattr(own_log, "slice", goes_on)
    assert ask(leader, 1).records
    found = ask(leader, 3, replica_id=FOLLOWER)
    assert (found.error, len(found.records)) == (0, 0)

"""Guards that keep a late or a mistaken call from doing harm, each called directly: what comes
through the front door seldom gets there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.core.errors import ApiError, Errors
from nodes.core.truncation import EpochEnd
from nodes.replication.fetcher import InitialFetch
from nodes.replication.model import FetchResult, LeaderAndIsrState
from nodes.replication.partition import FetchedFrom, Partition
from tests.nodes.replication.desk import Desk, records, tp
from tests.nodes.replication.scenarios_roles import follow, lead


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """Follows broker 2 in t-0, in epoch 3, with two records of which one is committed."""
    made = Desk(tmp_path, monkeypatch)
    made.leader_and_isr(follow(epoch=3))
    made.says["t-0"] = FetchResult(0, 1, 1, 0, records(3, 0, 2))
    made.follow()
    yield made
    made.close()


@pytest.mark.parametrize("data", [b"", records(3, 1), records(3, 2), records(3, 3)])
@pytest.mark.parametrize("offset", [0, 1, 3, 9])
def test_records_for_another_place_are_not_taken_in(desk: Desk, offset: int, data: bytes) -> None:
    """ReplicaFetcherThread.processPartitionData: "Offset mismatch". Nor is the watermark, which was
    told with them."""
    partition = desk.partition()
    with pytest.raises(ValueError, match="is not the log's end"):
        partition.append_as_follower(data, FetchedFrom(offset, 3, 2, 0))
    assert (partition.local_log().log_end_offset, partition.high_watermark) == (2, 1)


@pytest.mark.parametrize("epoch", [2, 4])
@pytest.mark.parametrize("data", [b"", records(3, 2)])
def test_records_of_another_epoch_are_not_taken_in(desk: Desk, epoch: int, data: bytes) -> None:
    partition = desk.partition()
    with pytest.raises(ApiError) as refused:
        partition.append_as_follower(data, FetchedFrom(2, epoch, 2, 0))
    assert refused.value.error == Errors.FENCED_LEADER_EPOCH
    assert (partition.local_log().log_end_offset, partition.high_watermark) == (2, 1)


def test_who_leads_takes_nothing_in(desk: Desk) -> None:
    desk.leader_and_isr(lead(4))
    with pytest.raises(ApiError) as refused:
        desk.partition().append_as_follower(records(4, 2), FetchedFrom(2, 4, 2, 0))
    assert refused.value.error == Errors.FENCED_LEADER_EPOCH


def test_who_is_deleted_does_nothing(desk: Desk) -> None:
    """Late calls of the fetcher's, of a client's and of the clock's."""
    partition = desk.partition()
    desk.stop_replica("t-0", delete=True)
    late: list[Any] = [
        lambda: partition.append_as_follower(records(3, 2), FetchedFrom(2, 3, 2, 0)),
        lambda: partition.truncate_to(0, "late"),
        lambda: partition.truncate_fully_and_start_at(7),
        lambda: partition.append_as_leader(records(3, 2), 1),
        lambda: partition.delete_records(1),
    ]
    for call in late:
        with pytest.raises(ApiError) as refused:
            call()
        assert refused.value.error == Errors.NOT_LEADER_OR_FOLLOWER
    partition.maybe_shrink_isr()
    assert not partition.is_leader
    assert partition.acknowledgement(0, 9).error == Errors.NOT_LEADER_OR_FOLLOWER


def order(leader: int, epoch: int) -> LeaderAndIsrState:
    return LeaderAndIsrState(
        tp=tp("t-0"),
        topic_id=None,
        controller_epoch=1,
        leader=leader,
        leader_epoch=epoch,
        isr=(1, 2),
        partition_epoch=epoch,
        replicas=(1, 2),
    )


CHANGES: dict[str, Callable[[Partition], object]] = {
    "leads": lambda p: p.make_leader(order(1, 4)),
    "follows another": lambda p: p.make_follower(order(3, 4)),
    "parts from its leader": lambda p: p.truncate(EpochEnd(3, 1)),
    "is cut": lambda p: p.truncate_to(1, "high watermark"),
    "is cut to its leader's end": lambda p: p.truncate_to_leader_end(1),
    "begins anew": lambda p: p.truncate_fully_and_start_at(7),
    "goes": lambda p: p.delete(),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_no_append_straddles_a_change(desk: Desk, change: Callable[[Partition], object]) -> None:
    """Partition.leaderIsrUpdateLock: an append is over before the role or the log is another. It
    holds the first lock over its write, and not the second, so that who changes holds both."""
    partition = desk.partition()
    waits_for_appends = []

    class State:
        def __enter__(self) -> None:
            waits_for_appends.append(partition._changing.locked())

        def __exit__(self, *_: object) -> None:
            pass

    partition._lock = State()  # type: ignore[assignment]
    change(partition)
    assert waits_for_appends
    assert all(waits_for_appends)


def test_orders_are_carried_out_one_at_a_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """ReplicaManager.replicaStateChangeLock, of all three: their controllers' epochs are compared
    and what they say is done under it, whichever planes they come in on."""
    changes = desk.manager._state_changes
    alone: dict[str, bool] = {}

    def watch(owner: Any, method: str) -> None:
        real = getattr(owner, method)

        def noted(*args: Any) -> Any:
            alone[method] = alone.get(method, True) and changes._lock.locked()
            return real(*args)

        monkeypatch.setattr(owner, method, noted)

    orders = [
        ("ensure_log", lambda: desk.leader_and_isr(lead(4))),
        ("drop_partition", lambda: desk.stop_replica("t-0", delete=True)),
        ("take_in_metadata", lambda: desk.metadata(("t-0", 2))),
    ]
    watch(changes, "_adopt")
    for does, ordered in orders:
        watch(desk.manager, does)
        alone.clear()
        ordered()
        assert alone == {"_adopt": True, does: True}


def thread_of(desk: Desk) -> Any:
    (thread,) = desk.manager.fetchers._threads.values()
    return thread


def test_an_order_of_the_same_epoch_goes_on_where_it_is(desk: Desk) -> None:
    """AbstractFetcherThread.partitionFetchState: "Maybe partition is already being fetched"; with
    another epoch it begins anew, and is no failed one any more."""
    thread = thread_of(desk)
    before = thread._states[tp("t-0")]
    assert (before.fetch_offset, before.last_fetched_epoch) == (2, 3)
    thread.add({tp("t-0"): InitialFetch(2, 3, 0, cuts_first=True)})
    assert thread._states[tp("t-0")] is before
    assert (before.fetch_offset, before.cuts_first) == (2, False)
    thread.failed.add(tp("t-0"))
    thread.add({tp("t-0"): InitialFetch(2, 4, 1, cuts_first=False)})
    now = thread._states[tp("t-0")]
    assert (now.leader_epoch, now.fetch_offset, now.last_fetched_epoch) == (4, 1, 3)
    assert not thread.failed
    thread.add({tp("t-0"): InitialFetch(2, 5, 1, cuts_first=True)})
    assert thread._states[tp("t-0")].last_fetched_epoch == -1, "nothing to find a divergence by"


def test_who_is_removed_is_asked_for_no_more(desk: Desk) -> None:
    thread = thread_of(desk)
    thread.failed.add(tp("t-0"))
    thread.remove([tp("t-0"), tp("t-9")])
    assert (thread.partition_count, thread.failed) == (0, set())
    desk.told()
    desk.follow()
    assert not [said for said in desk.told() if said.startswith("asks")]

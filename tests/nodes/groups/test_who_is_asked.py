"""What each question about a group is answered by a broker that is no coordinator at all, not this
group's, not yet, or one that does not know the group (GroupCoordinator.validateGroupStatus and what
each of its callers makes of it)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.groups.coordinator import GroupCoordinator
from nodes.groups.messages import CommittedOffset
from nodes.groups.store import partition_for

TP = TopicPartition("t", 0)
STOPPED, ANOTHERS, LOADING, UNKNOWN, NAMELESS = (
    "stopped", "another's", "loading", "unknown", "nameless",
)  # fmt: skip


def joins(client: Any) -> int:
    return int(client.join().error)


def joins_with_an_id(client: Any) -> int:
    return int(client.send_join(member_id="m").wait().error)


def syncs(client: Any) -> int:
    client.member_id, client.generation = "m", 5
    return int(client.sync().error)


def beats(client: Any) -> int:
    client.member_id, client.generation = "m", 5
    return int(client.heartbeat())


def leaves(client: Any) -> int:
    error, of_members = client.coordinator.leave(client.group_id, [("m", None)])
    return int(error or of_members[0])


def commits_as_a_member(client: Any) -> int:
    return int(
        client.commit({TP: CommittedOffset(1, -1, "", 0)}, generation=5, member_id="m").wait()
    )


def commits_alone(client: Any) -> int:
    return int(client.commit({TP: CommittedOffset(1, -1, "", 0)}).wait())


def fetches(client: Any) -> int:
    return int(client.coordinator.fetch_offsets(client.group_id, [TP])[0])


def describes(client: Any) -> int:
    return int(client.coordinator.describe(client.group_id).error)


def deletes(client: Any) -> int:
    return int(client.coordinator.deletion.delete_groups([client.group_id])[client.group_id])


def deletes_offsets(client: Any) -> int:
    return int(client.coordinator.deletion.delete_offsets(client.group_id, [TP])[0])


def lists(client: Any) -> int:
    return int(client.coordinator.list_groups(())[0])


NOT_AVAILABLE, IN_PROGRESS, NOT_COORDINATOR = 15, 14, 16
INVALID_GROUP_ID, UNKNOWN_MEMBER, ILLEGAL_GENERATION, REBALANCING, NOT_FOUND = 24, 25, 22, 27, 69

ANSWERS: dict[Callable[[Any], int], dict[str, int]] = {
    joins: {LOADING: IN_PROGRESS, UNKNOWN: 0, NAMELESS: INVALID_GROUP_ID},
    joins_with_an_id: {LOADING: IN_PROGRESS, UNKNOWN: UNKNOWN_MEMBER, NAMELESS: INVALID_GROUP_ID},
    syncs: {LOADING: REBALANCING, UNKNOWN: UNKNOWN_MEMBER, NAMELESS: INVALID_GROUP_ID},
    beats: {LOADING: 0, UNKNOWN: UNKNOWN_MEMBER, NAMELESS: INVALID_GROUP_ID},
    leaves: {LOADING: IN_PROGRESS, UNKNOWN: UNKNOWN_MEMBER, NAMELESS: INVALID_GROUP_ID},
    commits_as_a_member: {
        LOADING: IN_PROGRESS, UNKNOWN: ILLEGAL_GENERATION, NAMELESS: ILLEGAL_GENERATION,
    },
    commits_alone: {LOADING: IN_PROGRESS, UNKNOWN: 0, NAMELESS: 0},
    fetches: {LOADING: IN_PROGRESS, UNKNOWN: 0, NAMELESS: 0},
    describes: {LOADING: IN_PROGRESS, UNKNOWN: 0, NAMELESS: 0},
    deletes: {LOADING: IN_PROGRESS, UNKNOWN: NOT_FOUND, NAMELESS: NOT_FOUND},
    deletes_offsets: {LOADING: IN_PROGRESS, UNKNOWN: NOT_FOUND, NAMELESS: INVALID_GROUP_ID},
    lists: {ANOTHERS: 0, LOADING: IN_PROGRESS, UNKNOWN: 0, NAMELESS: 0},
}  # fmt: skip
EVERYWHERE = {STOPPED: NOT_AVAILABLE, ANOTHERS: NOT_COORDINATOR}


@pytest.fixture
def in_state(
    make_coordinator: Callable[..., GroupCoordinator], monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], GroupCoordinator]:
    def make(state: str) -> GroupCoordinator:
        coordinator = make_coordinator(owns=state not in (ANOTHERS, LOADING))
        if state == LOADING:
            monkeypatch.setattr(coordinator._loader, "schedule", lambda *_: None)
            for partition in range(4):
                coordinator.on_election(partition)
        elif state == STOPPED:
            coordinator.shutdown()
        return coordinator

    return make


@pytest.mark.parametrize("state", [STOPPED, ANOTHERS, LOADING, UNKNOWN, NAMELESS])
@pytest.mark.parametrize("ask", ANSWERS, ids=lambda ask: ask.__name__)
def test_every_question(
    ask: Callable[[Any], int],
    state: str,
    in_state: Callable[[str], GroupCoordinator],
    client_of: Any,
) -> None:
    client = client_of(in_state(state), group_id="" if state == NAMELESS else "g")
    assert ask(client) == (EVERYWHERE | ANSWERS[ask])[state]


def test_a_nameless_group_is_deleted_like_others(coordinator: Any, client_of: Any) -> None:
    """Old consumers commit for it, and operators may see it and have it go."""
    client = client_of(coordinator, group_id="")
    assert commits_alone(client) == 0
    assert deletes(client) == 0
    assert deletes(client) == NOT_FOUND


@pytest.mark.parametrize("waits_for", ["join", "sync"])
def test_who_waits_when_the_partition_goes_elsewhere(
    waits_for: str, coordinator: Any, client_of: Any
) -> None:
    """GroupCoordinator.onGroupUnloaded: they are told to look for the new coordinator; so is who
    asks afterwards. What others lead here is kept."""
    kept = next(f"k{n}" for n in range(99) if coordinator.partition_for(f"k{n}") != 0)
    lost = next(f"l{n}" for n in range(99) if coordinator.partition_for(f"l{n}") == 0)
    other = client_of(coordinator, group_id=kept)
    other.join()
    one, two = client_of(coordinator, group_id=lost), client_of(coordinator, group_id=lost)
    one.join()
    if waits_for == "join":
        waiting = two.send_join()
    else:
        rejoining = two.send_join()
        again = one.send_join()
        one.joined(again)
        two.joined(rejoining)
        follower = two if one.is_leader else one
        waiting = follower.send_sync()
    assert not waiting.is_done
    coordinator.on_resignation(0)
    assert waiting.wait().error == Errors.NOT_COORDINATOR
    assert beats(client_of(coordinator, group_id=lost)) == NOT_COORDINATOR
    assert other.heartbeat() in (0, REBALANCING)
    assert [g.group_id for g in coordinator.list_groups(())[1]] == [kept]
    coordinator.on_resignation(0)


def test_members_that_a_new_coordinator_found_are_waited_for_as_long_as_they_asked(
    make_coordinator: Any, client_of: Any, clock: Any, until: Any
) -> None:
    """GroupMetadataManager's loadGroup: their sessions begin anew; who says nothing is dropped, who
    beats stays."""
    before = make_coordinator()
    for group_id in ("silent", "beating"):
        client = client_of(before, group_id=group_id)
        client.join(session_timeout_ms=50)
        client.sync({client.member_id: b""})
    after = make_coordinator(clock=clock)
    client.coordinator = after

    def has_expired() -> bool:
        clock.advance(10)
        assert client.heartbeat() == 0
        return after.describe("silent").state == "Empty"

    assert after.describe("silent").state == "Stable"
    until(has_expired)
    assert after.describe("beating").state == "Stable"


def test_who_leads_on_in_a_new_epoch_keeps_what_it_has(
    make_coordinator: Any, client_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An election of who has led already loads nothing: a group that is not in the log yet would be
    lost, and all would be asked to wait."""
    coordinator = make_coordinator()
    client = client_of(coordinator)
    assert client.join().error == 0
    loads: list[Any] = []
    monkeypatch.setattr(coordinator._loader, "schedule", lambda *task: loads.append(task))
    for partition in range(4):
        coordinator.on_election(partition)
    assert loads == []
    assert client.heartbeat() == 0
    assert lists(client) == 0
    coordinator.on_resignation(coordinator.partition_for("g"))
    coordinator.on_election(coordinator.partition_for("g"))
    assert len(loads) == 1
    assert joins(client) == IN_PROGRESS


@pytest.mark.parametrize(("there_are", "partitions"), [(0, 50), (7, 7)])
def test_how_many_partitions_groups_are_in(
    make_coordinator: Any, there_are: int, partitions: int
) -> None:
    """As many as their topic has when the broker starts, whatever the config says; that says how
    many there will be (GroupMetadataManager.startup)."""
    coordinator = make_coordinator(
        owns=False, partition_count=there_are, offsets_topic_num_partitions=50
    )
    names = [f"g{n}" for n in range(40)]
    assert [coordinator.partition_for(name) for name in names] == [
        partition_for(name, partitions) for name in names
    ]

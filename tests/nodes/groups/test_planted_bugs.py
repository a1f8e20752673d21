"""Planted bugs in the group coordinator: what each does that it should not."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from nodes.core.errors import Errors
from nodes.core.rules import RULES
from nodes.core.types import TopicPartition
from nodes.groups.messages import CommittedOffset
from nodes.mutants import rules_with

TP = TopicPartition("t", 0)
NAMES = ("assign-the-same-to-all", "forget-group-offsets", "commit-offsets-unreplicated")


@pytest.fixture(params=["", *NAMES])
def bug(request: Any, replicas: Any) -> str:
    """A planted bug, or none."""
    replicas.rules = rules_with([request.param]) if request.param else RULES
    return str(request.param)


def test_what_members_are_given(bug: str, make_client: Any) -> None:
    client = make_client()
    client.join()
    given = {client.member_id: b"0", "another": b"1, 2"}
    wrong = bug == "assign-the-same-to-all"
    assert client.sync(given).assignment == (b"1, 2" if wrong else b"0")


def test_what_a_new_coordinator_knows(bug: str, make_coordinator: Any, client_of: Any) -> None:
    client = client_of(make_coordinator())
    client.join()
    client.sync()
    kept = CommittedOffset(7, -1, "", 1)
    assert client.commit({TP: kept}).wait() == 0
    _, found = make_coordinator().fetch_offsets("g", [TP])
    forgotten = bug == "forget-group-offsets"
    assert found[TP] == (None if forgotten else kept)


def test_what_a_commit_waits_for(bug: str, make_client: Any, replicas: Any) -> None:
    client = make_client()
    client.join()
    client.sync()
    client.commit({TP: CommittedOffset(7, -1, "", 1)}).wait()
    assert replicas.acks[-1] == (1 if bug == "commit-offsets-unreplicated" else -1)


@pytest.mark.parametrize("names", [(), ("keep-what-is-erased",)])
def test_what_was_deleted(names: tuple[str, ...], make_coordinator: Any, replicas: Any) -> None:
    replicas.rules = rules_with(names)
    kept, answers = CommittedOffset(7, -1, "", 1), []
    first = make_coordinator()
    first.commit_offsets("g", -1, "", None, {TP: kept}, answers.append)
    assert first.deletion.delete_groups(["g"]) == {"g": 0}
    assert answers == [{TP: 0}]
    _, found = make_coordinator().fetch_offsets("g", [TP])
    assert found[TP] == (kept if names else None)


@pytest.mark.parametrize("names", [(), ("ignore-heartbeats",)])
def test_what_a_heartbeat_does(
    names: tuple[str, ...], make_coordinator: Any, client_of: Any, replicas: Any
) -> None:
    replicas.rules = rules_with(names)
    client = client_of(make_coordinator())
    client.join()
    client.sync()
    group = client.coordinator._groups["g"]
    (member,) = group.members.values()
    before = member.session
    assert client.heartbeat() == 0
    assert (member.session is not before) is (not names)


@pytest.mark.parametrize(("names", "error"), [((), 25), (("keep-who-leaves",), 0)])
def test_who_left(
    names: tuple[str, ...], error: int, make_coordinator: Any, client_of: Any, replicas: Any
) -> None:
    replicas.rules = rules_with(names)
    client = client_of(make_coordinator())
    client.join()
    client.sync()
    assert client.leave() == 0
    assert client.heartbeat() == error


@pytest.mark.parametrize(
    ("names", "told", "kept"),
    [
        ((), 27, 0),
        (("tell-nobody-of-rebalances",), 0, 0),
        (("refuse-who-has-to-join",), 27, 27),
    ],
)
def test_who_has_to_join_anew(
    names: tuple[str, ...],
    told: int,
    kept: int,
    make_coordinator: Any,
    client_of: Any,
    replicas: Any,
    until: Any,
) -> None:
    replicas.rules = rules_with(names)
    coordinator = make_coordinator()
    one, other = client_of(coordinator), client_of(coordinator)
    one.join()
    one.sync()
    other.send_join()
    until(lambda: coordinator.describe("g").state == "PreparingRebalance")
    assert one.heartbeat() == told
    assert one.commit({TP: CommittedOffset(7, -1, "", 1)}).wait() == kept


@pytest.mark.parametrize(("names", "left"), [((), None), (("keep-positions-of-deleted",), 7)])
def test_positions_in_what_is_deleted(
    names: tuple[str, ...], left: int | None, make_coordinator: Any, replicas: Any
) -> None:
    replicas.rules = rules_with(names)
    coordinator, answers = make_coordinator(), []
    kept = CommittedOffset(7, -1, "", 1)
    coordinator.commit_offsets("g", -1, "", None, {TP: kept}, answers.append)
    assert answers == [{TP: 0}]
    coordinator.on_partitions_deleted([TP])
    _, found = coordinator.fetch_offsets("g", [TP])
    assert (found[TP] and found[TP].offset) == left


@pytest.mark.parametrize(("names", "error"), [((), 0), (("forget-generations",), 22)])
def test_in_which_generation_a_new_coordinator_goes_on(
    names: tuple[str, ...], error: int, make_coordinator: Any, client_of: Any, replicas: Any
) -> None:
    replicas.rules = rules_with(names)
    client = client_of(make_coordinator())
    client.join()
    client.sync()
    client.coordinator = make_coordinator()
    assert client.heartbeat() == error


@pytest.mark.parametrize("names", [(), ("watch-nobody-who-is-loaded",)])
def test_whom_a_new_coordinator_watches(
    names: tuple[str, ...], make_coordinator: Any, client_of: Any, replicas: Any
) -> None:
    replicas.rules = rules_with(names)
    client = client_of(make_coordinator())
    client.join()
    client.sync()
    (member,) = make_coordinator()._groups["g"].members.values()
    assert (member.session is None) is bool(names)


@pytest.mark.parametrize("names", [(), ("keep-past-deadlines",)])
def test_how_long_who_has_to_join_anew_is_waited_for(
    names: tuple[str, ...], make_coordinator: Any, client_of: Any, replicas: Any, clock: Any
) -> None:
    """A second rebalance that begins within the time of a first, which ended before it was over."""
    replicas.rules = rules_with(names)
    coordinator = make_coordinator(clock=clock)
    one, other, third = (client_of(coordinator) for _ in range(3))
    one.join(rebalance_timeout_ms=1000)
    one.sync()
    waiting = other.send_join(rebalance_timeout_ms=1000)
    one.joined(one.send_join(rebalance_timeout_ms=1000))
    other.joined(waiting)
    clock.advance(600)
    waiting, looked = third.send_join(rebalance_timeout_ms=1000), threading.Event()
    clock.advance(500)
    coordinator.timer.schedule(0, looked.set)  # after all that is due
    assert looked.wait(60)
    assert waiting.is_done is bool(names)


@pytest.mark.parametrize(("names", "error"), [((), 0), (("forget-who-came-back",), 82)])
def test_who_came_back_in_its_own_name(
    names: tuple[str, ...], error: int, make_coordinator: Any, client_of: Any, replicas: Any
) -> None:
    replicas.rules = rules_with(names)
    static = client_of(make_coordinator(), instance_id="i")
    static.join()
    static.sync()
    static.member_id = ""
    assert static.join().error == 0
    assert static.heartbeat() == 0
    static.coordinator = make_coordinator()
    assert static.heartbeat() == error


@pytest.mark.parametrize("names", [(), ("leave-who-waits-for-a-part",)])
def test_who_waits_for_a_part_as_the_one_who_was_to_assign_leaves(
    names: tuple[str, ...], make_coordinator: Any, client_of: Any, replicas: Any
) -> None:
    replicas.rules = rules_with(names)
    coordinator = make_coordinator()
    leader, other = client_of(coordinator), client_of(coordinator)
    leader.join()
    leader.sync()
    waiting = other.send_join()
    leader.joined(leader.send_join())
    other.joined(waiting)
    part = other.send_sync()
    leader.leave()
    assert part.is_done is not bool(names)
    if not names:
        assert part.wait().error == Errors.REBALANCE_IN_PROGRESS

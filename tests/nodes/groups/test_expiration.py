"""Groups and positions go when Kafka lets them go, and phantoms leave nothing behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from nodes.core.deadlines import SLACK
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.groups import pending as pending_ids
from nodes.groups.expiration import expired_offsets
from nodes.groups.group import Group, GroupState, Member
from nodes.groups.messages import CommittedOffset
from nodes.groups.subscriptions import all_subscribed

TP = TopicPartition("t", 0)
RETENTION_MS = 60_000
BEGIN_MS = 1_700_000_000_000


def at(offset: int, commit_ms: int = BEGIN_MS, expire_ms: int = -1) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", commit_ms, expire_ms)


def names(coordinator: Any) -> set[str]:
    return {group.group_id for group in coordinator.list_groups(())[1]}


class Wall:
    def __init__(self) -> None:
        self.now_ms = BEGIN_MS

    def __call__(self) -> int:
        return self.now_ms


class TestPhantoms:
    """Groups that somebody named and nobody is in."""

    def test_an_id_that_never_comes_back(
        self, make_coordinator: Any, client_of: Any, clock: Any, until: Any
    ) -> None:
        coordinator = make_coordinator(clock=clock)
        for number in range(500):
            phantom = client_of(coordinator, group_id=f"phantom{number}")
            phantom.join(requires_member_id=True, session_timeout_ms=50)
        real = client_of(coordinator, group_id="real")
        real.join(session_timeout_ms=100_000)
        real.sync({real.member_id: b""})
        assert len(names(coordinator)) == 501
        until(lambda: (clock.advance(1), names(coordinator) == {"real"})[1])
        assert real.heartbeat() == 0
        pending = coordinator._membership.pending
        assert (len(pending), pending.size_bytes, coordinator.timer.size) == (0, 0, 1)

    def test_ids_that_came_back_leave_no_timer(
        self, make_coordinator: Any, client_of: Any, clock: Any
    ) -> None:
        """Not even when the session that was asked for is long, and however they go."""
        coordinator = make_coordinator(clock=clock)
        client = client_of(coordinator)
        for _ in range(300):
            client.member_id = ""
            client.join(requires_member_id=True, session_timeout_ms=100_000)
            assert client.leave() == 0
        client.member_id = ""
        client.join(requires_member_id=True, session_timeout_ms=100_000)
        assert client.join(requires_member_id=True, session_timeout_ms=100_000).error == 0
        client.sync({client.member_id: b""})
        assert client.leave() == 0
        pending = coordinator._membership.pending
        assert (len(pending), pending.size_bytes, coordinator.timer.size) == (0, 0, 0)
        assert coordinator.timer.entries <= SLACK

    def test_all_of_them_together_are_bounded(
        self,
        make_coordinator: Any,
        client_of: Any,
        clock: Any,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(pending_ids, "PENDING_BYTES", 100_000)
        coordinator = make_coordinator(clock=clock)
        clients = [client_of(coordinator, group_id=f"phantom{n}") for n in range(2000)]
        for client in clients:
            error = client.join(requires_member_id=True, session_timeout_ms=100_000).error
            assert error == Errors.MEMBER_ID_REQUIRED
            assert len(coordinator._groups) <= 50
            assert coordinator.timer.entries <= 2 * 50 + SLACK
        assert len(coordinator._groups) >= 40, "it must not forget more than it has to"
        # The newest may still come back; the oldest is told to begin again, and can.
        oldest, newest = clients[0], clients[-1]
        assert newest.join(requires_member_id=True).error == 0
        assert oldest.join(requires_member_id=True).error == Errors.UNKNOWN_MEMBER_ID
        oldest.member_id = ""
        oldest.join(requires_member_id=True)
        assert oldest.join(requires_member_id=True).error == 0

    def test_another_groups_id_is_none_of_ours(
        self, make_coordinator: Any, client_of: Any, clock: Any, until: Any
    ) -> None:
        """Whatever is said with it to a full group, it is forgotten in its own time."""
        coordinator = make_coordinator(clock=clock, group_max_size=1)
        full, phantom = client_of(coordinator), client_of(coordinator, group_id="phantom")
        full.join()
        full.sync({full.member_id: b""})
        phantom.join(requires_member_id=True, session_timeout_ms=50)
        assert full.send_join(member_id=phantom.member_id).wait().error == 81
        assert names(coordinator) == {"g", "phantom"}
        until(lambda: (clock.advance(1), names(coordinator) == {"g"})[1])

    def test_long_names_count(
        self, make_coordinator: Any, client_of: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(pending_ids, "PENDING_BYTES", 100_000)
        coordinator = make_coordinator(clock=clock)
        for number in range(20):
            client = client_of(coordinator, group_id=f"{number}" + "g" * 15_000)
            client.join(requires_member_id=True, client_id="c" * 15_000)
        assert len(coordinator._groups) == 3

    @pytest.mark.parametrize(
        "wrong", [{"protocols": ()}, {"protocol_type": ""}, {"session_timeout_ms": 1}]
    )
    def test_a_join_that_failed(self, make_client: Any, coordinator: Any, wrong: Any) -> None:
        assert make_client().join(**wrong).error != 0
        assert names(coordinator) == set()
        make_client().join()
        make_client().join(**wrong)
        assert names(coordinator) == {"g"}

    def test_a_failed_join_does_not_erase_what_was_there(
        self, make_client: Any, coordinator: Any
    ) -> None:
        """A group that has had a generation is in the log; only expiration may take it out."""
        client = make_client()
        client.join()
        client.sync({client.member_id: b""})
        client.leave()
        assert make_client().join(protocols=()).error != 0
        assert coordinator.describe("g").state == "Empty"

    @pytest.mark.parametrize("way", ["delete", "resign"])
    def test_ids_go_with_their_group(
        self, make_coordinator: Any, client_of: Any, clock: Any, way: str
    ) -> None:
        coordinator = make_coordinator(clock=clock)
        client_of(coordinator).join(requires_member_id=True, session_timeout_ms=100_000)
        assert (len(coordinator._membership.pending), coordinator.timer.size) == (1, 1)
        if way == "delete":
            assert coordinator.deletion.delete_groups(["g"]) == {"g": 0}
        else:
            coordinator.on_resignation(coordinator.partition_for("g"))
        assert (len(coordinator._membership.pending), coordinator.timer.size) == (0, 0)

    def test_questions_make_no_group(self, make_client: Any, coordinator: Any) -> None:
        client = make_client()
        client.member_id, client.generation = "m", 1
        assert client.heartbeat() == Errors.UNKNOWN_MEMBER_ID
        assert client.sync({}).error == Errors.UNKNOWN_MEMBER_ID
        assert client.leave() == Errors.UNKNOWN_MEMBER_ID
        assert client.commit({TP: at(1)}).wait() == Errors.ILLEGAL_GENERATION
        assert client.join().error == Errors.UNKNOWN_MEMBER_ID
        assert coordinator.fetch_offsets("g", [TP]) == (0, {TP: None})
        assert coordinator.describe("g").state == "Dead"
        assert names(coordinator) == set()

    def test_a_commit_that_failed(self, make_client: Any, coordinator: Any, replicas: Any) -> None:
        client = make_client()
        replicas.error = int(Errors.NOT_ENOUGH_REPLICAS)
        assert client.commit({TP: at(1)}).wait() == Errors.COORDINATOR_NOT_AVAILABLE
        assert names(coordinator) == set()
        replicas.error = 0
        assert client.commit({TP: at(1)}).wait() == 0
        assert names(coordinator) == {"g"}

    def test_a_commit_under_way_is_waited_for(
        self, make_client: Any, coordinator: Any, replicas: Any
    ) -> None:
        replicas.is_held = True
        first, second = make_client().commit({TP: at(1)}), make_client().commit({TP: at(2)})
        coordinator.expiration.run()
        replicas.held.pop(0)()
        assert first.wait() == 0
        coordinator.expiration.run()
        replicas.release()
        assert second.wait() == 0
        assert coordinator.fetch_offsets("g", [TP])[1][TP].offset == 2


class TestEmptyGroups:
    def test_go_with_the_next_check_and_stay_gone(
        self, make_client: Any, coordinator: Any, make_coordinator: Any
    ) -> None:
        client, other = make_client(), make_client(group_id="inhabited")
        for c in (client, other):
            c.join()
            c.sync({c.member_id: b""})
        assert client.leave() == 0
        assert coordinator.describe("g").state == "Empty"
        assert names(make_coordinator()) == {"g", "inhabited"}
        coordinator.expiration.run()
        assert names(coordinator) == {"inhabited"}
        assert coordinator.describe("g").state == "Dead"
        assert names(make_coordinator()) == {"inhabited"}
        assert other.heartbeat() == 0
        client.member_id = ""
        assert client.join().generation == 1  # a new group of the old name

    def test_with_positions_stay_until_these_are_too_old(
        self, make_coordinator: Any, client_of: Any
    ) -> None:
        wall = Wall()
        coordinator = make_coordinator(now_ms=wall)
        client = client_of(coordinator)
        client.join()
        client.sync({client.member_id: b""})
        assert client.commit({TP: at(5)}).wait() == 0
        wall.now_ms += 10 * RETENTION_MS
        coordinator.expiration.run()
        assert coordinator.fetch_offsets("g", [TP])[1][TP].offset == 5  # it is read
        client.leave()
        wall.now_ms += RETENTION_MS - 1
        coordinator.expiration.run()
        assert coordinator.fetch_offsets("g", [TP])[1][TP].offset == 5
        assert names(make_coordinator()) == {"g"}
        wall.now_ms += 1
        coordinator.expiration.run()
        assert names(coordinator) == names(make_coordinator()) == set()

    def test_that_only_keep_positions(self, make_coordinator: Any, client_of: Any) -> None:
        wall = Wall()
        coordinator = make_coordinator(now_ms=wall)
        client = client_of(coordinator)
        old, young = TopicPartition("t", 1), TopicPartition("t", 2)
        client.commit({old: at(1), young: at(2, BEGIN_MS + 5)}).wait()
        wall.now_ms += RETENTION_MS
        coordinator.expiration.run()
        assert coordinator.fetch_offsets("g", None)[1].keys() == {young}
        assert make_coordinator().fetch_offsets("g", None)[1].keys() == {young}
        wall.now_ms += 5
        coordinator.expiration.run()
        assert names(coordinator) == names(make_coordinator()) == set()

    def test_the_check_comes_by_itself_and_again(
        self, make_coordinator: Any, client_of: Any, until: Any
    ) -> None:
        coordinator = make_coordinator(offsets_retention_check_interval_ms=1)
        for _ in range(2):
            client = client_of(coordinator)
            client.join()
            client.leave()
            until(lambda: names(coordinator) == set())


def group(state: GroupState, protocol_type: str | None, *, subscription: bytes = b"") -> Group:
    made = Group("g", state=state, state_timestamp_ms=BEGIN_MS + 1000)
    if subscription:
        member = Member(
            member_id="m",
            instance_id=None,
            client_id="c",
            client_host="h",
            rebalance_timeout_ms=1,
            session_timeout_ms=1,
            protocols=(("range", subscription),),
        )
        made.add(member, protocol_type or "")
        made.subscribed = all_subscribed([subscription]) if protocol_type == "consumer" else None
    made.protocol_type = protocol_type
    made.offsets = {TP: at(1, BEGIN_MS)}
    return made


READS_T = b"\0\0" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\0"
READS_U = b"\0\0" + b"\0\0\0\1" + b"\0\1u" + b"\0\0\0\0"
LATE_MS = BEGIN_MS + RETENTION_MS
NEVER_MS = BEGIN_MS + 1000 * RETENTION_MS


@pytest.mark.parametrize(
    ("make", "from_ms"),
    [
        (lambda: group(GroupState.EMPTY, None), LATE_MS),
        (lambda: group(GroupState.EMPTY, "consumer"), LATE_MS + 1000),
        (lambda: group(GroupState.STABLE, "consumer", subscription=READS_U), LATE_MS),
        (lambda: group(GroupState.STABLE, "consumer", subscription=READS_T), None),
        (lambda: group(GroupState.STABLE, "consumer", subscription=b"?"), None),
        (lambda: group(GroupState.STABLE, "connect", subscription=READS_U), None),
        (lambda: group(GroupState.PREPARING_REBALANCE, "consumer", subscription=READS_U), None),
        (lambda: group(GroupState.COMPLETING_REBALANCE, "consumer", subscription=READS_U), None),
    ],
)
def test_when_a_position_is_too_old(make: Callable[[], Group], from_ms: int | None) -> None:
    if from_ms is None:
        assert expired_offsets(make(), NEVER_MS, RETENTION_MS) == []
        return
    assert expired_offsets(make(), from_ms - 1, RETENTION_MS) == []
    assert expired_offsets(make(), from_ms, RETENTION_MS) == [TP]


def test_groups_without_a_time_go_by_their_commits() -> None:
    """Records of groups from before Kafka 2.1."""
    old = group(GroupState.EMPTY, "consumer")
    old.state_timestamp_ms = -1
    assert expired_offsets(old, LATE_MS - 1, RETENTION_MS) == []
    assert expired_offsets(old, LATE_MS, RETENTION_MS) == [TP]


@pytest.mark.parametrize("expire_ms", [0, LATE_MS - 1000, LATE_MS + 1000])
def test_a_time_of_its_own(expire_ms: int) -> None:
    made = group(GroupState.EMPTY, None)
    made.offsets = {TP: at(1, BEGIN_MS, expire_ms)}
    assert expired_offsets(made, expire_ms - 1, RETENTION_MS) == []
    assert expired_offsets(made, expire_ms, RETENTION_MS) == [TP]


def test_a_position_that_is_being_committed_stays() -> None:
    made = group(GroupState.EMPTY, None)
    made.pending_commits = Counter([TP])
    assert expired_offsets(made, NEVER_MS, RETENTION_MS) == []

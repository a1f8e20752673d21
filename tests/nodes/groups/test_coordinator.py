"""The rebalance protocol, offsets, and what survives a change of coordinators."""

from __future__ import annotations

import string
import threading
from collections.abc import Callable
from typing import Any

import pytest

from nodes.core.deadlines import SLACK
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.groups.gauges import GROUP_METADATA, register_gauges
from nodes.groups.group import JoinResult
from nodes.groups.membership import GROUP_MAX_SIZE_REACHED
from nodes.groups.messages import CommittedOffset
from nodes.metrics import Metrics

TP = TopicPartition("t", 0)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 1)


def stable(*clients: Any) -> None:
    """Bring a new group of these clients to its first common generation."""
    first, *others = clients
    first.join()
    first.sync({first.member_id: b"0"})
    answers = []
    for other in others:
        answers.append(other.send_join())
        assert first.heartbeat() == Errors.REBALANCE_IN_PROGRESS
    if others:
        # Everybody who is in the group has to come back before the generation begins.
        answers = [first.send_join(), *answers]
        for client, answer in zip(clients, answers, strict=True):
            client.joined(answer)
    leader = next(c for c in clients if c.is_leader)
    syncs = [c.send_sync() for c in clients if c is not leader]
    plan = {c.member_id: b"%d" % i for i, c in enumerate(clients)}
    assert leader.sync(plan).assignment == plan[leader.member_id]
    others = [c for c in clients if c is not leader]
    assert [s.wait().assignment for s in syncs] == [plan[c.member_id] for c in others]


class TestJoining:
    def test_alone(self, make_client: Any) -> None:
        client = make_client()
        result = client.join()
        assert (result.error, result.generation, result.protocol) == (0, 1, "range")
        assert result.members == ((client.member_id, None, b"sub"),)
        assert client.sync({client.member_id: b"mine"}).assignment == b"mine"
        assert client.heartbeat() == 0

    def test_together(self, make_client: Any) -> None:
        one, other = make_client(), make_client()
        stable(one, other)
        assert one.generation == other.generation == 2
        assert one.heartbeat() == other.heartbeat() == 0

    def test_member_ids_first(self, make_client: Any) -> None:
        client = make_client()
        result = client.join(requires_member_id=True)
        assert result.error == Errors.MEMBER_ID_REQUIRED
        assert result.member_id.startswith("client-")
        assert client.join(requires_member_id=True).error == 0

    def test_a_member_that_never_comes_back_is_forgotten(self, make_client: Any) -> None:
        one, pending = make_client(), make_client()
        stable(one)
        pending.join(requires_member_id=True, session_timeout_ms=20)
        late = make_client()
        late_join = late.send_join()
        again = one.send_join()
        assert late.joined(late_join).error == one.joined(again).error == 0

    def test_initial_delay_gathers_members(
        self, make_coordinator: Any, client_of: Any, clock: Any, until: Any
    ) -> None:
        coordinator = make_coordinator(group_initial_rebalance_delay_ms=60, clock=clock)
        clients = [client_of(coordinator) for _ in range(3)]
        answers = [c.send_join() for c in clients]
        assert not any(answer.is_done for answer in answers)
        until(lambda: (clock.advance(10), all(answer.is_done for answer in answers))[1])
        for client, answer in zip(clients, answers, strict=True):
            assert client.joined(answer).generation == 1
        assert sum(c.is_leader for c in clients) == 1

    def test_refusals(self, make_client: Any) -> None:
        client = make_client()
        assert client.join(session_timeout_ms=1).error == Errors.INVALID_SESSION_TIMEOUT
        assert client.join(group_id="").error == Errors.INVALID_GROUP_ID
        assert client.join(member_id="stranger").error == Errors.UNKNOWN_MEMBER_ID
        client.member_id = ""
        assert client.join(protocols=()).error == Errors.INCONSISTENT_GROUP_PROTOCOL
        client.member_id = ""
        client.join()
        other = make_client()
        wrong = {"protocols": (("other", b""),)}
        assert other.join(**wrong).error == Errors.INCONSISTENT_GROUP_PROTOCOL
        other.member_id = ""
        wrong = {"protocol_type": "connect"}
        assert other.join(**wrong).error == Errors.INCONSISTENT_GROUP_PROTOCOL

    def test_full(self, make_client: Any) -> None:
        clients = [make_client() for _ in range(3)]
        stable(*clients)
        assert make_client().join().error == 81

    def test_common_protocol_wins(self, make_client: Any) -> None:
        one, other = make_client(), make_client()
        one.join(protocols=(("a", b"1"), ("b", b"1")))
        one.sync()
        joining = other.send_join(protocols=(("c", b"2"), ("b", b"2")))
        assert one.join(protocols=(("a", b"1"), ("b", b"1"))).protocol == "b"
        assert other.joined(joining).protocol == "b"

    def test_a_lost_answer_is_repeated(self, make_client: Any) -> None:
        client, other = make_client(), make_client()
        stable(client, other)
        follower = other if client.is_leader else client
        generation = follower.generation
        assert follower.join().generation == generation  # nothing changed: no rebalance
        changed = follower.send_join(protocols=(("range", b"new topics"),))
        leader = client if client.is_leader else other
        assert leader.heartbeat() == Errors.REBALANCE_IN_PROGRESS
        leader.join()
        assert follower.joined(changed).generation == generation + 1


class TestSyncing:
    def test_errors(self, make_client: Any) -> None:
        client = make_client()
        client.join()
        client.generation += 1
        assert client.sync().error == Errors.ILLEGAL_GENERATION
        assert client.heartbeat() == Errors.ILLEGAL_GENERATION
        client.generation -= 1
        member_id, client.member_id = client.member_id, "x"
        assert client.sync().error == Errors.UNKNOWN_MEMBER_ID
        assert client.heartbeat() == Errors.UNKNOWN_MEMBER_ID
        client.member_id = member_id
        client.group_id = "unknown"
        assert client.sync().error == Errors.UNKNOWN_MEMBER_ID

    def test_a_rebalance_wakes_waiting_syncs(self, make_client: Any) -> None:
        one, other = make_client(), make_client()
        stable(one, other)
        rejoined = [c.send_join(protocols=(("range", b"more"),)) for c in (one, other)]
        for client, answer in zip((one, other), rejoined, strict=True):
            client.joined(answer)
        follower, leader = (one, other) if other.is_leader else (other, one)
        waiting = follower.send_sync()
        assert not waiting.is_done
        leader.leave()
        assert waiting.wait().error == Errors.REBALANCE_IN_PROGRESS

    def test_an_assignment_counts_once_it_is_stored(self, make_client: Any, replicas: Any) -> None:
        client = make_client()
        client.join()
        replicas.is_held = True
        waiting = client.send_sync({client.member_id: b"a"})
        assert not waiting.is_done
        replicas.release()
        assert waiting.wait().assignment == b"a"

    def test_an_assignment_that_cannot_be_stored(self, make_client: Any, replicas: Any) -> None:
        client = make_client()
        client.join()
        replicas.error = int(Errors.NOT_LEADER_OR_FOLLOWER)
        assert client.sync({client.member_id: b"a"}).error == Errors.NOT_COORDINATOR
        assert client.heartbeat() == Errors.REBALANCE_IN_PROGRESS

    def test_who_does_not_sync_is_dropped(self, make_client: Any, until: Any) -> None:
        client = make_client()
        client.join(rebalance_timeout_ms=20)
        until(lambda: client.heartbeat() == Errors.UNKNOWN_MEMBER_ID)


class TestStaying:
    def test_sessions_expire(self, make_client: Any, until: Any) -> None:
        client = make_client()
        client.join(session_timeout_ms=30)
        client.sync()
        until(lambda: client.coordinator.describe("g").state == "Empty")
        assert client.heartbeat() == Errors.UNKNOWN_MEMBER_ID

    def test_heartbeats_keep_a_session(
        self, make_coordinator: Any, client_of: Any, clock: Any, until: Any
    ) -> None:
        coordinator = make_coordinator(clock=clock)
        client, other = client_of(coordinator), client_of(coordinator, group_id="other")
        for c in (client, other):
            c.join(session_timeout_ms=80)
            c.sync()

        def other_has_expired() -> bool:
            clock.advance(20)
            assert client.heartbeat() == 0
            return bool(coordinator.describe("other").state == "Empty")

        # This one outlives it by its heartbeats.
        until(other_has_expired)
        assert client.heartbeat() == 0

    def test_a_heartbeat_leaves_nothing_behind(
        self, make_coordinator: Any, client_of: Any, clock: Any
    ) -> None:
        """Whatever the session's timeout is: each beat replaces the deadline before it."""
        coordinator = make_coordinator(clock=clock)
        clients = [client_of(coordinator, group_id=f"g{i}") for i in range(10)]
        for client in clients:
            client.join(session_timeout_ms=100_000)
            client.sync({client.member_id: b""})
        timer, most = coordinator.timer, 0
        for beat in range(100_000):
            assert clients[beat % 10].heartbeat() == 0
            if beat % 10 == 0:
                clock.advance(1)
                most = max(most, timer.entries)
        assert timer.size == 10
        assert most <= 2 * 10 + SLACK

    def test_waiting_for_a_rebalance_is_being_alive(
        self, make_coordinator: Any, client_of: Any, clock: Any, until: Any
    ) -> None:
        coordinator = make_coordinator(clock=clock)
        one, other = client_of(coordinator), client_of(coordinator)
        one.join(session_timeout_ms=20)
        one.sync()
        again = one.send_join(session_timeout_ms=20)
        assert one.joined(again).error == 0
        one.sync()
        waiting = other.send_join(rebalance_timeout_ms=100, session_timeout_ms=20)
        # The first member never joins again: it is dropped, and the one that waited goes on.
        until(lambda: (clock.advance(1), waiting.is_done)[1])
        assert other.joined(waiting).generation == 3
        assert len(other.coordinator.describe("g").members) == 1

    def test_but_a_new_member_is_not_waited_for_for_ever(
        self, make_coordinator: Any, client_of: Any, clock: Any, until: Any
    ) -> None:
        """Five minutes after it has asked to join it is taken for gone, however long the rebalance
        may take (MemberMetadata.isNew, NewMemberJoinTimeoutMs)."""
        coordinator = make_coordinator(clock=clock, group_max_session_timeout_ms=100_000)
        day_ms = 24 * 3_600_000
        one, other = client_of(coordinator), client_of(coordinator)
        one.join(session_timeout_ms=100_000, rebalance_timeout_ms=day_ms)
        one.sync()
        asked_ns = clock()
        waiting = other.send_join(session_timeout_ms=100_000, rebalance_timeout_ms=day_ms)

        def is_answered() -> bool:
            clock.advance(9_000)
            assert one.heartbeat() in (Errors.REBALANCE_IN_PROGRESS, Errors.NONE)
            coordinator.timer.schedule(-10_000, lambda: None)  # it looks at the clock
            return bool(waiting.is_done)

        until(is_answered)
        assert waiting.wait().error == Errors.UNKNOWN_MEMBER_ID
        assert clock() - asked_ns >= 300_000_000_000
        assert [m.member_id for m in coordinator.describe("g").members] == [one.member_id]

    def test_leaving(self, make_client: Any) -> None:
        one, other = make_client(), make_client()
        stable(one, other)
        assert other.leave() == 0
        assert one.heartbeat() == Errors.REBALANCE_IN_PROGRESS
        assert other.leave() == Errors.UNKNOWN_MEMBER_ID
        assert one.leave() == 0
        assert one.coordinator.describe("g").state == "Empty"
        assert make_client(group_id="none").leave() == Errors.UNKNOWN_MEMBER_ID


class TestStaticMembers:
    def test_come_back_without_a_rebalance(self, make_client: Any) -> None:
        one, static = make_client(), make_client(instance_id="i")
        stable(one, static)
        old = static.member_id
        static.member_id = ""
        result = static.join()
        assert (result.error, result.generation) == (0, one.generation)
        assert static.member_id != old
        assert one.heartbeat() == 0
        assert static.sync().assignment == b"1"
        static.member_id = old
        assert static.heartbeat() == Errors.FENCED_INSTANCE_ID

    def test_a_leader_that_comes_back_keeps_the_assignment(self, make_client: Any) -> None:
        leader = make_client(instance_id="i")
        stable(leader)
        leader.member_id = ""
        result = leader.join(may_skip_assignment=True)
        assert (result.skip_assignment, result.leader) == (True, leader.member_id)
        leader.member_id = ""
        result = leader.join()
        assert not result.skip_assignment
        assert result.leader != result.member_id  # an old client must not assign again

    @pytest.mark.parametrize("leads", [True, False])
    def test_whose_new_process_cannot_be_stored_are_who_they_were(
        self, make_client: Any, coordinator: Any, replicas: Any, leads: bool
    ) -> None:
        """GroupCoordinator.updateStaticMemberAndRebalance: the old process is fenced no more, its
        timeouts are its own again, and the group knows no other."""
        static, other = make_client(instance_id="i"), make_client()
        stable(*((static, other) if leads else (other, static)))
        described = coordinator.describe("g")
        old, generation = static.member_id, static.generation
        leader = static.member_id if static.is_leader else other.member_id
        assert static.is_leader is leads
        static.member_id = ""
        replicas.error = int(Errors.NOT_ENOUGH_REPLICAS)
        refused = static.send_join(session_timeout_ms=20_000, rebalance_timeout_ms=20_000).wait()
        assert refused == JoinResult(
            Errors.COORDINATOR_NOT_AVAILABLE, "", generation, "consumer", "range", leader
        )
        replicas.error = 0
        static.member_id = old
        assert (static.heartbeat(), other.heartbeat()) == (0, 0)
        assert sorted(coordinator.describe("g").members) == sorted(described.members)
        member = coordinator._groups["g"].members[old]
        assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 10_000)
        assert coordinator._groups["g"].leader == leader
        assert static.sync().assignment == (b"0" if leads else b"1")
        static.member_id = ""
        assert static.join().error == 0
        assert static.member_id != old

    def test_whose_place_was_taken_while_it_was_stored_do_not_get_it_back(
        self, make_client: Any, replicas: Any
    ) -> None:
        static, again = make_client(instance_id="i"), make_client(instance_id="i")
        stable(static)
        replicas.error, replicas.is_held = int(Errors.NOT_ENOUGH_REPLICAS), True
        static.member_id = ""
        first = static.send_join()
        replicas.error = 0
        second = again.send_join()
        assert first.wait().error == Errors.FENCED_INSTANCE_ID
        replicas.release()
        assert again.joined(second).error == 0
        assert again.heartbeat() == 0

    def test_do_not_come_with_an_id_that_was_given_to_a_dynamic_one(
        self, make_client: Any, coordinator: Any
    ) -> None:
        static, client = make_client(instance_id="i"), make_client()
        stable(static)
        client.join(requires_member_id=True)
        assert client.join(instance_id="i").error == Errors.UNKNOWN_SERVER_ERROR
        assert static.heartbeat() == 0
        assert coordinator.leave("g", [("", "i")]) == (0, [0])
        assert static.heartbeat() == Errors.UNKNOWN_MEMBER_ID

    def test_who_is_absent_and_needs_no_time_is_not_looked_for_all_the_time(
        self, make_coordinator: Any, client_of: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        coordinator = make_coordinator(clock=clock)
        static, other = client_of(coordinator, instance_id="i"), client_of(coordinator)
        stable(static, other)
        static.member_id = ""
        static.join(rebalance_timeout_ms=0)
        looks = []
        complete = coordinator._membership._complete_join
        monkeypatch.setattr(
            coordinator._membership, "_complete_join", lambda g: (looks.append(g), complete(g))
        )
        assert other.leave() == 0
        for _ in range(50):
            passed = threading.Event()
            coordinator.timer.schedule(0, passed.set)
            assert passed.wait(60)
        assert len(looks) <= 1
        returns = static.send_join(rebalance_timeout_ms=0)
        assert returns.wait().error == 0

    def test_one_without_a_name_is_not_nobody(self, make_client: Any, coordinator: Any) -> None:
        static = make_client(instance_id="")
        stable(static)
        assert coordinator.leave("g", [("", None)]) == (0, [Errors.UNKNOWN_MEMBER_ID])
        assert static.heartbeat() == 0
        assert coordinator.leave("g", [("", "")]) == (0, [0])

    def test_are_removed_by_instance_id(self, make_client: Any, coordinator: Any) -> None:
        static = make_client(instance_id="i")
        stable(static)
        assert coordinator.leave("g", [("", "i"), ("", "j")])[1] == [0, Errors.UNKNOWN_MEMBER_ID]
        assert coordinator.describe("g").members == ()


class TestOffsets:
    def test_are_kept_and_found(self, make_client: Any, coordinator: Any) -> None:
        client = make_client()
        stable(client)
        assert client.commit({TP: at(5)}).wait() == 0
        other = TopicPartition("t", 1)
        assert coordinator.fetch_offsets("g", [TP, other]) == (0, {TP: at(5), other: None})
        assert coordinator.fetch_offsets("g", None) == (0, {TP: at(5)})
        assert coordinator.fetch_offsets("nobody", None) == (0, {})

    def test_without_members(self, make_client: Any, coordinator: Any) -> None:
        """A consumer that assigns itself still keeps its offsets here."""
        client = make_client()
        assert client.commit({TP: at(5)}).wait() == 0
        assert client.commit({TP: at(6)}, generation=3).wait() == Errors.UNKNOWN_MEMBER_ID
        other = make_client(group_id="new")
        assert other.commit({TP: at(6)}, generation=3).wait() == Errors.ILLEGAL_GENERATION

    def test_too_much_said_of_one(self, make_client: Any, coordinator: Any) -> None:
        long = CommittedOffset(5, -1, "eleven long", 1)
        client = make_client()
        answer = client.commit({TP: long}).wait()
        assert answer == Errors.OFFSET_METADATA_TOO_LARGE
        assert coordinator.list_groups(()) == (0, [])
        other = TopicPartition("other", 0)
        answer = client.commit({TP: long, other: at(6)}).wait()
        assert answer == {TP: Errors.OFFSET_METADATA_TOO_LARGE, other: Errors.NONE}
        assert coordinator.fetch_offsets("g", None) == (0, {other: at(6)})
        # Who may not commit hears of that first.
        answer = client.commit({TP: long, other: at(6)}, generation=9).wait()
        assert answer == Errors.UNKNOWN_MEMBER_ID

    def test_strangers_may_not_commit(self, make_client: Any) -> None:
        client = make_client()
        stable(client)
        assert client.commit({TP: at(1)}, member_id="x").wait() == Errors.UNKNOWN_MEMBER_ID
        answer = client.commit({TP: at(1)}, member_id="", generation=-1)
        assert answer.wait() == Errors.UNKNOWN_MEMBER_ID
        assert client.commit({TP: at(1)}, generation=9).wait() == Errors.ILLEGAL_GENERATION

    def test_not_between_join_and_sync(self, make_client: Any) -> None:
        client = make_client()
        client.join()
        assert client.commit({TP: at(1)}).wait() == Errors.REBALANCE_IN_PROGRESS

    def test_count_once_they_are_stored(
        self, make_client: Any, coordinator: Any, replicas: Any
    ) -> None:
        client = make_client()
        replicas.is_held = True
        waiting = client.commit({TP: at(5)})
        assert coordinator.fetch_offsets("g", None) == (0, {})
        replicas.release()
        assert waiting.wait() == 0
        assert coordinator.fetch_offsets("g", None) == (0, {TP: at(5)})

    def test_the_last_in_the_log_counts_whichever_is_heard_of_first(
        self, make_client: Any, make_coordinator: Any, coordinator: Any, replicas: Any
    ) -> None:
        other = TopicPartition("other", 0)
        replicas.is_held = True
        answers = [
            make_client().commit(offsets)
            for offsets in ({TP: at(5), other: at(1)}, {TP: at(6)}, {TP: at(7)})
        ]
        replicas.held[1:] = reversed(replicas.held[1:])
        replicas.release()
        assert [answer.wait() for answer in answers] == [0, 0, 0]
        kept = (0, {TP: at(7), other: at(1)})
        assert coordinator.fetch_offsets("g", None) == kept
        assert make_coordinator().fetch_offsets("g", None) == kept
        make_client().commit({TP: at(3)}).wait()
        assert coordinator.fetch_offsets("g", [TP]) == (0, {TP: at(3)})

    @pytest.mark.parametrize(
        ("append", "answer"),
        [
            (Errors.NOT_LEADER_OR_FOLLOWER, Errors.NOT_COORDINATOR),
            (Errors.NOT_ENOUGH_REPLICAS, Errors.COORDINATOR_NOT_AVAILABLE),
            (Errors.MESSAGE_TOO_LARGE, Errors.INVALID_COMMIT_OFFSET_SIZE),
            (Errors.REQUEST_TIMED_OUT, Errors.REQUEST_TIMED_OUT),
        ],
    )
    def test_failures(
        self, make_client: Any, coordinator: Any, replicas: Any, append: Errors, answer: Errors
    ) -> None:
        replicas.error = int(append)
        assert make_client().commit({TP: at(5)}).wait() == answer
        assert coordinator.fetch_offsets("g", None) == (0, {})

    def test_of_deleted_partitions_go(self, make_client: Any, coordinator: Any) -> None:
        keep = TopicPartition("kept", 0)
        make_client().commit({TP: at(5), keep: at(6)}).wait()
        coordinator.on_partitions_deleted([TP])
        assert coordinator.fetch_offsets("g", None) == (0, {keep: at(6)})


class TestChangeOfCoordinators:
    def test_not_ours(self, make_coordinator: Any, client_of: Any) -> None:
        client = client_of(make_coordinator(owns=False))
        assert client.join().error == Errors.NOT_COORDINATOR
        assert client.heartbeat() == Errors.NOT_COORDINATOR
        assert client.commit({TP: at(1)}).wait() == Errors.NOT_COORDINATOR
        assert client.coordinator.describe("g").error == Errors.NOT_COORDINATOR

    def test_the_next_one_goes_on(
        self, make_client: Any, make_coordinator: Callable[..., Any], coordinator: Any
    ) -> None:
        one, other = make_client(), make_client(instance_id="i")
        stable(one, other)
        one.commit({TP: at(7), TopicPartition("gone", 0): at(1)}).wait()
        coordinator.on_partitions_deleted([TopicPartition("gone", 0)])
        successor = make_coordinator()
        for client in (one, other):
            client.coordinator = successor
            assert client.heartbeat() == 0
        assert other.sync().assignment == b"1"
        assert successor.fetch_offsets("g", None) == (0, {TP: at(7)})
        assert successor.describe("g").protocol == "range"

    def test_who_has_room_for_fewer_lets_the_others_go(
        self, make_client: Any, make_coordinator: Callable[..., Any]
    ) -> None:
        clients = [make_client() for _ in range(3)]
        stable(*clients)
        successor = make_coordinator(group_max_size=2)
        for client in clients:
            client.coordinator = successor
            assert client.heartbeat() == Errors.REBALANCE_IN_PROGRESS
            assert client.commit({TP: at(7)}).wait() == 0
        staying = [client.send_join() for client in clients[:2]]
        assert clients[2].join().error == GROUP_MAX_SIZE_REACHED
        assert [answer.wait().error for answer in staying] == [0, 0]

    def test_waiting_members_are_sent_away(self, make_client: Any, coordinator: Any) -> None:
        one, other = make_client(), make_client()
        stable(one)
        waiting = other.send_join()
        coordinator.on_resignation(coordinator.partition_for("g"))
        assert waiting.wait().error == Errors.NOT_COORDINATOR
        assert one.heartbeat() == Errors.NOT_COORDINATOR

    def test_while_loading(
        self, make_coordinator: Any, client_of: Any, monkeypatch: pytest.MonkeyPatch, until: Any
    ) -> None:
        coordinator = make_coordinator(owns=False)
        go_on = threading.Event()
        load = coordinator._store.load
        monkeypatch.setattr(coordinator._store, "load", lambda *a: (go_on.wait(60), load(*a))[1])
        for partition in range(4):
            coordinator.on_election(partition)
        client = client_of(coordinator)
        assert client.join().error == Errors.COORDINATOR_LOAD_IN_PROGRESS
        assert client.heartbeat() == 0
        assert client.sync().error == Errors.REBALANCE_IN_PROGRESS
        assert coordinator.list_groups(())[0] == Errors.COORDINATOR_LOAD_IN_PROGRESS
        go_on.set()
        until(lambda: coordinator.list_groups(())[0] == 0)
        client.member_id = ""
        assert client.join().error == 0

    def test_others_are_served_between_two_that_are_loaded(
        self, make_coordinator: Any, make_client: Any, monkeypatch: pytest.MonkeyPatch, until: Any
    ) -> None:
        coordinator = make_coordinator(owns=False)
        together = [g for g in string.ascii_letters if coordinator.partition_for(g) == 0]
        for group_id in together[:3]:
            make_client(group_id=group_id).commit({TP: at(7)}).wait()
        counted: list[int] = []
        loaded = coordinator._membership.loaded

        def look(group: Any) -> None:
            coordinator._lock.defer(lambda: counted.append(coordinator.counts().groups))
            loaded(group)

        monkeypatch.setattr(coordinator._membership, "loaded", look)
        for partition in range(4):
            coordinator.on_election(partition)
        until(lambda: coordinator.list_groups(())[0] == 0)
        assert counted == [1, 2, 3]

    def test_shutdown(self, make_client: Any, coordinator: Any) -> None:
        coordinator.shutdown()
        assert make_client().join().error == Errors.COORDINATOR_NOT_AVAILABLE


def test_listing_and_describing(make_client: Any, coordinator: Any) -> None:
    stable(make_client())
    make_client(group_id="offsets only").commit({TP: at(1)}).wait()
    states = {g.group_id: g.state for g in coordinator.list_groups(())[1]}
    assert states == {"g": "Stable", "offsets only": "Empty"}
    assert [g.group_id for g in coordinator.list_groups(["stable"])[1]] == ["g"]
    described = coordinator.describe("g")
    assert (described.state, described.protocol_type) == ("Stable", "consumer")
    assert described.members[0].assignment == b"0"
    assert coordinator.describe("nobody").state == "Dead"


def test_gauges(make_client: Any, coordinator: Any) -> None:
    metrics = Metrics()
    register_gauges(metrics, coordinator)

    def read(name: str) -> float:
        return metrics.value(f"{GROUP_METADATA}{name}")

    stable(make_client(), make_client())
    empty = make_client(group_id="h")
    assert empty.commit({TP: at(1), TopicPartition("t", 1): at(2)}).wait() == 0
    assert [read(n) for n in ("NumGroups", "NumGroupsStable", "NumGroupsEmpty")] == [2, 1, 1]
    assert (read("NumOffsets"), read("NumGroupsDead")) == (2, 0)
    timer = "kafka.server:type=DelayedOperationPurgatory,name={},delayedOperation=Rebalance"
    assert metrics.value(timer.format("NumDelayedOperations")) == 2
    assert metrics.value(timer.format("TimerEntries")) >= 2

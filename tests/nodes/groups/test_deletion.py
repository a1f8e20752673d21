"""Groups and positions that operators delete."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.groups.messages import CommittedOffset
from nodes.groups.subscriptions import subscribed_topics

READ, UNREAD = TopicPartition("read", 0), TopicPartition("unread", 0)


def at(offset: int) -> CommittedOffset:
    return CommittedOffset(offset, -1, "", 1)


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(t)) + t.encode() for t in topics)
    return struct.pack(">hi", 1, len(topics)) + names + b"\xff\xff\xff\xff"


class TestGroups:
    def test_one_that_is_empty(
        self, make_client: Any, coordinator: Any, make_coordinator: Any
    ) -> None:
        client = make_client()
        client.join()
        client.sync({client.member_id: b"0"})
        client.commit({READ: at(5)}).wait()
        assert coordinator.deletion.delete_groups(["g"]) == {"g": Errors.NON_EMPTY_GROUP}
        client.leave()
        assert coordinator.deletion.delete_groups(["g", "g"]) == {"g": Errors.NONE}
        assert coordinator.list_groups(()) == (0, [])
        assert coordinator.fetch_offsets("g", None) == (0, {})
        assert coordinator.deletion.delete_groups(["g"]) == {"g": Errors.GROUP_ID_NOT_FOUND}
        assert make_coordinator().list_groups(()) == (0, [])  # nor is it in the log

    def test_it_may_come_again(self, make_client: Any, coordinator: Any) -> None:
        make_client().commit({READ: at(5)}).wait()
        coordinator.deletion.delete_groups(["g"])
        assert make_client().join().error == 0
        assert coordinator.fetch_offsets("g", [READ]) == (0, {READ: None})

    def test_others_are_served_between_two(
        self, make_client: Any, coordinator: Any, replicas: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for group_id in "gh":
            make_client(group_id=group_id).commit({READ: at(5)}).wait()
        left: list[list[str]] = []
        append = replicas.append_records

        def look(*arguments: Any) -> None:
            left.append([group.group_id for group in coordinator.list_groups(())[1]])
            append(*arguments)

        monkeypatch.setattr(replicas, "append_records", look)
        assert coordinator.deletion.delete_groups(["g", "h"]) == {"g": 0, "h": 0}
        assert left == [["h"], []]

    def test_refusals(self, make_coordinator: Any) -> None:
        delete = make_coordinator(owns=False).deletion.delete_groups
        expected = {"g": Errors.NOT_COORDINATOR, "": Errors.NOT_COORDINATOR}
        assert delete(["g", ""]) == expected


class TestPositions:
    def test_of_a_group_without_members(self, make_client: Any, coordinator: Any) -> None:
        make_client().commit({READ: at(5), UNREAD: at(6)}).wait()
        deleted = coordinator.deletion.delete_offsets("g", [READ, TopicPartition("never", 3)])
        assert deleted == (Errors.NONE, {READ: 0, TopicPartition("never", 3): 0})
        assert coordinator.fetch_offsets("g", None) == (0, {UNREAD: at(6)})

    def test_an_empty_group_goes_with_the_last_of_them(
        self, make_client: Any, coordinator: Any, make_coordinator: Any
    ) -> None:
        client = make_client()
        client.join()
        client.sync({client.member_id: b"0"})
        client.commit({READ: at(5), UNREAD: at(6)}).wait()
        client.leave()
        coordinator.deletion.delete_offsets("g", [READ])
        assert coordinator.describe("g").state == "Empty"
        assert coordinator.deletion.delete_offsets("g", [UNREAD]) == (Errors.NONE, {UNREAD: 0})
        assert coordinator.describe("g").state == "Dead"
        assert make_coordinator().list_groups(()) == (0, [])  # nor is it in the log

    def test_of_topics_that_are_being_read(
        self, make_client: Any, coordinator: Any, make_coordinator: Any
    ) -> None:
        client = make_client()
        client.join(protocols=(("range", subscription("read", "other")),))
        client.sync({client.member_id: b"0"})
        client.commit({READ: at(5), UNREAD: at(6)}).wait()
        error, results = coordinator.deletion.delete_offsets("g", [READ, UNREAD])
        assert (error, results) == (0, {READ: Errors.GROUP_SUBSCRIBED_TO_TOPIC, UNREAD: 0})
        assert make_coordinator().fetch_offsets("g", None) == (0, {READ: at(5)})

    def test_of_members_whose_subscription_is_unknown(
        self, make_client: Any, coordinator: Any
    ) -> None:
        client = make_client()
        client.join(protocols=(("range", b"garbage"),))
        _, results = coordinator.deletion.delete_offsets("g", [UNREAD])
        assert results == {UNREAD: Errors.GROUP_SUBSCRIBED_TO_TOPIC}

    def test_what_the_present_generation_reads_counts(
        self, make_client: Any, coordinator: Any
    ) -> None:
        client = make_client()
        client.join(protocols=(("range", subscription("read")), ("other", b"garbage")))
        client.sync({client.member_id: b"0"})
        make_client().send_join(protocols=(("range", subscription("unread")),))
        _, results = coordinator.deletion.delete_offsets("g", [READ, UNREAD])
        assert results == {READ: Errors.GROUP_SUBSCRIBED_TO_TOPIC, UNREAD: Errors.NONE}

    def test_refusals(self, make_client: Any, coordinator: Any) -> None:
        assert coordinator.deletion.delete_offsets("g", []) == (Errors.GROUP_ID_NOT_FOUND, {})
        make_client().join(protocol_type="connect")
        assert coordinator.deletion.delete_offsets("g", []) == (Errors.NON_EMPTY_GROUP, {})


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        (subscription(), set()),
        (subscription("a", "b"), {"a", "b"}),
        (b"", None),
        (b"\0\1", None),
        (subscription("abc")[:8], None),
        (struct.pack(">hi", 0, 2**31 - 1), None),
        (struct.pack(">hih", 0, 1, -1), None),
        (struct.pack(">hih", 0, 1, 1) + b"\xff", None),
    ],
)
def test_subscriptions(metadata: bytes, topics: set[str] | None) -> None:
    assert subscribed_topics(metadata) == topics

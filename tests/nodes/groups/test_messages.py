"""Records of __consumer_offsets, and which partition a group belongs to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.core.types import TopicPartition
from nodes.groups.messages import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    StoredMember,
    UnknownMessage,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group,
    read_key,
    read_offset,
)
from nodes.groups.store import partition_for

text = st.text(max_size=20)
i32 = st.integers(-(2**31), 2**31 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    StoredMember,
    member_id=text,
    instance_id=st.none() | text,
    client_id=text,
    client_host=text,
    rebalance_timeout_ms=i32,
    session_timeout_ms=i32,
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
groups = st.builds(
    StoredGroup,
    protocol_type=text,
    generation=i32,
    protocol=st.none() | text,
    leader=st.none() | text,
    state_timestamp_ms=i64,
    members=st.lists(members, max_size=3).map(tuple),
)


@given(text, text, i32, i64, i32, text, i64)
def test_offsets_round_trip(
    group: str, topic: str, partition: int, offset: int, epoch: int, metadata: str, time_ms: int
) -> None:
    key = OffsetKey(group, TopicPartition(topic, partition))
    assert read_key(offset_key(key)) == key
    value = CommittedOffset(offset, epoch, metadata, time_ms)
    assert read_offset(offset_value(value)) == value


@given(i64, text, i64, st.integers(0, 2**63 - 1))
def test_offsets_with_an_expiry_of_their_own_round_trip(
    offset: int, metadata: str, time_ms: int, expires_ms: int
) -> None:
    """Only version 1 has a place for it, and that has none for a leader epoch."""
    written = offset_value(CommittedOffset(offset, 5, metadata, time_ms, expires_ms))
    assert written[:2] == b"\0\1"
    assert read_offset(written) == CommittedOffset(offset, -1, metadata, time_ms, expires_ms)


@given(text, groups)
def test_groups_round_trip(group_id: str, group: StoredGroup) -> None:
    assert read_key(group_key(GroupKey(group_id))) == GroupKey(group_id)
    assert read_group(group_value(group)) == group


@given(groups, st.data())
def test_cut_messages_are_refused(group: StoredGroup, data: st.DataObject) -> None:
    whole = group_value(group)
    with pytest.raises(UnknownMessage):
        read_group(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_bytes_are_kafkas() -> None:
    key = OffsetKey("g", TopicPartition("t", 3))
    assert offset_key(key) == bytes.fromhex("0001 0001 67 0001 74 00000003")
    assert group_key(GroupKey("g")) == bytes.fromhex("0002 0001 67")
    value = CommittedOffset(7, 2, "m", 9)
    expected = "0003 0000000000000007 00000002 0001 6d 0000000000000009"
    assert offset_value(value) == bytes.fromhex(expected)


def test_older_versions_are_read() -> None:
    old = bytes.fromhex("0001 0000000000000007 0001 6d 0000000000000009 ffffffffffffffff")
    assert read_offset(old) == CommittedOffset(7, -1, "m", 9)
    assert read_key(bytes.fromhex("0000 0001 67 0001 74 00000003")) == OffsetKey(
        "g", TopicPartition("t", 3)
    )
    assert read_key(bytes.fromhex("0003 0001 67")) is None  # another protocol's
    with pytest.raises(UnknownMessage):
        read_offset(bytes.fromhex("0009"))


@pytest.mark.parametrize(
    ("group_id", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("group", 98629247),
        ("polygenelubricants", -(2**31)),
        ("consumer-group-1", None),
        ("\U0001f600", 1772899),
    ],
)
def test_partition_is_javas_hash(group_id: str, java_hash: int | None) -> None:
    if java_hash is None:
        java_hash = 0
        for unit in group_id:
            java_hash = (31 * java_hash + ord(unit)) & 0xFFFFFFFF
        java_hash -= (java_hash >> 31) << 32
    expected = 0 if java_hash == -(2**31) else abs(java_hash)
    assert partition_for(group_id, 50) == expected % 50

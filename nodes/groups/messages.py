"""What the records of `__consumer_offsets` say, byte for byte as Kafka writes them.

A key begins with its version: 0 and 1 are an offset (group, topic, partition), 2 is a group. Values
begin with their own version and are written as version 3, the newest that is not flexible (an
offset with an expiry of its own as version 1, as Kafka does); all non-flexible ones are read. A
record without a value takes back what its key said before. Keys of other versions belong to other
protocols and read as None.

::

    offset value 3   offset i64, leader_epoch i32, metadata string, commit_timestamp i64
    group value 3    protocol_type, generation i32, protocol?, leader?, state_timestamp i64,
                     members[]
    member 3         id, instance_id?, client_id, client_host, rebalance_timeout i32,
                     session_timeout i32, subscription bytes, assignment bytes
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, NamedTuple

from nodes.core.types import TopicPartition

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")

_OFFSET_KEY_VERSIONS: Final = (0, 1)
_GROUP_KEY_VERSION: Final = 2
_VALUE_VERSION: Final = 3
_EXPIRING_VERSION: Final = 1
"""Of an offset's value: the one version that says itself when it expires."""


class UnknownMessage(ValueError):
    """A record that this version of the coordinator cannot read."""


class OffsetKey(NamedTuple):
    group: str
    tp: TopicPartition


class GroupKey(NamedTuple):
    group: str


class CommittedOffset(NamedTuple):
    """A group's position in one partition. `leader_epoch` is -1 when its client gave none;
    `expire_timestamp_ms` is -1 unless its client asked for a time of its own."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class StoredMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]


def offset_key(key: OffsetKey) -> bytes:
    parts = (_I16.pack(1), _string(key.group), _string(key.tp.topic), _I32.pack(key.tp.partition))
    return b"".join(parts)


def group_key(key: GroupKey) -> bytes:
    return _I16.pack(_GROUP_KEY_VERSION) + _string(key.group)


def offset_value(value: CommittedOffset) -> bytes:
    if value.expire_timestamp_ms >= 0:
        # As in Kafka this costs the leader epoch, for which that version has no place.
        return b"".join(
            (
                _I16.pack(_EXPIRING_VERSION),
                _I64.pack(value.offset),
                _string(value.metadata),
                _I64.pack(value.commit_timestamp_ms),
                _I64.pack(value.expire_timestamp_ms),
            )
        )
    return b"".join(
        (
            _I16.pack(_VALUE_VERSION),
            _I64.pack(value.offset),
            _I32.pack(value.leader_epoch),
            _string(value.metadata),
            _I64.pack(value.commit_timestamp_ms),
        )
    )


def group_value(value: StoredGroup) -> bytes:
    parts = [
        _I16.pack(_VALUE_VERSION),
        _string(value.protocol_type),
        _I32.pack(value.generation),
        _string(value.protocol),
        _string(value.leader),
        _I64.pack(value.state_timestamp_ms),
        _I32.pack(len(value.members)),
    ]
    for member in value.members:
        parts += (
            _string(member.member_id),
            _string(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _I32.pack(member.rebalance_timeout_ms),
            _I32.pack(member.session_timeout_ms),
            _bytes(member.subscription),
            _bytes(member.assignment),
        )
    return b"".join(parts)


def read_key(data: bytes) -> OffsetKey | GroupKey | None:
    """What a record is about; None for what is none of the classic protocol's business."""
    reader = _Reader(data)
    version = reader.i16()
    if version in _OFFSET_KEY_VERSIONS:
        return OffsetKey(reader.string(), TopicPartition(reader.string(), reader.i32()))
    if version == _GROUP_KEY_VERSION:
        return GroupKey(reader.string())
    return None


def read_offset(data: bytes) -> CommittedOffset:
    reader = _Reader(data)
    version = reader.version()
    offset = reader.i64()
    leader_epoch = reader.i32() if version >= 3 else -1
    metadata, committed_ms = reader.string(), reader.i64()
    expires_ms = reader.i64() if version == _EXPIRING_VERSION else -1
    return CommittedOffset(offset, leader_epoch, metadata, committed_ms, expires_ms)


def read_group(data: bytes) -> StoredGroup:
    reader = _Reader(data)
    version = reader.version()
    return StoredGroup(
        protocol_type=reader.string(),
        generation=reader.i32(),
        protocol=reader.nullable_string(),
        leader=reader.nullable_string(),
        state_timestamp_ms=reader.i64() if version >= 2 else -1,
        members=tuple(_read_member(reader, version) for _ in range(reader.i32())),
    )


def _read_member(reader: _Reader, version: int) -> StoredMember:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.i32() if version >= 1 else -1
    session_timeout_ms = reader.i32()
    return StoredMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        # Version 0 had one timeout for both.
        rebalance_timeout_ms=rebalance_timeout_ms if version >= 1 else session_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=reader.bytes(),
        assignment=reader.bytes(),
    )


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    encoded = text.encode()
    return _I16.pack(len(encoded)) + encoded


def _bytes(content: bytes) -> bytes:
    return _I32.pack(len(content)) + content


class _Reader:
    """Takes values off the front of a buffer; UnknownMessage when it ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise UnknownMessage("a group message is cut short")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def i16(self) -> int:
        return int(_I16.unpack(self._take(2))[0])

    def i32(self) -> int:
        return int(_I32.unpack(self._take(4))[0])

    def i64(self) -> int:
        return int(_I64.unpack(self._take(8))[0])

    def version(self) -> int:
        version = self.i16()
        if not 0 <= version <= _VALUE_VERSION:
            raise UnknownMessage(
                f"group message version {version}; readable: 0 to {_VALUE_VERSION}"
            )
        return version

    def nullable_string(self) -> str | None:
        length = self.i16()
        return None if length < 0 else self._take(length).decode()

    def string(self) -> str:
        return self.nullable_string() or ""

    def bytes(self) -> bytes:
        length = self.i32()
        return b"" if length < 0 else self._take(length)

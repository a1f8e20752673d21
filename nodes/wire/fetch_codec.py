"""FetchResponse: its fixed parts at once, its records piece by piece, as they are sent.

An answer may have many MB of records. In one piece they would be copied while nobody else can run,
and lie in memory as long as a slow reader takes; so `FetchFrame` gives out what a buffer takes, and
looks for record bytes only then (Kafka's MultiRecordsSend).

A general writer would go through entities; here a partition is its fixed part by one struct, its
lengths, and its record bytes by reference. Layouts (KIP-98, 107, 227, 392, 595, 595's diverging
epoch)::

    v4        partition, error, high_watermark, last_stable_offset, aborted, records
    v5-10     ... + log_start_offset after last_stable_offset
    v7-13     + top-level error and session id
    v11-13    ... + preferred_read_replica before records
    v12       flexible; tag 0 of a partition: diverging epoch (leader epoch, end offset)
    v13       the topic's id in place of its name (KIP-516)

Aborted transactions are always none (a null array), as there are no transactions.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from nodes.wire.compiled import varint

_HEAD: Final = struct.Struct(">ii")
_I32: Final = struct.Struct(">i")
_I16: Final = struct.Struct(">h")
#: v4; v5-10; v11; v12 up to the records, with a null array of aborted transactions inside.
_V4: Final = struct.Struct(">ihqqi")
_V5: Final = struct.Struct(">ihqqqi")
_V11: Final = struct.Struct(">ihqqqii")
_V12: Final = struct.Struct(">ihqqqbi")
_NULL_ARRAY: Final = -1


class StoredRecords(Protocol):
    """Record bytes that are somewhere else."""

    def __len__(self) -> int: ...

    def read_into(self, buffer: memoryview, start: int) -> None:
        """Fills `buffer` with what begins `start` bytes into them. Raises OSError."""


class FetchedPartition(NamedTuple):
    """One partition's part of the answer; `diverging_epoch` is (leader_epoch, end_offset)."""

    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: bytes | memoryview | StoredRecords
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None


class FetchFrame:
    """A complete frame, its size included, that is given out once, from its start to its end."""

    __slots__ = ("_at", "_left", "_parts")

    def __init__(self, parts: Sequence[bytes | memoryview | StoredRecords]) -> None:
        self._parts = deque(part for part in parts if len(part))
        self._at = 0
        """How much of the first part has been given out."""
        self._left = sum(map(len, self._parts))

    def __len__(self) -> int:
        """What has not been given out yet."""
        return self._left

    def fill(self, buffer: memoryview) -> int:
        """Puts what comes next into `buffer`, as much as it takes; how much that was. Raises
        OSError when records cannot be read (any more): the frame cannot be ended then."""
        filled, parts = 0, self._parts
        while parts and filled < len(buffer):
            part = parts[0]
            count = min(len(part) - self._at, len(buffer) - filled)
            target = buffer[filled : filled + count]
            if isinstance(part, (bytes, memoryview)):
                target[:] = part[self._at : self._at + count]
            else:
                part.read_into(target, self._at)
            filled += count
            self._at += count
            if self._at == len(part):
                parts.popleft()
                self._at = 0
        self._left -= filled
        return filled

    def whole(self) -> bytes:
        """All that is left."""
        data = bytearray(self._left)
        with memoryview(data) as view:
            self.fill(view)
        return bytes(data)


def encode_fetch_response(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str | UUID, Sequence[FetchedPartition]]],
    *,
    error: int = 0,
    session_id: int = 0,
    throttle_ms: int = 0,
) -> FetchFrame:
    """The complete frame (with its size) of a FetchResponse, version 4 to 13. Topics by name, from
    version 13 on by id."""
    flexible = version >= 12
    parts: list[bytes | memoryview | StoredRecords] = []
    fixed = bytearray(b"\0\0\0\0\0\0\0\0")  # for size and correlation id
    if flexible:
        fixed += b"\0"
    fixed += _I32.pack(throttle_ms)
    if version >= 7:
        fixed += _I16.pack(error) + _I32.pack(session_id)
    fixed += varint(len(topics) + 1) if flexible else _I32.pack(len(topics))
    for topic, partitions in topics:
        fixed += _topic(version, topic)
        fixed += varint(len(partitions) + 1) if flexible else _I32.pack(len(partitions))
        for partition in partitions:
            records = partition.records
            fixed += _partition(version, partition)
            fixed += varint(len(records) + 1) if flexible else _I32.pack(len(records))
            if len(records):
                parts += (bytes(fixed), records)
                fixed.clear()
            if flexible:
                fixed += _partition_tags(partition.diverging_epoch)
        if flexible:
            fixed += b"\0"
    if flexible:
        fixed += b"\0"
    parts.append(bytes(fixed))
    first = parts[0]
    assert isinstance(first, bytes)
    parts[0] = _HEAD.pack(sum(map(len, parts)) - 4, correlation_id) + first[_HEAD.size :]
    return FetchFrame(parts)


def _topic(version: int, topic: str | UUID) -> bytes:
    if isinstance(topic, UUID):
        return topic.bytes
    name = topic.encode()
    return (varint(len(name) + 1) if version >= 12 else _I16.pack(len(name))) + name


def _partition(version: int, result: FetchedPartition) -> bytes:
    head = result[:5]
    if version >= 12:
        return _V12.pack(*head, 0, result.preferred_read_replica)
    if version == 11:
        return _V11.pack(*head, _NULL_ARRAY, result.preferred_read_replica)
    if version >= 5:
        return _V5.pack(*head, _NULL_ARRAY)
    return _V4.pack(*head[:4], _NULL_ARRAY)


def _partition_tags(diverging_epoch: tuple[int, int] | None) -> bytes:
    if diverging_epoch is None:
        return b"\0"
    # One tag, number 0, of 13 bytes: i32 epoch, i64 offset, no tags of its own.
    return struct.pack(">bbbiqb", 1, 0, 13, *diverging_epoch, 0)

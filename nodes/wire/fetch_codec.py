"""FetchResponse, written without copying record bytes more than once (into the frame).

A general writer would go through entities; here a partition is its fixed part by one struct, its
lengths, and its record bytes by reference, joined at the end. Layouts (KIP-98, 107, 227, 392, 595,
595's diverging epoch)::

    v4        partition, error, high_watermark, last_stable_offset, aborted, records
    v5-10     ... + log_start_offset after last_stable_offset
    v7-11     + top-level error and session id
    v11-12    ... + preferred_read_replica before records
    v12       flexible; tag 0 of a partition: diverging epoch (leader epoch, end offset)

Aborted transactions are always none (a null array), as there are no transactions.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from nodes.wire.compiled import varint

_I32: Final = struct.Struct(">i")
_I16: Final = struct.Struct(">h")
#: v4; v5-10; v11; v12 up to the records, with a null array of aborted transactions inside.
_V4: Final = struct.Struct(">ihqqi")
_V5: Final = struct.Struct(">ihqqqi")
_V11: Final = struct.Struct(">ihqqqii")
_V12: Final = struct.Struct(">ihqqqbi")
_NULL_ARRAY: Final = -1


class FetchedPartition(NamedTuple):
    """One partition's part of the answer; `diverging_epoch` is (leader_epoch, end_offset)."""

    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: bytes | memoryview
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None


def encode_fetch_response(
    version: int,
    correlation_id: int,
    topics: Sequence[tuple[str, Sequence[FetchedPartition]]],
    *,
    error: int = 0,
    session_id: int = 0,
    throttle_ms: int = 0,
) -> bytes:
    """The complete frame (with its size) of a FetchResponse, version 4 to 12."""
    flexible = version >= 12
    parts: list[bytes | memoryview] = [b"", b"\0" if flexible else b"", _I32.pack(throttle_ms)]
    if version >= 7:
        parts.append(_I16.pack(error) + _I32.pack(session_id))
    parts.append(varint(len(topics) + 1) if flexible else _I32.pack(len(topics)))
    for topic, partitions in topics:
        name = topic.encode()
        if flexible:
            parts.append(varint(len(name) + 1) + name + varint(len(partitions) + 1))
        else:
            parts.append(_I16.pack(len(name)) + name + _I32.pack(len(partitions)))
        for partition in partitions:
            records = partition.records
            parts.append(_partition(version, partition))
            parts.append(varint(len(records) + 1) if flexible else _I32.pack(len(records)))
            parts.append(records)
            if flexible:
                parts.append(_partition_tags(partition.diverging_epoch))
        if flexible:
            parts.append(b"\0")
    if flexible:
        parts.append(b"\0")
    parts[0] = struct.pack(">ii", 4 + sum(map(len, parts)), correlation_id)
    return b"".join(parts)


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

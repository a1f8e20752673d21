"""What a workload's record holds, all of it told by one unique int64, so that whoever is given a
record can tell whether it is as it was sent:

    key      the int64, big-endian
    value    the int64, big-endian, then zeros
    headers  one: how many bytes the value has (int32, big-endian)

A record without a value, by which compaction forgets a key (a tombstone), is told by its key; its
header says -1.

Uniqueness in a trial comes from giving each producer a range of its own (``first_value``).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

_VALUE: Final = struct.Struct(">q")
_SIZE: Final = struct.Struct(">i")
_SIZE_HEADER: Final = "bytes"
MIN_BYTES: Final = _VALUE.size
NO_VALUE: Final = -1
"""Bytes of a value that there is none of."""
Headers = Sequence[tuple[str, bytes | None]]


def encode_key(value: int) -> bytes:
    return _VALUE.pack(value)


def encode_value(value: int, size_bytes: int) -> bytes | None:
    if size_bytes == NO_VALUE:
        return None
    return _VALUE.pack(value).ljust(size_bytes, b"\0")


def headers_for(size_bytes: int) -> list[tuple[str, bytes]]:
    """Of a record whose value has so many bytes."""
    return [(_SIZE_HEADER, _SIZE.pack(size_bytes))]


def decode_value(data: bytes | None) -> int | None:
    """None when the record cannot be one of a workload's."""
    if data is None or len(data) < MIN_BYTES or data.count(0, MIN_BYTES) != len(data) - MIN_BYTES:
        return None
    value: int = _VALUE.unpack_from(data)[0]
    return value


def decode(key: bytes | None, data: bytes | None) -> int | None:
    """By its value, or where it has none by its key; None when it cannot be a workload's."""
    if data is not None:
        return decode_value(data)
    return None if key is None or len(key) != _VALUE.size else int(_VALUE.unpack(key)[0])


def is_whole(key: bytes | None, data: bytes | None, headers: Headers | None) -> bool:
    """Whether a workload sent a record with just this key, value and headers."""
    value = decode(key, data)
    if value is None:
        return False
    size_bytes = NO_VALUE if data is None else len(data)
    return key == encode_key(value) and list(headers or ()) == headers_for(size_bytes)

"""What a workload's record holds, all of it told by one unique int64, so that whoever is given a
record can tell whether it is as it was sent:

    key      the int64, big-endian
    value    the int64, big-endian, then zeros
    headers  one: how many bytes the value has (int32, big-endian)

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
Headers = Sequence[tuple[str, bytes | None]]


def encode_key(value: int) -> bytes:
    return _VALUE.pack(value)


def encode_value(value: int, size_bytes: int) -> bytes:
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


def is_whole(key: bytes | None, data: bytes | None, headers: Headers | None) -> bool:
    """Whether a workload sent a record with just this key, value and headers."""
    value = decode_value(data)
    if value is None or data is None:
        return False
    return key == encode_key(value) and list(headers or ()) == headers_for(len(data))

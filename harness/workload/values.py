"""Record values: a unique int64, big-endian, then padding.

Uniqueness in a trial comes from giving each producer a range of its own (``first_value``).
"""

from __future__ import annotations

import struct
from typing import Final

_VALUE: Final = struct.Struct(">q")
MIN_BYTES: Final = _VALUE.size


def encode_value(value: int, size_bytes: int) -> bytes:
    return _VALUE.pack(value).ljust(size_bytes, b"\0")


def decode_value(data: bytes | None) -> int | None:
    """None when the record cannot be one of a workload's."""
    if data is None or len(data) < MIN_BYTES or data.count(0, MIN_BYTES) != len(data) - MIN_BYTES:
        return None
    value: int = _VALUE.unpack_from(data)[0]
    return value

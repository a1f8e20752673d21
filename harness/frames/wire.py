"""What a rule may ask of a frame, read from its first bytes; and answers that say an error.

    request    api key i16, version i16, correlation id i32, client id (i16 length, or -1)
    response   correlation id i32: what it answers is known from the request

Nothing behind the header is looked at, so that any version of any API can be named.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final

from nodes.wire.apis import ApiKey, response_class
from nodes.wire.codec import WireError, build, encode_response

SIZE: Final = struct.Struct(">i")
_HEADER: Final = struct.Struct(">hhi")
_LENGTH: Final = struct.Struct(">h")
MAX_FRAME_BYTES: Final = 100 << 20
"""``socket.request.max.bytes``: larger (or negative) sizes are no frame's."""
MAX_CLIENT_ID_BYTES: Final = 256
PEEK_BYTES: Final = _HEADER.size + _LENGTH.size + MAX_CLIENT_ID_BYTES
"""Of a frame, after its size: all that is ever looked at."""


class BadFrame(ValueError):
    """Bytes that no client of Kafka sends; the connection is closed."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a request says of itself. ``client_id`` is cut at `MAX_CLIENT_ID_BYTES`."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str


def frame_size(prefix: bytes) -> int:
    """Raises `BadFrame` for a size that cannot be."""
    (size,) = SIZE.unpack(prefix)
    if not SIZE.size <= size <= MAX_FRAME_BYTES:
        raise BadFrame(f"a frame of {size} bytes")
    return int(size)


def request_head(start: bytes) -> Head:
    """Of a request's first bytes (`PEEK_BYTES`, or all). Raises `BadFrame`."""
    try:
        api_key, version, correlation_id = _HEADER.unpack_from(start)
    except struct.error:
        raise BadFrame(f"a request of {len(start)} bytes") from None
    client_id = b""
    if len(start) >= _HEADER.size + _LENGTH.size:  # ControlledShutdown 0 has none
        (length,) = _LENGTH.unpack_from(start, _HEADER.size)
        begin = _HEADER.size + _LENGTH.size
        client_id = start[begin : begin + min(max(length, 0), MAX_CLIENT_ID_BYTES)]
    return Head(api_key, version, correlation_id, client_id.decode(errors="replace"))


def correlation_id(start: bytes) -> int:
    """Of a response's first bytes."""
    return int(SIZE.unpack_from(start)[0])


def api_key(name: str) -> int | None:
    """``ALTER_PARTITION`` -> 56; None for what is no API."""
    try:
        return int(ApiKey[name])
    except KeyError:
        return _OTHERS.get(name)


_OTHERS: Final = {
    "VOTE": 52,
    "BEGIN_QUORUM_EPOCH": 53,
    "END_QUORUM_EPOCH": 54,
    "BROKER_REGISTRATION": 62,
    "BROKER_HEARTBEAT": 63,
    "FETCH_SNAPSHOT": 59,
    "ALLOCATE_PRODUCER_IDS": 67,
}
"""Spoken between Kafka's nodes alone; ours have no use for them."""


def error_answer(head: Head, error_code: int) -> bytes | None:
    """The answer with that error at its top and nothing else in it, size included; None where an
    API has no error of its own at the top, or the version is unknown."""
    try:
        kind: Any = response_class(head.api_key, head.version)
        if "error_code" not in kind.__dataclass_fields__:
            return None
        body = build(kind, error_code=error_code)
        return encode_response(head.api_key, head.version, head.correlation_id, body)
    except (KeyError, ValueError, TypeError, WireError):
        return None

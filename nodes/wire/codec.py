"""Frames: from bytes to entities and back.

A frame on the wire is a 4-byte size and that many bytes: a header, then a body::

    request v0   api_key i16, api_version i16, correlation_id i32            (ControlledShutdown 0)
    request v1   ... + client_id nullable string (always the old form)
    request v2   ... + tagged fields                                         (flexible bodies)
    response v0  correlation_id i32
    response v1  ... + tagged fields

Functions that read take the bytes *after* the size; functions that write return the size too.
Every function is pure and may be called from any thread. A malformed frame raises `WireError`
within time and memory proportional to its length. Bytes after a body are tolerated, as Kafka's
RequestContext does; so are unknown tagged fields (KIP-482).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kio.serial import entity_reader

from nodes.wire.apis import (
    is_supported,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
)
from nodes.wire.build import build
from nodes.wire.compiled import Cut, checker, read_varint, without, writer
from nodes.wire.errors import UnsupportedVersion, WireError

__all__ = (
    "RequestHeader",
    "UnsupportedVersion",
    "WireError",
    "build",
    "decode_response",
    "encode_request",
    "encode_response",
    "parse_body",
    "parse_header",
)

_HEADER: Final = struct.Struct(">hhi")
_CLIENT_ID_LENGTH: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")


@dataclass(slots=True)
class RequestHeader:
    """A parsed request header; the body begins at `body_offset` of the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    body_offset: int


@cache
def _request_header_version(api_key: int, version: int) -> int:
    """-1 when the version is not served."""
    return request_header_version(api_key, version) if is_supported(api_key, version) else -1


def parse_header(frame: bytes) -> RequestHeader:
    """Reads the header of a request frame; a null client id becomes "" as in Kafka.

    Raises `UnsupportedVersion` for what is not served, `WireError` for the rest.
    """
    try:
        api_key, version, correlation_id = _HEADER.unpack_from(frame)
        header_version = _request_header_version(api_key, version)
        if header_version < 1:
            if header_version == 0:
                return RequestHeader(api_key, version, correlation_id, "", 8)
            raise UnsupportedVersion(api_key, version, correlation_id)
        length = _CLIENT_ID_LENGTH.unpack_from(frame, 8)[0]
        at = 10
        client_id = ""
        if length > 0:
            at += length
            if at > len(frame):
                raise WireError("client_id does not fit into the frame")
            client_id = frame[10:at].decode()
        elif length < -1:
            raise WireError("client_id has a negative length")
        if header_version == 2:
            at = _skip_tags(frame, at)
    except (struct.error, IndexError):
        raise WireError("request header is cut short") from None
    except UnicodeDecodeError:
        raise WireError("client_id is not UTF-8") from None
    return RequestHeader(api_key, version, correlation_id, client_id, at)


def _skip_tags(frame: bytes | memoryview, at: int) -> int:
    if frame[at] == 0:
        return at + 1
    count, at = read_varint(frame, at)
    for _ in range(count):
        _, at = read_varint(frame, at)
        size, at = read_varint(frame, at)
        at += size
        if at > len(frame):
            raise WireError("tagged field does not fit into the frame")
    return at


def parse_body(header: RequestHeader, frame: bytes) -> Any:
    """The request entity of a frame whose header `parse_header` gave."""
    return _read(request_class(header.api_key, header.api_version), frame, header.body_offset)


def decode_response(api_key: int, version: int, payload: bytes) -> tuple[int, Any]:
    """(correlation id, entity) of a response without its size."""
    try:
        correlation_id: int = _I32.unpack_from(payload)[0]
        at = 4
        if _response_header_version(api_key, version) == 1:
            at = _skip_tags(payload, at)
    except (struct.error, IndexError):
        raise WireError("response header is cut short") from None
    return correlation_id, _read(response_class(api_key, version), payload, at)


_response_header_version = cache(response_header_version)


@cache
def _reader(entity_class: Any) -> tuple[Any, Any]:
    return checker(entity_class), entity_reader(entity_class)


def _read(entity_class: Any, frame: bytes, at: int) -> Any:
    check, read = _reader(entity_class)
    try:
        cuts: list[Cut] = []
        check(frame, at, len(frame), cuts)
        return read(without(frame, cuts) if cuts else frame, at)[0]
    except WireError as error:
        raise WireError(f"{entity_class.__name__}: {error}") from None
    except (struct.error, IndexError):
        raise WireError(f"{entity_class.__name__} is cut short") from None
    except Exception as error:
        # kio's readers raise ValueError, OverflowError, KeyError and errors of their own for
        # values out of range (an unknown error code, a date that Python cannot hold, not UTF-8).
        raise WireError(f"{entity_class.__name__}: {error}") from error


@cache
def _response_prefix(api_key: int, version: int) -> bytes:
    return b"\0" if response_header_version(api_key, version) == 1 else b""


def encode_response(api_key: int, version: int, correlation_id: int, entity: Any) -> bytes:
    """The complete frame of a response, its size included."""
    return _frame(_I32.pack(correlation_id) + _response_prefix(api_key, version), entity)


def encode_request(entity: Any, correlation_id: int, client_id: str | None) -> bytes:
    """The complete frame of a request, its size included."""
    api_key, version = entity.__api_key__, entity.__version__
    header = _HEADER.pack(api_key, version, correlation_id)
    header_version = _request_header_version(api_key, version)
    if header_version < 0:
        raise UnsupportedVersion(api_key, version, correlation_id)
    if header_version >= 1:
        if client_id is None:
            header += b"\xff\xff"
        else:
            text = client_id.encode()
            header += _CLIENT_ID_LENGTH.pack(len(text)) + text
    if header_version == 2:
        header += b"\0"
    return _frame(header, entity)


def _frame(header: bytes, entity: Any) -> bytes:
    parts: list[bytes | memoryview] = [b"", header]
    entity_class: Any = type(entity)
    writer(entity_class)(parts.append, entity)
    parts[0] = _I32.pack(sum(map(len, parts)))
    return b"".join(parts)

"""Produce, the hottest answer: a hand-written encoder and a decoder that keeps milliseconds.

kio's reader cuts `log_append_time` to whole seconds, and its writer takes 6-12 us an answer; a
struct per layout takes a fraction. Results are grouped by topic in the order given. Layouts
(KIP-98, KIP-467, KIP-951)::

    v3-4   index, error, base_offset, log_append_time_ms
    v5-7   ... + log_start_offset
    v8     ... + record errors, error message (read past, not read)
    v9-11  the same, flexible; the tagged leader hints of v10 are never sent
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from nodes.wire.compiled import read_varint, varint
from nodes.wire.errors import WireError

_PARTITION_V3: Final = struct.Struct(">ihqq")
_PARTITION_V5: Final = struct.Struct(">ihqqq")
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_V8_TAIL: Final = b"\0\0\0\0\xff\xff"
_V9_TAIL: Final = b"\1\0\0"


class PartitionResult(NamedTuple):
    """What happened to one partition's records."""

    topic: str
    partition: int
    error: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str]] = ()
    error_message: str | None = None


Result: TypeAlias = tuple[str, int, int, int, int, int, Sequence[tuple[int, str]], str | None]


def encode_produce_response(
    version: int,
    correlation_id: int,
    results: Sequence[Result],
    throttle_ms: int = 0,
) -> bytes:
    """The complete frame (with its size) of a ProduceResponse.

    `results` are tuples in the order of `PartitionResult`; those of one topic stand together.
    """
    if len(results) == 1 and results[0][7] is None:
        return _encode_single(version, correlation_id, results[0], throttle_ms)
    flexible = version >= 9
    topics: list[tuple[str, list[Result]]] = []
    for result in results:
        if not topics or topics[-1][0] != result[0]:
            topics.append((result[0], []))
        topics[-1][1].append(result)
    parts = [b"", b"\0" + varint(len(topics) + 1) if flexible else _I32.pack(len(topics))]
    for topic, members in topics:
        parts.append(_topic_name(topic, flexible))
        parts.append(varint(len(members) + 1) if flexible else _I32.pack(len(members)))
        parts.extend(_partition(version, result) for result in members)
        if flexible:
            parts.append(b"\0")
    parts.append(_I32.pack(throttle_ms) + (b"\0" if flexible else b""))
    parts[0] = struct.pack(">ii", 4 + sum(map(len, parts)), correlation_id)
    return b"".join(parts)


def _encode_single(
    version: int,
    correlation_id: int,
    result: Result,
    throttle_ms: int,
) -> bytes:
    layout, size, before, after = _single_layout(version, result[0])
    if version >= 5:
        return layout.pack(size, correlation_id, before, *result[1:6], after, throttle_ms)
    return layout.pack(size, correlation_id, before, *result[1:5], after, throttle_ms)


@lru_cache(maxsize=4096)
def _single_layout(version: int, topic: str) -> tuple[struct.Struct, int, bytes, bytes]:
    """The frame of one topic with one partition: layout, size field and constant parts."""
    flexible = version >= 9
    name = _topic_name(topic, flexible)
    before = b"\0\2" + name + b"\2" if flexible else _I32.pack(1) + name + _I32.pack(1)
    after = _V9_TAIL + b"\0" if flexible else _V8_TAIL if version == 8 else b""
    offsets = "qqq" if version >= 5 else "qq"
    end = "x" if flexible else ""
    layout = struct.Struct(f">ii{len(before)}sih{offsets}{len(after)}si{end}")
    return layout, layout.size - 4, before, after


@lru_cache(maxsize=4096)
def _topic_name(topic: str, flexible: bool) -> bytes:
    return _string(topic, flexible)


def _string(text: str | None, flexible: bool) -> bytes:
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    data = text.encode()
    return (varint(len(data) + 1) if flexible else _I16.pack(len(data))) + data


def _partition(version: int, result: Result) -> bytes:
    if version < 5:
        return _PARTITION_V3.pack(*result[1:5])
    head = _PARTITION_V5.pack(*result[1:6])
    return head if version < 8 else head + _details(*result[6:], flexible=version >= 9)


def _details(errors: Sequence[tuple[int, str]], message: str | None, *, flexible: bool) -> bytes:
    parts = [varint(len(errors) + 1) if flexible else _I32.pack(len(errors))]
    end = b"\0" if flexible else b""
    for index, why in errors:
        parts += [_I32.pack(index), _string(why, flexible), end]
    return b"".join([*parts, _string(message, flexible), end])


def decode_produce_response(version: int, payload: bytes) -> tuple[int, list[PartitionResult]]:
    """(correlation id, results) of a ProduceResponse without its size, times in milliseconds."""
    try:
        return _decode(version, payload)
    except (struct.error, IndexError):
        raise WireError("ProduceResponse is cut short") from None
    except UnicodeDecodeError:
        raise WireError("topic name is not UTF-8") from None


def _decode(version: int, payload: bytes) -> tuple[int, list[PartitionResult]]:
    results = []
    flexible = version >= 9
    layout = _PARTITION_V5 if version >= 5 else _PARTITION_V3
    correlation_id: int = _I32.unpack_from(payload)[0]
    at = _skip_tags(payload, 4) if flexible else 4
    topics, at = _count(payload, at, flexible)
    for _ in range(topics):
        length, at = _length(payload, at, flexible)
        topic = payload[at : at + length].decode()
        at += length
        partitions, at = _count(payload, at, flexible)
        for _ in range(partitions):
            results.append(PartitionResult(topic, *layout.unpack_from(payload, at)))
            at += layout.size
            if version >= 8:
                at = _skip_errors(payload, at, flexible)
        if flexible:
            at = _skip_tags(payload, at)
    return correlation_id, results


def _count(payload: bytes, at: int, flexible: bool) -> tuple[int, int]:
    if flexible:
        count, at = read_varint(payload, at)
        return count - 1, at
    return _I32.unpack_from(payload, at)[0], at + 4


def _length(payload: bytes, at: int, flexible: bool) -> tuple[int, int]:
    """Length of a string (null counts as empty) that fits into the payload."""
    if flexible:
        length, at = read_varint(payload, at)
        length = max(0, length - 1)
    else:
        length, at = max(0, _I16.unpack_from(payload, at)[0]), at + 2
    if at + length > len(payload):
        raise WireError("string does not fit into the frame")
    return length, at


def _skip_errors(payload: bytes, at: int, flexible: bool) -> int:
    """Per-record errors and the partition's error text (KIP-467), and its tags."""
    errors, at = _count(payload, at, flexible)
    for _ in range(errors):
        length, at = _length(payload, at + 4, flexible)
        at += length
        if flexible:
            at = _skip_tags(payload, at)
    length, at = _length(payload, at, flexible)
    return _skip_tags(payload, at + length) if flexible else at + length


def _skip_tags(payload: bytes, at: int) -> int:
    count, at = read_varint(payload, at)
    for _ in range(count):
        _, at = read_varint(payload, at)
        size, at = read_varint(payload, at)
        at += size
    return at

"""The short way from a frame to the one record batch in it.

A Produce with one topic and one partition is nearly every request that a loaded broker sees; its
fixed layout is read here with three struct calls instead of through entities (a third of the time).
Frames of any other form, with tagged fields, or cut short anywhere are not read here: `None` sends
them to the general reader, which also judges the malformed ones.

::

    v3-8   header | client_id | transactional_id = null, acks, timeout, 1 topic | name
           | 1 partition, index | records: i32 size, bytes
    v9-11  the same with compact lengths (each one more than the value), and empty tags
"""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, Final

from nodes.core.types import TopicPartition
from nodes.wire.codec import RequestHeader

_HEADER: Final = struct.Struct(">hhih")
_BODY_V3: Final = struct.Struct(">hhiih")  # transactional id, acks, timeout, topics, name's length
_BODY_V9: Final = struct.Struct(">bbhibb")  # header tags, then the same, all of one byte's length
_SIZE: Final = struct.Struct(">i")
_ONE_PARTITION_V3: Final = b"\0\0\0\1"
_ONE_PARTITION_V9: Final = 2
_FLEXIBLE: Final = 9
_SERVED: Final = range(3, 12)

_MAX_KNOWN: Final = 10_000
_known_v3: dict[bytes, TopicPartition] = {}
_known_v9: dict[bytes, TopicPartition] = {}
"""Bytes from a topic's name to its partition's index -> the same as an object. Entries are only
added, each by one assignment, so network threads need no lock; a full cache is emptied."""


class SingleProduce:
    """A Produce request of one partition. Looks like the general entity where that is asked for."""

    __slots__ = ("acks", "records", "timeout_ms", "tp")

    transactional_id = None

    def __init__(self, acks: int, timeout_ms: int, tp: TopicPartition, records: bytes) -> None:
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.tp = tp
        self.records = records

    @property
    def topic_data(self) -> tuple[Any, ...]:
        partition = SimpleNamespace(index=self.tp.partition, records=self.records)
        return (SimpleNamespace(name=self.tp.topic, partition_data=(partition,)),)


def parse_single_produce(frame: bytes) -> tuple[RequestHeader, SingleProduce] | None:
    """Header and body of a frame (without its size) of API key 0; None: read it otherwise."""
    try:
        _, version, correlation_id, client_length = _HEADER.unpack_from(frame)
        if version not in _SERVED or client_length < 0:
            return None
        at = 10 + client_length
        body = _read_v3(frame, at) if version < _FLEXIBLE else _read_v9(frame, at)
        if body is None:
            return None
        client_id = frame[10:at].decode()
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
    return RequestHeader(0, version, correlation_id, client_id, at), body


def _read_v3(frame: bytes, at: int) -> SingleProduce | None:
    transactional_length, acks, timeout_ms, topics, name_length = _BODY_V3.unpack_from(frame, at)
    if transactional_length != -1 or topics != 1 or name_length < 0:
        return None
    at += 14
    end = at + name_length + 8
    place = frame[at:end]
    tp = _known_v3.get(place)
    if tp is None:
        if place[name_length:-4] != _ONE_PARTITION_V3:
            return None
        tp = _remember(_known_v3, place, name_length)
    size = _SIZE.unpack_from(frame, end)[0]
    at = end + 4
    end = at + size
    if size < 0 or end > len(frame):
        return None
    return SingleProduce(acks, timeout_ms, tp, frame[at:end])


def _read_v9(frame: bytes, at: int) -> SingleProduce | None:
    tags, transactional, acks, timeout_ms, topics, name_length = _BODY_V9.unpack_from(frame, at)
    # A null transactional id is 0, one topic is 2; a longer length has its highest bit set (< 0).
    if tags or transactional or topics != 2 or name_length < 1:
        return None
    name_length -= 1
    at += 10
    end = at + name_length + 5
    place = frame[at:end]
    tp = _known_v9.get(place)
    if tp is None:
        if place[name_length] != _ONE_PARTITION_V9:
            return None
        tp = _remember(_known_v9, place, name_length)
    size, at = _compact_size(frame, end)
    end = at + size
    # After the records: empty tags of partition, topic and body.
    if size < 0 or frame[end : end + 3] != b"\0\0\0":
        return None
    return SingleProduce(acks, timeout_ms, tp, frame[at:end])


def _compact_size(frame: bytes, at: int) -> tuple[int, int]:
    """A compact length and where its bytes begin; negative for null and for absurd ones."""
    value = shift = 0
    while shift < 35:
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value - 1, at
        shift += 7
    return -1, at


def _remember(known: dict[bytes, TopicPartition], place: bytes, name_length: int) -> TopicPartition:
    """`place` is a name, a count of one partition, and its index."""
    index = _SIZE.unpack(place[-4:])[0]
    tp = TopicPartition(place[:name_length].decode(), index)
    if len(known) >= _MAX_KNOWN:
        known.clear()
    known[place] = tp
    return tp

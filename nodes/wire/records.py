"""Record batches, format 2: headers, checks, in-place rewriting, building and reading.

Layout (big-endian)::

    0  base_offset i64      17 crc u32 (CRC-32C of 21..end)      43 producer_id i64
    8  length i32 (of 12..) 21 attributes i16                    51 producer_epoch i16
    12 leader_epoch i32     23 last_offset_delta i32             53 base_sequence i32
    16 magic i8 = 2         27 base_timestamp i64                57 record count i32
                            35 max_timestamp i64                 61 records

The checksum leaves out the first 21 bytes, so that a leader may set base offset and leader epoch
without touching it. Attributes: bits 0-2 compression, 3 timestamp type (1 = LogAppendTime),
4 transactional, 5 control, 6 delete horizon.

Follows Kafka's DefaultRecordBatch and DefaultRecord. All functions are pure; those that change a
buffer say so. Times are milliseconds since the epoch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from crc32c import crc32c

from nodes.wire.compression import compress, decompress
from nodes.wire.errors import WireError

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_SIZE: Final = 61
#: base_offset and length: what a reader needs to find the next batch.
OVERHEAD: Final = 12
MAGIC: Final = 2
CRC_FROM: Final = 21
LOG_APPEND_TIME_BIT: Final = 0x08
CONTROL_BIT: Final = 0x20
COMPRESSION_MASK: Final = 0x07
DELETE_HORIZON_BIT: Final = 0x40
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_OVERHEAD: Final = struct.Struct(">qi")
_BASE: Final = struct.Struct(">q")
_LEADER_EPOCH: Final = struct.Struct(">i")
_CRC: Final = struct.Struct(">I")
_CRC_AND_ATTRIBUTES: Final = struct.Struct(">Ih")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")


class BatchHeader(NamedTuple):
    """The 61 bytes before the records."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The whole batch."""
        return self.length + OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequences wrap from 2^31-1 to 0."""
        return add_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_BIT)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When a batch's tombstones may go; it takes the place of the base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME_BIT)


class BatchView(NamedTuple):
    """Where a batch lies in a buffer."""

    position: int
    size_bytes: int
    header: BatchHeader


class Record(NamedTuple):
    """One record; header keys are text as the format has it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def add_sequence(sequence: int, increment: int) -> int:
    """A producer sequence further on, wrapping as Kafka's does."""
    return (sequence + increment) & 0x7FFFFFFF if sequence >= 0 else sequence


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at a position; WireError when fewer than 61 bytes are left."""
    try:
        # What `_make` does, without its call: this is on the way of every produced batch.
        return tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, position))
    except struct.error:
        raise WireError("record batch is shorter than its header") from None


def iter_batches(buffer: Buffer) -> Iterator[BatchView]:
    """The batches of a buffer, each checked for size and magic (not for its checksum)."""
    position, end = 0, len(buffer)
    while position < end:
        header = read_header(buffer, position)
        size_bytes = header.length + OVERHEAD
        if size_bytes < HEADER_SIZE or position + size_bytes > end:
            raise WireError(f"record batch at {position} has impossible length {header.length}")
        if header.magic != MAGIC:
            raise WireError(f"record batch at {position} has magic {header.magic}, not {MAGIC}")
        yield BatchView(position, size_bytes, header)
        position += size_bytes


def whole_batches(data: bytes) -> bytes:
    """What a fetch gave, without the last batch where that is cut off, as Kafka's may be: its file
    is sliced at the bytes that were asked for (FileRecords.slice)."""
    at = 0
    while at + OVERHEAD <= len(data):
        size_bytes = OVERHEAD + int.from_bytes(data[at + 8 : at + OVERHEAD], signed=True)
        if size_bytes < HEADER_SIZE:
            return data  # no batch, which its reader will say
        if at + size_bytes > len(data):
            break
        at += size_bytes
    return data[:at]


def check_crc(buffer: Buffer, position: int = 0, size_bytes: int | None = None) -> bool:
    """Whether the batch at a position carries the checksum of its content."""
    end = len(buffer) if size_bytes is None else position + size_bytes
    stored: int = _CRC.unpack_from(buffer, position + 17)[0]
    with memoryview(buffer) as view, view[position + CRC_FROM : end] as content:
        return bool(crc32c(content) == stored)


def rewrite_base(buffer: bytearray, position: int, base_offset: int, leader_epoch: int) -> None:
    """Sets base offset and leader epoch in place; the checksum does not cover them."""
    _BASE.pack_into(buffer, position, base_offset)
    _LEADER_EPOCH.pack_into(buffer, position + 12, leader_epoch)


def set_log_append_time(
    buffer: bytearray, position: int, size_bytes: int, timestamp_ms: int
) -> None:
    """Marks a batch in place as LogAppendTime with that time, and renews its checksum."""
    attributes = struct.unpack_from(">h", buffer, position + CRC_FROM)[0] | LOG_APPEND_TIME_BIT
    struct.pack_into(">h", buffer, position + CRC_FROM, attributes)
    _BASE.pack_into(buffer, position + 35, timestamp_ms)
    with memoryview(buffer) as view, view[position + CRC_FROM : position + size_bytes] as content:
        crc = crc32c(content)
    _CRC.pack_into(buffer, position + 17, crc)


def as_create_time(batch: bytes) -> bytes:
    """The batch without the mark of LogAppendTime: its records' own times count again."""
    changed = bytearray(batch)
    attributes = struct.unpack_from(">h", batch, CRC_FROM)[0] & ~LOG_APPEND_TIME_BIT
    struct.pack_into(">h", changed, CRC_FROM, attributes)
    _CRC.pack_into(changed, 17, crc32c(bytes(changed[CRC_FROM:])))
    return bytes(changed)


def with_max_timestamp(batch: bytes, timestamp_ms: int) -> bytes:
    """The batch with another greatest timestamp in its header."""
    changed = bytearray(batch)
    _BASE.pack_into(changed, 35, timestamp_ms)
    _CRC.pack_into(changed, 17, crc32c(bytes(changed[CRC_FROM:])))
    return bytes(changed)


def recompressed(
    batch: bytes, header: BatchHeader, content: bytes, codec: int, level: int | None = None
) -> bytes:
    """The batch with its records, given uncompressed, in another codec; WireError without it."""
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    rest = batch[CRC_FROM + 2 : HEADER_SIZE] + compress(codec, content, level)
    covered = struct.pack(">h", attributes) + rest
    head = struct.pack(">qiib", header.base_offset, len(covered) + 9, header.leader_epoch, MAGIC)
    return head + _CRC.pack(crc32c(covered)) + covered


def build_batch(
    records: Sequence[tuple[bytes | None, bytes | None, int]],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    attributes: int = 0,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> bytes:
    """A batch of (key, value, timestamp_ms) records, each with the same `headers`.

    The compression bits of `attributes` choose the codec.
    """
    if not records:
        raise ValueError("a batch needs at least one record")
    base_timestamp = records[0][2]
    body = bytearray()
    for delta, (key, value, timestamp_ms) in enumerate(records):
        record = _encode_record(timestamp_ms - base_timestamp, delta, key, value, headers)
        body += _svarint(len(record)) + record
    content = _AFTER_CRC.pack(
        attributes,
        len(records) - 1,
        base_timestamp,
        max(record[2] for record in records),
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    ) + compress(attributes & COMPRESSION_MASK, bytes(body))
    head = struct.pack(
        ">qiibI", base_offset, len(content) + 9, leader_epoch, MAGIC, crc32c(content)
    )
    return head + content


def filtered_batch(
    header: BatchHeader, kept: Sequence[Record], *, delete_horizon_ms: int | None
) -> bytes:
    """The batch with these of its records: same offsets, producer, epochs and codec.

    Without records it is its header alone, which goes uncompressed.
    """
    attributes = header.attributes
    base_timestamp = header.base_timestamp
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
        base_timestamp = delete_horizon_ms
    if not kept:
        attributes &= ~COMPRESSION_MASK
    body = bytearray()
    for record in kept:
        encoded = _encode_record(
            record.timestamp_ms - base_timestamp,
            record.offset - header.base_offset,
            record.key,
            record.value,
            record.headers,
        )
        body += _svarint(len(encoded)) + encoded
    if header.is_log_append_time:
        max_timestamp = header.max_timestamp
    else:
        max_timestamp = max((record.timestamp_ms for record in kept), default=-1)
    content = _AFTER_CRC.pack(
        attributes,
        header.last_offset_delta,
        base_timestamp,
        max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        len(kept),
    ) + (compress(attributes & COMPRESSION_MASK, bytes(body)) if kept else b"")
    return (
        struct.pack(
            ">qiibI",
            header.base_offset,
            len(content) + 9,
            header.leader_epoch,
            MAGIC,
            crc32c(content),
        )
        + content
    )


def _encode_record(
    timestamp_delta: int,
    offset_delta: int,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
) -> bytes:
    parts = [
        b"\0",
        _svarint(timestamp_delta),
        _svarint(offset_delta),
        _nullable(key),
        _nullable(value),
        _svarint(len(headers)),
    ]
    for name, content in headers:
        parts += [_svarint(len(name.encode())), name.encode(), _nullable(content)]
    return b"".join(parts)


def iter_records(batch: Buffer) -> Iterator[Record]:
    """The records of one whole batch, decompressed where its codec is at hand.

    Raises WireError for content that is not what the header says.
    """
    header = read_header(batch)
    end = header.size_bytes
    if end > len(batch) or end < HEADER_SIZE:
        raise WireError("record batch is cut short")
    data = bytes(memoryview(batch)[HEADER_SIZE:end])
    if header.compression:
        data = decompress(header.compression, data)
    at = 0
    try:
        for _ in range(header.record_count):
            length, at = read_svarint(data, at)
            stop = at + length
            if length < 0 or stop > len(data):
                raise WireError("record does not fit into its batch")
            record = _read_record(data, at, stop, header)
            yield record
            at = stop
    except (IndexError, UnicodeDecodeError):
        raise WireError("record is malformed") from None
    if at != len(data):
        raise WireError("record batch has bytes after its last record")


def _read_record(data: bytes, at: int, stop: int, header: BatchHeader) -> Record:
    timestamp_delta, at = read_svarint(data, at + 1)
    offset_delta, at = read_svarint(data, at)
    key, at = _read_nullable(data, at, stop)
    value, at = _read_nullable(data, at, stop)
    count, at = read_svarint(data, at)
    if not 0 <= count <= stop - at:
        raise WireError("record has an impossible number of headers")
    headers = []
    for _ in range(count):
        name, at = _read_nullable(data, at, stop)
        content, at = _read_nullable(data, at, stop)
        if name is None:
            raise WireError("record header without a key")
        headers.append((name.decode(), content))
    if at != stop:
        raise WireError("record has another length than it declares")
    timestamp_ms = (
        header.max_timestamp
        if header.is_log_append_time
        else header.base_timestamp + timestamp_delta
    )
    return Record(header.base_offset + offset_delta, timestamp_ms, key, value, tuple(headers))


def _svarint(value: int) -> bytes:
    encoded = (value << 1) ^ (value >> 63)
    if encoded < 0x80:
        return bytes((encoded,))
    out = bytearray()
    while encoded > 0x7F:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    out.append(encoded)
    return bytes(out)


def read_svarint(data: bytes, at: int) -> tuple[int, int]:
    """(value, where it ends); raises IndexError and WireError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise WireError("varint longer than ten bytes")


def _nullable(content: bytes | None) -> bytes:
    return b"\1" if content is None else _svarint(len(content)) + content


def _read_nullable(data: bytes, at: int, stop: int) -> tuple[bytes | None, int]:
    length, at = read_svarint(data, at)
    if length == -1:
        return None, at
    if length < 0 or at + length > stop:
        raise WireError("key, value or header does not fit into its record")
    return data[at : at + length], at + length

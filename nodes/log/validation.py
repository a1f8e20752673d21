"""What a leader demands of the batch that a producer sends (Kafka's LogValidator and UnifiedLog).

Since Produce 3 a partition's records are exactly one batch of format 2. One header unpacking, one
checksum and a walk over the records' lengths decide: a count that the content does not bear out
would make every consumer stumble and the log's end jump by up to 2^31. A compressed batch is
unpacked for that walk; where its codec's package is not installed, its count is only held against
what so many bytes could hold at the most. What is inside of records is taken on trust (Kafka reads
it); only a compacted topic's are looked into, for their keys. Sizes in bytes.
"""

from __future__ import annotations

from typing import Final

from crc32c import crc32c

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log.config import LogConfig
from nodes.wire.compression import MAX_EXPANSION, decompress, is_readable
from nodes.wire.errors import WireError
from nodes.wire.records import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_FROM,
    HEADER_SIZE,
    MAGIC,
    OVERHEAD,
    BatchHeader,
    iter_records,
    read_header,
)

_MIN_RECORD_SIZE: Final = 6
"""Attributes, two deltas, two nulls and no headers: a byte each. The length takes one more."""


def validate_produced(data: bytes, tp: TopicPartition, config: LogConfig) -> BatchHeader:
    """The header of an acceptable batch; raises ApiError with Kafka's code otherwise."""
    size = len(data)
    if size < HEADER_SIZE:
        if not size:
            raise ApiError(Errors.INVALID_RECORD, f"no record batch for {tp}")
        raise ApiError(Errors.CORRUPT_MESSAGE, f"record batch for {tp} is cut short")
    header = read_header(data)
    if header.magic != MAGIC:
        raise ApiError(Errors.INVALID_RECORD, f"record batch for {tp} has magic {header.magic}")
    batch_size = header.length + OVERHEAD
    if batch_size != size:
        if HEADER_SIZE <= batch_size < size:
            raise ApiError(Errors.INVALID_RECORD, f"more than one record batch for {tp}")
        raise ApiError(Errors.CORRUPT_MESSAGE, f"record batch for {tp} has a wrong length")
    if size > config.max_message_bytes:
        raise ApiError(
            Errors.MESSAGE_TOO_LARGE,
            f"record batch of {size} bytes for {tp} exceeds {config.max_message_bytes}",
        )
    if size > config.segment_bytes:
        raise ApiError(Errors.RECORD_LIST_TOO_LARGE, f"record batch for {tp} exceeds a segment")
    if crc32c(memoryview(data)[CRC_FROM:]) != header.crc:
        raise ApiError(Errors.CORRUPT_MESSAGE, f"record batch for {tp} has a wrong checksum")
    if (
        header.base_offset != 0
        or header.record_count <= 0
        or header.last_offset_delta != header.record_count - 1
    ):
        raise ApiError(Errors.INVALID_RECORD, f"record batch for {tp} has impossible offsets")
    if header.attributes & CONTROL_BIT:
        raise ApiError(Errors.INVALID_RECORD, f"a producer may not write control records to {tp}")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise ApiError(Errors.INVALID_RECORD, f"record batch for {tp} has no sequence")
    if header.attributes & COMPRESSION_MASK:
        _check_compressed(data, header, tp)
    elif not _holds(data, HEADER_SIZE, header.record_count):
        raise ApiError(Errors.INVALID_RECORD, f"record batch for {tp} does not hold its records")
    if "compact" in config.cleanup_policy:
        _require_keys(data, tp)
    return header


def _check_compressed(data: bytes, header: BatchHeader, tp: TopicPartition) -> None:
    """Off the hot path: unpacking costs more than all the rest together."""
    codec, count = header.compression, header.record_count
    if codec not in MAX_EXPANSION:
        # No error of the protocol means this; Kafka's answer is that of an exception of its own.
        raise ApiError(Errors.UNKNOWN_SERVER_ERROR, f"no compression codec {codec}, for {tp}")
    content = memoryview(data)[HEADER_SIZE:]
    if not is_readable(codec):
        fits = count * (_MIN_RECORD_SIZE + 1) <= len(content) * MAX_EXPANSION[codec]
    else:
        try:
            fits = _holds(decompress(codec, bytes(content)), 0, count)
        except WireError as error:
            raise ApiError(Errors.INVALID_RECORD, f"record batch for {tp}: {error}") from error
    if not fits:
        raise ApiError(Errors.INVALID_RECORD, f"record batch for {tp} does not hold its records")


def _holds(data: bytes, at: int, count: int) -> bool:
    """Whether the lengths of `count` records fill what follows `at` exactly."""
    end = len(data)
    try:
        for _ in range(count):
            encoded = data[at]
            at += 1
            if encoded > 0x7F:
                encoded &= 0x7F
                shift = 7
                while True:
                    byte = data[at]
                    at += 1
                    encoded |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
                    if shift > 28:
                        return False
            if encoded & 1 or encoded < 2 * _MIN_RECORD_SIZE:  # zigzag: odd is negative
                return False
            at += encoded >> 1
    except IndexError:
        return False
    return at == end


def _require_keys(data: bytes, tp: TopicPartition) -> None:
    codec = read_header(data).compression
    if codec and not is_readable(codec):
        raise ApiError(
            Errors.UNSUPPORTED_COMPRESSION_TYPE,
            f"compacted topic of {tp}: no package is installed to look for keys in codec {codec}",
        )
    try:
        keyless = any(record.key is None for record in iter_records(data))
    except WireError as error:
        raise ApiError(Errors.INVALID_RECORD, f"records for {tp}: {error}") from error
    if keyless:
        raise ApiError(
            Errors.INVALID_RECORD, f"compacted topic of {tp} takes no record without key"
        )

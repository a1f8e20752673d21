"""What a leader demands of the batch that a producer sends (Kafka's LogValidator and UnifiedLog).

Since Produce 3 a partition's records are exactly one batch of format 2. One header unpacking and
one checksum decide; records are looked into only where the topic is compacted (keys are required).
Sizes in bytes.
"""

from __future__ import annotations

from crc32c import crc32c

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log.config import LogConfig
from nodes.wire.errors import WireError
from nodes.wire.records import (
    CONTROL_BIT,
    CRC_FROM,
    HEADER_SIZE,
    MAGIC,
    OVERHEAD,
    BatchHeader,
    iter_records,
    read_header,
)


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
    if "compact" in config.cleanup_policy:
        _require_keys(data, tp)
    return header


def _require_keys(data: bytes, tp: TopicPartition) -> None:
    try:
        keyless = any(record.key is None for record in iter_records(data))
    except WireError as error:
        raise ApiError(Errors.INVALID_RECORD, f"records for {tp}: {error}") from error
    if keyless:
        raise ApiError(
            Errors.INVALID_RECORD, f"compacted topic of {tp} takes no record without key"
        )

"""What a leader demands of the batch that a producer sends (Kafka's LogValidator and UnifiedLog).

Since Produce 3 a partition's records are exactly one batch of format 2. One header unpacking, one
checksum and a walk over the records' lengths and times decide: a count that the content does not
bear out would make every consumer stumble and the log's end jump by up to 2^31, and a false
greatest timestamp would lead searches and retention astray. That one is put right, as Kafka does;
all else is refused. A batch that calls its times the log's is taken for what it says in its header,
and is CreateTime from then on, as in Kafka; where times are the log's it is refused. A compressed
batch is unpacked for that walk; where its codec's package is not installed, its count is only held
against what so many bytes could hold at the most, and its timestamp is believed. What else is
inside of records is taken on trust (Kafka reads it); only a compacted topic's are looked into, for
their keys, and those of a topic that bounds their times. A topic whose `compression.type` is not
`producer` gets its batches in its own codec. Sizes in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from crc32c import crc32c

from nodes.core.errors import ApiError, Errors, RecordsRefused
from nodes.core.types import TopicPartition, as_long
from nodes.log.config import LogConfig
from nodes.wire.compression import CODECS, MAX_EXPANSION, decompress, is_readable
from nodes.wire.errors import WireError
from nodes.wire.records import (
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_FROM,
    HEADER_SIZE,
    LOG_APPEND_TIME_BIT,
    MAGIC,
    OVERHEAD,
    BatchHeader,
    Record,
    as_create_time,
    filtered_batch,
    iter_records,
    read_header,
    read_svarint,
    recompressed,
    with_max_timestamp,
)

_BEFORE_ALL: Final = -(1 << 63)
_NO_BOUNDS: Final = (-(1 << 64), 1 << 64)
_MIN_RECORD_SIZE: Final = 6
"""Attributes, two deltas, two nulls and no headers: a byte each. The length takes one more."""


def validate_produced(
    data: bytes, tp: TopicPartition, config: LogConfig, now_ms: Callable[[], int]
) -> tuple[bytes, BatchHeader]:
    """The batch to write (the one that came, nearly always) and its header; raises ApiError with
    Kafka's code when it is not acceptable."""
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
        raise _too_large(size, tp, config)
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
    content: bytes | None = None
    if header.attributes & COMPRESSION_MASK:
        content = _unpacked(data, header, tp)
        latest = None if content is None else _latest(content, 0, header.record_count)
        is_known = content is not None
    else:
        latest = _latest(data, HEADER_SIZE, header.record_count)
        is_known = True
    if is_known:
        if latest is None:
            raise ApiError(
                Errors.INVALID_RECORD, f"record batch for {tp} does not hold its records"
            )
        latest_ms = header.base_timestamp + latest
        if (
            latest_ms != header.max_timestamp
            and max(latest_ms, -1) != header.max_timestamp
            and not header.attributes & LOG_APPEND_TIME_BIT
        ):
            data = with_max_timestamp(data, max(latest_ms, -1))
            header = read_header(data)
    is_stamped = bool(header.attributes & LOG_APPEND_TIME_BIT)
    if config.is_compacted or config.time_bounds_ms is not None or is_stamped:
        _check_records(data, tp, config, now_ms())
    if is_stamped:
        if CODECS.get(config.compression_type, header.compression) != header.compression:
            # Kafka writes records that change their codec anew, with the time that it saw in them.
            data = filtered_batch(header, list(_records(data, tp)), delete_horizon_ms=None)
            content = _unpacked(data, header, tp) if header.compression else None
        data = as_create_time(data)
        header = read_header(data)
    if config.compression_type != "producer":
        return _in_the_topics_codec(data, header, content, tp, config)
    return data, header


def _too_large(size: int, tp: TopicPartition, config: LogConfig) -> ApiError:
    return ApiError(
        Errors.MESSAGE_TOO_LARGE,
        f"record batch of {size} bytes for {tp} exceeds {config.max_message_bytes}",
    )


def _in_the_topics_codec(
    data: bytes, header: BatchHeader, content: bytes | None, tp: TopicPartition, config: LogConfig
) -> tuple[bytes, BatchHeader]:
    codec = CODECS[config.compression_type]
    if codec == header.compression:
        return data, header
    if not (is_readable(codec) and is_readable(header.compression)):
        raise ApiError(
            Errors.UNSUPPORTED_COMPRESSION_TYPE,
            f"{tp} has compression.type={config.compression_type}: no package is installed to "
            f"make that of codec {header.compression}",
        )
    try:
        changed = recompressed(
            data,
            header,
            data[HEADER_SIZE:] if content is None else content,
            codec,
            config.compression_level,
        )
    except WireError as error:
        raise ApiError(Errors.UNSUPPORTED_COMPRESSION_TYPE, f"{tp}: {error}") from error
    if len(changed) > config.max_message_bytes:
        raise _too_large(len(changed), tp, config)
    if len(changed) > config.segment_bytes:
        raise ApiError(Errors.RECORD_LIST_TOO_LARGE, f"record batch for {tp} exceeds a segment")
    return changed, read_header(changed)


def _unpacked(data: bytes, header: BatchHeader, tp: TopicPartition) -> bytes | None:
    """A compressed batch's content, None when it cannot be opened here. Off the hot path: unpacking
    costs more than all the rest together."""
    codec, count = header.compression, header.record_count
    if codec not in MAX_EXPANSION:
        # No error of the protocol means this; Kafka's answer is that of an exception of its own.
        raise ApiError(Errors.UNKNOWN_SERVER_ERROR, f"no compression codec {codec}, for {tp}")
    if is_readable(codec):
        try:
            return decompress(codec, data[HEADER_SIZE:])
        except WireError as error:
            raise ApiError(Errors.INVALID_RECORD, f"record batch for {tp}: {error}") from error
    if count * (_MIN_RECORD_SIZE + 1) > (len(data) - HEADER_SIZE) * MAX_EXPANSION[codec]:
        raise ApiError(Errors.INVALID_RECORD, f"record batch for {tp} does not hold its records")
    return None


def _latest(data: bytes, at: int, count: int) -> int | None:
    """The greatest time in `count` records, relative to the batch's base timestamp; None when their
    lengths do not fill what follows `at` exactly."""
    end = len(data)
    latest = _BEFORE_ALL
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
                        return None
            if encoded & 1 or encoded < 2 * _MIN_RECORD_SIZE:  # zigzag: odd is negative
                return None
            delta = data[at + 1]  # after a byte of attributes
            if delta > 0x7F:
                delta, _after = read_svarint(data, at + 1)
            else:
                delta = (delta >> 1) ^ -(delta & 1)
            if delta > latest:  # noqa: PLR1730 (max() costs a third of the loop)
                latest = delta
            at += encoded >> 1
    except (IndexError, WireError):
        return None
    return latest if at == end else None


def _check_records(data: bytes, tp: TopicPartition, config: LogConfig, now_ms: int) -> None:
    """Keys, where the topic needs them, and times, where it bounds them; records without a time may
    always come. Who calls them appended is only refused where times are the broker's to give, or
    where they have none. Texts are Kafka's."""
    header = read_header(data)
    is_stamped = header.attributes & LOG_APPEND_TIME_BIT
    most_errors = config.max_message_bytes // (_MIN_RECORD_SIZE + 1)
    low_ms, high_ms = _NO_BOUNDS
    if config.time_bounds_ms is not None:
        before_ms, after_ms = config.time_bounds_ms
        low_ms, high_ms = now_ms - before_ms, now_ms + after_ms
    keyless = f"Compacted topic cannot accept message without key in topic partition {tp}"
    errors: list[tuple[int, str]] = []
    count, error = 0, Errors.INVALID_RECORD
    for index, record in enumerate(_records(data, tp)):
        time_ms = record.timestamp_ms
        if config.is_compacted and record.key is None:
            why = keyless
        elif is_stamped and (time_ms == -1 or config.is_log_append_time):
            error = Errors.INVALID_TIMESTAMP
            why = (
                f"Invalid timestamp type in message {_shown(record, header, config)}. Producer "
                "should not set timestamp type to LogAppendTime."
            )
        elif time_ms != -1 and not low_ms <= time_ms <= high_ms:
            error = Errors.INVALID_TIMESTAMP
            why = (
                f"Timestamp {time_ms} of message with offset {record.offset} is out of range. "
                f"The timestamp should be within [{as_long(low_ms)}, {as_long(high_ms)}]"
            )
        else:
            continue
        count += 1
        if count <= most_errors:
            errors.append((index, why))
    if not errors:
        return
    if error is Errors.INVALID_TIMESTAMP:
        text = "One or more records have been rejected due to invalid timestamp"
    else:
        shown = (f"RecordError(batchIndex={index}, message='{why}')" for index, why in errors[:3])
        text = (
            f"One or more records have been rejected due to {count} record errors in total, and "
            f"only showing the first three errors at most: [{', '.join(shown)}]"
        )
    raise RecordsRefused(error, text, errors)


def _shown(record: Record, header: BatchHeader, config: LogConfig) -> str:
    """As Java prints a record; in a batch that stays compressed Kafka skips keys and values."""
    stays = config.compression_type == "producer" or (
        CODECS[config.compression_type] == header.compression
    )
    kind, of_null = (
        ("PartialDefaultRecord", -1) if header.compression and stays else ("DefaultRecord", 0)
    )
    key, value = (of_null if part is None else len(part) for part in (record.key, record.value))
    return (
        f"{kind}(offset={record.offset}, timestamp={record.timestamp_ms}, key={key} bytes, "
        f"value={value} bytes)"
    )


def _records(data: bytes, tp: TopicPartition) -> Iterator[Record]:
    codec = read_header(data).compression
    if codec and not is_readable(codec):
        raise ApiError(
            Errors.UNSUPPORTED_COMPRESSION_TYPE,
            f"no package is installed to look into records for {tp}, in codec {codec}",
        )
    try:
        yield from iter_records(data)
    except WireError as error:
        raise ApiError(Errors.INVALID_RECORD, f"records for {tp}: {error}") from error

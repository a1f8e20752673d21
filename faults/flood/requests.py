"""A flood's requests, encoded once and sent over and over.

`Template` is a whole frame (size prefix included) and where the error codes stand in its answer:
the layout of an answer to a fixed question is fixed, so a worker need not parse it.

Built with kio's entities; record batches are laid out here (format v2, sheet section 6), since kio
takes their bytes as they are.
"""

from __future__ import annotations

import datetime
import io
import random
import struct
from dataclasses import dataclass
from typing import Any, Final, cast

import crc32c
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.fetch.v4 import request as fetch_v4
from kio.schema.metadata.v4 import request as metadata_v4
from kio.schema.produce.v7 import request as produce_v7
from kio.serial import entity_writer

from faults.flood.spec import FloodSpec

CLIENT_ID: Final = "flood"
_SIZE: Final = struct.Struct(">i")
_BATCH: Final = struct.Struct(">qiibIhiqqqhii")  # the 61 bytes before the records
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21


@dataclass(frozen=True, slots=True)
class Template:
    """One request. ``errors_at``: offsets of int16 error codes in the answer after its size."""

    frame: bytes
    errors_at: tuple[int, ...]
    answered: bool = True  # False: acks=0, nothing comes back


def zigzag_varint(number: int) -> bytes:
    """A signed varint as record batches have them."""
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while True:
        byte = value & 0x7F
        value >>= 7
        if not value:
            out.append(byte)
            return bytes(out)
        out.append(byte | 0x80)


def record_batch(value: bytes, *, timestamp_ms: int = 0) -> bytes:
    """A batch of one record without key, uncompressed, from no idempotent producer."""
    body = b"\0" + zigzag_varint(0) + zigzag_varint(0) + zigzag_varint(-1)
    body += zigzag_varint(len(value)) + value + zigzag_varint(0)
    record = zigzag_varint(len(body)) + body
    batch = bytearray(
        _BATCH.pack(
            0,
            _BATCH.size - 12 + len(record),
            -1,
            2,
            0,
            0,
            0,
            timestamp_ms,
            timestamp_ms,
            -1,
            -1,
            -1,
            1,
        )
    )
    batch += record
    struct.pack_into(">I", batch, _CRC_AT, crc32c.crc32c(bytes(batch[_ATTRIBUTES_AT:])))
    return bytes(batch)


def frame(entity: Any, *, correlation_id: int, client_id: str = CLIENT_ID) -> bytes:
    """A whole request, size prefix first."""
    kind = type(entity)
    header_kind = kind.__header_schema__
    header: dict[str, Any] = {
        "request_api_key": kind.__api_key__,
        "request_api_version": kind.__version__,
        "correlation_id": correlation_id,
        "client_id": client_id,
    }
    buffer = io.BytesIO()
    buffer.write(b"\0\0\0\0")
    entity_writer(header_kind)(buffer, header_kind(**header))
    entity_writer(kind)(buffer, entity)
    data = bytearray(buffer.getvalue())
    _SIZE.pack_into(data, 0, len(data) - 4)
    return bytes(data)


def api_versions(correlation_id: int = 0) -> Template:
    return Template(frame(ApiVersionsRequest(), correlation_id=correlation_id), (4,))


def produce(
    topic: str, partitions: tuple[int, ...], *, value: bytes, acks: int, timeout_ms: int
) -> Template:
    """One record to each of ``partitions`` (Produce v7)."""
    batch = record_batch(value)
    request = produce_v7.ProduceRequest(
        transactional_id=None,
        acks=cast(Any, acks),
        timeout=cast(Any, datetime.timedelta(milliseconds=timeout_ms)),
        topic_data=(
            produce_v7.TopicProduceData(
                name=cast(Any, topic),
                partition_data=tuple(
                    produce_v7.PartitionProduceData(index=cast(Any, p), records=cast(Any, batch))
                    for p in partitions
                ),
            ),
        ),
    )
    # answer: correlation id, topics, name, partitions, then 30 bytes a partition, error 4 into each
    first = 4 + 4 + 2 + len(topic.encode()) + 4
    errors_at = tuple(first + 30 * i + 4 for i in range(len(partitions)))
    return Template(frame(request, correlation_id=0), errors_at, answered=acks != 0)


def metadata(topics: tuple[str, ...] | None) -> Template:
    """Metadata v4 of the named topics, or of all."""
    request = metadata_v4.MetadataRequest(
        topics=None
        if topics is None
        else tuple(metadata_v4.MetadataRequestTopic(name=cast(Any, t)) for t in topics),
        allow_auto_topic_creation=False,
    )
    return Template(frame(request, correlation_id=0), ())


def fetch(
    topic: str,
    partitions: tuple[int, ...],
    *,
    max_bytes: int,
    min_bytes: int = 0,
    max_wait_ms: int = 0,
) -> Template:
    """Fetch v4 from the start of each partition, answered at once where ``min_bytes`` is 0."""
    request = fetch_v4.FetchRequest(
        replica_id=cast(Any, -1),
        max_wait=cast(Any, datetime.timedelta(milliseconds=max_wait_ms)),
        min_bytes=cast(Any, min_bytes),
        max_bytes=cast(Any, max_bytes * max(1, len(partitions))),
        isolation_level=cast(Any, 0),
        topics=(
            fetch_v4.FetchTopic(
                topic=cast(Any, topic),
                partitions=tuple(
                    fetch_v4.FetchPartition(
                        partition=cast(Any, p),
                        fetch_offset=cast(Any, 0),
                        partition_max_bytes=cast(Any, max_bytes),
                    )
                    for p in partitions
                ),
            ),
        ),
    )
    # answer: correlation id, throttle time, topics, name, partitions, index, error; records make
    # the places after the first partition unknown
    return Template(frame(request, correlation_id=0), (4 + 4 + 4 + 2 + len(topic.encode()) + 8,))


def templates(spec: FloodSpec) -> list[Template]:
    """A worker's requests; connection i sends number i modulo their count."""
    if spec.mode != "request" or spec.request == "api-versions":
        return [api_versions()]
    if spec.request == "metadata":
        return [metadata((spec.topic,) if spec.topic else None)]
    groups = [
        spec.partitions[i : i + spec.partitions_per_request]
        for i in range(0, len(spec.partitions), spec.partitions_per_request)
    ]
    if spec.request == "fetch":
        return [
            fetch(
                spec.topic,
                group,
                max_bytes=spec.record_bytes,
                min_bytes=spec.min_bytes,
                max_wait_ms=spec.max_wait_ms,
            )
            for group in groups
        ]
    value = random.Random(spec.seed).randbytes(spec.record_bytes)
    return [
        produce(spec.topic, group, value=value, acks=spec.acks, timeout_ms=spec.timeout_ms)
        for group in groups
    ]

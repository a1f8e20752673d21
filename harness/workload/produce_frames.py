"""Produce requests of one record, made by patching a template.

Layout (Produce v7, one topic, one partition): the record batch is the end of the frame::

    size | header | transactional id | acks | timeout | topics[ name, partitions[ index, batch ]]
    batch: ... 17: crc u32, 21: attributes, ... 27: base timestamp, 35: max timestamp ... record
    record: ... key, size of the value, value, headers
"""

from __future__ import annotations

import struct
from typing import Final

import crc32c

from harness.workload.values import encode_key, encode_value, headers_for
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import build, encode_request
from nodes.wire.records import build_batch

VERSION: Final = 7
_CRC: Final = struct.Struct(">I")
_TIMES: Final = struct.Struct(">qq")
_VALUE: Final = struct.Struct(">q")
_ANY: Final = 0x0123_4567_89AB_CDEF


class ProduceFrames:
    """Frames for one partition. Not thread-safe: the template is patched in place."""

    def __init__(
        self,
        topic: str,
        partition: int,
        *,
        acks: int,
        timeout_ms: int,
        value_bytes: int,
        client_id: str,
    ) -> None:
        held = (encode_key(_ANY), encode_value(_ANY, value_bytes), 0)
        batch = build_batch([held], headers=headers_for(value_bytes))
        request = build(
            request_class(ApiKey.PRODUCE, VERSION),
            acks=acks,
            timeout=timeout_ms,
            topic_data=[
                {"name": topic, "partition_data": [{"index": partition, "records": batch}]}
            ],
        )
        self._frame = bytearray(encode_request(request, 0, client_id))
        self._batch_at = len(self._frame) - len(batch)
        self._key_at = self._frame.index(encode_key(_ANY), self._batch_at)
        self._value_at = self._frame.index(encode_key(_ANY), self._key_at + _VALUE.size)

    def frame(self, value: int, timestamp_ms: int) -> bytes:
        frame, at = self._frame, self._batch_at
        _VALUE.pack_into(frame, self._key_at, value)
        _VALUE.pack_into(frame, self._value_at, value)
        _TIMES.pack_into(frame, at + 27, timestamp_ms, timestamp_ms)
        with memoryview(frame) as view, view[at + 21 :] as covered:
            crc = crc32c.crc32c(covered)
        _CRC.pack_into(frame, at + 17, crc)
        return bytes(frame)

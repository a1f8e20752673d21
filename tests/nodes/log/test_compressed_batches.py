"""A compressed batch must hold the records that its header counts: who reads it would stumble."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.log import LogConfig
from nodes.log.validation import validate_produced
from nodes.wire.compression import MAX_EXPANSION, decompress, is_readable
from nodes.wire.errors import WireError
from nodes.wire.records import HEADER_SIZE, build_batch

TP = TopicPartition("t", 0)
CONFIG = LogConfig()
GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def batch(records: int = 3, codec: int = GZIP, key: bytes | None = b"k") -> bytes:
    return build_batch([(key, b"v" * 100, 1000)] * records, attributes=codec)


def altered(good: bytes, *, count: int | None = None, codec: int | None = None) -> bytes:
    """The batch with another count or codec, and with the right checksum for it."""
    data = bytearray(good)
    if codec is not None:
        struct.pack_into(">h", data, 21, codec)
    if count is not None:
        struct.pack_into(">i", data, 23, count - 1)
        struct.pack_into(">i", data, 57, count)
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[21:]))
    return bytes(data)


def error_of(data: bytes, config: LogConfig = CONFIG) -> Errors | None:
    try:
        validate_produced(data, TP, config)
    except ApiError as error:
        return error.error
    return None


def test_a_true_count_is_taken() -> None:
    header = validate_produced(batch(3), TP, CONFIG)
    assert header.record_count == 3


@pytest.mark.parametrize("count", [1, 2, 4, 2**31 - 1])
def test_a_false_count_is_refused(count: int) -> None:
    assert error_of(altered(batch(3), count=count)) is Errors.INVALID_RECORD


def test_what_cannot_be_unpacked_is_refused() -> None:
    good = batch()
    assert error_of(altered(good[:HEADER_SIZE] + b"\0" * (len(good) - HEADER_SIZE))) is (
        Errors.INVALID_RECORD
    )


def test_codecs_that_do_not_exist() -> None:
    assert error_of(altered(batch(), codec=5)) is Errors.UNKNOWN_SERVER_ERROR


@pytest.fixture
def no_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.log.validation.is_readable", lambda codec: codec != ZSTD)


@pytest.mark.usefixtures("no_zstd")
def test_an_unreadable_codec_is_held_to_what_it_can_hold() -> None:
    opaque = altered(batch(), codec=ZSTD)
    most = (len(opaque) - HEADER_SIZE) * MAX_EXPANSION[ZSTD] // 7
    assert error_of(altered(opaque, count=most)) is None
    assert error_of(altered(opaque, count=most + 1)) is Errors.INVALID_RECORD


@pytest.mark.usefixtures("no_zstd")
def test_a_compacted_topic_takes_no_codec_that_hides_its_keys() -> None:
    compacted = LogConfig(cleanup_policy="compact")
    opaque = altered(batch(), codec=ZSTD)
    assert error_of(opaque, compacted) is Errors.UNSUPPORTED_COMPRESSION_TYPE
    assert error_of(batch(), compacted) is None
    assert error_of(batch(key=None), compacted) is Errors.INVALID_RECORD


@pytest.mark.parametrize("codec", [c for c in (GZIP, SNAPPY, LZ4, ZSTD) if is_readable(c)])
def test_codecs_at_hand(codec: int) -> None:
    assert error_of(batch(1000, codec)) is None
    assert error_of(altered(batch(1000, codec), count=999)) is Errors.INVALID_RECORD


@pytest.mark.skipif(not is_readable(SNAPPY), reason="no snappy package is installed")
def test_snappys_claim_of_a_size_is_not_believed() -> None:
    with pytest.raises(WireError, match="claims more"):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\0" * 20)


@pytest.mark.skipif(not is_readable(LZ4), reason="no lz4 package is installed")
def test_an_lz4_bomb_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.wire.compression.MAX_OUTPUT_BYTES", 1000)
    with pytest.raises(WireError, match="beyond all measure"):
        decompress(LZ4, batch(100, LZ4)[HEADER_SIZE:])

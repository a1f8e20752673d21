"""A compressed batch must hold the records that its header counts: who reads it would stumble."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path

import pytest
from crc32c import crc32c

from nodes.core.errors import ApiError, Errors, RecordsRefused
from nodes.core.types import TopicPartition
from nodes.log import LogConfig
from nodes.log.validation import validate_produced
from nodes.wire.compression import MAX_EXPANSION, compress, decompress, is_readable
from nodes.wire.errors import WireError
from nodes.wire.records import (
    HEADER_SIZE,
    build_batch,
    check_crc,
    iter_batches,
    iter_records,
    read_header,
    with_max_timestamp,
)
from tests.nodes.log.logs import NOW_MS, open_log

READABLE = [codec for codec in (0, 1, 2, 3, 4) if is_readable(codec)]
NAMES = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
TP = TopicPartition("t", 0)
CONFIG = LogConfig()


def clock() -> int:
    return NOW_MS


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
        validate_produced(data, TP, config, clock)
    except ApiError as error:
        return error.error
    return None


def test_a_true_count_is_taken() -> None:
    good = batch(3)
    data, header = validate_produced(good, TP, CONFIG, clock)
    assert data is good
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


@pytest.mark.skipif(not is_readable(SNAPPY), reason="cramjam is not installed")
def test_snappys_claim_of_a_size_is_not_believed() -> None:
    with pytest.raises(WireError, match="claims more"):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f" + b"\0" * 20)


@pytest.mark.skipif(not is_readable(SNAPPY), reason="cramjam is not installed")
def test_each_of_snappys_blocks_costs_the_same() -> None:
    """However much came out of those before it."""

    def cost_s(mib: int) -> float:
        packed = compress(SNAPPY, bytes(mib << 20))
        began_s = time.thread_time()
        assert len(decompress(SNAPPY, packed)) == mib << 20
        return (time.thread_time() - began_s) / mib

    few, many = (min(cost_s(mib) for _ in range(3)) for mib in (8, 64))
    assert many < 4 * few


@pytest.mark.skipif(not is_readable(LZ4), reason="cramjam is not installed")
def test_an_lz4_bomb_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.wire.compression.MAX_OUTPUT_BYTES", 1000)
    with pytest.raises(WireError, match="beyond all measure"):
        decompress(LZ4, batch(100, LZ4)[HEADER_SIZE:])


def timed(codec: int, *times_ms: int) -> bytes:
    return build_batch([(b"k", b"v" * 100, time_ms) for time_ms in times_ms], attributes=codec)


@pytest.mark.parametrize("codec", READABLE)
@pytest.mark.parametrize("times", [(5,), (5, 900, 7), (900, 5, 5), (70000, -1, 10**12)])
def test_a_false_greatest_timestamp_is_put_right(codec: int, times: tuple[int, ...]) -> None:
    good = timed(codec, *times)
    for false_ms in (-1, 0, max(times) - 1, max(times) + 1, 2**62):
        data, header = validate_produced(with_max_timestamp(good, false_ms), TP, CONFIG, clock)
        assert header.max_timestamp == max(times)
        assert data == good
    assert validate_produced(good, TP, CONFIG, clock)[0] is good


@pytest.mark.parametrize("codec", READABLE)
def test_records_without_a_timestamp_have_none_as_the_greatest(codec: int) -> None:
    good = timed(codec, -1, -1)
    assert validate_produced(good, TP, CONFIG, clock)[0] is good
    assert validate_produced(with_max_timestamp(good, 7), TP, CONFIG, clock)[0] == good


@pytest.mark.usefixtures("no_zstd")
def test_what_cannot_be_read_is_believed() -> None:
    opaque = altered(batch(), codec=ZSTD)
    assert validate_produced(opaque, TP, CONFIG, clock)[1].max_timestamp == 1000


STAMPED = 8


@pytest.mark.parametrize("codec", READABLE)
def test_where_times_are_the_producers_it_may_call_them_the_logs(
    tmp_path: Path, codec: int
) -> None:
    """LogValidator.validateTimestamp looks at the topic first. The batch is CreateTime then, each
    record has its own time again, and the greatest is what the producer said, be it true or not."""
    log = open_log(tmp_path)
    log.append_as_leader(altered(timed(codec, 100, 300), codec=codec | STAMPED), 0)
    log.append_as_leader(
        altered(with_max_timestamp(timed(codec, 100, 300), 777), codec=codec | STAMPED), 0
    )
    stored = log.read(0, 1 << 20)
    first, second = ([*iter_batches(stored)][n] for n in (0, 1))
    for view, max_ms in ((first, 300), (second, 777)):
        data = stored[view.position : view.position + view.size_bytes]
        assert check_crc(data)
        assert view.header.attributes == codec
        assert view.header.max_timestamp == max_ms
        assert [record.timestamp_ms for record in iter_records(data)] == [100, 300]


@pytest.mark.parametrize("codec", READABLE)
@pytest.mark.parametrize("target", ["gzip", "uncompressed"])
def test_in_another_codec_they_are_what_the_header_said(codec: int, target: str) -> None:
    """buildRecordsAndAssignOffsets: then the records are written anew, else only the header."""
    sent = altered(with_max_timestamp(timed(codec, 100, 300), 777), codec=codec | STAMPED)
    data, header = validate_produced(sent, TP, LogConfig(compression_type=target), clock)
    assert check_crc(data)
    assert header.attributes == NAMES.index(target)
    is_anew = header.attributes != codec
    times = [record.timestamp_ms for record in iter_records(data)]
    assert times == ([777, 777] if is_anew else [100, 300])
    assert header.max_timestamp == 777


@pytest.mark.parametrize("codec", READABLE)
@pytest.mark.parametrize(
    ("settings", "max_ms", "why"),
    [
        ({"message_timestamp_type": "LogAppendTime"}, 300, "Invalid timestamp type in message "),
        ({}, -1, "Invalid timestamp type in message "),
        ({"message_timestamp_before_max_ms": 100}, NOW_MS - 101, "is out of range"),
        ({"message_timestamp_before_max_ms": 100}, NOW_MS - 100, None),
    ],
)
def test_otherwise_they_are_refused(
    codec: int, settings: dict[str, object], max_ms: int, why: str | None
) -> None:
    """Each of its records has the time that the header says."""
    data = altered(with_max_timestamp(timed(codec, 100, 300), max_ms), codec=codec | STAMPED)
    if why is None:
        assert error_of(data, LogConfig(**settings)) is None  # type: ignore[arg-type]
        return
    with pytest.raises(RecordsRefused) as refused:
        validate_produced(data, TP, LogConfig(**settings), clock)  # type: ignore[arg-type]
    assert refused.value.error is Errors.INVALID_TIMESTAMP
    assert str(refused.value) == "One or more records have been rejected due to invalid timestamp"
    assert [index for index, _ in refused.value.record_errors] == [0, 1]
    texts = [text for _, text in refused.value.record_errors]
    assert all(why in text for text in texts)
    if why.startswith("Invalid"):
        kind = "PartialDefaultRecord" if codec else "DefaultRecord"
        assert texts[1] == (
            f"{why}{kind}(offset=1, timestamp={max_ms}, key=1 bytes, value=100 bytes). "
            "Producer should not set timestamp type to LogAppendTime."
        )


@pytest.mark.parametrize("codec", READABLE)
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_the_times_of_a_log(tmp_path: Path, codec: int, kind: str) -> None:
    log = open_log(tmp_path, message_timestamp_type=kind)
    lie = with_max_timestamp(timed(codec, 100, 300, 200), 10**13)
    info = log.append_as_leader(lie, 0)
    stored = log.read(0, 1 << 20)
    assert check_crc(stored)
    times = [record.timestamp_ms for record in iter_records(stored)]
    if kind == "LogAppendTime":
        assert (info.log_append_time_ms, times) == (NOW_MS, [NOW_MS] * 3)
        assert log.offset_of_max_timestamp() == (NOW_MS, 0, 0)
    else:
        assert (info.log_append_time_ms, times) == (-1, [100, 300, 200])
        assert log.offset_of_max_timestamp() == (300, 1, 0)
        assert log.offset_for_timestamp(301) is None


@pytest.mark.parametrize("source", READABLE)
@pytest.mark.parametrize("target", READABLE)
def test_a_topic_gets_its_own_codec(source: int, target: int) -> None:
    config = LogConfig(compression_type=NAMES[target])
    good = build_batch(
        [(b"k", b"v" * 300, 1000 + n) for n in range(300)],
        attributes=source,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
        headers=[("h", b"x")],
    )
    data, header = validate_produced(good, TP, config, clock)
    assert check_crc(data)
    assert header == read_header(data)
    assert header.compression == target
    assert list(iter_records(data)) == list(iter_records(good))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 1, 5)
    assert (data is good) == (source == target)
    assert (len(data) < 20000) == (target != 0)
    assert validate_produced(good, TP, CONFIG, clock)[0] is good


def test_a_batch_that_grows_too_large_is_refused() -> None:
    config = LogConfig(compression_type="uncompressed", max_message_bytes=5000)
    assert error_of(batch(100), config) is Errors.MESSAGE_TOO_LARGE
    assert error_of(batch(10), config) is None


@pytest.mark.usefixtures("no_zstd")
def test_a_codec_that_cannot_be_made_is_refused() -> None:
    config = LogConfig(compression_type="zstd")
    assert error_of(batch(), config) is Errors.UNSUPPORTED_COMPRESSION_TYPE
    assert error_of(altered(batch(), codec=ZSTD), config) is None


@pytest.mark.parametrize("codec", READABLE)
def test_compacted_topics_take_every_codec(codec: int) -> None:
    compacted = LogConfig(cleanup_policy="compact")
    assert error_of(batch(codec=codec), compacted) is None
    assert error_of(batch(codec=codec, key=None), compacted) is Errors.INVALID_RECORD


@pytest.mark.parametrize("codec", [codec for codec in READABLE if codec])
@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 1000000])
def test_what_was_compressed_comes_back(codec: int, size: int) -> None:
    for content in (b"x" * size, random.Random(size).randbytes(size)):
        assert decompress(codec, compress(codec, content)) == content


@pytest.mark.skipif(not is_readable(ZSTD), reason="cramjam is not installed")
@pytest.mark.parametrize(("kind", "low", "high"), [("gzip", 1, 9), ("zstd", -5, 22)])
def test_a_topics_level_is_what_its_batches_are_made_with(kind: str, low: int, high: int) -> None:
    """KIP-390: more work, fewer bytes."""
    rng = random.Random(7)
    words = [rng.randbytes(rng.randrange(3, 12)) for _ in range(300)]
    text = b"".join(rng.choice(words) for _ in range(5000))
    good = build_batch([(b"k", text, 1)])
    sizes = {}
    for level in (low, high):
        settings = {f"compression_{kind}_level": level}
        config = LogConfig(compression_type=kind, **settings)  # type: ignore[arg-type]
        data, _ = validate_produced(good, TP, config, clock)
        assert list(iter_records(data)) == list(iter_records(good))
        sizes[level] = len(data)
    assert sizes[high] < sizes[low] <= len(good)


@pytest.mark.skipif(not is_readable(ZSTD), reason="cramjam is not installed")
@pytest.mark.parametrize("codec", [LZ4, ZSTD])
def test_what_is_cut_short_is_an_error(codec: int) -> None:
    whole = compress(codec, random.Random(1).randbytes(1000))
    for cut in (whole[:-5], whole[:20], b"", whole + b"x"):
        with pytest.raises(WireError):
            decompress(codec, cut)

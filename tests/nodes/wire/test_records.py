"""Record batches: layout against kio's reader, rewriting, damage."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch

from nodes.wire.errors import WireError
from nodes.wire.records import (
    add_sequence,
    build_batch,
    check_crc,
    iter_batches,
    iter_records,
    read_header,
    rewrite_base,
    set_log_append_time,
)

RECORDS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=200),
        st.integers(10**12, 2 * 10**12),
    ),
    min_size=1,
    max_size=5,
)


@given(RECORDS, st.sampled_from([0, 1]))
def test_round_trip(records: list[tuple[bytes | None, bytes | None, int]], codec: int) -> None:
    batch = build_batch(records, attributes=codec, headers=[("h", b"1"), ("n", None)])
    assert check_crc(batch)
    read = list(iter_records(batch))
    assert [(r.key, r.value, r.timestamp_ms) for r in read] == records
    assert [r.offset for r in read] == list(range(len(records)))
    assert read[0].headers == (("h", b"1"), ("n", None))


def test_kio_reads_what_we_build() -> None:
    batch = build_batch(
        [(b"k", b"v", 1_700_000_000_000), (None, b"w", 1_700_000_001_000)],
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
    )
    theirs, size = read_batch(batch, 0)
    assert size == len(batch)
    assert (theirs.producer_id, theirs.base_sequence, len(theirs.records)) == (7, 3, 2)
    assert theirs.records[1].value == b"w"


def test_rewriting_the_base_keeps_the_checksum() -> None:
    data = bytearray(b"pad" + build_batch([(None, b"v", 1)]))
    rewrite_base(data, 3, 1234, 7)
    header = read_header(data, 3)
    assert (header.base_offset, header.leader_epoch, header.last_offset) == (1234, 7, 1234)
    assert check_crc(data, 3)


def test_log_append_time_rules_all_records() -> None:
    data = bytearray(build_batch([(None, b"v", 1), (None, b"w", 2)]))
    set_log_append_time(data, 0, len(data), 5000)
    assert check_crc(data)
    assert [r.timestamp_ms for r in iter_records(data)] == [5000, 5000]


def test_batches_are_walked_and_torn_ones_refused() -> None:
    first, second = build_batch([(None, b"a", 1)]), build_batch([(None, b"b", 1)])
    assert [view.position for view in iter_batches(first + second)] == [0, len(first)]
    for damaged in (first + second[:-1], first[:20], b"\0" * 80, first[:16] + b"\1" + first[17:]):
        with pytest.raises(WireError):
            list(iter_batches(damaged))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damaged_records_raise_only_wire_errors(data: st.DataObject) -> None:
    batch = bytearray(build_batch([(b"key", b"value", 5), (b"key", None, 6)], headers=[("h", b"")]))
    at = data.draw(st.integers(0, len(batch) - 1))
    batch[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        list(iter_records(bytes(batch)))


def test_gzip_bomb_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodes.wire.compression.MAX_OUTPUT_BYTES", 1000)
    with pytest.raises(WireError, match="measure"):
        list(iter_records(build_batch([(None, b"\0" * 5000, 1)], attributes=1)))


def test_sequences_wrap() -> None:
    assert add_sequence(2**31 - 1, 1) == 0
    assert add_sequence(-1, 5) == -1

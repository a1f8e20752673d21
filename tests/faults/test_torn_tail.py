"""Logs that are cut, or written to, behind a broker's back."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import pytest

from faults import build
from faults.protocol import FaultFailed
from faults.torn_tail import batches, tear
from nodes.wire.records import build_batch, check_crc, iter_batches, iter_records, rewrite_base


def log_of(batch_count: int, *, zeros: int = 0) -> bytes:
    data = bytearray()
    for offset in range(batch_count):
        batch = bytearray(build_batch([(b"k", b"v" * 100, 1)], headers=[("h", b"1234")]))
        rewrite_base(batch, 0, offset, 3)
        data += batch
    return bytes(data) + b"\0" * zeros


@pytest.mark.parametrize("mode", ["torn", "garbage", "scrambled", "cut"])
def test_tearing_leaves_the_whole_batches_before_it(tmp_path: Path, mode: str) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    segment = folder / "00000000000000000000.log"
    segment.write_bytes(log_of(3, zeros=4096))
    size = len(log_of(1))
    done = tear(segment, mode, cut_bytes=20, rng=random.Random(1))
    data = segment.read_bytes()
    assert done["end"] == 3 * size
    if mode == "cut":
        assert (done["from_offset"], done["next_offset"]) == (2, 3)
    whole = 2 if mode == "cut" else 3
    assert data[: whole * size] == log_of(3)[: whole * size]
    assert len(data) == 3 * size - 20 if mode == "cut" else len(data) > 3 * size
    found = batches(data)
    assert [b[2] for b in found][:whole] == list(range(1, whole + 1))
    if mode == "torn":  # it looks like the next batch, and is not all there
        base_offset, length = struct.unpack_from(">qi", data, 3 * size)
        assert base_offset == 3
        assert 3 * size + 12 + length > len(data)
        assert len(found) == 3
    if mode == "scrambled":  # it is the next batch in all but its checksum
        assert [b[2] for b in found] == [1, 2, 3, 4]
        assert [check_crc(data, b[0], b[1]) for b in found] == [True, True, True, False]
        (record,) = iter_records(data[3 * size :])
        assert (record.offset, record.key, record.headers) == (3, b"k", (("h", b"1234"),))
        assert record.value == b"v" * 80 + bytes(20 * [ord("v") ^ 0xFF])


def test_of_several_records_the_last_is_scrambled_and_what_is_compressed_as_it_is(
    tmp_path: Path,
) -> None:
    several = [(None, b"", 1), (b"key", b"one" * 50, 300), (b"k", b"other", 1_000_000)]
    for attributes in (0, 1):
        segment = tmp_path / f"{attributes}.log"
        segment.write_bytes(build_batch(several, attributes=attributes))
        end = tear(segment, "scrambled", cut_bytes=20, rng=random.Random(1))["end"]
        assert isinstance(end, int)
        added = segment.read_bytes()[end:]
        assert not check_crc(added)
        if not attributes:
            values = [record.value for record in iter_records(added)]
            assert values == [b"", b"one" * 50, bytes(byte ^ 0xFF for byte in b"other")]


def test_batches_agree_with_the_brokers_own_reader() -> None:
    data = log_of(5)
    assert [b[0] for b in batches(data)] == [view.position for view in iter_batches(data)]


def test_torn_tail_kills_tears_and_restarts(ctx: Any, entry: Any, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(log_of(2))
    (tmp_path / "u-0").mkdir()
    (tmp_path / "u-0" / "00000000000000000000.log").write_bytes(b"")
    fault = build(entry("torn-tail", target="3"))
    fault.inject(ctx)
    assert fault.detail["partition"] == "t-0"
    assert ctx.cluster.calls == [("kill", 3)]
    fault.heal(ctx)
    assert ctx.cluster.calls == [("kill", 3), ("start", 3)]
    with pytest.raises(FaultFailed, match="u-0"):
        build(entry("torn-tail", target="3", partition="u-0")).inject(ctx)


def test_who_is_torn_may_have_been_stopped_in_order_before(
    ctx: Any, entry: Any, tmp_path: Path
) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(log_of(2))
    fault = build(entry("torn-tail", target="3", stopped_first=True))
    fault.inject(ctx)
    assert ctx.cluster.calls == [("stop", 3), ("start", 3), ("kill", 3)]
    fault.heal(ctx)
    assert ctx.cluster.calls[3:] == [("start", 3)]

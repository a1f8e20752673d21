"""``torn-tail``: kill -9 and a log whose end is not what the broker meant to write.

A crash in the middle of an append leaves a batch whose header promises more than follows, or bytes
that no CRC covers. What a broker must do on start: find the last sound batch, cut the rest.

mode ``torn``: a copy of the last batch, with the next offset, cut in half, is added after the true
end: nothing that was acknowledged is touched. mode ``garbage``: random bytes are added there. mode
``scrambled``: the copy is all there, but the end of its last value is not what was meant, as when
not every page of preallocated space was written: only its checksum tells. mode ``cut``: the last
``cut_bytes`` of the last batch are removed, as when the disk lost what was never flushed: the
broker itself must then fetch that batch again from its leader. The true end is found by walking the
batches: segments may be preallocated, so the file's size says nothing.
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Final

from faults.base import BaseFault
from faults.params import Params
from faults.protocol import Capability, Context, Entry, FaultFailed
from faults.targets import parse_partition, read_targets, resolve_one

_HEADER: Final = struct.Struct(">qi")  # base offset, length of what follows
_FULL_HEADER: Final = 61
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_ATTRIBUTES_AT: Final = 22
_COMPRESSION: Final = 7
_DELTA_AT: Final = 23
MODES: Final = ("torn", "garbage", "scrambled", "cut")


def batches(data: bytes) -> list[tuple[int, int, int]]:
    """(position, size, next offset) of every whole batch, up to the true end."""
    found, position = [], 0
    while position + _FULL_HEADER <= len(data):
        base_offset, length = _HEADER.unpack_from(data, position)
        size = length + _HEADER.size
        if size < _FULL_HEADER or position + size > len(data) or data[position + 16] != 2:
            break
        (delta,) = _LAST_OFFSET_DELTA.unpack_from(data, position + _DELTA_AT)
        found.append((position, size, base_offset + delta + 1))
        position += size
    return found


def tear(segment: Path, mode: str, *, cut_bytes: int, rng: random.Random) -> dict[str, int | str]:
    """Damage the end of one segment file in place; what was done."""
    data = segment.read_bytes()
    whole = batches(data)
    if not whole:
        raise FaultFailed(f"{segment.name} of {segment.parent.name} holds no batch")
    position, size, next_offset = whole[-1]
    end = position + size
    with segment.open("r+b") as file:
        if mode == "cut":
            cut = min(cut_bytes, size - 1)
            file.seek(end - cut)
            file.write(b"\0" * cut)
            file.truncate(end - cut)
            first, _ = _HEADER.unpack_from(data, position)
            offsets = {"from_offset": first, "next_offset": next_offset}  # what is lost with it
            return {"mode": mode, "end": end, "cut_bytes": cut, **offsets}
        copy = bytearray(data[position:end])
        _HEADER.pack_into(copy, 0, next_offset, size - _HEADER.size)
        if mode == "garbage":
            added = rng.randbytes(max(1, size // 2))
        elif mode == "scrambled":
            added = _scrambled(bytes(copy), cut_bytes)
        else:
            added = bytes(copy[: max(_FULL_HEADER, size // 2)])
        file.seek(end)
        file.write(added)
        file.truncate(end + len(added))
    return {"mode": mode, "end": end, "added_bytes": len(added), "torn_offset": next_offset}


def _scrambled(batch: bytes, cut_bytes: int) -> bytes:
    """The end of its last record's value is inverted, so that the damage is real whatever was
    there. All else stays: a reader that trusts the batch can decode it. One that is compressed is
    inverted as it is."""
    begin, end = _FULL_HEADER, len(batch)
    if not batch[_ATTRIBUTES_AT] & _COMPRESSION:
        begin, end = _last_value(batch)
    first = max(begin, end - cut_bytes)
    return batch[:first] + bytes(byte ^ 0xFF for byte in batch[first:end]) + batch[end:]


def _last_value(batch: bytes) -> tuple[int, int]:
    """Where in a batch the value of its last record begins and ends."""
    record, value = _FULL_HEADER, (_FULL_HEADER, len(batch))
    while record < len(batch):
        size, at = _varint(batch, record)
        record = at + size
        _, at = _varint(batch, at + 1)  # how much later than the first, after its attributes
        _, at = _varint(batch, at)  # and where
        key_size, at = _varint(batch, at)
        value_size, at = _varint(batch, at + max(key_size, 0))
        value = at, at + max(value_size, 0)
    return value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number there, and where it ends."""
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            return (number >> 1) ^ -(number & 1), at


class TornTail(BaseFault):
    """Parameters: target; partition ("t-0", default: one with records, drawn); mode; cut_bytes;
    stopped_first: the broker is stopped in order and started again before, so that whatever it
    leaves behind at such a stop is of the life before (default: no; needs CONTROLLED_STOP).

    inject kills the broker and damages the log; heal starts it again.
    """

    name = "torn-tail"
    needs = frozenset({Capability.KILL, Capability.LOG_FILES})

    def __init__(self, entry: Entry) -> None:
        super().__init__(entry)
        params = Params(entry)
        (self.target, *_) = read_targets(params)
        self.partition = params.optional_text("partition")
        if self.partition is not None and parse_partition(self.partition) is None:
            raise params.error(
                "partition", f"{self.partition!r} is not allowed; allowed: topic-partition"
            )
        self.mode = params.choice("mode", MODES, "torn")
        self.cut_bytes = params.integer("cut_bytes", 20, low=1)
        self.stopped_first = params.flag("stopped_first", False)
        params.done()

    def apply(self, ctx: Context) -> None:
        node = resolve_one(self.target, ctx.view, ctx.rng)
        self.nodes = [node]
        if self.stopped_first:
            self.stop(ctx, node)
            self.start(ctx, node)
        self.kill(ctx, node)
        segment = self._choose(Path(ctx.nodes.log_dir(node)), ctx.rng)
        done = tear(segment, self.mode, cut_bytes=self.cut_bytes, rng=ctx.rng)
        self.detail |= {"partition": segment.parent.name, "segment": segment.name, **done}
        self.took_hold = True

    def _choose(self, log_dir: Path, rng: random.Random) -> Path:
        """The active segment of the partition asked for, or of one that has records."""
        if self.partition is not None:
            segments = sorted((log_dir / self.partition).glob("*.log"))
            if not segments:
                raise FaultFailed(f"there is no log of {self.partition} in {log_dir}")
            return segments[-1]
        filled = []
        for folder in sorted(
            p for p in log_dir.iterdir() if parse_partition(p.name) and p.is_dir()
        ):
            segments = sorted(folder.glob("*.log"))
            if segments and batches(segments[-1].read_bytes()):
                filled.append(segments[-1])
        if not filled:
            raise FaultFailed(f"no partition in {log_dir} has records in its active segment")
        return rng.choice(filled)

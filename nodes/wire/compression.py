"""Kafka's record compression by codec number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.

A broker stores compressed batches as they come; it looks inside to count what a producer sends, and
to read single records (group offsets, `offset_for_timestamp`). gzip comes with Python; the other
codecs are used when their package is installed and are an error otherwise. Java's snappy frames its
blocks (magic ``82 SNAPPY 00``), librdkafka's does not: both are read.

What comes out is bounded, before it is made, so that a small hostile batch cannot fill the memory.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import struct
import zlib
from functools import cache
from typing import Any, Final

from nodes.wire.errors import WireError

NAMES: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
MAX_OUTPUT_BYTES: Final = 64 << 20
MAX_EXPANSION: Final = {1: 1032, 2: 22, 3: 255, 4: 1 << 15}
"""Codec to how many bytes one compressed byte can stand for at the most, by its format: deflate's
258 bytes in 2 bits; snappy's copies of 64 in 3 bytes; lz4's run lengths; zstd's blocks of 128 KiB
that repeat one byte, in 4."""
_PACKAGES: Final = {2: "snappy", 3: "lz4.frame", 4: "zstandard"}
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"


@cache
def is_readable(codec: int) -> bool:
    """Whether `decompress` can open it here."""
    if codec not in _PACKAGES:
        return codec in NAMES
    try:
        return importlib.util.find_spec(_PACKAGES[codec]) is not None
    except ModuleNotFoundError:  # the parent of a dotted name
        return False


def compress(codec: int, data: bytes) -> bytes:
    """Only what tests and tools need: none and gzip, others where installed."""
    if codec == 0:
        return data
    if codec == 1:
        return gzip.compress(data, mtime=0)
    if codec == 2:
        return bytes(_package(codec).compress(data))
    if codec == 3:
        return bytes(_package(codec).compress(data))
    if codec == 4:
        return bytes(_package(codec).ZstdCompressor().compress(data))
    raise WireError(f"unknown compression codec {codec}")


def decompress(codec: int, data: bytes) -> bytes:
    """The content of a compressed batch; WireError when it is broken, too large or not readable."""
    try:
        if codec == 1:
            return _gunzip(data)
        if codec == 2:
            return _unsnappy(data)
        if codec == 3:
            return _unlz4(data)
        if codec == 4:
            decompressor = _package(codec).ZstdDecompressor()
            with decompressor.stream_reader(data) as stream:
                return _bounded(stream.read(MAX_OUTPUT_BYTES + 1))
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"broken {NAMES.get(codec, codec)} data: {error}") from error
    raise WireError(f"unknown compression codec {codec}")


def _package(codec: int) -> Any:
    try:
        return importlib.import_module(_PACKAGES[codec])
    except ImportError:
        raise WireError(f"no {NAMES[codec]} package is installed to read this batch") from None


def _bounded(data: bytes | bytearray) -> bytes:
    if len(data) > MAX_OUTPUT_BYTES:
        raise WireError("compressed batch grows beyond all measure")
    return bytes(data)


def _gunzip(data: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    out = stream.decompress(data, MAX_OUTPUT_BYTES + 1)
    if not stream.eof and len(out) <= MAX_OUTPUT_BYTES:
        raise WireError("gzip data is cut short")
    return _bounded(out)


def _unlz4(data: bytes) -> bytes:
    stream = _package(3).LZ4FrameDecompressor()
    out: bytes = stream.decompress(data, max_length=MAX_OUTPUT_BYTES + 1)
    if not stream.eof and len(out) <= MAX_OUTPUT_BYTES:
        raise WireError("lz4 data is cut short")
    return _bounded(out)


def _unsnappy_block(data: bytes) -> bytes:
    """A block begins with its content's size, which a library believes before it unpacks: a lie
    about it would cost that much memory."""
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > len(data) * MAX_EXPANSION[2]:
        raise WireError("snappy block claims more than it can hold")
    return bytes(_package(2).decompress(data))


def _unsnappy(data: bytes) -> bytes:
    if not data.startswith(_SNAPPY_MAGIC):
        return _bounded(_unsnappy_block(data))
    at, out = 16, bytearray()
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if size < 0 or at + size > len(data):
            raise WireError("snappy block does not fit into its batch")
        out += _unsnappy_block(data[at : at + size])
        at += size
        _bounded(out)
    return bytes(out)

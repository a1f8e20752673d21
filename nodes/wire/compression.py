"""Kafka's record compression by codec number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.

A broker stores compressed batches as they come; only readers of single records (tests, group
offsets, `offset_for_timestamp`) need to look inside. gzip comes with Python; the other codecs are
used when their package is installed and are an error otherwise. Java's snappy frames its blocks
(magic ``82 SNAPPY 00``), librdkafka's does not: both are read.

What comes out is bounded, so that a small hostile batch cannot fill the memory.
"""

from __future__ import annotations

import gzip
import importlib
import struct
import zlib
from typing import Any, Final

from nodes.wire.errors import WireError

NAMES: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
MAX_OUTPUT_BYTES: Final = 64 << 20
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"


def compress(codec: int, data: bytes) -> bytes:
    """Only what tests and tools need: none and gzip, others where installed."""
    if codec == 0:
        return data
    if codec == 1:
        return gzip.compress(data, mtime=0)
    if codec == 2:
        return bytes(_package("snappy", codec).compress(data))
    if codec == 3:
        return bytes(_package("lz4.frame", codec).compress(data))
    if codec == 4:
        return bytes(_package("zstandard", codec).ZstdCompressor().compress(data))
    raise WireError(f"unknown compression codec {codec}")


def decompress(codec: int, data: bytes) -> bytes:
    """The content of a compressed batch; WireError when it is broken, too large or not readable."""
    try:
        if codec == 1:
            return _gunzip(data)
        if codec == 2:
            return _unsnappy(data)
        if codec == 3:
            return _bounded(_package("lz4.frame", codec).decompress(data))
        if codec == 4:
            decompressor = _package("zstandard", codec).ZstdDecompressor()
            with decompressor.stream_reader(data) as stream:
                return _bounded(stream.read(MAX_OUTPUT_BYTES + 1))
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"broken {NAMES.get(codec, codec)} data: {error}") from error
    raise WireError(f"unknown compression codec {codec}")


def _package(name: str, codec: int) -> Any:
    try:
        return importlib.import_module(name)
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


def _unsnappy(data: bytes) -> bytes:
    package = _package("snappy", 2)
    if not data.startswith(_SNAPPY_MAGIC):
        return _bounded(package.decompress(data))
    at, out = 16, bytearray()
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if size < 0 or at + size > len(data):
            raise WireError("snappy block does not fit into its batch")
        out += package.decompress(data[at : at + size])
        at += size
        _bounded(out)
    return bytes(out)

"""Kafka's record compression by codec number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.

A broker stores compressed batches as they come; it looks inside for what producers may not lie
about (how many records, how late), for keys, and where a topic wants another codec. gzip comes with
Python, the others with cramjam; without it they are stored unread. Java's snappy frames its blocks
(magic ``82 SNAPPY 00``), librdkafka's does not: both are read, and Java's is written. Java's lz4
reads frames of independent blocks only, so cramjam's own frames are not written.

What comes out is bounded, before it is made, so that a small hostile batch cannot fill the memory.
"""

from __future__ import annotations

import gzip
import importlib
import importlib.util
import struct
import zlib
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from nodes.wire.errors import WireError

NAMES: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
CODECS: Final = {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
"""A topic's or broker's `compression.type` other than `producer`."""
MAX_OUTPUT_BYTES: Final = 64 << 20
MAX_EXPANSION: Final = {1: 1032, 2: 22, 3: 255, 4: 1 << 15}
"""Codec to how many bytes one compressed byte can stand for at the most, by its format: deflate's
258 bytes in 2 bits; snappy's copies of 64 in 3 bytes; lz4's run lengths; zstd's blocks of 128 KiB
that repeat one byte, in 4."""
_PACKAGE: Final = "cramjam"
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
_SNAPPY_HEAD: Final = _SNAPPY_MAGIC + struct.pack(">ii", 1, 1)
#: Magic; version 1, independent blocks, no checksums; blocks of 64 KiB; the header's checksum.
_LZ4_HEAD: Final = bytes.fromhex("04224d18604082")
_ZSTD_LEVEL: Final = 3
_BLOCK_BYTES: Final = 64 << 10
_LZ4_STORED: Final = 1 << 31
_FIRST_OUTPUT_BYTES: Final = 64 << 10
_TOO_SMALL: Final = "whole buffer"


@cache
def is_readable(codec: int) -> bool:
    """Whether `decompress` can open it here, and `compress` make it."""
    if codec in (0, 1):
        return True
    return codec in NAMES and importlib.util.find_spec(_PACKAGE) is not None


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """The content of a compressed batch; WireError when there is no such codec here.

    `level` is gzip's or zstd's (KIP-390), None their default in Kafka; the package that makes lz4
    has one only.
    """
    if codec == 0:
        return data
    if codec == 1:
        return gzip.compress(data, -1 if level is None else level, mtime=0)
    package = _package(codec)
    if codec == 2:
        blocks = (bytes(package.snappy.compress_raw(block)) for block in _blocks(data))
        return _SNAPPY_HEAD + b"".join(struct.pack(">i", len(b)) + b for b in blocks)
    if codec == 3:
        return _lz4_frame(package, data)
    return bytes(package.zstd.compress(data, _ZSTD_LEVEL if level is None else level))


def _blocks(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _BLOCK_BYTES] for at in range(0, len(data), _BLOCK_BYTES))


def _lz4_frame(package: Any, data: bytes) -> bytes:
    out = bytearray(_LZ4_HEAD)
    for block in _blocks(data):
        packed = bytes(package.lz4.compress_block(block, store_size=False))
        if len(packed) < len(block):
            out += struct.pack("<I", len(packed)) + packed
        else:
            out += struct.pack("<I", len(block) | _LZ4_STORED) + block
    return bytes(out) + bytes(4)


def decompress(codec: int, data: bytes) -> bytes:
    """The content of a compressed batch; WireError when it is broken, too large or not readable."""
    try:
        if codec == 1:
            return _gunzip(data)
        if codec == 2:
            return _unsnappy(data)
        if codec in (3, 4):
            return _unframe(codec, data)
    except WireError:
        raise
    except Exception as error:
        raise WireError(f"broken {NAMES.get(codec, codec)} data: {error}") from error
    raise WireError(f"unknown compression codec {codec}")


def _package(codec: int) -> Any:
    if codec not in NAMES:
        raise WireError(f"unknown compression codec {codec}")
    try:
        return importlib.import_module(_PACKAGE)
    except ImportError:
        raise WireError(
            f"no {_PACKAGE} package is installed to read or write {NAMES[codec]}"
        ) from None


def _unframe(codec: int, data: bytes) -> bytes:
    """lz4 and zstd frames do not say how long they get: ever larger buffers, up to the bound."""
    module = _package(codec).lz4 if codec == 3 else _package(codec).zstd
    size = min(max(_FIRST_OUTPUT_BYTES, 8 * len(data)), MAX_OUTPUT_BYTES)
    while True:
        out = bytearray(size)
        try:
            used: int = module.decompress_into(data, out)
        except Exception as error:
            if _TOO_SMALL not in str(error):
                raise
            if size == MAX_OUTPUT_BYTES:
                raise WireError("compressed batch grows beyond all measure") from None
            size = min(8 * size, MAX_OUTPUT_BYTES)
        else:
            return bytes(memoryview(out)[:used])


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_OUTPUT_BYTES:
        raise WireError("compressed batch grows beyond all measure")


def _gunzip(data: bytes) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    out = stream.decompress(data, MAX_OUTPUT_BYTES + 1)
    if not stream.eof and len(out) <= MAX_OUTPUT_BYTES:
        raise WireError("gzip data is cut short")
    _check_size(len(out))
    return out


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
    return bytes(_package(2).snappy.decompress_raw(data))


def _unsnappy(data: bytes) -> bytes:
    if not data.startswith(_SNAPPY_MAGIC):
        block = _unsnappy_block(data)
        _check_size(len(block))
        return block
    at, out = 16, bytearray()
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if size < 0 or at + size > len(data):
            raise WireError("snappy block does not fit into its batch")
        out += _unsnappy_block(data[at : at + size])
        at += size
        _check_size(len(out))
    return bytes(out)

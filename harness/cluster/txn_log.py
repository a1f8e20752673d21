"""ZooKeeper's transaction log, read for what no watch could show, or not when it was.

A watch tells that a znode changed; what was in it is read afterwards, and may have been overwritten
(or removed) meanwhile. The server's log holds every write in order, with its data and its
wall-clock time: leaderships that were missed, and the steps of topic deletions, are taken from it.

Layout (big-endian; org.apache.zookeeper.server.persistence.FileTxnLog)::

    file    "ZKLG", version i32 = 2, database id i64, then entries, then zeros (preallocated)
    entry   checksum i64, length i32, body, 0x42
    body    session i64, cxid i32, zxid i64, time_ms i64, type i32, record
    create  path, data, acl vector, ephemeral bool, parent version i32    (types 1, 15, 19, 21)
    set     path, data, version i32                                        (type 5)
    delete  path                                                           (types 2, 20)
    multi   count i32, then each: type i32, record as a buffer             (type 14)
    close   count i32, then each: path of an ephemeral znode that goes     (type -11)
    string / buffer: length i32 and bytes; length -1: null

The server is still running while it is read: what is torn at the end is left out. Which entries a
topic's recreation belongs to is kept by the zxid of its creation, which is the znode's czxid. A
session that ends takes its ephemeral znodes along in the one entry of its close, which names them
since ZooKeeper 3.6 (``zookeeper.closeSessionTxn.enabled``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from harness.cluster import state
from harness.sut.protocol import ClockTie

if TYPE_CHECKING:
    from harness.cluster.record import Record
    from harness.cluster.watcher import LeadershipWatcher

_FILE_HEADER: Final = struct.Struct(">4siq")
_ENTRY: Final = struct.Struct(">qi")
_TXN: Final = struct.Struct(">qiqqi")
_I32: Final = struct.Struct(">i")
CREATE: Final = frozenset({1, 15, 19, 21})
DELETE: Final = frozenset({2, 20})
SET_DATA: Final = 5
_DELETED: Final = 2
_MULTI: Final = 14
_CLOSE: Final = -11


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One write of one znode, its version counted from its creation."""

    path: str
    data: bytes
    czxid: int
    version: int
    mtime: int
    """Wall clock, ms; named as in kazoo's ZnodeStat, for which it stands in."""


def writes(folder: Path, suffix: str = "") -> Iterator[Write]:
    """Every create and set of paths that end in ``suffix``, oldest first."""
    czxids: dict[str, int] = {}
    for zxid, time_ms, kind, record in logged(folder):
        name, at = buffer(record, 0)
        znode = name.decode()
        if not znode.endswith(suffix):
            continue
        if kind in DELETE:
            czxids.pop(znode, None)
            continue
        data, at = buffer(record, at)
        if kind in CREATE:
            czxids[znode] = zxid
            version = 0
        else:
            version = _I32.unpack_from(record, at)[0]
        yield Write(
            path=znode,
            data=data,
            czxid=czxids.get(znode, 0),
            version=version,
            mtime=time_ms,
        )


def complete(watcher: LeadershipWatcher, folder: Path, root: str) -> int:
    """Have the watcher write the versions that it missed; returns how many there were."""
    filled = 0
    for write in writes(folder, "/state"):
        where = state.parse_state_path(write.path)
        if where is not None and write.path.startswith(root + state.TOPICS):
            filled += watcher.add_missed(*where, write.data, write)
    return filled


_PROCESS: Final = "zk-log"
_HALF_MS: Final = 500_000


def deletion_steps(folder: Path, root: str) -> Iterator[tuple[str, str, int]]:
    """(topic, ``requested`` or ``gone``, wall ms) of every topic deletion, oldest first."""
    requests, topics = f"{root}{state.DELETE_TOPICS}/", f"{root}{state.TOPICS}/"
    for _, time_ms, kind, record in logged(folder):
        path, _ = buffer(record, 0)
        znode = path.decode()
        if kind in CREATE and znode.startswith(requests):
            yield znode.removeprefix(requests), "requested", time_ms
        elif kind in DELETE and znode.startswith(topics):
            topic = znode.removeprefix(topics)
            if "/" not in topic:  # the topic's own znode goes last
                yield topic, "gone", time_ms


def record_deletions(record: Record, folder: Path, root: str, clock: ClockTie) -> int:
    """Write ``topic_deletion`` rows, dated by ZooKeeper's own clock; returns how many."""
    count = 0
    for topic, step, wall_ms in deletion_steps(folder, root):
        record(
            "topic_deletion",
            t=clock.monotonic_ns(wall_ms) + _HALF_MS,
            error_ns=clock.error_ns,
            process=_PROCESS,
            topic=topic,
            step=step,
            commit_ms=wall_ms,
        )
        count += 1
    return count


def logged(folder: Path) -> Iterator[tuple[int, int, int, bytes]]:
    """`_operations` of all of the log's files, oldest first."""
    for path in sorted(folder.glob("log.*"), key=lambda p: int(p.suffix[1:], 16)):
        yield from _operations(path.read_bytes())


def _operations(content: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(zxid, time, type, record) of every single operation, multis taken apart."""
    if len(content) < _FILE_HEADER.size or content[:4] != b"ZKLG":
        return
    at = _FILE_HEADER.size
    while at + _ENTRY.size <= len(content):
        _, length = _ENTRY.unpack_from(content, at)
        at += _ENTRY.size
        end = at + length
        if length < _TXN.size or end >= len(content) or content[end] != 0x42:
            return
        _, _, zxid, time_ms, kind = _TXN.unpack_from(content, at)
        yield from _single(zxid, time_ms, kind, content[at + _TXN.size : end])
        at = end + 1


def _single(
    zxid: int, time_ms: int, kind: int, record: bytes
) -> Iterator[tuple[int, int, int, bytes]]:
    if kind == _MULTI:
        (count,) = _I32.unpack_from(record)
        at = _I32.size
        for _ in range(count):
            (inner,) = _I32.unpack_from(record, at)
            part, at = buffer(record, at + _I32.size)
            yield from _single(zxid, time_ms, inner, part)
    elif kind == _CLOSE and len(record) >= _I32.size:
        (count,) = _I32.unpack_from(record)
        at = _I32.size
        for _ in range(count):
            start = at
            _, at = buffer(record, start)
            yield zxid, time_ms, _DELETED, record[start:at]
    elif kind in CREATE or kind in DELETE or kind == SET_DATA:
        yield zxid, time_ms, kind, record


def buffer(record: bytes, at: int) -> tuple[bytes, int]:
    (length,) = _I32.unpack_from(record, at)
    at += _I32.size
    return (record[at : at + length], at + length) if length >= 0 else (b"", at)

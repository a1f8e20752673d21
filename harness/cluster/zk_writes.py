"""The controller's business as ZooKeeper's transaction log holds it: `zk_write` rows.

Five kinds of znodes say who was in office and what was decided: partitions' states, topics (with
their assignments), ``/controller``, ``/controller_epoch`` and the brokers' registrations. In the
log their writes have one order (the zxid) and none is missing, so whoever judges decisions by these
rows needs no clock and no tolerance. Content that is not what Kafka writes is told with null fields
rather than left out: that a znode was written is a fact of its own.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from harness.cluster import state
from harness.cluster.record import Record
from harness.cluster.txn_log import CREATE, DELETE, SET_DATA, buffer, logged
from harness.sut.protocol import ClockTie

PROCESS: Final = "zk-log"
_HALF_MS: Final = 500_000
_VERSION: Final = struct.Struct(">i")
_TOPIC: Final = re.compile(rf"{state.TOPICS}/([^/]+)$")
_BROKER: Final = re.compile(rf"{state.BROKER_IDS}/(\d+)$")
Row = dict[str, Any]


def writes_of_office(folder: Path, root: str) -> Iterator[Row]:
    """Fields of `zk_write` rows (without times but ``commit_ms``), oldest first."""
    known: dict[str, list[Row]] = {}
    """By znode, what it last said: a removal says whose it was."""
    for zxid, time_ms, kind, record in logged(folder):
        name, at = buffer(record, 0)
        path = name.decode()
        if not path.startswith(root):
            continue
        common = {"zxid": zxid, "commit_ms": time_ms}
        if kind in DELETE:
            for row in known.pop(path, ()):
                yield {**row, **common, "step": "removed"}
            continue
        data, at = buffer(record, at)
        version = _VERSION.unpack_from(record, at)[0] if kind == SET_DATA else 0
        said = _said(path.removeprefix(root), data, version)
        if said:
            known[path] = [_identity(row) for row in said][:1]
            step = "created" if kind in CREATE else "set"
            for row in said:
                yield {**row, **common, "step": step}


def record_writes(record: Record, folder: Path, root: str, clock: ClockTie) -> int:
    """Write `zk_write` rows, dated by ZooKeeper's own clock; returns how many."""
    count = 0
    for row in writes_of_office(folder, root):
        t = clock.monotonic_ns(row["commit_ms"]) + _HALF_MS
        record("zk_write", t=t, error_ns=clock.error_ns + _HALF_MS, process=PROCESS, **row)
        count += 1
    return count


def _identity(row: Mapping[str, Any]) -> Row:
    """What a removal is told with: a topic goes as a whole."""
    names = ("what", "topic", "node") if row["what"] == "topic" else ("what", *_WHOSE)
    return {name: row[name] for name in names if row.get(name) is not None}


_WHOSE: Final = ("topic", "partition", "node")


def _said(path: str, data: bytes, version: int) -> list[Row]:
    """The rows that one write of one znode makes; none for other znodes."""
    partition = state.parse_state_path(path)
    try:
        if partition is not None:
            return [_state(*partition, data, version)]
        if found := _TOPIC.match(path):
            return _topic(found[1], data)
        if found := _BROKER.match(path):
            return [{"what": "broker", "node": int(found[1])}]
        if path == state.CONTROLLER:
            return [{"what": "controller", "node": state.parse_controller(data)}]
        if path == state.CONTROLLER_EPOCH:
            return [{"what": "controller_epoch", "controller_epoch": int(data)}]
    except (ValueError, KeyError, TypeError, AttributeError):
        what = path.strip("/").partition("/")[0]
        if partition is not None:
            return [{"what": "state", "topic": partition[0], "partition": partition[1]}]
        return [{"what": "topic" if what == "brokers" else what}]
    return []


def _state(topic: str, partition: int, data: bytes, version: int) -> Row:
    parsed = state.parse_partition(topic, partition, data, version, ())
    return {
        "what": "state",
        "topic": topic,
        "partition": partition,
        "leader": parsed.leader,
        "leader_epoch": parsed.leader_epoch,
        "controller_epoch": parsed.controller_epoch,
        "partition_epoch": version,
        "isr": list(parsed.isr),
    }


def _topic(name: str, data: bytes) -> list[Row]:
    """A row a partition; a topic without any is told all the same."""
    replicas = state.parse_topic(name, data).replicas
    return [
        {"what": "topic", "topic": name, "partition": number, "replicas": list(assigned)}
        for number, assigned in sorted(replicas.items())
    ] or [{"what": "topic", "topic": name}]

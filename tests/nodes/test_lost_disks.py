"""Whole brokers that lose a log directory (KIP-112), while they run or before they start."""

from __future__ import annotations

import errno
import json
import os
import threading
from pathlib import Path

import pytest

from nodes.wire.apis import ApiKey
from tests.jsonl import whole_rows
from tests.kip291.parts import RunningBroker, eventually
from tests.kip291.requests import request
from tests.nodes.controller.memory import MemoryZooKeeper
from tests.nodes.test_whole_broker import Start, create, produce, start, tree

__all__ = ["start", "tree"]

STORAGE_ERROR = 56


def test_a_broker_lives_as_long_as_one_of_its_disks(
    tree: MemoryZooKeeper, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KIP-112: who else has what lay on the broken one leads it, who has not is without a leader;
    the rest goes on, and what is new is made where it can be written."""
    halted = threading.Event()
    monkeypatch.setattr("nodes.broker._halt", halted.set)
    broken: list[str] = []
    pwrite = os.pwrite

    def writes(fd: int, data: bytes, at: int) -> int:
        if broken and os.readlink(f"/proc/self/fd/{fd}").startswith(tuple(broken)):
            raise OSError(errno.EIO, "planted")
        return pwrite(fd, data, at)

    monkeypatch.setattr(os, "pwrite", writes)
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    broker, other = start(log_dirs=f"{first},{second}"), start(broker_id="2")
    eventually(lambda: "/brokers/ids/2" in tree.nodes)

    def made(topic: str, *replicas: list[int]) -> int:
        rows = [{"partition_index": p, "broker_ids": ids} for p, ids in enumerate(replicas)]
        row = {"name": topic, "num_partitions": -1, "replication_factor": -1, "assignments": rows}
        asked = request(ApiKey.CREATE_TOPICS, 5, topics=[row], timeout=30_000)
        return int(broker.client().ask(asked).topics[0].error_code)

    def leader(topic: str, partition: int) -> int:
        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        return int(json.loads(tree.nodes[path].data)["leader"])

    def error(of: RunningBroker, topic: str, partition: int = 0) -> int:
        return int(produce(of, topic, partition=partition).error_code)

    # Made in turn: the first and the third are on the first disk.
    partitions = [("both", 0), ("own", 0), ("own", 1)]
    for topic, replicas in (("both", [[1, 2]]), ("own", [[1], [1]])):
        assert made(topic, *replicas) == 0
        eventually(lambda topic=topic: error(broker, topic) == 0)
    assert [error(broker, *p) for p in partitions] == [0, 0, 0]
    broken.append(first)
    assert error(broker, "both") == STORAGE_ERROR
    eventually(lambda: [leader(*p) for p in partitions] == [2, 1, -1])
    eventually(lambda: error(other, "both") == 0)
    assert [error(broker, *p) for p in partitions] == [STORAGE_ERROR, 0, STORAGE_ERROR]
    assert made("new", [1]) == 0
    eventually(lambda: error(broker, "new") == 0)
    asked = request(ApiKey.DESCRIBE_LOG_DIRS, 1, topics=None)
    found = {d.log_dir: d for d in broker.client().ask(asked).results}
    assert {name: int(d.error_code) for name, d in found.items()} == {
        first: STORAGE_ERROR,
        second: 0,
    }
    assert sorted(topic.name for topic in found[second].topics) == ["new", "own"]
    offline = broker.server.metrics.value(
        "kafka.server:type=ReplicaManager,name=OfflineReplicaCount"
    )
    lost = broker.server.metrics.value("kafka.log:type=LogManager,name=OfflineLogDirectoryCount")
    assert (offline, lost) == (2, 1)
    eventually(lambda: not [n for n in tree.nodes if n.startswith("/log_dir_event_notification/")])
    assert not halted.is_set()
    broken.append(second)
    assert error(broker, "own") == STORAGE_ERROR
    assert halted.wait(60)
    broken.clear()


def test_a_disk_that_cannot_be_read_is_lost_as_well(
    tree: MemoryZooKeeper, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LocalLog.read: the first fetch that it refuses takes it out, and others lead."""
    broken: list[str] = []
    pread = os.pread

    def reads(fd: int, size: int, at: int) -> bytes:
        if broken and os.readlink(f"/proc/self/fd/{fd}").startswith(tuple(broken)):
            raise OSError(errno.EIO, "planted")
        return pread(fd, size, at)

    monkeypatch.setattr(os, "pread", reads)
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    broker, other = start(log_dirs=f"{first},{second}"), start(broker_id="2")
    eventually(lambda: "/brokers/ids/2" in tree.nodes)
    rows = [{"partition_index": p, "broker_ids": [1, 2]} for p in (0, 1)]
    row = {"name": "t", "num_partitions": -1, "replication_factor": -1, "assignments": rows}
    broker.client().ask(request(ApiKey.CREATE_TOPICS, 5, topics=[row], timeout=30_000))
    for partition in (0, 1):
        eventually(lambda p=partition: produce(broker, "t", partition=p).error_code == 0)
    produce(broker, "t")
    broken.append(first)
    assert fetch(broker, "t", 0, offset=1) == STORAGE_ERROR
    eventually(lambda: produce(other, "t").error_code == 0)
    assert (fetch(broker, "t", 0), fetch(broker, "t", 1)) == (STORAGE_ERROR, 0)
    broken.clear()


def test_a_broker_whose_first_disk_cannot_be_read_starts_on_the_others(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LogManager.createAndValidateLogDirs. It ends with the last one, as if both had been lost."""
    halted = threading.Event()
    monkeypatch.setattr("nodes.broker._halt", halted.set)
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("no directory")
    broker = start(log_dirs=f"{first},{second}")
    assert (second / "metrics.url").read_text().startswith("http://127.0.0.1:")
    bean = "kafka.log:type=LogManager,name=LogDirectoryOffline,logDirectory="
    offline = [broker.server.metrics.value(f'{bean}"{d}"') for d in (first, second)]
    assert offline == [1, 0]
    assert create(broker, "t") == 0
    eventually(lambda: produce(broker, "t").error_code == 0)
    assert whole_rows(broker.folder / "trace.jsonl")[0]["boot"] == 1

    def refuses(*_: object) -> None:
        raise OSError(errno.EIO, "planted")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refuses)
        assert produce(broker, "t").error_code == STORAGE_ERROR
        assert halted.wait(60)


def fetch(broker: RunningBroker, topic: str, partition: int, offset: int = 0) -> int:
    """The error."""
    row = {
        "partition": partition, "fetch_offset": offset, "log_start_offset": -1,
        "partition_max_bytes": 1000, "current_leader_epoch": -1,
    }  # fmt: skip
    asked = request(
        ApiKey.FETCH, 11, replica_id=-1, max_wait=0, min_bytes=1, max_bytes=1000, session_id=0,
        session_epoch=-1, isolation_level=0, forgotten_topics_data=[], rack_id="",
        topics=[{"topic": topic, "partitions": [row]}],
    )  # fmt: skip
    return int(broker.client().ask(asked).responses[0].partitions[0].error_code)

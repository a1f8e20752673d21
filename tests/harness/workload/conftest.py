"""A two-broker cluster reduced to its answers: enough for the raw clients, over real sockets.

Both brokers share one idea of the leader unless told otherwise (``told``), so that a test can let
one of them be behind. Answers are made with the broker's own codec.
"""

from __future__ import annotations

import contextlib
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from checkers.facts.whole_rows import lacks
from checkers.history import KINDS, problem_with
from harness.workload import WorkloadSpec
from nodes.wire.apis import ApiKey, response_class
from nodes.wire.codec import build, encode_response, parse_body, parse_header
from nodes.wire.records import build_batch, check_crc, iter_records, read_header
from tests.jsonl import whole_rows

TOPIC = "t"
UNNAMED = "unnamed"
"""A topic that brokers leave out of their answers, as none should."""
GIVEN = [
    build_batch([(None, b"v", 1000 * offset)], base_offset=offset, leader_epoch=3)
    for offset in (97, 98)
]
"""What there is before the end of each log, in a segment that ends before that."""
READY_S = 90.0
"""A new interpreter imports a good deal before it is at work."""


class MiniCluster:
    """``leader``, ``leader_epoch``: the truth. ``told[node]``: what that broker answers instead."""

    CONTROLLER = 2

    def __init__(self) -> None:
        self.leader, self.leader_epoch = 1, 0
        self.told: dict[int, tuple[int, int]] = {}
        self.values: list[tuple[int, int]] = []  # (broker, value)
        self.partitions = 1
        self.led: dict[int, int] = {}  # partitions that somebody else leads than ``leader``
        self.together: list[int] = []  # how many partitions each produce was for
        self.batches: list[tuple[int, int, int]] = []
        """Producer id, epoch and first sequence of each batch that came."""
        self.erased: list[tuple[int, int, int]] = []  # those whose record has no value
        self.named = 0  # producer ids that were given away
        self.refused: set[int] = set()  # partitions whose records are too large for it
        self.asked: list[int] = []  # who was asked for metadata
        self.produce_error = 0
        self.statics: dict[str, str | None] = {}
        self.ack_timeouts: set[int] = set()
        self.commits: list[tuple[int, int, str]] = []  # (broker, generation, member)
        self.rebalance_ms: set[int] = set()
        self.silent: set[int] = set()
        self.unanswered: set[int] = set()  # APIs
        self.deleted: set[str] = set()  # groups
        self.cleared: list[tuple[str, int]] = []
        """Groups and partitions whose positions were deleted."""
        self.left: set[str] = set()  # groups
        self.beats: list[int] = []  # what heartbeats are answered next, in order
        self.begins = 0  # every log
        self.end = 100
        self.control: list[tuple[int, Any]] = []
        self.lock = threading.Lock()
        self.over = threading.Event()
        self.brokers = {node: MiniBroker(self, node) for node in (1, 2)}

    @property
    def bootstrap(self) -> dict[int, str]:
        return {n: "{}:{}".format(*b.server_address[:2]) for n, b in self.brokers.items()}

    def close(self) -> None:
        self.over.set()
        for broker in self.brokers.values():
            broker.shutdown()
            broker.server_close()


class MiniBroker(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, cluster: MiniCluster, node: int) -> None:
        super().__init__(("127.0.0.1", 0), MiniHandler)
        self.cluster, self.node = cluster, node
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()


class MiniHandler(socketserver.BaseRequestHandler):
    server: MiniBroker

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                (size,) = struct.unpack(">i", self._exactly(4))
                frame = self._exactly(size)
                header, cluster = parse_header(frame), self.server.cluster
                while self.server.node in cluster.silent or header.api_key in cluster.unanswered:
                    if cluster.over.wait(0.01):
                        return
                answer = self._answer(header, parse_body(header, frame))
                self.request.sendall(
                    encode_response(
                        header.api_key,
                        header.api_version,
                        header.correlation_id,
                        build(response_class(header.api_key, header.api_version), **answer),
                    )
                )

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.request.recv(size - len(data))
            if not more:
                raise OSError
            data += more
        return data

    def _answer(self, header: Any, request: Any) -> dict[str, Any]:
        cluster, node = self.server.cluster, self.server.node
        with cluster.lock:
            if header.api_key == ApiKey.METADATA:
                cluster.asked.append(node)
                leader, leader_epoch = cluster.told.get(
                    node, (cluster.leader, cluster.leader_epoch)
                )
                known = [t.name for t in request.topics if t.name == TOPIC]
                unknown = [t.name for t in request.topics if t.name not in (TOPIC, UNNAMED)]
                brokers = [(n, b.server_address) for n, b in cluster.brokers.items()]
                return {
                    "controller_id": cluster.CONTROLLER,
                    "brokers": [
                        {"node_id": n, "host": str(a[0]), "port": a[1]} for n, a in brokers
                    ],
                    "topics": [{"name": name, "error_code": 3} for name in unknown]
                    + [
                        {
                            "name": name,
                            "partitions": [
                                {
                                    "partition_index": partition,
                                    "leader_id": cluster.led.get(partition, leader),
                                    "leader_epoch": leader_epoch,
                                    "replica_nodes": [1, 2],
                                    "isr_nodes": [1, 2],
                                    "offline_replicas": [2],
                                }
                                for partition in range(cluster.partitions)
                            ],
                        }
                        for name in known
                    ],
                }
            if header.api_key == ApiKey.PRODUCE:
                return self._produce(request)
            if header.api_key == ApiKey.INIT_PRODUCER_ID:
                cluster.named += 1
                producer_id = 6_999 + cluster.named
                return {"error_code": 0, "producer_id": producer_id, "producer_epoch": 0}
            if header.api_key == ApiKey.DELETE_GROUPS:
                mine = node == cluster.leader
                cluster.deleted |= set(request.groups_names) if mine else set()
                rows = [
                    {"group_id": g, "error_code": 0 if mine else 16} for g in request.groups_names
                ]
                return {"results": rows}
            if header.api_key == ApiKey.OFFSET_DELETE:
                if node != cluster.leader:
                    return {"error_code": 16, "topics": []}
                return {"error_code": 0, "topics": [self._cleared(request)]}
            if header.api_key == ApiKey.JOIN_GROUP:
                waits_s = request.rebalance_timeout.total_seconds()
                cluster.rebalance_ms.add(round(waits_s * 1000))
                error = 16 if node != cluster.leader else 0 if request.member_id else 79
                last = str(request.protocols[-1].name)
                more = {"protocol_type": None, "protocol_name": last, "members": []}
                return {
                    **{"error_code": error, "generation_id": -1 if error else 1, "leader": ""},
                    **more,
                    "member_id": "come-back-with-this",
                }
            if header.api_key in (ApiKey.LEAVE_GROUP, ApiKey.HEARTBEAT):
                gone = str(request.group_id) in cluster.left
                if node == cluster.leader and header.api_key == ApiKey.LEAVE_GROUP:
                    cluster.left.add(str(request.group_id))
                error = 16 if node != cluster.leader else 25 if gone else 0
                if header.api_key == ApiKey.HEARTBEAT and not error and cluster.beats:
                    error = cluster.beats.pop(0)
                return {"error_code": error}
            if header.api_key == ApiKey.SYNC_GROUP:
                return {"error_code": 0 if node == cluster.leader else 16, "assignment": b""}
            if header.api_key == ApiKey.DESCRIBE_GROUPS:
                return {"groups": [self._group(str(name)) for name in request.groups]}
            if header.api_key == ApiKey.OFFSET_COMMIT:
                cluster.commits.append(
                    (node, int(request.generation_id_or_member_epoch), str(request.member_id))
                )
                return {"topics": [self._committed(topic) for topic in request.topics]}
            if header.api_key == ApiKey.OFFSET_FETCH:
                return self._kept(request)
            if header.api_key == ApiKey.LIST_OFFSETS:
                return {"topics": [self._listed(topic) for topic in request.topics]}
            if header.api_key == ApiKey.FIND_COORDINATOR:
                known = cluster.told.get(node, (cluster.leader, 0))[0]
                error = 0 if known > 0 else 15
                return {"error_code": error, "node_id": known, "host": "h", "port": 1}
            if header.api_key == ApiKey.FETCH:
                return {"responses": [self._read(topic) for topic in request.topics]}
            if header.api_key == ApiKey.DELETE_RECORDS:
                return {"topics": [self._deleted(topic) for topic in request.topics]}
            if header.api_key == ApiKey.OFFSET_FOR_LEADER_EPOCH:
                return {"topics": [self._epoch_ends(topic) for topic in request.topics]}
            cluster.control.append((node, request))
            return {"error_code": 0}

    def _group(self, name: str) -> dict[str, Any]:
        mine = self.server.node == self.server.cluster.leader
        one = {"member_id": "m-1", "member_metadata": b"t", "member_assignment": b"t-0"}
        members = [one, {"member_id": "m-2"}] if mine else []
        statics = self.server.cluster.statics
        members = members[:1] if name in statics else members
        members = [{**member, "group_instance_id": statics.get(name)} for member in members]
        state = "Stable" if self.server.cluster.leader_epoch else "PreparingRebalance"
        error = 0 if mine else 16
        return {"group_id": name, "error_code": error, "group_state": state, "members": members}

    def _cleared(self, request: Any) -> dict[str, Any]:
        (topic,) = request.topics
        where = [int(p.partition_index) for p in topic.partitions]
        self.server.cluster.cleared += [(str(request.group_id), p) for p in where]
        rows = [{"partition_index": p, "error_code": 0} for p in where]
        return {"name": topic.name, "partitions": rows}

    def _committed(self, topic: Any) -> dict[str, Any]:
        """As a coordinator answers that obeys whoever speaks of generation 3."""
        cluster = self.server.cluster
        obeyed = cluster.commits[-1][1] in (3, -1)
        error = 16 if self.server.node != cluster.leader else 0 if obeyed else 22
        rows = [
            {"partition_index": row.partition_index, "error_code": error}
            for row in topic.partitions
        ]
        return {"name": topic.name, "partitions": rows}

    def _kept(self, request: Any) -> dict[str, Any]:
        """Of partition 0 nothing, of the others their number; partition 1 has an error."""
        if self.server.node != self.server.cluster.leader:
            return {"error_code": 16}
        topics = [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": p, "committed_offset": p or -1, "error_code": 3 * (p == 1)}
                    for p in map(int, topic.partition_indexes)
                ],
            }
            for topic in request.topics
        ]
        return {"topics": topics, "error_code": 0}

    def _listed(self, topic: Any) -> dict[str, Any]:
        """A log of 100 records, each of whose offset is its time in seconds."""
        cluster, rows = self.server.cluster, []
        for asked in topic.partitions:
            error = self._error(asked)
            wanted = -(-int(asked.timestamp) // 1000)
            found = {-1: cluster.end, -2: cluster.begins}.get(
                int(asked.timestamp), wanted if wanted < 100 else -1
            )
            found = -1 if error else found
            rows.append(
                {
                    "partition_index": asked.partition_index,
                    "error_code": error,
                    "offset": -1 if error else found,
                    "timestamp": found * 1000 if asked.timestamp >= 0 <= found else -1,
                    "leader_epoch": -1 if error else cluster.leader_epoch,
                }
            )
        return {"name": topic.name, "partitions": rows}

    def _deleted(self, topic: Any) -> dict[str, Any]:
        """Partition 1 waits for a replica in vain."""
        rows = []
        for asked in topic.partitions:
            error = 6 if self.server.node != self.server.cluster.leader else 0
            error = error or (1 if asked.offset > 100 else 7 * int(asked.partition_index == 1))
            low = -1 if error else asked.offset
            rows.append(
                {
                    "partition_index": asked.partition_index,
                    "low_watermark": low,
                    "error_code": error,
                }
            )
        return {"name": topic.name, "partitions": rows}

    def _read(self, topic: Any) -> dict[str, Any]:
        """Of partition 1 there is nothing before its beginning any more. The last batch is cut."""
        nothing = {"high_watermark": 100, "last_stable_offset": 0, "aborted_transactions": []}
        begins = nothing["log_start_offset"] = self.server.cluster.begins
        rows = [
            {
                "partition_index": asked.partition,
                "error_code": self._error(asked) or int(asked.partition),
                "records": b"".join(GIVEN) + b"." if begins <= asked.fetch_offset < 100 else None,
                **nothing,
            }
            for asked in topic.partitions
        ]
        return {"topic": topic.topic, "partitions": rows}

    def _epoch_ends(self, topic: Any) -> dict[str, Any]:
        """Each leader epoch has ten records."""
        rows = [
            {
                "partition": asked.partition,
                "error_code": self._error(asked),
                "leader_epoch": asked.leader_epoch,
                "end_offset": 10 * (int(asked.leader_epoch) + 1),
            }
            for asked in topic.partitions
        ]
        for row in rows:
            if row["error_code"]:
                row |= {"leader_epoch": -1, "end_offset": -1}
        return {"topic": topic.topic, "partitions": rows}

    def _error(self, asked: Any) -> int:
        cluster, believed = self.server.cluster, int(getattr(asked, "current_leader_epoch", -1))
        if self.server.node != cluster.leader:
            return 6
        if believed > cluster.leader_epoch:
            return 75
        return 74 if 0 <= believed < cluster.leader_epoch else 0

    def _produce(self, request: Any) -> dict[str, Any]:
        cluster, node = self.server.cluster, self.server.node
        cluster.ack_timeouts.add(round(request.timeout.total_seconds() * 1000))
        (topic,) = request.topic_data
        cluster.together.append(len(topic.partition_data))
        results = []
        for partition in topic.partition_data:
            assert check_crc(partition.records)
            (record,) = iter_records(partition.records)
            head = read_header(partition.records)
            cluster.batches.append((head.producer_id, head.producer_epoch, head.base_sequence))
            if record.value is None:
                cluster.erased.append(cluster.batches[-1])
            leader = cluster.led.get(partition.index, cluster.leader)
            error = cluster.produce_error or (0 if node == leader else 6)
            error = error or (10 if partition.index in cluster.refused else 0)
            if not error:
                told_by = record.value or record.key
                cluster.values.append((node, struct.unpack_from(">q", told_by)[0]))
            results.append(
                {
                    "index": partition.index,
                    "error_code": error,
                    "base_offset": len(cluster.values) - 1 if not error else -1,
                    "log_append_time": -1 if error else 1_700_000_000_000,
                }
            )
        return {"responses": [{"name": topic.name, "partition_responses": results}]}


@pytest.fixture
def mini() -> Iterator[MiniCluster]:
    cluster = MiniCluster()
    yield cluster
    cluster.close()


@pytest.fixture
def rows() -> Callable[[Path | str], list[dict[str, Any]]]:
    return whole_rows


@pytest.fixture
def wait_until() -> Callable[..., None]:
    def wait(met: Callable[[], Any], timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not met():
            assert time.monotonic() < deadline, "not in time"
            time.sleep(0.005)

    return wait


@pytest.fixture
def spec(mini: Any, tmp_path: Path) -> Any:
    def make(role: str, bootstrap: dict[int, str] | None = None, **params: Any) -> WorkloadSpec:
        return WorkloadSpec(
            role=role,
            process=f"{role}-1",
            output=str(tmp_path / f"{role}-1.jsonl"),
            bootstrap=bootstrap or mini.bootstrap,
            params=params,
        )

    return make


def sound(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    assert [problem_with(row) for row in rows] == [None] * len(rows)
    for row in done(rows):
        every = dict.fromkeys(KINDS[row["f"]].all_columns) | row
        assert list(lacks(row["f"], every)) == [], row
    return rows


def done(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row in rows if row.get("type") not in (None, "invoke")]

"""Floods end to end: real worker processes against a listener that speaks the protocol with kio."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
import os
import signal
import socketserver
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v4.request import FetchRequest
from kio.schema.metadata.v4.request import MetadataRequest
from kio.schema.produce.v7 import response as produce_response
from kio.schema.produce.v7.request import ProduceRequest
from kio.schema.request_header.v1.header import RequestHeader
from kio.schema.types import TopicName
from kio.serial import entity_reader, entity_writer

from checkers.history import problem_with
from faults import build
from faults.flood.launch import FloodWorker, wait_all_ready
from faults.flood.requests import metadata, produce, record_batch, templates
from faults.flood.spec import FloodSpec
from faults.probe import told_controller
from faults.protocol import FaultFailed, Link
from nodes.wire.records import check_crc, iter_batches, iter_records
from tests.jsonl import whole_rows

pytestmark = pytest.mark.slow

READERS = {0: entity_reader(ProduceRequest), 3: entity_reader(MetadataRequest)}


class Broker(socketserver.ThreadingTCPServer):
    """Answers ApiVersions, Produce v7 and Metadata v4; ``error`` is what produces are told."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.error = 0
        self.seen: Counter[int] = Counter()
        self.partitions: Counter[int] = Counter()
        self.connections = 0
        self.counting = threading.Lock()


class Handler(socketserver.BaseRequestHandler):
    server: Broker

    def handle(self) -> None:
        with self.server.counting:
            self.server.connections += 1
        with contextlib.suppress(OSError, struct.error):
            while True:
                frame = self._exactly(struct.unpack(">i", self._exactly(4))[0])
                answer = self._answer(frame)
                if answer is not None:
                    self.request.sendall(struct.pack(">i", len(answer)) + answer)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.request.recv(size - len(data))
            if not more:
                raise OSError
            data += more
        return data

    def _answer(self, frame: bytes) -> bytes | None:
        header, size = entity_reader(RequestHeader)(frame, 0)
        key = int(header.request_api_key)
        with self.server.counting:
            self.server.seen[key] += 1
        body = io.BytesIO()
        body.write(struct.pack(">i", header.correlation_id))
        if key == ApiVersionsRequest.__api_key__:
            body.write(struct.pack(">hi", 0, 0))
        elif key == 3:
            READERS[3](frame, size)
            body.write(b"\0" * 20)
        elif key == 0:
            request, _ = READERS[0](frame, size)
            (topic,) = request.topic_data
            for partition in topic.partition_data:
                with self.server.counting:
                    self.server.partitions[partition.index] += 1
            if request.acks == 0:
                return None
            answer = produce_response.ProduceResponse(
                responses=(
                    produce_response.TopicProduceResponse(
                        name=TopicName(topic.name),
                        partition_responses=tuple(
                            produce_response.PartitionProduceResponse(
                                index=p.index,
                                error_code=ErrorCode(self.server.error if p.index == 1 else 0),
                                base_offset=0,
                                log_append_time=None,
                            )
                            for p in topic.partition_data
                        ),
                    ),
                ),
                throttle_time=datetime.timedelta(0),
            )
            entity_writer(type(answer))(body, answer)
        return body.getvalue()


@pytest.fixture(autouse=True)
def patient_parents(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a worker that is about to answer, or to end, must not count as stuck."""
    monkeypatch.setattr("faults.flood.launch._STOP_S", 60.0)
    monkeypatch.setattr("faults.flood.base._HOLD_TIMEOUT_MS", 120_000)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def at_broker(ctx: Any, broker: Broker) -> Any:
    ctx.cluster.addresses = {(node, Link.CLIENT): broker.server_address for node in ctx.cluster.ids}
    return ctx


def until(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.01)


def until_polled(worker: FloodWorker, condition: Callable[[], object]) -> None:
    """The same, with the worker's rows taken in before each look."""
    until(lambda: (worker.poll_stats(), condition())[1])


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [row for file in folder.glob("flood-*.jsonl") for row in whole_rows(file)]


def test_a_broker_says_whom_it_obeys(broker: Broker) -> None:
    assert told_controller(broker.server_address, timeout_s=60) == 0
    assert broker.seen[3] == 1
    assert told_controller(("127.0.0.1", 1), timeout_s=0.5) is None


def test_record_batches_are_whole() -> None:
    batch = record_batch(b"x" * 300, timestamp_ms=5)
    (view,) = iter_batches(batch)
    assert view.header.size_bytes == len(batch)
    assert check_crc(batch)
    (record,) = iter_records(batch)
    assert record.value == b"x" * 300


@pytest.mark.parametrize("waits", [(0, 0), (1 << 30, 500)])
def test_a_fetch_may_be_told_to_wait(waits: tuple[int, int]) -> None:
    fields: dict[str, Any] = {"mode": "request", "request": "fetch", "topic": "t"}
    fields |= {"id": "f", "process": "f", "output": "", "node": 1, "host": "", "port": 1}
    fields |= {"connections": 1, "duration_ms": 1, "max_requests": 1, "partitions": (0, 1, 2)}
    fields |= {"partitions_per_request": 3, "record_bytes": 1}
    min_bytes, max_wait_ms = waits
    spec = FloodSpec(**fields, min_bytes=min_bytes, max_wait_ms=max_wait_ms)
    (template,) = templates(spec)
    _, size = entity_reader(RequestHeader)(template.frame, 4)
    sent, _ = entity_reader(FetchRequest)(template.frame, 4 + size)
    assert (sent.min_bytes, sent.max_wait.total_seconds() * 1000) == waits
    assert [p.partition for p in sent.topics[0].partitions] == [0, 1, 2], "all in one request"


def test_error_codes_stand_where_templates_say() -> None:
    template = produce("tøpic", (0, 1, 2), value=b"v", acks=1, timeout_ms=10)
    answer = produce_response.ProduceResponse(
        responses=(
            produce_response.TopicProduceResponse(
                name=TopicName("tøpic"),
                partition_responses=tuple(
                    produce_response.PartitionProduceResponse(
                        index=p, error_code=ErrorCode(e), base_offset=7, log_append_time=None
                    )
                    for p, e in enumerate((0, 6, 3))
                ),
            ),
        ),
        throttle_time=datetime.timedelta(0),
    )
    body = io.BytesIO()
    body.write(b"\0\0\0\0")
    entity_writer(type(answer))(body, answer)
    assert [struct.unpack_from(">h", body.getvalue(), at)[0] for at in template.errors_at] == [
        0,
        6,
        3,
    ]
    assert metadata(None).errors_at == ()


def test_a_heavy_flood_takes_hold_with_more_connections_than_queue_places(
    at_broker: Any, entry: Any, broker: Broker, tmp_path: Path
) -> None:
    fault = build(
        entry("flood-heavy-produce", target="leader:t-0", connections=40, queued_max_requests=30)
    )
    fault.prepare(at_broker)
    until(lambda: broker.connections >= 40)  # dialled is not yet accepted
    assert broker.seen[0] <= 2  # dialled, tried out, not begun
    fault.inject(at_broker)
    assert fault.took_hold is True
    assert set(broker.partitions) == set(range(20))
    told = ("record_plane_metrics", 1, fault.id)
    assert at_broker.cluster.calls.count(told) == 1
    fault.heal(at_broker)
    fault.heal(at_broker)
    assert at_broker.cluster.calls.count(told) == 2
    rows = rows_of(tmp_path)
    assert [problem_with(row) for row in rows] == [None] * len(rows)
    assert max(row["connections"] for row in rows) == 40
    assert sum(row["completed"] for row in rows) == fault.detail["totals"]["completed"] > 0
    assert {row["id"] for row in rows} == {"e1"}


def test_a_worker_that_was_killed_is_told_of_when_the_flood_is_healed(
    at_broker: Any, entry: Any
) -> None:
    fault = build(entry("flood-metadata", target="1", connections=4, workers=2))
    fault.inject(at_broker)
    first, second = fault._workers
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not first.alive())
    fault.heal(at_broker)
    assert fault.detail["ended"] == {first.spec.process: -signal.SIGKILL}
    assert "bounded" not in fault.detail
    assert second.exit_code == 0


def test_a_worker_that_sent_all_it_may_is_no_dead_one(at_broker: Any, entry: Any) -> None:
    fault = build(entry("flood-metadata", target="1", connections=2, max_requests=50))
    fault.inject(at_broker)
    (worker,) = fault._workers
    until(lambda: not worker.alive())
    fault.heal(at_broker)
    assert fault.detail["bounded"] == [worker.spec.process]
    assert "ended" not in fault.detail


def test_a_flood_says_what_it_is_held_against(at_broker: Any, entry: Any) -> None:
    few = {"target": "1", "connections": 40, "queued_max_requests": 30}
    fault = build(entry("flood-heavy-produce", **few))
    fault.inject(at_broker)
    assert fault.detail["queue_places"] == 30
    assert "proxied" not in fault.detail
    fault.heal(at_broker)
    proxied = build(entry("flood-metadata", target="1", connections=2, direct=False))
    proxied.inject(at_broker)
    assert proxied.detail["proxied"] is True
    assert "queue_places" not in proxied.detail
    proxied.heal(at_broker)


def test_a_flood_says_whose_topic_it_writes_to(at_broker: Any, entry: Any) -> None:
    """In one of the load's are records then that no client sent."""
    own = build(entry("flood-produce", target="1", connections=4))
    own.inject(at_broker)
    assert "writes_to" not in own.detail
    own.heal(at_broker)
    other = build(entry("flood-produce", target="leader:t-0", topic="t", connections=4))
    other.inject(at_broker)
    assert other.detail["writes_to"] == "t"
    other.heal(at_broker)


def test_too_few_connections_cannot_fill_the_queue(at_broker: Any, entry: Any) -> None:
    fault = build(entry("flood-heavy-produce", target="1", connections=4))
    fault.inject(at_broker)
    assert fault.took_hold is False
    assert "queued.max.requests" in fault.detail["why"]
    fault.heal(at_broker)


@pytest.mark.parametrize(
    ("name", "key", "params"),
    [
        ("flood-produce", 0, {"acks": "0", "connections": 4}),
        ("flood-metadata", 3, {"connections": 4}),
        ("flood-connections", 18, {"connections": 4}),
        ("hold-connections", 18, {"connections": 20}),
    ],
)
def test_every_kind_takes_hold(
    at_broker: Any, entry: Any, broker: Broker, name: str, key: int, params: dict[str, Any]
) -> None:
    fault = build(entry(name, target="2", **params))
    fault.inject(at_broker)
    assert fault.took_hold is True
    until(lambda: broker.seen[key] > 0)  # without acks, sent is not yet received
    fault.heal(at_broker)


def test_a_target_that_moved_is_dialled_anew(at_broker: Any, entry: Any) -> None:
    fault = build(entry("flood-metadata", target="controller", connections=2))
    fault.prepare(at_broker)
    assert fault.nodes == [1]
    at_broker.cluster.the_controller = 3
    fault.inject(at_broker)
    assert fault.nodes == [3]
    fault.heal(at_broker)


def test_a_broker_that_refuses_everything_fails_the_flood_and_leaves_nothing(
    at_broker: Any, entry: Any, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = build(entry("flood-metadata", target="1", connections=2))
    at_broker.cluster.addresses[1, Link.CLIENT] = ("127.0.0.1", 1)
    monkeypatch.setattr("faults.flood.base._READY_TIMEOUT_S", 0.3)
    with pytest.raises(FaultFailed, match="not ready"):
        fault.prepare(at_broker)
    assert fault._workers == []


def spec_for(broker: Broker, tmp_path: Path, **fields: Any) -> FloodSpec:
    host, port = broker.server_address
    return FloodSpec(
        **{
            "id": "e1",
            "process": "flood-x",
            "output": str(tmp_path / "flood-x.jsonl"),
            "node": 1,
            "host": host,
            "port": port,
            "mode": "request",
            "connections": 2,
            "duration_ms": 30_000,
            "max_requests": 10**9,
            **fields,
        }
    )


def started(spec: FloodSpec) -> FloodWorker:
    worker = FloodWorker(spec)
    wait_all_ready([worker], sleep=time.sleep, timeout_s=90)
    worker.go()
    until_polled(worker, lambda: worker.completed)
    return worker


def test_max_requests_is_a_bound(broker: Broker, tmp_path: Path) -> None:
    worker = started(spec_for(broker, tmp_path, max_requests=25))
    worker._process.wait(60)
    assert worker.stop()["completed"] == 25


def test_errors_of_any_partition_are_counted(broker: Broker, tmp_path: Path) -> None:
    fields = {"request": "produce", "topic": "f", "partitions": (0, 1), "partitions_per_request": 2}
    worker = started(spec_for(broker, tmp_path, **fields))
    broker.error = 6
    until_polled(worker, lambda: worker.errors)
    worker.stop()
    assert not lost(tmp_path)


@pytest.mark.parametrize("how", ["sigterm", "parent"])
def test_a_worker_ends_with_its_parent_or_on_sigterm(
    broker: Broker, tmp_path: Path, how: str
) -> None:
    worker = started(spec_for(broker, tmp_path))
    if how == "sigterm":
        os.kill(worker.pid, signal.SIGTERM)
    else:  # its standard input closes, as it does when the parent dies
        worker._process.stdin.close()
    assert worker._process.wait(60) == 0
    worker.stop()


def test_a_broker_that_restarts_is_flooded_again(broker: Broker, tmp_path: Path) -> None:
    worker = started(spec_for(broker, tmp_path))
    before = broker.connections
    original = Handler._answer
    try:
        Handler._answer = lambda *_: (_ for _ in ()).throw(OSError())  # type: ignore[method-assign]
        until_polled(worker, lambda: worker.errors)
    finally:
        Handler._answer = original  # type: ignore[method-assign]
    completed = worker.completed
    until_polled(worker, lambda: worker.completed > completed)
    assert broker.connections > before
    worker.stop()
    assert lost(tmp_path)


def lost(tmp_path: Path) -> int:
    """Connections on which an answer was awaited."""
    rows = map(json.loads, (tmp_path / "flood-x.jsonl").read_text().splitlines())
    return sum(row["lost"] for row in rows)

"""What a slow disk does to producers: a stall in one partition's write is nobody else's wait.

Through real sockets, network threads and handlers, into real logs; only the write system call is
held. Kafka's request handlers each block in their own write, under their own partition's lock.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodes.api.parse import parse
from nodes.config import BrokerConfig
from nodes.metrics import Metrics
from nodes.network.socket_server import SocketServer
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import build, decode_response, encode_request
from nodes.wire.records import build_batch

HANDLERS = 8
PATIENCE_S = 60.0


class Writes:
    """Stands in for ``pwrite``: each waits until `together` are under way, or until it is let go
    (as when fewer than that can be)."""

    def __init__(self, together: int) -> None:
        self._real = os.pwrite
        self._together = together
        self._lock = threading.Condition()
        self._inside = 0
        self._let_go = False
        self.most = 0

    def __call__(self, fd: int, data: bytes, position: int) -> int:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
            self._lock.notify_all()
            self._lock.wait_for(
                lambda: self._let_go or self.most >= self._together, timeout=PATIENCE_S
            )
        try:
            return self._real(fd, data, position)
        finally:
            with self._lock:
                self._inside -= 1

    def come_to(self, count: int, timeout_s: float = PATIENCE_S) -> bool:
        """Whether so many are under way at once within that time."""
        with self._lock:
            return self._lock.wait_for(lambda: self._inside >= count, timeout=timeout_s)

    def let_go(self) -> None:
        with self._lock:
            self._let_go = True
            self._lock.notify_all()


@pytest.fixture
def port(make_node: Callable[..., Any]) -> Iterator[int]:
    """A broker with `HANDLERS` request handlers, leader of as many partitions of ``t``."""
    node = make_node()
    node.lead("t", HANDLERS)
    config = BrokerConfig.from_properties(
        {
            "broker.id": "1",
            "zookeeper.connect": "unused:1",
            "listeners": "DATA://127.0.0.1:0",
            "listener.security.protocol.map": "DATA:PLAINTEXT",
            "inter.broker.listener.name": "DATA",
            "num.network.threads": "2",
            "num.io.threads": str(HANDLERS),
        }
    )
    server = SocketServer(config, parse, Metrics())
    bound = server.bind()["DATA"].port
    server.start_handlers(node.apis.handle)
    server.enable_request_processing()
    yield bound
    server.stop_processing_requests()
    server.shutdown()


def produce(port: int, partition: int) -> socket.socket:
    batch = build_batch([(None, b"v", 1_700_000_000_000)])
    entity = build(
        request_class(ApiKey.PRODUCE, 7),
        acks=1,
        timeout=30000,
        topic_data=[
            {"name": "t", "partition_data": [{"index": partition, "records": batch}]},
        ],
    )
    return send(port, encode_request(entity, partition, "tester"))


def send(port: int, frame: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    client.sendall(frame)
    return client


def answer(client: socket.socket) -> bytes:
    with client, client.makefile("rb") as stream:
        return stream.read(int.from_bytes(stream.read(4), "big"))


def base_offset(client: socket.socket) -> int:
    _, entity = decode_response(ApiKey.PRODUCE, 7, answer(client))
    (row,) = entity.responses[0].partition_responses
    assert row.error_code == 0
    return int(row.base_offset)


def test_stalls_in_different_partitions_overlap(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    writes = Writes(together=HANDLERS)
    monkeypatch.setattr(os, "pwrite", writes)
    clients = [produce(port, partition) for partition in range(HANDLERS)]
    assert [base_offset(client) for client in clients] == [0] * HANDLERS
    assert writes.most == HANDLERS


def test_writes_to_one_partition_come_one_after_another(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = Writes(together=2)
    monkeypatch.setattr(os, "pwrite", writes)
    clients = [produce(port, 3) for _ in range(HANDLERS)]
    assert writes.come_to(1)
    assert not writes.come_to(2, timeout_s=0.3)
    writes.let_go()
    assert sorted(base_offset(client) for client in clients) == list(range(HANDLERS))
    assert writes.most == 1


def test_other_requests_are_answered_while_all_but_one_handler_is_stuck(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = Writes(together=HANDLERS)
    monkeypatch.setattr(os, "pwrite", writes)
    stuck = [produce(port, partition) for partition in range(HANDLERS - 1)]
    assert writes.come_to(HANDLERS - 1)
    entity = build(request_class(ApiKey.METADATA, 5), topics=None, allow_auto_topic_creation=False)
    for _ in range(20):
        _, metadata = decode_response(
            ApiKey.METADATA, 5, answer(send(port, encode_request(entity, 1, "tester")))
        )
        assert [topic.name for topic in metadata.topics] == ["t"]
    writes.let_go()
    assert [base_offset(client) for client in stuck] == [0] * (HANDLERS - 1)

"""Fetches of many MB, through real sockets and from real logs: nothing is read before it is sent,
nothing of it is held for a slow reader, and what was cut from the log meanwhile is not sent."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodes.api.parse import parse
from nodes.config import BrokerConfig
from nodes.core.types import TopicPartition
from nodes.metrics import Metrics
from nodes.network.socket_server import SocketServer
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import build, decode_response, encode_request
from nodes.wire.records import build_batch, check_crc, iter_batches

MIB = 1 << 20
BATCH = build_batch([(None, b"v" * 60_000, 1_700_000_000_000)])
PARTITIONS = 8
BATCHES = 16  # of the 1 MiB that a segment holds
PATIENCE_S = 60.0


class Server:
    def __init__(self, node: Any) -> None:
        self.node = node
        config = BrokerConfig.from_properties(
            {
                "broker.id": "1",
                "zookeeper.connect": "unused:1",
                "listeners": "DATA://127.0.0.1:0",
                "listener.security.protocol.map": "DATA:PLAINTEXT",
                "inter.broker.listener.name": "DATA",
                "num.network.threads": "1",
                "num.io.threads": "2",
                "socket.send.buffer.bytes": "65536",
            }
        )
        self.server = SocketServer(config, parse, Metrics())
        self.port = self.server.bind()["DATA"].port
        self.server.start_handlers(node.apis.handle)
        self.server.enable_request_processing()

    def stop(self) -> None:
        self.server.stop_processing_requests()
        self.server.shutdown()

    def fetch(self, receive_bytes: int | None = None) -> socket.socket:
        """Sends a fetch of everything."""
        client = socket.socket()
        client.settimeout(PATIENCE_S)
        if receive_bytes is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        client.connect(("127.0.0.1", self.port))
        rows = [
            {"partition": p, "fetch_offset": 0, "partition_max_bytes": MIB}
            for p in range(PARTITIONS)
        ]
        entity = build(
            request_class(ApiKey.FETCH, 11),
            replica_id=-1,
            max_wait=0,
            min_bytes=1,
            max_bytes=100 * MIB,
            topics=[{"topic": "t", "partitions": rows}],
        )
        client.sendall(encode_request(entity, 5, "tester"))
        return client


@pytest.fixture
def server(make_node: Callable[..., Any]) -> Iterator[Server]:
    """With 7.5 MiB in eight partitions."""
    node = make_node()
    node.lead("t", PARTITIONS)
    for partition in range(PARTITIONS):
        for _ in range(BATCHES):
            done: list[Any] = []
            node.manager.append_single(TopicPartition("t", partition), BATCH, 1, 0, done.append)
            assert done[0].error == 0
    made = Server(node)
    yield made
    made.stop()


class Reads:
    """Bytes that were read to be sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        self._real = os.preadv
        monkeypatch.setattr(os, "preadv", self)

    def __call__(self, fd: int, buffers: Any, at: int) -> int:
        count = self._real(fd, buffers, at)
        self.bytes += count
        return count


def records_of(client: socket.socket) -> list[bytes]:
    with client, client.makefile("rb") as stream:
        frame = stream.read(int.from_bytes(stream.read(4), "big"))
    correlation_id, entity = decode_response(ApiKey.FETCH, 11, frame)
    assert correlation_id == 5
    rows = entity.responses[0].partitions
    assert [row.error_code for row in rows] == [0] * PARTITIONS
    return [bytes(row.records) for row in rows]


def test_a_large_answer_is_the_log_and_is_read_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = Reads(monkeypatch)
    found = records_of(server.fetch())
    assert reads.bytes == sum(map(len, found)) == PARTITIONS * BATCHES * len(BATCH)
    for data in found:
        offsets = [view.header.base_offset for view in iter_batches(data)]
        assert offsets == list(range(BATCHES))
        assert all(check_crc(data, v.position, v.size_bytes) for v in iter_batches(data))


def test_nothing_is_read_for_those_who_do_not_read(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twenty slow readers want 150 MiB; what their sockets take is all that is touched."""
    reads = Reads(monkeypatch)
    slow = [server.fetch(receive_bytes=8192) for _ in range(20)]
    for client in slow:
        assert client.recv(4, socket.MSG_PEEK)  # it has begun
    found = records_of(server.fetch())  # by the same network thread, all the while
    total = PARTITIONS * BATCHES * len(BATCH)
    assert sum(map(len, found)) == total
    assert reads.bytes - total < 20 * MIB
    assert records_of(slow[0]) == found  # and it gets the whole, when it likes
    for client in slow[1:]:
        client.close()


def test_what_was_cut_meanwhile_is_not_sent(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Kafka the connection ends: its client asks again."""
    client = server.fetch(receive_bytes=8192)
    assert client.recv(4, socket.MSG_PEEK)
    last = server.node.manager.partition(TopicPartition("t", PARTITIONS - 1)).local_log()
    last.truncate_to(1)
    with client, client.makefile("rb") as stream:
        size = int.from_bytes(stream.read(4), "big")
        got = stream.read(size)
    assert len(got) < size
    assert BATCH[21:] in got  # the partitions before it


def test_what_is_appended_meanwhile_does_no_harm(server: Server) -> None:
    client = server.fetch(receive_bytes=8192)
    assert client.recv(4, socket.MSG_PEEK)
    for partition in range(PARTITIONS):
        done: list[Any] = []
        tp = TopicPartition("t", partition)
        server.node.manager.append_single(tp, BATCH, 1, 0, done.append)
        assert done[0].error == 0
    assert [len(data) for data in records_of(client)] == [BATCHES * len(BATCH)] * PARTITIONS

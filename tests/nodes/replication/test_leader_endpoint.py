"""The remote end points against a peer that speaks the wire format over a real socket."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from nodes.config import BrokerConfig
from nodes.core.types import TopicPartition
from nodes.replication.alter_partition import RemoteController
from nodes.replication.leader_endpoint import LeaderUnavailable, RemoteLeader
from nodes.replication.model import FetchPartitionRequest
from nodes.wire.apis import ApiKey, request_class, response_class
from nodes.wire.build import build
from nodes.wire.codec import encode_response, parse_body, parse_header
from nodes.wire.errors import WireClientError
from tests.nodes.replication.conftest import batch

Handle = Callable[[Any], dict[str, Any] | None]


class Peer:
    """Answers each request with what `handle` says; None: hangs up."""

    def __init__(self) -> None:
        self.handle: Handle = lambda _body: None
        self.requests: list[Any] = []
        self.client_ids: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint: tuple[str, int] = self._listener.getsockname()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as stream:
                while self._answer(connection, stream.read):
                    pass

    def _answer(self, connection: socket.socket, read: Callable[[int], bytes]) -> bool:
        size = read(4)
        if len(size) < 4:
            return False
        frame = read(struct.unpack(">i", size)[0])
        header = parse_header(frame)
        body = parse_body(header, frame)
        self.requests.append(body)
        self.client_ids.append(header.client_id)
        fields = self.handle(body)
        if fields is None:
            return False
        key, version = header.api_key, header.api_version
        entity = build(response_class(key, version), **fields)
        connection.sendall(encode_response(key, version, header.correlation_id, entity))
        return True

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(30)


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


@pytest.fixture
def config() -> BrokerConfig:
    """No two time-outs are the same."""
    return BrokerConfig.from_properties(
        {
            "broker.id": "3",
            "zookeeper.connect": "unused:1",
            "controller.socket.timeout.ms": "41000",
            "request.timeout.ms": "52000",
            "replica.socket.timeout.ms": "63000",
        }
    )


def test_fetch_asks_and_reads(peer: Peer, config: BrokerConfig) -> None:
    records = batch(1)
    row = {"error_code": 0, "high_watermark": 5, "last_stable_offset": 5, "log_start_offset": 2}
    peer.handle = lambda _body: {
        "responses": [
            {
                "topic": "t",
                "partitions": [
                    {"partition_index": 0, "records": records, **row},
                    {
                        "partition_index": 1,
                        "records": None,
                        "diverging_epoch": {"epoch": 3, "end_offset": 40},
                        **row,
                    },
                    {"partition_index": 2, "records": None, **row, "error_code": 74},
                ],
            }
        ]
    }
    leader = RemoteLeader(config, 1, 0, lambda _id: peer.endpoint)
    request = FetchPartitionRequest(10, 2, 1000, 7, 6)
    results = leader.fetch([(TopicPartition("t", i), request) for i in range(3)])
    leader.close()
    first, diverging, fenced = (result for _tp, result in results)
    assert first == (0, 5, 5, 2, records, -1, None)
    assert (diverging.diverging_epoch, diverging.records) == ((3, 40), b"")
    assert fenced.error == 74
    asked = peer.requests[0]
    assert int(asked.replica_id) == 3
    assert [int(p.partition) for p in asked.topics[0].partitions] == [0, 1, 2]
    sent = asked.topics[0].partitions[0]
    assert (sent.fetch_offset, sent.current_leader_epoch, sent.last_fetched_epoch) == (10, 7, 6)
    assert asked.max_wait.total_seconds() * 1000 == config.replica_fetch_wait_max_ms


def test_limits_are_those_of_the_config(peer: Peer) -> None:
    """``replica.fetch.`` ``wait.max.ms``, ``min.bytes``, ``response.max.bytes`` are of the whole
    answer, ``replica.socket.timeout.ms`` of the connection; the client id is Kafka's."""
    made = BrokerConfig.from_properties(
        {
            "broker.id": "3",
            "zookeeper.connect": "unused:1",
            "replica.fetch.wait.max.ms": "333",
            "replica.fetch.min.bytes": "7",
            "replica.fetch.max.bytes": "555",
            "replica.fetch.response.max.bytes": "4444",
            "replica.fetch.backoff.ms": "666",
            "replica.socket.timeout.ms": "41000",
        }
    )
    peer.handle = lambda _body: {"responses": []}
    leader = RemoteLeader(made, 1, 2, lambda _id: peer.endpoint)
    leader.fetch([(TopicPartition("t", 0), FetchPartitionRequest(0, 0, 555))])
    (asked,) = peer.requests
    assert asked.max_wait.total_seconds() * 1000 == 333
    assert (asked.min_bytes, asked.max_bytes) == (7, 4444)
    assert asked.topics[0].partitions[0].partition_max_bytes == 555
    assert peer.client_ids == ["broker-3-fetcher-2"]
    assert leader._connection is not None
    assert leader._connection.timeout_s == 41
    leader.close()


def test_offsets(peer: Peer, config: BrokerConfig) -> None:
    peer.handle = lambda body: {
        "topics": [
            {
                "name": "t",
                "partitions": [
                    {
                        "partition_index": 0,
                        "error_code": 0,
                        "offset": 100 + body.topics[0].partitions[0].timestamp,
                        "leader_epoch": 4,
                    }
                ],
            }
        ]
    }
    leader = RemoteLeader(config, 1, 0, lambda _id: peer.endpoint)
    assert leader.latest_offset(TopicPartition("t", 0), 4) == (0, -1, 99, 4)
    assert leader.earliest_offset(TopicPartition("t", 0), 4) == (0, -1, 98, 4)
    leader.close()


def test_a_lost_connection_looks_for_the_address_again(peer: Peer, config: BrokerConfig) -> None:
    lookups: list[int] = []

    def resolve(leader_id: int) -> tuple[str, int] | None:
        lookups.append(leader_id)
        return None if len(lookups) == 1 else peer.endpoint

    leader = RemoteLeader(config, 8, 0, resolve)
    with pytest.raises(LeaderUnavailable, match="no address for broker 8"):
        leader.fetch([])
    with pytest.raises(Exception, match="closed"):
        leader.fetch([])
    peer.handle = lambda _body: {"responses": []}
    assert leader.fetch([]) == []
    assert leader.fetch([]) == []
    assert lookups == [8, 8, 8]
    peer.handle = lambda _body: {"error_code": 71, "responses": []}
    with pytest.raises(LeaderUnavailable, match="refused"):
        leader.fetch([])
    leader.close()
    with pytest.raises(Exception, match=r"closed|address"):
        leader.fetch([])


def test_the_controller_is_followed_when_it_moves(peer: Peer, config: BrokerConfig) -> None:
    peer.handle = lambda _body: {"error_code": 0, "topics": []}
    known, looked_up = [-1], []

    def resolve(controller_id: int) -> tuple[str, int] | None:
        looked_up.append(controller_id)
        return peer.endpoint if controller_id >= 0 else None

    channel = RemoteController(config, lambda: known[-1], resolve)
    request = build(request_class(ApiKey.ALTER_PARTITION, 3), broker_id=3, topics=[])
    with pytest.raises(ConnectionError, match="no controller"):
        channel.request(request)
    for controller in (1, 2):
        known.append(controller)
        for _ in range(2):
            assert int(channel.request(request).error_code) == 0
    assert looked_up == [-1, 1, 2], "a connection for each, not for each request"
    assert channel._connection is not None
    assert channel._connection.timeout_s == 41
    channel.close()
    assert len(peer.requests) == 4


def test_after_a_failure_the_controller_is_looked_up_anew(peer: Peer, config: BrokerConfig) -> None:
    """The same broker may be back elsewhere; and it is told who asks."""
    peer.handle = lambda _body: {"error_code": 0, "topics": []}
    with socket.create_server(("127.0.0.1", 0)) as probe:
        nobody = probe.getsockname()[:2]
    places = [nobody, peer.endpoint, nobody]
    channel = RemoteController(config, lambda: 1, lambda _: places.pop(0))
    request = build(request_class(ApiKey.ALTER_PARTITION, 3), broker_id=3, topics=[])
    with pytest.raises(WireClientError):
        channel.request(request)
    for _ in range(2):
        assert int(channel.request(request).error_code) == 0
    assert places == [nobody], "looked up once more, and then no more"
    assert peer.client_ids == [str(config.broker_id)] * 2
    channel.close()

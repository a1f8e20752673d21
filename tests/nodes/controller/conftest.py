"""Controllers on a real ZooKeeper, and brokers that only speak the control protocol.

A `FakeBroker` listens, parses what controllers send with the real codec, remembers it and answers
"no error". It can be made to hold its answers back (`hold`) or to answer partitions with an error.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nodes.config import BrokerConfig
from nodes.controller.controller import KafkaController
from nodes.coordination import zk as zk_module
from nodes.coordination.zk import KafkaZkClient
from nodes.core.assignment import ReplicaAssignment
from nodes.core.brokers import Broker, EndPoint
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition
from nodes.metrics import Metrics
from nodes.trace import Trace
from nodes.wire.apis import ApiKey, response_class
from nodes.wire.codec import build, encode_response, parse_body, parse_header
from tests.jsonl import whole_rows
from tests.nodes.controller.memory import MemoryZooKeeper, SharedSession


class FakeBroker:
    """One broker's control endpoint. `requests`: (header, entity) in order of arrival."""

    def __init__(self, broker_id: int) -> None:
        self.id = broker_id
        self.requests: list[tuple[Any, Any]] = []
        self.partition_error = 0
        self.stop_error = 0
        """What it answers to StopReplica alone: it may be told of a role still."""
        self.flowing = threading.Event()
        self.flowing.set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def broker(self) -> Broker:
        return Broker(self.id, (EndPoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", self.port),))

    def of(self, api: ApiKey) -> list[Any]:
        return [entity for header, entity in list(self.requests) if header.api_key == api]

    def leader_and_isr(self, tp: TopicPartition) -> list[Any]:
        """What the broker was told about a partition's roles, oldest first."""
        return _states(self.of(ApiKey.LEADER_AND_ISR), tp)

    def leaders_told(self, tp: TopicPartition) -> list[int]:
        """The leaders that it was told of, each change once. (A dead replica's partition is told
        twice of its new leader: once by the election, once as the replica goes offline.)"""
        told = [(s.leader, s.leader_epoch) for s in self.leader_and_isr(tp)]
        return [leader for leader, _ in dict.fromkeys(told)]

    def metadata(self, tp: TopicPartition) -> list[Any]:
        return _states(self.of(ApiKey.UPDATE_METADATA), tp)

    def stops(self, tp: TopicPartition) -> list[Any]:
        return _states(self.of(ApiKey.STOP_REPLICA), tp)

    def hold(self) -> None:
        """Answer nothing until `release`."""
        self.flowing.clear()

    def release(self) -> None:
        self.flowing.set()

    def drop_connections(self) -> None:
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.close()
        self.flowing.set()
        self.drop_connections()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError):
            while size := stream.read(4):
                frame = stream.read(struct.unpack(">i", size)[0])
                header = parse_header(frame)
                entity = parse_body(header, frame)
                self.requests.append((header, entity))
                self.flowing.wait(120)
                answer = build(
                    response_class(header.api_key, header.api_version),
                    **self._answer(header.api_key, entity),
                )
                connection.sendall(
                    encode_response(
                        header.api_key, header.api_version, header.correlation_id, answer
                    )
                )

    def _answer(self, api_key: int, entity: Any) -> dict[str, Any]:
        error = self.partition_error
        if api_key == ApiKey.LEADER_AND_ISR:
            topics = [
                {
                    "topic_id": topic.topic_id,
                    "partition_errors": [
                        {"partition_index": p.partition_index, "error_code": error}
                        for p in topic.partition_states
                    ],
                }
                for topic in entity.topic_states
            ]
            return {"error_code": 0, "topics": topics}
        if api_key == ApiKey.STOP_REPLICA:
            errors = [
                {
                    "topic_name": topic.topic_name,
                    "partition_index": p.partition_index,
                    "error_code": error or self.stop_error,
                }
                for topic in entity.topic_states
                for p in topic.partition_states
            ]
            return {"error_code": 0, "partition_errors": errors}
        return {"error_code": 0}


def _states(requests: list[Any], tp: TopicPartition) -> list[Any]:
    return [
        state
        for request in requests
        for topic in request.topic_states
        for state in topic.partition_states
        if (topic.topic_name, state.partition_index) == tp
    ]


class Node:
    """A broker as the controller's tests need it: session, registration, controller, endpoint."""

    def __init__(
        self,
        fake: FakeBroker,
        zk: KafkaZkClient,
        trace_path: Path,
        rules: Rules = RULES,
        **configs: str,
    ) -> None:
        self.fake, self.zk = fake, zk
        self.trace_path = trace_path
        properties = {
            "broker.id": str(fake.id),
            "zookeeper.connect": "ignored:1",
            "listeners": f"PLAINTEXT://127.0.0.1:{fake.port}",
            "auto.leader.rebalance.enable": "false",
            **configs,
        }
        self.metrics = Metrics()
        self.controller = KafkaController(
            BrokerConfig.from_properties(properties),
            zk,
            fake.broker,
            Trace(trace_path, fake.id, 1),
            self.metrics,
            rules,
            broker_epoch=zk.register_broker(fake.broker),
            now_ns=time.monotonic_ns,
        )

    def trace(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in whole_rows(self.trace_path) if row["f"] == kind]


class World:
    """Makes brokers, nodes and topics; cleans up after a test."""

    def __init__(self, zookeeper: str, chroot: str, folder: Path) -> None:
        self._zookeeper, self._chroot, self._folder = zookeeper, chroot, folder
        self._clients: list[KafkaZkClient] = []
        self._nodes: list[Node] = []
        self._fakes: list[FakeBroker] = []
        self.admin = self.connect()

    def connect(
        self, address: str | None = None, session_timeout_ms: int = 30_000, **options: bool
    ) -> KafkaZkClient:
        connect = (address or self._zookeeper) + self._chroot
        client = KafkaZkClient(connect, session_timeout_ms, **options)
        self._clients.append(client)
        client.start()
        return client

    def broker(self, broker_id: int) -> FakeBroker:
        """A registered broker that never stands for election."""
        fake = FakeBroker(broker_id)
        self._fakes.append(fake)
        fake.zk = self.connect()  # type: ignore[attr-defined]
        fake.zk.register_broker(fake.broker)  # type: ignore[attr-defined]
        return fake

    def node(self, broker_id: int, address: str | None = None, **kwargs: Any) -> Node:
        """A broker with a controller; start it with ``.controller.startup()``."""
        timeout_ms = kwargs.pop("session_timeout_ms", 30_000)
        checks = kwargs.pop("checks_controller_znode", True)
        fake = FakeBroker(broker_id)
        self._fakes.append(fake)
        trace = self._folder / f"trace-{broker_id}.jsonl"
        zk = self.connect(address, timeout_ms, checks_controller_znode=checks)
        node = Node(fake, zk, trace, **kwargs)
        self._nodes.append(node)
        return node

    def create_topic(self, topic: str, *assignment: tuple[int, ...]) -> list[TopicPartition]:
        from uuid import uuid4

        partitions = [TopicPartition(topic, p) for p in range(len(assignment))]
        self.admin.create_topic_assignment(
            topic,
            uuid4(),
            {tp: ReplicaAssignment(r) for tp, r in zip(partitions, assignment, strict=True)},
        )
        return partitions

    def state(self, tp: TopicPartition) -> Any:
        """(leader, leader epoch, isr) as in ZooKeeper, None when there is none yet."""
        found = self.admin.get_topic_partition_states([tp]).get(tp)
        if found is None:
            return None
        state = found.leader_and_isr
        return state.leader, state.leader_epoch, state.isr

    def close(self) -> None:
        for fake in self._fakes:
            fake.close()
        for node in self._nodes:
            node.controller.shutdown()
        for client in self._clients:
            client.close()


@pytest.fixture
def world(zookeeper: str, zookeeper_chroot: str, tmp_path: Path) -> Iterator[World]:
    made = World(zookeeper, zookeeper_chroot, tmp_path)
    yield made
    made.close()


@pytest.fixture
def world_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[World]:
    """The same without a server, for tests that end no session."""
    tree = MemoryZooKeeper()
    monkeypatch.setattr(zk_module, "ZooKeeperSession", lambda *_, **__: SharedSession(tree))
    made = World("memory:1", "", tmp_path)
    yield made
    made.close()


@pytest.fixture
def ask() -> Callable[..., Any]:
    """Call an asynchronous controller method and wait for what it responds."""

    def call(method: Callable[..., None], *args: Any) -> Any:
        answered = threading.Event()
        answers: list[Any] = []

        def respond(*answer: Any) -> None:
            answers.append(answer if len(answer) > 1 else answer[0])
            answered.set()

        method(*args, respond)
        assert answered.wait(60), f"no answer from {method}"
        return answers[0]

    return call

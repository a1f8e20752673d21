"""One broker without sockets, ZooKeeper and a controller: requests go in as frames and come out as
frames, through the real codec, handlers, replica manager and logs.

`Administration` stands in for the controller's side: what it is asked to create it applies at once
and then tells this broker by real LeaderAndIsr and UpdateMetadata requests.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.api.apis import KafkaApis
from nodes.api.parse import parse
from nodes.api.services import Services
from nodes.config import BrokerConfig
from nodes.controller.results import Result
from nodes.coordination.admin import NewTopic, TopicResult
from nodes.coordination.producer_ids import ProducerIdManager
from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.groups.coordinator import GroupCoordinator
from nodes.log.config import LogConfig
from nodes.log.manager import LogManager
from nodes.metrics import Metrics
from nodes.network.request_channel import Request, Stream
from nodes.replication.metadata_cache import MetadataCache
from nodes.replication.replica_manager import ReplicaManager
from nodes.trace import Trace
from nodes.wire.apis import ApiKey, request_class
from nodes.wire.codec import build, decode_response, encode_request
from tests.jsonl import whole_rows

BROKER_ID = 1
BROKER_EPOCH = 100
CLUSTER_ID = "c_-uSTeR_Id22characters"

Fields = dict[str, Any]

_OPEN = SimpleNamespace(fd=1, hung_up=False)
"""As much of a connection as answers need."""


class Reply:
    """The end of one request: a frame, nothing at all (b""), or a closed connection (None)."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self.frame: bytes | None = None
        self.correlation_id = -1
        self.request: Request | None = None
        """Once it has been answered."""

    def reply(self, request: Request, frame: bytes | Stream | None) -> None:
        self.request = request
        self.frame = whole(frame) if frame else b"" if frame is not None else None
        if request.on_sent is not None:
            request.on_sent(time.monotonic_ns())
        self._done.set()

    @property
    def is_done(self) -> bool:
        return self._done.is_set()

    def wait(self, timeout_s: float = 60.0) -> bytes | None:
        assert self._done.wait(timeout_s), "no answer"
        return self.frame


def whole(frame: bytes | Stream) -> bytes:
    """What a processor would send of it."""
    if isinstance(frame, bytes):
        return frame
    data = bytearray(len(frame))
    with memoryview(data) as view:
        assert frame.fill(view) == len(data)
    return bytes(data)


class VersionedNodes:
    """As much of ZooKeeper as producer ids need."""

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.version = 0

    def get_data_and_version(self, path: str) -> tuple[bytes | None, int]:
        return self.data, self.version

    def conditional_update_path(self, path: str, data: bytes, expected_version: int) -> int | None:
        if expected_version != self.version:
            return None
        self.data, self.version = data, self.version + 1
        return self.version


class Administration:
    """Controller and AdminManager in one, for a cluster of this one broker."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self.is_active = True
        self.propagates = True
        self.broker_epoch = BROKER_EPOCH
        self.configs: dict[str, dict[str, str]] = {}
        self.calls: list[tuple[str, Any]] = []

    # ---- AdminManager ----------------------------------------------------------------------------

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicResult]:
        return {topic.name: self._create(topic, validate_only) for topic in topics}

    def _create(self, topic: NewTopic, validate_only: bool) -> TopicResult:
        if topic.name in self._node.cache.topics():
            return TopicResult(error=Errors.TOPIC_ALREADY_EXISTS, message="exists")
        if topic.replication_factor > 1:
            return TopicResult(error=Errors.INVALID_REPLICATION_FACTOR, message="too many")
        count = len(topic.assignments) or max(topic.num_partitions, 1)
        self.configs[topic.name] = {k: v for k, v in topic.configs.items() if v is not None}
        topic_id = uuid.uuid5(uuid.NAMESPACE_URL, topic.name)
        if not validate_only and self.propagates:
            self._node.lead(topic.name, count, topic_id=topic_id)
        return TopicResult(
            topic_id=None if validate_only else topic_id,
            assignment=dict.fromkeys(range(count), (BROKER_ID,)),
            configs=self.configs[topic.name],
        )

    def delete_topics(self, names: Sequence[str]) -> dict[str, TopicResult]:
        for name in names:
            if self.propagates:
                gone = [(p, -2, 0) for p in self._node.cache.topics()[name]]
                self._node.update_metadata([_topic(name, gone)])
        return {name: TopicResult() for name in names}

    def create_partitions(
        self,
        topic: str,
        count: int,
        assignments: Sequence[Sequence[int]] | None,
        *,
        validate_only: bool = False,
    ) -> TopicResult:
        if topic not in self._node.cache.topics():
            raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")
        if not validate_only:
            self._node.lead(topic, count, topic_id=self._node.cache.topic_id(topic))
        return TopicResult(assignment=dict.fromkeys(range(count), (BROKER_ID,)))

    def topic_configs(self, topic: str) -> dict[str, str]:
        return self.configs.get(topic, {})

    def alter_topic_configs(
        self, topic: str, configs: Mapping[str, str], *, validate_only: bool = False
    ) -> TopicResult:
        if configs.get("retention.ms") == "bad":
            return TopicResult(error=Errors.INVALID_CONFIG, message="bad")
        if not validate_only:
            self.configs[topic] = dict(configs)
        return TopicResult(configs=dict(configs))

    def broker_configs(self, broker: str) -> dict[str, str]:
        return self.configs.get(f"broker {broker}", {})

    def alter_broker_configs(
        self, broker: str, configs: Mapping[str, str], *, validate_only: bool = False
    ) -> TopicResult:
        return self.alter_topic_configs(f"broker {broker}", configs, validate_only=validate_only)

    # ---- KafkaController -------------------------------------------------------------------------

    def is_topic_queued_for_deletion(self, topic: str) -> bool:
        return topic == "queued"

    def controlled_shutdown(
        self,
        broker_id: int,
        broker_epoch: int,
        respond: Callable[[Errors, Collection[TopicPartition]], None],
    ) -> None:
        self.calls.append(("controlled_shutdown", (broker_id, broker_epoch)))
        respond(Errors.NONE, [TopicPartition(t, p) for t, p in (("t", 3), ("t", 4), ("u", 0))])

    def elect_leaders(
        self,
        election_type: int,
        partitions: Collection[TopicPartition] | None,
        respond: Callable[[Mapping[TopicPartition, Result]], None],
    ) -> None:
        self.calls.append(("elect_leaders", (election_type, partitions)))
        not_needed = Result(Errors.ELECTION_NOT_NEEDED, "has it")
        respond(
            {
                tp: not_needed if tp.partition else Result(Errors.NONE, None, BROKER_ID)
                for tp in partitions or ()
            }
        )

    def alter_partitions(self, request: Any, respond: Callable[[Fields], None]) -> None:
        self.calls.append(("alter_partitions", request))
        respond({"error_code": 0, "topics": []})

    def alter_reassignments(self, reassignments: Any, respond: Callable[..., None]) -> None:
        self.calls.append(("alter_reassignments", reassignments))
        respond(Errors.NONE, {tp: Result() for tp in reassignments})

    def list_reassignments(self, partitions: Any, respond: Callable[..., None]) -> None:
        assignment = SimpleNamespace(replicas=(1, 2), adding_replicas=(2,), removing_replicas=())
        respond(Errors.NONE, {TopicPartition("t", 0): assignment})


class Node:
    """The broker. `call` sends one request and returns its decoded answer."""

    def __init__(self, directory: Path, **properties: str) -> None:
        self.config = BrokerConfig.from_properties(
            {
                "broker.id": str(BROKER_ID),
                "zookeeper.connect": "unused:1",
                "log.dirs": str(directory / "data"),
                "offsets.topic.num.partitions": "1",
                "offsets.topic.replication.factor": "1",
                "group.min.session.timeout.ms": "10",
                "group.initial.rebalance.delay.ms": "0",
                **properties,
            }
        )
        self.trace_path = directory / "trace.jsonl"
        self.cache = MetadataCache(BROKER_ID)
        self.log_manager = LogManager(
            [directory / "data"],
            LogConfig(segment_bytes=1 << 20),
            now_ms=lambda: 1_700_000_000_000,
            broker_id=BROKER_ID,
        )
        self.log_manager.load()
        trace, metrics = Trace(self.trace_path, BROKER_ID), Metrics()
        self.admin = Administration(self)
        self.manager = ReplicaManager(
            self.config,
            self.log_manager,
            self.cache,
            trace,
            metrics,
            now_ns=time.monotonic_ns,
            broker_epoch=lambda: BROKER_EPOCH,
            topic_overrides=lambda _topic: {},
        )
        self.groups = GroupCoordinator(self.config, self.manager)
        self.manager.on_leadership_change = self.groups.on_leadership_change
        self.manager.startup()
        self.groups.startup()
        admin: Any = self.admin
        self.apis = KafkaApis(
            Services(
                config=self.config,
                cluster_id=CLUSTER_ID,
                replica_manager=self.manager,
                metadata_cache=self.cache,
                controller=admin,
                admin=admin,
                broker_configs=self._broker_configs,
                zk=admin,
                producer_ids=ProducerIdManager(BROKER_ID, VersionedNodes()),
                groups=self.groups,
                trace=trace,
                metrics=metrics,
                broker_epoch=lambda: BROKER_EPOCH,
                now_ns=time.monotonic_ns,
            )
        )
        self._correlation_id = 0
        self.port = 9092
        self.live_brokers: list[Fields] = []
        self.update_metadata([])

    def _broker_configs(self, entity: str) -> Mapping[str, str]:
        return self.admin.broker_configs(entity)

    def stop(self) -> None:
        self.apis.shutdown()
        self.groups.shutdown()
        self.manager.shutdown(checkpoint=False)
        self.log_manager.close()

    # ---- requests --------------------------------------------------------------------------------

    def send(
        self,
        api: ApiKey,
        version: int,
        *,
        listener: str = "PLAINTEXT",
        client_id: str = "tester",
        connection: Any = _OPEN,
        **fields: Any,
    ) -> Reply:
        self._correlation_id += 1
        entity = build(request_class(api, version), **fields)
        frame = encode_request(entity, self._correlation_id, client_id)[4:]
        return self.send_frame(frame, listener, connection)

    def send_frame(
        self, frame: bytes, listener: str = "PLAINTEXT", connection: Any = _OPEN
    ) -> Reply:
        header, body = parse(frame)
        reply = Reply()
        reply.correlation_id = header.correlation_id
        request = Request(
            reply,
            connection,
            header,
            body,
            frame,
            listener,
            "data",
            "127.0.0.1",
            time.monotonic_ns(),
        )
        self.apis.handle(request)
        request.let_go()
        return reply

    def call(self, api: ApiKey, version: int, **fields: Any) -> Any:
        reply = self.send(api, version, **fields)
        frame = reply.wait()
        assert frame, "closed, or no response"
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        answered, entity = decode_response(api, version, frame[4:])
        assert answered == reply.correlation_id
        return entity

    # ---- the controller's orders -----------------------------------------------------------------

    def lead(
        self,
        topic: str,
        partitions: int = 1,
        *,
        leader: int = BROKER_ID,
        leader_epoch: int = 0,
        topic_id: uuid.UUID | None = None,
        **changes: Any,
    ) -> Any:
        """LeaderAndIsr, then UpdateMetadata: this broker (or `leader`) leads the topic."""
        rows = [(p, leader, leader_epoch) for p in range(partitions)]
        answer = self.leader_and_isr(topic, rows, topic_id=topic_id, **changes)
        self.update_metadata([_topic(topic, rows, topic_id)])
        return answer

    def leader_and_isr(
        self,
        topic: str,
        rows: Sequence[tuple[int, int, int]],
        *,
        version: int = 7,
        topic_id: uuid.UUID | None = None,
        **changes: Any,
    ) -> Any:
        fields: Fields = {
            "controller_id": BROKER_ID,
            "controller_epoch": 1,
            "broker_epoch": BROKER_EPOCH,
            "type_": 0,
            "topic_states": [_topic(topic, rows, topic_id, epoch_name="partition_epoch")],
            "live_leaders": [],
        }
        return self.call(ApiKey.LEADER_AND_ISR, version, **(fields | changes))

    def update_metadata(self, topics: Sequence[Fields], *, version: int = 8, **changes: Any) -> Any:
        fields: Fields = {
            "controller_id": BROKER_ID,
            "controller_epoch": 1,
            "broker_epoch": BROKER_EPOCH,
            "topic_states": topics,
            "live_brokers": self.live_brokers
            or [
                self.own_broker(),
                {"id_": 2, "endpoints": [_endpoint("PLAINTEXT", 9094)], "rack": None},
            ],
        }
        return self.call(ApiKey.UPDATE_METADATA, version, **(fields | changes))

    def own_broker(self) -> Fields:
        endpoints = [_endpoint("PLAINTEXT", self.port), _endpoint("CONTROLLER", 9093)]
        return {"id_": BROKER_ID, "endpoints": endpoints, "rack": "r1"}

    def trace(self, kind: str) -> list[Fields]:
        return [row for row in whole_rows(self.trace_path) if row["f"] == kind]


def _endpoint(listener: str, port: int) -> Fields:
    return {"port": port, "host": "127.0.0.1", "listener": listener, "security_protocol": 0}


def _topic(
    name: str,
    rows: Sequence[tuple[int, int, int]],
    topic_id: uuid.UUID | None = None,
    *,
    epoch_name: str = "zk_version",
) -> Fields:
    """A topic state of (partition, leader, leader epoch) rows."""
    return {
        "topic_name": name,
        "topic_id": topic_id,
        "partition_states": [
            {
                "partition_index": partition,
                "controller_epoch": 1,
                "leader": leader,
                "leader_epoch": leader_epoch,
                "isr": [leader],
                epoch_name: leader_epoch,
                "replicas": sorted({BROKER_ID, max(leader, 1)}),
            }
            for partition, leader, leader_epoch in rows
        ],
    }


@pytest.fixture
def topic_state() -> Callable[..., Fields]:
    return _topic


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    made: list[Node] = []

    def make(**properties: str) -> Node:
        made.append(Node(tmp_path / f"node-{len(made)}", **properties))
        return made[-1]

    yield make
    for node in made:
        node.stop()


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    return make_node()

"""The same control requests, stale, careless and hostile ones among them, to this broker and to
Apache Kafka: the same answers, and afterwards the same broker.

Each story has two topics of its own and a controller that is not the real one: its epoch is higher
than that of any controller before it. It says of three partitions who leads them and who has them,
with epochs that fit now and then; after each request both brokers are asked what clients and
operators can ask, and their log directories are looked into. ControlledShutdown and AlterPartition
go to the real controller, which each broker is for itself.

``BIPLANE_CONTROL_STORIES`` and ``BIPLANE_CONTROL_SEED`` ask for more, or for others.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from nodes.core.types import TopicPartition
from nodes.log.checkpoints import read_partition_metadata
from nodes.wire.apis import SUPPORTED, ApiKey, request_class
from nodes.wire.client import Connection
from nodes.wire.codec import build
from nodes.wire.errors import WireClientError
from nodes.wire.records import build_batch
from tests.integration.test_groups_like_kafka import plain
from tests.kip291.kafka import KafkaBroker
from tests.kip291.parts import RunningBroker
from tests.kip291.registry import Registry

pytestmark = pytest.mark.cluster

STORIES = int(os.environ.get("BIPLANE_CONTROL_STORIES", "40"))
SEED = int(os.environ.get("BIPLANE_CONTROL_SEED", "291"))
PATIENCE_S = 60.0
SETTLED_S = 3.0
"""Fetchers come and go on threads of their own: what differs for longer is a difference."""
NOBODY = 9
"""A broker that there never was."""

Call = tuple[ApiKey, int, dict[str, Any]]


class Side:
    """One broker."""

    def __init__(self, name: str, port: int, broker_epoch: int, log_dir: Path) -> None:
        self.name = name
        self.broker_epoch = broker_epoch
        self._log_dir = log_dir
        self._client = Connection("127.0.0.1", port, "client", PATIENCE_S)

    def ask(self, call: Call) -> Any:
        api, version, fields = call
        own = {"broker_epoch": self.broker_epoch + fields["broker_epoch"]} if (
            fields.get("broker_epoch", -1) != -1
        ) else {}
        entity = build(request_class(api, version), **{**fields, **own})
        try:
            return ordered(plain(self._client.request(entity)))
        except WireClientError:
            self._client.close()
            self._client = Connection("127.0.0.1", self._client.port, "client", PATIENCE_S)
            return "closed"

    def logs(self, topics: Sequence[str]) -> dict[str, str]:
        """Directories of partitions that are not being deleted, with the topic ids in them."""
        return {
            path.name: str(read_partition_metadata(path))
            for path in self._log_dir.iterdir()
            if path.name.rpartition("-")[0] in topics
        }


def ordered(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        return {k: ordered(v, k) for k, v in value.items() if k not in _OF_ITS_OWN}
    if isinstance(value, list):
        rows = sorted(json.dumps(ordered(item), sort_keys=True) for item in value)
        return [json.loads(row) for row in rows]
    return value


_OF_ITS_OWN = {"throttle_time", "log_dir", "total_bytes", "usable_bytes", "cluster_id"}


class Story:
    """Draws requests. `hear` what was answered, and what fits becomes likelier."""

    def __init__(self, rng: random.Random, number: int, epoch: int, ports: Mapping[str, int]) -> None:
        self._rng = rng
        self.epoch = epoch
        self._ports = ports
        self.topics = [f"a{number}", f"b{number}"]
        self.partitions = [(self.topics[0], 0), (self.topics[0], 1), (self.topics[1], 0)]
        self._ids = {topic: uuid.uuid5(uuid.NAMESPACE_URL, topic) for topic in self.topics}
        self._known = dict.fromkeys(self.partitions, (-1, 0))
        """Leader epoch and partition epoch, as far as the controller was answered."""
        self._told: dict[tuple[str, int], tuple[int, int]] = {}

    def calls(self) -> Iterator[Call]:
        rng = self._rng
        yield self._updates(brokers=[1, 2])
        draws = [self._leads] * 6 + [self._stops] * 2 + [self._updates] * 2 + [self._shuts_down]
        for _ in range(rng.choice([4, 8, 12])):
            yield rng.choice(draws)()

    def hear(self, call: Call, answer: Any) -> None:
        if answer == "closed" or answer["error_code"] != 0:
            return
        if "controller_epoch" in call[2]:
            self.epoch = max(self.epoch, call[2]["controller_epoch"])
        if call[0] is ApiKey.LEADER_AND_ISR:
            for tp, told in self._told.items():
                if told > self._known[tp]:
                    self._known[tp] = told

    # ---- parts -----------------------------------------------------------------------------------

    def _version(self, api: ApiKey) -> int:
        low, high = SUPPORTED[api]
        return self._rng.choice([high, high, self._rng.randint(low, high)])

    def _sender(self) -> dict[str, Any]:
        rng = self._rng
        return {
            "controller_id": rng.choice([1] * 6 + [2, 0, -1]),
            "controller_epoch": rng.choice([self.epoch] * 12 + [self.epoch + 1] * 2
                + [self.epoch - 1, 1, 0, -1, -(2**31)]),
            # Beside -1, how far from the broker's own.
            "broker_epoch": rng.choice([-1] * 8 + [0] * 6 + [-2, -5, 1]),
        }

    def _replicas(self) -> list[int]:
        return list(self._rng.choice([(1,)] * 4 + [(1, 2)] * 4 + [(2, 1), (2,), (), (1, 1), (1, 2, 3)]))

    def _epochs(self, tp: tuple[str, int]) -> tuple[int, int]:
        rng, (leader_epoch, partition_epoch) = self._rng, self._known[tp]
        return (
            rng.choice([leader_epoch + 1] * 10 + [leader_epoch] * 2 + [leader_epoch + 5, leader_epoch - 1, 0, -1, -2, -9]),
            rng.choice([partition_epoch + 1] * 8 + [partition_epoch] * 2 + [partition_epoch - 1, 0, -1, -2]),
        )

    def _by_topic(self, row: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        chosen = self._rng.sample(self.partitions, self._rng.randint(1, 3))
        for topic, found in itertools.groupby(sorted(chosen), key=lambda tp: tp[0]):
            yield topic, [row(tp) for tp in found]

    def _id(self, topic: str) -> uuid.UUID:
        own = self._ids[topic]
        return self._rng.choice([own] * 12 + [uuid.UUID(int=0)] * 2 + [uuid.UUID(int=7)])

    # ---- requests --------------------------------------------------------------------------------

    def _leads(self) -> Call:
        rng, version = self._rng, self._version(ApiKey.LEADER_AND_ISR)
        sender = self._sender()
        self._told = {}

        def row(tp: tuple[str, int]) -> dict[str, Any]:
            leader_epoch, partition_epoch = self._told[tp] = self._epochs(tp)
            return {
                "partition_index": tp[1],
                "controller_epoch": rng.choice([sender["controller_epoch"]] * 5 + [0, -1]),
                "leader": rng.choice([1] * 6 + [2] * 4 + [NOBODY, -1, -2]),
                "leader_epoch": leader_epoch,
                "isr": self._replicas(),
                "partition_epoch": partition_epoch,
                "replicas": self._replicas(),
                "adding_replicas": [],
                "removing_replicas": [],
                "is_new": rng.random() < 0.5,
            }

        topics = [
            {"topic_name": topic, "topic_id": self._id(topic), "partition_states": rows}
            for topic, rows in self._by_topic(row)
        ]
        live = [{"broker_id": 1, "host_name": "127.0.0.1", "port": 1}]
        return ApiKey.LEADER_AND_ISR, version, {**sender, "type_": 0, "topic_states": topics, "live_leaders": live}

    def _stops(self) -> Call:
        rng, version = self._rng, self._version(ApiKey.STOP_REPLICA)
        if version < 3:
            topics = [
                {"name": topic, "partition_indexes": rows}
                for topic, rows in self._by_topic(lambda tp: tp[1])
            ]
            fields = {"delete_partitions": rng.random() < 0.5, "topics": topics}
        else:
            fields = {"topic_states": [
                {"topic_name": topic, "partition_states": rows}
                for topic, rows in self._by_topic(lambda tp: {
                    "partition_index": tp[1],
                    "leader_epoch": rng.choice([self._known[tp][0]] * 3 + [self._known[tp][0] + d for d in (-1, 1)] + [-2, -2, -1, -3]),
                    "delete_partition": rng.random() < 0.5,
                })
            ]}
        return ApiKey.STOP_REPLICA, version, {**self._sender(), **fields}

    def _updates(self, brokers: Sequence[int] | None = None) -> Call:
        rng, version = self._rng, self._version(ApiKey.UPDATE_METADATA)

        def row(tp: tuple[str, int]) -> dict[str, Any]:
            leader_epoch, partition_epoch = self._epochs(tp)
            return {
                "partition_index": tp[1],
                "controller_epoch": self.epoch,
                "leader": rng.choice([1] * 4 + [2] * 2 + [NOBODY, -1, -2, -2]),
                "leader_epoch": leader_epoch,
                "isr": self._replicas(),
                "zk_version": partition_epoch,
                "replicas": self._replicas(),
                "offline_replicas": rng.choice([[], [], [2], [NOBODY]]),
            }

        topics = [
            {"topic_name": topic, "topic_id": self._id(topic), "partition_states": rows}
            for topic, rows in self._by_topic(row)
        ]
        alive = rng.choice([[1, 2]] * 6 + [[1], [1, 2, 3]]) if brokers is None else brokers
        sender = self._sender() if brokers is None else {"controller_id": 1, "controller_epoch": self.epoch, "broker_epoch": -1}
        live = [
            {
                "id_": broker,
                "rack": rng.choice([None, "r"]),
                "endpoints": [
                    {
                        "port": 1,
                        "host": "127.0.0.1",
                        "listener": listener,
                        "security_protocol": 0,
                    }
                    for listener in ("CLIENT", "REPLICATION", "CONTROLLER")
                ],
            }
            for broker in alive
        ]
        return ApiKey.UPDATE_METADATA, version, {**sender, "topic_states": topics if brokers is None else [], "live_brokers": live}

    def _shuts_down(self) -> Call:
        rng = self._rng
        version = self._version(ApiKey.CONTROLLED_SHUTDOWN)
        fields = {
            "broker_id": rng.choice([1, 1, 2, NOBODY, -1]),
            "broker_epoch": rng.choice([-1, 0, 0, -3, 1]),
        }
        if version < 2:
            del fields["broker_epoch"]
        return ApiKey.CONTROLLED_SHUTDOWN, version, fields


    # ---- what both are asked ---------------------------------------------------------------------

    def looks(self) -> Iterator[Call]:
        """Nothing of it changes a broker."""
        yield ApiKey.METADATA, 10, {
            "topics": [{"topic_id": uuid.UUID(int=0), "name": topic} for topic in self.topics],
            "allow_auto_topic_creation": False,
        }
        yield ApiKey.DESCRIBE_LOG_DIRS, 4, {
            "topics": [{"topic": topic, "partitions": [0, 1]} for topic in self.topics],
        }
        for (topic, partition), replica in itertools.product(self.partitions, (-1, -2)):
            for timestamp, epoch in ((-1, -1), (-2, -1), (-1, max(0, self._known[topic, partition][0]))):
                yield ApiKey.LIST_OFFSETS, 5, {
                    "replica_id": replica, "isolation_level": 0,
                    "topics": [{"name": topic, "partitions": [{
                        "partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp,
                    }]}],
                }

    def produces(self) -> Call:
        """To every partition, whoever leads it."""
        batch = build_batch([(None, b"v", 1)])
        topics = [
            {"name": topic, "partition_data": [{"index": p, "records": batch} for t, p in self.partitions if t == topic]}
            for topic in self.topics
        ]
        return ApiKey.PRODUCE, 7, {"acks": self._rng.choice([1, 1, -1]), "timeout": 1, "topic_data": topics}


def difference(story: Story, sides: Sequence[Side]) -> str | None:
    """Between what both are, once threads have had their time."""
    looks = {f"{call[0].name} {call[2]}": partial(Side.ask, call=call) for call in story.looks()}
    looks["logs"] = partial(Side.logs, topics=story.topics)
    for name, look in looks.items():
        deadline_s = time.monotonic() + SETTLED_S
        while True:
            one, other = map(look, sides)
            if one == other:
                break
            if time.monotonic() > deadline_s:
                return f"{name}\n   -> {one}\n   Kafka: {other}"
            time.sleep(0.02)
    return None


def play(story: Story, sides: Sequence[Side]) -> str | None:
    """What differed, with all that led to it."""
    told: list[str] = []
    for number, call in enumerate(story.calls(), 1):
        for each in (call, story.produces()):
            one, other = (side.ask(each) for side in sides)
            told.append(f"{number}: {each[0].name} v{each[1]} {each[2] if each is call else each[2]['acks']}")
            told.append(f"   -> {one}")
            if one != other:
                return "\n".join([*told, f"   Kafka: {other}"])
            if each is call:
                story.hear(call, one)
        found = difference(story, sides)
        if found is not None:
            return "\n".join([*told, found])
    return None


@pytest.fixture(scope="module")
def sides(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """(this broker, Apache Kafka)."""
    home = tmp_path_factory.mktemp("control")
    kafka = KafkaBroker(f"{zookeeper}/control-kafka", home / "kafka")
    ours = RunningBroker(
        f"{zookeeper}/control-ours", home / "ours", control_plane_listener_name="CONTROLLER"
    )
    try:
        made = []
        for name, broker in (("ours", ours), ("kafka", kafka)):
            registry = Registry(f"{zookeeper}/control-{name}")
            epoch = registry.broker_epoch(1)
            registry.close()
            made.append(Side(name, broker.ports["CLIENT"], epoch, broker.folder / "data"))
        yield made[0], made[1]
    finally:
        ours.stop()
        kafka.stop()


def test_the_same_is_answered_and_done(sides: tuple[Side, Side]) -> None:
    rng = random.Random(SEED)
    differing = []
    epoch = 100
    for number in range(STORIES):
        story = Story(rng, number, epoch, {})
        found = play(story, sides)
        if found is not None:
            differing.append(found)
        epoch = story.epoch + 10
    Path("/tmp/i10/differing.txt").write_text("\n\n=====\n".join(differing))
    assert not differing, f"{len(differing)} of {STORIES} stories:\n" + "\n\n".join(differing[:3])

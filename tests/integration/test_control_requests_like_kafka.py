"""The same control requests, stale, careless and hostile ones among them, to this broker and to
Apache Kafka: the same answers, and afterwards the same broker.

Each story has two topics of its own and a controller that is not the real one: its epoch is higher
than that of any controller before it. It says of three partitions who leads them and who has them,
with epochs that fit now and then. After each request clients produce to them, and both brokers are
asked what clients, followers and operators can ask; their log directories are looked into.
ControlledShutdown and AlterPartition go to the real controller, which each broker is for itself.

Left out is where the two are known to differ, by design:

* names that become paths: partitions that there cannot be (this broker refuses them, Kafka makes
  directories of them; tests/nodes/api/test_hostile_names.py);
* controllers of KRaft, whose migration this broker does not know.

And no difference to any client: how a fetch's answer is grouped by topics, and whether it says that
there are no aborted transactions or says nothing of them.

``BIPLANE_CONTROL_STORIES`` and ``BIPLANE_CONTROL_SEED`` ask for more, or for others.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from benchmarks.one_broker import create_topic
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

STORIES = int(os.environ.get("BIPLANE_CONTROL_STORIES", "50"))
SEED = int(os.environ.get("BIPLANE_CONTROL_SEED", "291"))
PATIENCE_S = 60.0
SETTLED_S = 5.0
"""Some of it is done on threads of their own: what differs for longer is a difference."""
OWN_EPOCHS_START = 100
REAL = uuid.UUID(int=1)
"""In a call: the id of a topic that the real controllers know, which is each broker's own."""
NO_ID = uuid.UUID(int=0)
NOBODY = 9
"""A broker that there never was."""
CLOSED = "closed"
OF_ITS_OWN = {"throttle_time", "log_dir", "total_bytes", "usable_bytes", "cluster_id"}
SAME_TO_ALL = {"aborted_transactions"}

Call = tuple[ApiKey, int, dict[str, Any]]
Partition = tuple[str, int]


class Side:
    """One broker."""

    def __init__(self, broker: RunningBroker | KafkaBroker, zookeeper: str) -> None:
        registry = Registry(zookeeper)
        self._broker_epoch = registry.broker_epoch(1)
        registry.close()
        self._log_dir = broker.folder / "data"
        self._port = broker.ports["CLIENT"]
        self._client = self._connection()
        create_topic(self._client, 1, "real")
        asked = build(
            request_class(ApiKey.METADATA, 10), topics=[{"topic_id": NO_ID, "name": "real"}]
        )
        self._real: uuid.UUID = self._client.request(asked).topics[0].topic_id

    def _connection(self) -> Connection:
        return Connection("127.0.0.1", self._port, "client", PATIENCE_S)

    def ask(self, call: Call) -> Any:
        """What comes back, without what is this broker's own."""
        api, version, fields = call
        fields = dict(fields)
        if fields.get("broker_epoch", -1) != -1:
            fields["broker_epoch"] += self._broker_epoch
        if api is ApiKey.ALTER_PARTITION:
            (topic,) = fields["topics"]
            topic_id = self._real if topic["topic_id"] == REAL else topic["topic_id"]
            fields["topics"] = [{**topic, "topic_id": topic_id}]
        try:
            answer = plain(self._client.request(build(request_class(api, version), **fields)))
        except WireClientError:
            self._client.close()
            self._client = self._connection()
            return CLOSED
        if api is ApiKey.FETCH:
            answer["responses"] = [
                {"topic": topic["topic"], **row}
                for topic in answer["responses"]
                for row in topic["partitions"]
            ]
        said = json.dumps(answer).replace(str(self._real.int), str(REAL.int))
        return ordered(json.loads(said))

    def logs(self, topics: Sequence[str]) -> dict[str, str]:
        """Directories of partitions that are not being deleted, with the topic ids in them."""
        return {
            path.name: str(read_partition_metadata(path))
            for path in self._log_dir.iterdir()
            if path.name.rpartition("-")[0] in topics
        }

    def close(self) -> None:
        self._client.close()


def ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: ordered(v) for k, v in value.items() if k not in OF_ITS_OWN | SAME_TO_ALL}
    if isinstance(value, list):
        rows = sorted(json.dumps(ordered(item), sort_keys=True) for item in value)
        return [json.loads(row) for row in rows]
    return value


class Story:
    """Draws requests. `hear` what was answered, and what fits becomes likelier."""

    def __init__(self, rng: random.Random, number: int, epoch: int) -> None:
        self._rng = rng
        self.epoch = epoch
        """The controller's."""
        self.topics = [f"a{number}", f"b{number}"]
        self.partitions = [(self.topics[0], 0), (self.topics[0], 1), (self.topics[1], 0)]
        self._ids = {topic: uuid.uuid5(uuid.NAMESPACE_URL, topic) for topic in self.topics}
        self._known = dict.fromkeys(self.partitions, (-1, 0))
        """Leader epoch and partition epoch, as far as the controller was answered."""
        self._told: dict[Partition, tuple[int, int]] = {}

    def calls(self) -> Iterator[Call]:
        yield self._introduces()
        draws: list[Callable[[], Call]] = [self._leads] * 8 + [self._stops] * 3
        draws += [self._updates] * 3 + [self._fetches] * 3 + [self._shuts_down, self._alters]
        for _ in range(self._rng.choice([4, 8, 12])):
            yield self._rng.choice(draws)()

    def hear(self, call: Call, answer: Any) -> None:
        if answer == CLOSED or answer.get("error_code"):
            return
        self.epoch = max(self.epoch, call[2].get("controller_epoch", 0))
        if call[0] is ApiKey.LEADER_AND_ISR:
            for tp, told in self._told.items():
                self._known[tp] = max(self._known[tp], told)

    # ---- parts -----------------------------------------------------------------------------------

    def _version(self, api: ApiKey) -> int:
        low, high = SUPPORTED[api]
        return self._rng.choice([high, high, self._rng.randint(low, high)])

    def _sender(self) -> dict[str, Any]:
        rng, now = self._rng, self.epoch
        others = [now + 1, now + 1, now - 1, 1, 0, -1, -(2**31)]
        return {
            "controller_id": rng.choice([1] * 6 + [2, 0, -1]),
            "controller_epoch": rng.choice([now] * 12 + others),
            # Beside -1, how far from the broker's own.
            "broker_epoch": rng.choice([-1] * 8 + [0] * 6 + [-2, -5, 1]),
        }

    def _replicas(self) -> list[int]:
        others: list[list[int]] = [[2, 1], [2], [], [1, 1], [1, 2, 3]]
        return self._rng.choice([[1]] * 4 + [[1, 2]] * 4 + others)

    def _epochs(self, tp: Partition) -> tuple[int, int]:
        leader, partition = self._known[tp]
        leaders = [leader + 1] * 10 + [leader] * 2 + [leader + 5, leader - 1, 0, -1, -2, -9]
        partitions = [partition + 1] * 8 + [partition] * 2 + [partition - 1, 0, -1, -2]
        return self._rng.choice(leaders), self._rng.choice(partitions)

    def _by_topic(self, row: Callable[[Partition], Any]) -> list[tuple[str, list[Any]]]:
        """Some partitions; one is named twice now and then."""
        chosen = self._rng.sample(self.partitions, self._rng.randint(1, 3))
        chosen += chosen[: self._rng.random() < 0.05]
        grouped = itertools.groupby(sorted(chosen), key=lambda tp: tp[0])
        return [(topic, [row(tp) for tp in found]) for topic, found in grouped]

    def _topic_states(self, row: Callable[[Partition], Any]) -> list[dict[str, Any]]:
        def an_id(topic: str) -> uuid.UUID:
            return self._rng.choice([self._ids[topic]] * 12 + [NO_ID, NO_ID, uuid.UUID(int=7)])

        return [
            {"topic_name": topic, "topic_id": an_id(topic), "partition_states": rows}
            for topic, rows in self._by_topic(row)
        ]

    def _live(self, brokers: Sequence[int]) -> list[dict[str, Any]]:
        """Nobody listens at port 1."""
        return [
            {
                "id_": broker,
                "rack": self._rng.choice([None, "r"]),
                "endpoints": [
                    {"port": 1, "host": "127.0.0.1", "listener": name, "security_protocol": 0}
                    for name in ("CLIENT", "REPLICATION", "CONTROLLER")
                ],
            }
            for broker in brokers
        ]

    # ---- requests --------------------------------------------------------------------------------

    def _introduces(self) -> Call:
        """The controller's first: who is there."""
        fields = {
            "controller_id": 1,
            "controller_epoch": self.epoch,
            "broker_epoch": -1,
            "topic_states": [],
            "live_brokers": self._live([1, 2]),
        }
        return ApiKey.UPDATE_METADATA, self._version(ApiKey.UPDATE_METADATA), fields

    def _updates(self) -> Call:
        rng = self._rng

        def row(tp: Partition) -> dict[str, Any]:
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

        fields = {
            **self._sender(),
            "topic_states": self._topic_states(row),
            "live_brokers": self._live(rng.choice([[1, 2]] * 6 + [[1], [1, 2, 3]])),
        }
        return ApiKey.UPDATE_METADATA, self._version(ApiKey.UPDATE_METADATA), fields

    def _leads(self) -> Call:
        rng, sender = self._rng, self._sender()
        self._told = {}

        def row(tp: Partition) -> dict[str, Any]:
            leader_epoch, partition_epoch = self._told[tp] = self._epochs(tp)
            return {
                "partition_index": tp[1],
                "controller_epoch": rng.choice([sender["controller_epoch"]] * 5 + [0, -1]),
                "leader": rng.choice([1] * 6 + [2] * 4 + [NOBODY, -1, -2]),
                "leader_epoch": leader_epoch,
                "isr": self._replicas(),
                "partition_epoch": partition_epoch,
                "replicas": self._replicas(),
                "adding_replicas": rng.choice([[]] * 5 + [[2]]),
                "removing_replicas": rng.choice([[]] * 5 + [[1], [2]]),
                "is_new": rng.random() < 0.5,
            }

        fields = {
            **sender,
            "type_": 0,
            "topic_states": self._topic_states(row),
            "live_leaders": [{"broker_id": 1, "host_name": "127.0.0.1", "port": 1}],
        }
        return ApiKey.LEADER_AND_ISR, self._version(ApiKey.LEADER_AND_ISR), fields

    def _stops(self) -> Call:
        rng, version = self._rng, self._version(ApiKey.STOP_REPLICA)

        def row(tp: Partition) -> dict[str, Any]:
            now = self._known[tp][0]
            return {
                "partition_index": tp[1],
                "leader_epoch": rng.choice([now, now, now, now - 1, now + 1, -2, -2, -1, -3]),
                "delete_partition": rng.random() < 0.5,
            }

        if version >= 3:
            topics = [
                {"topic_name": topic, "partition_states": rows}
                for topic, rows in self._by_topic(row)
            ]
            return ApiKey.STOP_REPLICA, version, {**self._sender(), "topic_states": topics}
        fields = {
            **self._sender(),
            "delete_partitions": rng.random() < 0.5,
            "topics": [
                {"name": topic, "partition_indexes": indexes}
                for topic, indexes in self._by_topic(lambda tp: tp[1])
            ],
        }
        return ApiKey.STOP_REPLICA, version, fields

    def _shuts_down(self) -> Call:
        """What a broker asks that is about to stop."""
        rng, version = self._rng, self._version(ApiKey.CONTROLLED_SHUTDOWN)
        fields: dict[str, Any] = {"broker_id": rng.choice([1, 1, 2, NOBODY, -1])}
        if version >= 2:
            fields["broker_epoch"] = rng.choice([-1, 0, 0, -3, 1])
        return ApiKey.CONTROLLED_SHUTDOWN, version, fields

    def _alters(self) -> Call:
        """What a leader proposes."""
        rng, version = self._rng, self._version(ApiKey.ALTER_PARTITION)
        isr = self._replicas()
        with_epochs = [{"broker_id": i, "broker_epoch": rng.choice([-1, -1, 5])} for i in isr]
        row = {
            "partition_index": rng.choice([0] * 9 + [1, -1]),
            "leader_epoch": rng.choice([0] * 9 + [1, -1]),
            "partition_epoch": rng.choice([0, 0, 1, 2, -1, 9]),
            "leader_recovery_state": rng.choice([0] * 9 + [1]),
            **({"new_isr": isr} if version < 3 else {"new_isr_with_epochs": with_epochs}),
        }
        topic_id = rng.choice([REAL] * 9 + [uuid.UUID(int=7)])
        fields = {
            "broker_id": rng.choice([1] * 9 + [2, NOBODY]),
            "broker_epoch": rng.choice([0] * 9 + [-1, -2, 1]),
            "topics": [{"topic_id": topic_id, "partitions": [row]}],
        }
        return ApiKey.ALTER_PARTITION, version, fields

    def _fetches(self) -> Call:
        """What a follower says of itself."""
        rng = self._rng

        def row(tp: Partition) -> dict[str, Any]:
            return {
                "partition": tp[1],
                "current_leader_epoch": rng.choice([self._known[tp][0]] * 4 + [-1, -1, 0, 1, 7]),
                "fetch_offset": rng.choice([0, 0, 1, 1, 2, 3, 4, 5, 99, -1]),
                "log_start_offset": 0,
                "partition_max_bytes": 1 << 20,
            }

        fields = {
            "replica_id": rng.choice([2, 2, 2, NOBODY, 1, -1]),
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [
                {"topic": topic, "partitions": list({r["partition"]: r for r in rows}.values())}
                for topic, rows in self._by_topic(row)
            ],
            "forgotten_topics_data": [],
            "rack_id": "",
        }
        return ApiKey.FETCH, 11, fields

    # ---- what both are asked ---------------------------------------------------------------------

    def produces(self) -> Call:
        """To every partition, whoever leads it."""
        batch = build_batch([(None, b"v", 1)])
        topics = [
            {"name": topic, "partition_data": [{"index": p, "records": batch} for _, p in of]}
            for topic, of in itertools.groupby(self.partitions, key=lambda tp: tp[0])
        ]
        fields = {"acks": self._rng.choice([1, 1, -1]), "timeout": 1, "topic_data": topics}
        return ApiKey.PRODUCE, 7, fields

    def looks(self) -> Iterator[Call]:
        """Nothing of it changes a broker."""
        fields: dict[str, Any] = {
            "topics": [{"topic_id": NO_ID, "name": topic} for topic in self.topics],
            "allow_auto_topic_creation": False,
        }
        yield ApiKey.METADATA, 10, fields
        fields = {"topics": [{"topic": topic, "partitions": [0, 1]} for topic in self.topics]}
        yield ApiKey.DESCRIBE_LOG_DIRS, 4, fields
        for (topic, partition), replica in itertools.product(self.partitions, (-1, -2)):
            known = max(0, self._known[topic, partition][0])
            for leader_epoch in (0, known, known + 1):
                row = {
                    "partition": partition,
                    "current_leader_epoch": -1,
                    "leader_epoch": leader_epoch,
                }
                topics = [{"topic": topic, "partitions": [row]}]
                yield ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, {"replica_id": replica, "topics": topics}
            for timestamp, leader_epoch in ((-1, -1), (-2, -1), (-1, known)):
                row = {
                    "partition_index": partition,
                    "current_leader_epoch": leader_epoch,
                    "timestamp": timestamp,
                }
                topics = [{"name": topic, "partitions": [row]}]
                fields = {"replica_id": replica, "isolation_level": 0, "topics": topics}
                yield ApiKey.LIST_OFFSETS, 5, fields


def difference(story: Story, sides: Sequence[Side]) -> str | None:
    """Between what both are, once their threads have had time."""
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
    for call in story.calls():
        for each in (call, story.produces()):
            one, other = (side.ask(each) for side in sides)
            said = each[2] if each is call else f"acks {each[2]['acks']}"
            told += [f"{each[0].name} v{each[1]} {said}", f"   -> {one}"]
            if one != other:
                return "\n".join([*told, f"   Kafka: {other}"])
            story.hear(each, one)
        found = difference(story, sides)
        if found is not None:
            return "\n".join([*told, found])
    return None


@pytest.fixture(scope="module")
def sides(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """(this broker, Apache Kafka)."""
    home = tmp_path_factory.mktemp("control")
    trees = [f"{zookeeper}/control-requests-{name}" for name in ("ours", "kafka")]
    kafka = KafkaBroker(trees[1], home / "kafka")
    try:
        ours = RunningBroker(trees[0], home / "ours", control_plane_listener_name="CONTROLLER")
        try:
            made = Side(ours, trees[0]), Side(kafka, trees[1])
            yield made
            for side in made:
                side.close()
        finally:
            ours.stop()
    finally:
        kafka.stop()


def test_the_same_is_answered_and_done(sides: tuple[Side, Side]) -> None:
    rng = random.Random(SEED)
    differing = []
    epoch = OWN_EPOCHS_START
    for number in range(STORIES):
        story = Story(rng, number, epoch)
        found = play(story, sides)
        if found is not None:
            differing.append(found)
        epoch = story.epoch + 1
    assert not differing, f"{len(differing)} of {STORIES} stories:\n" + "\n\n".join(differing[:3])

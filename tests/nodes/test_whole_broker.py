"""A whole broker, every part of it the real one but ZooKeeper's server, for which there is the tree
of `controller.memory`: what it is made of when it is up, which of its configs its clients notice,
and that nothing of it is left when it has ended (KafkaServer.startup and shutdown)."""

from __future__ import annotations

import gc
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import nodes.broker
from nodes.coordination import zk as zk_module
from nodes.wire.apis import ApiKey
from nodes.wire.records import build_batch
from tests.jsonl import whole_rows
from tests.kip291.parts import Client, RunningBroker, eventually
from tests.kip291.requests import Sender, api_versions, request, update_metadata
from tests.nodes.controller.memory import MemoryZooKeeper, SharedSession

GROUPS = {
    "offsets_topic_num_partitions": "1",
    "offsets_topic_replication_factor": "1",
    "group_initial_rebalance_delay_ms": "0",
}


STALE_BROKER_EPOCH = 77

Start = Callable[..., RunningBroker]


@pytest.fixture
def tree(monkeypatch: pytest.MonkeyPatch) -> MemoryZooKeeper:
    tree = MemoryZooKeeper()
    monkeypatch.setattr(zk_module, "ZooKeeperSession", lambda *_, **__: SharedSession(tree))
    return tree


@pytest.fixture
def start(tree: MemoryZooKeeper, tmp_path: Path) -> Iterator[Start]:
    """Keywords are configs with underscores for dots."""
    switching, collecting = sys.getswitchinterval(), gc.get_threshold()
    started: list[RunningBroker] = []

    def make(**properties: str) -> RunningBroker:
        made = RunningBroker("memory:1", tmp_path / f"broker-{len(started)}", **properties)
        started.append(made)
        made.until_told()
        return made

    yield make
    for broker in reversed(started):
        broker.stop()
    sys.setswitchinterval(switching)
    gc.set_threshold(*collecting)


# ---- threads -------------------------------------------------------------------------------------

TASKS = [
    "/config/changes-event-process-thread",
    "Controller-1-to-broker-1-send-thread",
    "ExpirationReaper-1-DeleteRecords",
    "ExpirationReaper-1-Fetch",
    "ExpirationReaper-1-Produce",
    "ExpirationReaper-1-Rebalance",
    "ExpirationReaper-1-topic",
    "PeriodicProducerExpirationCheck",
    "auto-leader-rebalance-task",
    "channel-metrics",
    "controller-event-thread",
    "data-plane-home-core",
    "group-metadata-manager-0",
    "highwatermark-checkpoint",
    "isr-expiration",
    "kafka-log-cleaner-thread-0",
    "kafka-log-flusher",
    "kafka-log-retention",
    "kafka-log-start-offset-checkpoint",
    "kafka-recovery-point-checkpoint",
    "metrics",
    "plane-use",
    "zk-broker-1-to-controller-alter-partition-channel-manager",
]


def test_every_thread_has_a_name_of_its_own_and_ends_with_its_broker(start: Start) -> None:
    """By its name an operator finds in a thread dump who is stuck; they are Kafka's, where Kafka
    has such a thread. None keeps the process alive: who is stuck in the disk would."""
    before = set(threading.enumerate())
    broker = start(
        control_plane_listener_name="CONTROLLER",
        auto_leader_rebalance_enable="true",
        biplane_data_home_core="true",
        num_io_threads="2",
        **GROUPS,
    )
    create(broker, "t")
    join(broker)
    expected = Counter([*TASKS, *of_planes(broker)])
    # Others may be there as well: what an earlier test has left behind.
    eventually(lambda: expected <= Counter(names(before)))
    made = {t for t in set(threading.enumerate()) - before if t.name in expected}
    assert [thread.name for thread in made if not thread.daemon] == []
    broker.stop()
    # A timer that was cancelled has nothing to do any more, and is not waited for.
    assert {t.name for t in made if t.is_alive()} <= {"auto-leader-rebalance-task"}
    eventually(lambda: not [thread for thread in made if thread.is_alive()])


def names(before: set[threading.Thread]) -> list[str]:
    return [thread.name for thread in set(threading.enumerate()) - before]


def of_planes(broker: RunningBroker) -> Iterator[str]:
    for number, (listener, plane) in enumerate(
        [("CONTROLLER", "control"), ("REPLICATION", "data"), ("CLIENT", "data")]
    ):
        where = f"ListenerName({listener})-PLAINTEXT"
        yield f"{plane}-plane-kafka-network-thread-1-{where}-{number}"
        yield f"{plane}-plane-kafka-socket-acceptor-{where}-{broker.ports[listener]}"
    yield "control-plane-kafka-request-handler-0"
    yield from (f"data-plane-kafka-request-handler-{i}" for i in range(2))


def test_what_a_broker_writes_down_of_itself(start: Start) -> None:
    """Without being asked, what each plane served, and the queues of its channels while it is
    the controller."""
    broker = start(control_plane_listener_name="CONTROLLER")
    create(broker, "t")

    def told(kind: str, **fields: str) -> list[dict[str, Any]]:
        rows = [row for row in whole_rows(broker.folder / "trace.jsonl") if row["f"] == kind]
        return [row for row in rows if fields.items() <= row.items()]

    eventually(lambda: told("plane_use", plane="data", listener="CLIENT", api="CREATE_TOPICS"))
    eventually(lambda: told("plane_use", plane="control", api="LEADER_AND_ISR"))
    eventually(lambda: len(told("channel_queue")) > 1)
    assert {row["to"] for row in told("channel_queue")} == {1}


@pytest.mark.parametrize(("port", "plane"), [("CONTROLLER", "control"), ("CLIENT", "data")])
def test_what_was_served_last_is_written_down_as_well(
    start: Start, monkeypatch: pytest.MonkeyPatch, port: str, plane: str
) -> None:
    """Of a broker that is stopped in order: not only what came before its last whole second."""
    monkeypatch.setattr("nodes.broker._PLANE_USE_MS", 3_600_000)
    broker = start(control_plane_listener_name="CONTROLLER")
    broker.client("c", port).ask(api_versions())
    broker.stop()
    rows = [r for r in whole_rows(broker.folder / "trace.jsonl") if r["f"] == "plane_use"]
    assert [(r["plane"], r["requests"]) for r in rows if r["api"] == "API_VERSIONS"] == [(plane, 1)]


@pytest.mark.parametrize(
    ("name", "most_ms"), [("_PLANE_USE_MS", 1_000), ("_CHANNEL_METRICS_MS", 250)]
)
def test_how_often_it_is_written_down(name: str, most_ms: int) -> None:
    """What judges them counts on a word each second of the one, four of the other
    (checkers/promises/planes, controller_queues)."""
    assert 0 < getattr(nodes.broker, name) <= most_ms


def test_requests_for_an_earlier_session_are_refused(tree: MemoryZooKeeper, start: Start) -> None:
    """KIP-380: a broker that registers again has another epoch from then on, on either plane."""
    broker = start(control_plane_listener_name="CONTROLLER")
    broker.until_told()
    (session,) = tree.sessions

    def epoch() -> int:
        return tree.nodes["/brokers/ids/1"].czxid

    clients = [broker.client("c", port) for port in ("CONTROLLER", "REPLICATION", "CLIENT")]

    def answers(broker_epoch: int) -> list[int]:
        entity = update_metadata({}, sender=Sender(1, 99, broker_epoch))
        return [int(client.ask(entity).error_code) for client in clients]

    first = epoch()
    assert answers(first) == [0, 0, 0]
    session.expire()
    for handler in session.state_handlers:
        handler.before_new_session()
    session.renew()
    for handler in session.state_handlers:
        handler.after_new_session()
    eventually(lambda: "/brokers/ids/1" in tree.nodes)
    second = epoch()
    assert second > first
    eventually(lambda: answers(first) == [STALE_BROKER_EPOCH] * 3)
    assert answers(second) == [0, 0, 0]


def test_nobody_is_sent_to_the_metrics_of_an_earlier_life(start: Start, tmp_path: Path) -> None:
    """Its file lies there still, if it was killed."""
    left = tmp_path / "broker-0" / "data" / "metrics.url"
    left.parent.mkdir(parents=True)
    left.write_text("http://127.0.0.1:1\n")
    start(biplane_metrics_port="-1")
    assert not left.exists()


# ---- what clients do -----------------------------------------------------------------------------


def create(broker: RunningBroker, topic: str, partitions: int = 1) -> int:
    """The error. As many replicas as there are by default."""
    row = {"name": topic, "num_partitions": partitions, "replication_factor": -1}
    asked = request(ApiKey.CREATE_TOPICS, 5, topics=[row], timeout=30_000)
    return int(broker.client().ask(asked).topics[0].error_code)


def produce(broker: RunningBroker, topic: str, value: bytes = b"v", partition: int = 0) -> Any:
    """The answer for the partition."""
    data = [{"index": partition, "records": build_batch([(None, value, 1)])}]
    topics = [{"name": topic, "partition_data": data}]
    asked = request(ApiKey.PRODUCE, 7, acks=-1, timeout=30_000, topic_data=topics)
    return broker.client().ask(asked).responses[0].partition_responses[0]


def metadata(broker: RunningBroker, topic: str) -> Any:
    """Of a topic that may be created by this."""
    asked = request(ApiKey.METADATA, 5, topics=[{"name": topic}], allow_auto_topic_creation=True)
    return broker.client().ask(asked).topics[0]


def coordinated(broker: RunningBroker) -> Client:
    """Once the group's coordinator is there; asking for it makes ``__consumer_offsets``."""
    client = broker.client()
    eventually(
        lambda: not client.ask(request(ApiKey.FIND_COORDINATOR, 1, key="g", key_type=0)).error_code
    )
    listed = request(ApiKey.LIST_GROUPS, 1)
    eventually(lambda: not client.ask(listed).error_code)
    return client


def join(broker: RunningBroker, session_ms: int = 10_000) -> int:
    """The error."""
    asked = request(
        ApiKey.JOIN_GROUP,
        2,
        group_id="g",
        session_timeout=session_ms,
        rebalance_timeout=60_000,
        member_id="",
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )
    return int(coordinated(broker).ask(asked).error_code)


def records(broker: RunningBroker, topic: str, partition: int) -> int:
    row = {"partition_index": partition, "timestamp": -1, "current_leader_epoch": -1}
    asked = request(
        ApiKey.LIST_OFFSETS, 4, replica_id=-1, isolation_level=0,
        topics=[{"name": topic, "partitions": [row]}],
    )  # fmt: skip
    (found,) = broker.client().ask(asked).topics
    return int(found.partitions[0].offset)


def test_groups_stay_where_they_are_when_their_topic_grows(start: Start) -> None:
    broker = start(**GROUPS)
    assert committed(broker) == 0
    grow = request(
        ApiKey.CREATE_PARTITIONS,
        1,
        topics=[{"name": "__consumer_offsets", "count": 2, "assignments": None}],
        timeout=10_000,
        validate_only=False,
    )
    (result,) = broker.client().ask(grow).results
    assert result.error_code == 0
    eventually(lambda: len(metadata(broker, "__consumer_offsets").partitions) == 2)
    eventually(lambda: records(broker, "__consumer_offsets", 1) == 0)
    assert committed(broker) == 0
    assert [records(broker, "__consumer_offsets", partition) for partition in (0, 1)] == [2, 0]


# ---- configs that clients notice -----------------------------------------------------------------


def fetched(broker: RunningBroker) -> int:
    """Partitions of which there are records, of two that have 700 bytes each."""
    create(broker, "t", 2)
    for partition in (0, 1):
        produce(broker, "t", b"x" * 700, partition)
    rows = [{"partition": p, "fetch_offset": 0, "partition_max_bytes": 1 << 20} for p in (0, 1)]
    asked = request(
        ApiKey.FETCH, 4, replica_id=-1, max_wait=0, min_bytes=0, max_bytes=1 << 20,
        topics=[{"topic": "t", "partitions": rows}],
    )  # fmt: skip
    (topic,) = broker.client().ask(asked).responses
    return sum(len(row.records or b"") >= 700 for row in topic.partitions)


def committed(broker: RunningBroker) -> int:
    """The error of a commit with ten letters of metadata."""
    create(broker, "t")
    row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "0123456789"}
    asked = request(
        ApiKey.OFFSET_COMMIT, 6, group_id="g", generation_id_or_member_epoch=-1, member_id="",
        topics=[{"name": "t", "partitions": [row]}],
    )  # fmt: skip
    (topic,) = coordinated(broker).ask(asked).topics
    return int(topic.partitions[0].error_code)


def produced(broker: RunningBroker) -> int:
    """The error of a batch of 200 bytes and some."""
    create(broker, "t")
    return int(produce(broker, "t", b"x" * 200).error_code)


def stamped(broker: RunningBroker) -> bool:
    """Whether the broker's own time is told to who produces."""
    create(broker, "t")
    return produce(broker, "t").log_append_time is not None


def deleted(broker: RunningBroker) -> int:
    create(broker, "t")
    asked = request(ApiKey.DELETE_TOPICS, 3, topic_names=["t"], timeout=30_000)
    return int(broker.client().ask(asked).responses[0].error_code)


def asked_for(broker: RunningBroker) -> int:
    return int(metadata(broker, "t").error_code)


def partitions_of(topic: str) -> Callable[[RunningBroker], int]:
    """Of a topic that is made because somebody asks for it."""

    def count(broker: RunningBroker) -> int:
        if topic != "t":
            coordinated(broker)
        eventually(lambda: not metadata(broker, topic).error_code)
        return len(metadata(broker, topic).partitions)

    return count


def created_with(broker: RunningBroker) -> int:
    """Partitions of a topic whose maker does not say how many."""
    create(broker, "t", -1)
    return len(metadata(broker, "t").partitions)


def offsets_segments(broker: RunningBroker) -> str:
    coordinated(broker)
    asked = request(
        ApiKey.DESCRIBE_CONFIGS, 1, include_synonyms=False,
        resources=[{"resource_type": 2, "resource_name": "__consumer_offsets",
                    "configuration_keys": ["segment.bytes"]}],
    )  # fmt: skip
    return str(broker.client().ask(asked).results[0].configs[0].value)


def racks(broker: RunningBroker) -> list[str | None]:
    asked = request(ApiKey.METADATA, 5, topics=[], allow_auto_topic_creation=False)
    return [row.rack for row in broker.client().ask(asked).brokers]


def metrics_host(broker: RunningBroker) -> str:
    assert broker.mbeans("KafkaController")
    url = (broker.folder / "data" / "metrics.url").read_text()
    return url.removeprefix("http://").partition(":")[0]


LEADER_NOT_AVAILABLE, UNKNOWN_TOPIC, TOO_LARGE, METADATA_TOO_LARGE = 5, 3, 10, 12
INVALID_TIMEOUT, TOO_FEW_BROKERS, DELETION_DISABLED = 26, 38, 73

NOTICED: list[tuple[str, Callable[[RunningBroker], Any], dict[str, Any]]] = [
    ("fetch.max.bytes", fetched, {"1024": 1, "2048": 2}),
    ("offset.metadata.max.bytes", committed, {"9": METADATA_TOO_LARGE, "10": 0}),
    ("message.max.bytes", produced, {"150": TOO_LARGE, "400": 0}),
    ("log.message.timestamp.type", stamped, {"LogAppendTime": True, "CreateTime": False}),
    ("delete.topic.enable", deleted, {"false": DELETION_DISABLED, "true": 0}),
    (
        "auto.create.topics.enable",
        asked_for,
        {"false": UNKNOWN_TOPIC, "true": LEADER_NOT_AVAILABLE},
    ),
    ("num.partitions", partitions_of("t"), {"3": 3, "1": 1}),
    ("default.replication.factor", lambda b: create(b, "t"), {"2": TOO_FEW_BROKERS, "1": 0}),
    ("num.partitions", created_with, {"3": 3, "1": 1}),
    ("default.replication.factor", asked_for, {"2": TOO_FEW_BROKERS, "1": LEADER_NOT_AVAILABLE}),
    ("offsets.topic.num.partitions", partitions_of("__consumer_offsets"), {"3": 3, "1": 1}),
    ("offsets.topic.segment.bytes", offsets_segments, {"4321": "4321", "9000": "9000"}),
    ("group.max.session.timeout.ms", join, {"9999": INVALID_TIMEOUT, "10000": 0}),
    ("group.min.session.timeout.ms", join, {"10001": INVALID_TIMEOUT, "10000": 0}),
    ("broker.rack", racks, {"r7": ["r7"], "": [None]}),
    ("biplane.metrics.host", metrics_host, {"127.0.0.2": "127.0.0.2", "127.0.0.1": "127.0.0.1"}),
]
"""A config: what a client does, and what comes of it with one value and with another."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ask", "value", "expected"),
    [(name, ask, *row) for name, ask, told in NOTICED for row in told.items()],
)
def test_what_is_configured_is_what_clients_meet(
    start: Start, name: str, ask: Callable[[RunningBroker], Any], value: str, expected: Any
) -> None:
    """From the properties file to an answer, past every hand that a value goes through."""
    given = {**GROUPS, "auto_create_topics_enable": "true", name.replace(".", "_"): value}
    assert ask(start(**given)) == expected


# ---- configs that change while it runs -----------------------------------------------------------

MESSAGE_TOO_LARGE = 10
LARGE = b"x" * 2000


def alter(broker: RunningBroker, kind: int, entity: str, name: str, value: str | None) -> int:
    """The error; None takes the config away."""
    row = {"name": name, "config_operation": 0 if value else 1, "value": value}
    resource = {"resource_type": kind, "resource_name": entity, "configs": [row]}
    asked = request(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    return int(broker.client().ask(asked).responses[0].error_code)


def too_large(broker: RunningBroker, topic: str) -> bool:
    error = int(produce(broker, topic, LARGE).error_code)
    assert error in (0, MESSAGE_TOO_LARGE)
    return error == MESSAGE_TOO_LARGE


@pytest.mark.parametrize("entity", ["", "1"])
def test_defaults_of_topics_change_while_it_runs(start: Start, entity: str) -> None:
    """Those of the topics that are there and of those that come; not what a topic says itself."""
    broker = start()
    for topic in ("t", "own"):
        assert create(broker, topic) == 0
        eventually(lambda topic=topic: not metadata(broker, topic).error_code)
    assert alter(broker, 2, "own", "max.message.bytes", "9000") == 0
    assert not too_large(broker, "t")
    assert alter(broker, 4, entity, "message.max.bytes", "1000") == 0
    eventually(lambda: too_large(broker, "t"))
    assert create(broker, "later") == 0
    eventually(lambda: not metadata(broker, "later").error_code)
    assert too_large(broker, "later")
    assert not too_large(broker, "own")
    assert alter(broker, 4, entity, "message.max.bytes", None) == 0
    eventually(lambda: not too_large(broker, "t"))
    eventually(lambda: not too_large(broker, "later"))


def test_they_are_there_when_it_comes_back(start: Start) -> None:
    broker = start()
    assert create(broker, "t") == 0
    assert alter(broker, 4, "1", "message.max.bytes", "1000") == 0
    broker.stop()
    again = start()
    eventually(lambda: not metadata(again, "t").error_code)
    assert too_large(again, "t")

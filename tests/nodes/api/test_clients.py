"""Foreign clients against the APIs over real sockets: they must not notice what they talk to."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer

from nodes.api.parse import parse
from nodes.metrics import Metrics
from nodes.network.socket_server import SocketServer

TIMEOUT_S = 60


@pytest.fixture
def served(make_node: Callable[..., Any]) -> Iterator[Any]:
    """A node behind a listener; its metadata tells the listener's real port."""
    node = make_node(
        **{
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "num.network.threads": "1",
            "num.io.threads": "2",
            "group.initial.rebalance.delay.ms": "50",
        }
    )
    server = SocketServer(node.config, parse, Metrics())
    node.port = server.bind()["PLAINTEXT"].port
    node.live_brokers = [node.own_broker()]
    node.update_metadata([])
    server.start_handlers(node.apis.handle)
    server.enable_request_processing()
    node.bootstrap = f"127.0.0.1:{node.port}"
    yield node
    server.stop_processing_requests()
    server.shutdown()


def _topic(node: Any, partitions: int = 1) -> str:
    name = f"topic-{uuid.uuid4().hex[:8]}"
    node.admin.create_topics([_new(name, partitions)])
    return name


def _new(name: str, partitions: int) -> Any:
    from nodes.coordination.admin import NewTopic as Wanted

    return Wanted(name=name, num_partitions=partitions, replication_factor=1)


def _consume(consumer: Any, count: int) -> list[Any]:
    messages: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(messages) < count and time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None:
            assert message.error() is None, message.error()
            messages.append(message)
    return messages


class TestLibrdkafka:
    @pytest.mark.slow
    def test_produces_and_consumes(self, served: Any) -> None:
        topic = _topic(served, 2)
        delivered: list[Any] = []
        for acks in ("0", "1", "all"):
            producer = Producer({"bootstrap.servers": served.bootstrap, "acks": acks})
            for i in range(10):
                producer.produce(
                    topic, b"%d" % i, partition=i % 2, on_delivery=lambda *a: delivered.append(a)
                )
            assert producer.flush(TIMEOUT_S) == 0
        assert [error for error, _ in delivered] == [None] * 30
        consumer = Consumer({"bootstrap.servers": served.bootstrap, "group.id": "unused"})
        consumer.assign([TopicPartition(topic, p, 0) for p in (0, 1)])
        messages = _consume(consumer, 30)
        assert sorted(int(m.value()) for m in messages) == sorted([*range(10)] * 3)
        consumer.close()

    @pytest.mark.slow
    def test_idempotent_and_compressed(self, served: Any) -> None:
        topic = _topic(served)
        for codec in ("gzip", "snappy", "lz4", "zstd", "none"):
            producer = Producer(
                {
                    "bootstrap.servers": served.bootstrap,
                    "enable.idempotence": True,
                    "compression.type": codec,
                }
            )
            for i in range(100):
                producer.produce(topic, b"%0900d" % i)  # zeros: hardly anything is left of them
            assert producer.flush(TIMEOUT_S) == 0
        consumer = Consumer({"bootstrap.servers": served.bootstrap, "group.id": "unused"})
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert [int(m.value()) for m in _consume(consumer, 500)] == [*range(100)] * 5
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0)) == (0, 500)
        consumer.close()

    def test_administers(self, served: Any) -> None:
        admin = AdminClient({"bootstrap.servers": served.bootstrap})
        created = admin.create_topics([NewTopic("made", 3, 1, config={"retention.ms": "77"})])
        created["made"].result(TIMEOUT_S)
        metadata = admin.list_topics(timeout=TIMEOUT_S)
        assert metadata.cluster_id == "c_-uSTeR_Id22characters"
        assert metadata.controller_id == 1
        assert sorted(metadata.topics["made"].partitions) == [0, 1, 2]
        cluster = admin.describe_cluster().result(TIMEOUT_S)
        assert [(n.id, n.port) for n in cluster.nodes] == [(1, served.port)]
        admin.delete_topics(["made"])["made"].result(TIMEOUT_S)
        assert "made" not in admin.list_topics(timeout=TIMEOUT_S).topics

    def test_consumer_group(self, served: Any) -> None:
        topic = _topic(served, 2)
        producer = Producer({"bootstrap.servers": served.bootstrap})
        for i in range(20):
            producer.produce(topic, b"%d" % i, partition=i % 2)
        assert producer.flush(TIMEOUT_S) == 0
        config = {
            "bootstrap.servers": served.bootstrap,
            "group.id": "group",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 30_000,
            "heartbeat.interval.ms": 100,
        }
        first = Consumer(config)
        first.subscribe([topic])
        assert len(_consume(first, 20)) == 20
        first.commit(asynchronous=False)
        committed = first.committed([TopicPartition(topic, p) for p in (0, 1)], TIMEOUT_S)
        assert [tp.offset for tp in committed] == [10, 10]
        # A second member takes over one of the partitions.
        second = Consumer(config)
        second.subscribe([topic])
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            first.poll(0.05)
            second.poll(0.05)
            if len(first.assignment()) == 1 and len(second.assignment()) == 1:
                break
        assert len(first.assignment()) == len(second.assignment()) == 1
        admin = AdminClient({"bootstrap.servers": served.bootstrap})
        described = admin.describe_consumer_groups(["group"])["group"].result(TIMEOUT_S)
        assert len(described.members) == 2
        listed = admin.list_consumer_groups().result(TIMEOUT_S)
        assert [g.group_id for g in listed.valid] == ["group"]
        second.close()
        first.close()
        third = Consumer(config)
        third.subscribe([topic])
        producer.produce(topic, b"99", partition=0)
        assert producer.flush(TIMEOUT_S) == 0
        assert [m.value() for m in _consume(third, 1)] == [b"99"]
        third.close()


class TestKafkaPython:
    def test_round_trip_in_a_group(self, served: Any) -> None:
        topic = _topic(served)
        producer = KafkaProducer(bootstrap_servers=served.bootstrap)
        for i in range(10):
            producer.send(topic, b"%d" % i)
        producer.flush(TIMEOUT_S)
        producer.close()
        consumer = KafkaConsumer(
            topic,
            bootstrap_servers=served.bootstrap,
            group_id="python",
            auto_offset_reset="earliest",
            consumer_timeout_ms=TIMEOUT_S * 1000,
        )
        values = [int(next(consumer).value) for _ in range(10)]
        assert values == list(range(10))
        consumer.commit()
        consumer.close()

    def test_administers(self, served: Any) -> None:
        admin = KafkaAdminClient(bootstrap_servers=served.bootstrap)
        topic = _topic(served)
        assert topic in admin.list_topics()
        assert admin.describe_cluster()["cluster_id"] == "c_-uSTeR_Id22characters"
        admin.close()


def test_auto_creation(served: Any) -> None:
    done = threading.Event()
    producer = Producer({"bootstrap.servers": served.bootstrap})
    producer.produce("by-itself", b"x", on_delivery=lambda error, _: error or done.set())
    assert producer.flush(TIMEOUT_S) == 0
    assert done.is_set()
    assert served.cache.contains("by-itself")

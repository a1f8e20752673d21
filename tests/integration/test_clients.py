"""Foreign clients, unchanged, through the proxies: produce, consume, groups, a leader change.

Each test makes a topic of its own; the cluster is shared.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable

import confluent_kafka
import confluent_kafka.admin
import kafka
import kafka.admin
import pytest

from faults.protocol import Link
from harness.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster

RECORDS = 200


def bootstrap(cluster: Cluster) -> str:
    return ",".join(map(str, cluster.bootstrap(Link.CLIENT)))


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"in vain for {timeout_s} s: {what}"
        time.sleep(0.05)


def move_leader(cluster: Cluster, topic: str) -> None:
    """Make the next replica of partition 0 its leader, as an operator would."""
    (state,) = [s for s in cluster.view.partitions(topic) if s.partition == 0]
    order = [*state.replicas[1:], state.replicas[0]]
    cluster.admin.reassign({(topic, 0): order})
    wait_for(lambda: cluster.view.partitions(topic)[0].replicas[0] == order[0], "the new order")
    cluster.admin.elect_preferred([(topic, 0)])
    wait_for(lambda: cluster.view.partitions(topic)[0].leader == order[0], "the new leader")


def test_confluent_kafka_survives_a_leader_change(cluster: Cluster) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap(cluster)})
    topic = "confluent"
    new = confluent_kafka.admin.NewTopic(topic, num_partitions=3, replication_factor=3)
    admin.create_topics([new])[topic].result(60)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap(cluster), "enable.idempotence": True}
    )
    errors: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            errors.append(str(error))

    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=number % 3, on_delivery=delivered)
        if number == RECORDS // 2:
            assert producer.flush(60) == 0
            move_leader(cluster, topic)
    assert producer.flush(60) == 0
    assert not errors

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap(cluster),
            "group.id": "confluent-group",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([topic])
    seen: set[bytes] = set()
    try:
        deadline = time.monotonic() + 120
        while len(seen) < RECORDS and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                seen.add(message.value() or b"")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert seen == {str(number).encode() for number in range(RECORDS)}
    admin.delete_topics([topic])[topic].result(60)
    wait_for(lambda: not cluster.view.partitions(topic), "the topic is gone")


def test_kafka_python_survives_a_leader_change(cluster: Cluster) -> None:
    servers = bootstrap(cluster).split(",")
    topic = "kafka-python"
    admin = kafka.admin.KafkaAdminClient(bootstrap_servers=servers)
    admin.create_topics([kafka.admin.NewTopic(topic, num_partitions=1, replication_factor=3)])
    producer = kafka.KafkaProducer(bootstrap_servers=servers)
    for number in range(RECORDS):
        future = producer.send(topic, str(number).encode())
        if number == RECORDS // 2:
            future.get(60)
            move_leader(cluster, topic)
    producer.flush(60)
    future.get(60)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id="kafka-python-group",
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    seen = []
    for message in consumer:
        seen.append(message.value)
        if len(seen) >= RECORDS:
            break
    consumer.close()
    assert seen == [str(number).encode() for number in range(RECORDS)]
    admin.delete_topics([topic])
    admin.close()
    wait_for(lambda: not cluster.view.partitions(topic), "the topic is gone")


@pytest.mark.skipif(shutil.which("kcat") is None, reason="no kcat (Debian: apt-get install kcat)")
@pytest.mark.parametrize("compression", ["none", "gzip", "lz4", "snappy", "zstd"])
def test_kcat_produces_lists_and_consumes(cluster: Cluster, compression: str) -> None:
    topic = f"kcat-{compression}"
    replicas = {0: list(cluster.node_ids)}
    cluster.admin.create_topic(topic, replicas, {})
    lines = [f"line {number}" for number in range(RECORDS)]

    def kcat(*arguments: str, stdin: str | None = None) -> str:
        command = ["kcat", "-b", bootstrap(cluster), *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=180, check=True
        )
        return done.stdout

    kcat("-P", "-t", topic, "-z", compression, "-X", "acks=all", stdin="\n".join(lines) + "\n")
    move_leader(cluster, topic)
    kcat("-P", "-t", topic, "-z", compression, "-X", "acks=all", stdin="after\n")
    assert f'topic "{topic}" with 1 partitions' in kcat("-L", "-t", topic)
    out = kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q")
    assert out.splitlines() == [*lines, "after"]
    assert kcat("-C", "-t", topic, "-o", "-1", "-e", "-q").splitlines() == ["after"]


def test_what_operators_do(cluster: Cluster) -> None:
    """Configs, records, offsets and groups, each changed on one broker and seen on the others."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap(cluster)})
    topic, group = "operated", "operated-group"
    new = confluent_kafka.admin.NewTopic(topic, num_partitions=2, replication_factor=3)
    admin.create_topics([new])[topic].result(60)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap(cluster), "acks": "all"})
    for _ in range(20):
        producer.produce(topic, b"x" * 500, partition=0)
    assert producer.flush(60) == 0

    def alter(name: str, value: str | None) -> None:
        kind = confluent_kafka.admin.AlterConfigOpType
        entry = confluent_kafka.admin.ConfigEntry(
            name, value, incremental_operation=kind.DELETE if value is None else kind.SET
        )
        resource = confluent_kafka.admin.ConfigResource(
            confluent_kafka.admin.ConfigResource.Type.TOPIC, topic, incremental_configs=[entry]
        )
        admin.incremental_alter_configs([resource])[resource].result(60)

    def refused() -> bool:
        errors: list[object] = []
        producer.produce(topic, b"x" * 500, partition=1, on_delivery=lambda e, _: errors.append(e))
        assert producer.flush(60) == 0
        return errors[0] is not None

    alter("max.message.bytes", "300")
    wait_for(refused, "the smaller limit to hold on the leader")
    alter("max.message.bytes", None)
    wait_for(lambda: not refused(), "the default limit to hold again")
    with pytest.raises(confluent_kafka.KafkaException, match=r"retention\.ms"):
        alter("retention.ms", "long")

    first = confluent_kafka.TopicPartition(topic, 0, 7)
    (deleted,) = admin.delete_records([first]).values()
    assert deleted.result(60).low_watermark == 7
    move_leader(cluster, topic)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap(cluster), "group.id": group}
    )
    try:
        wait_for(lambda: consumer.get_watermark_offsets(first, 30)[0] == 7, "the log's new start")
        consumer.commit(
            offsets=[confluent_kafka.TopicPartition(topic, p, 9) for p in (0, 1)],
            asynchronous=False,
        )
    finally:
        consumer.close()
    asked = [confluent_kafka.ConsumerGroupTopicPartitions(group)]
    (committed,) = admin.list_consumer_group_offsets(asked).values()
    assert {p.offset for p in committed.result(60).topic_partitions} == {9}
    admin.delete_consumer_groups([group])[group].result(60)
    (committed,) = admin.list_consumer_group_offsets(asked).values()
    assert not committed.result(60).topic_partitions
    admin.delete_topics([topic])[topic].result(60)

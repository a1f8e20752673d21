"""The ordinary clients of a soak: one librdkafka producer, one consumer in a group.

Whatever the hostile ones do, each of their records has to arrive.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

_PER_SECOND: Final = 50
_PATIENCE_S: Final = 60.0


@dataclass
class Traffic:
    """`acknowledged` and `read` are the values of the records; both grow for as long as it runs."""

    acknowledged: set[bytes] = field(default_factory=set)
    read: set[bytes] = field(default_factory=set)


@contextlib.contextmanager
def ordinary_clients(port: int, topic: str) -> Iterator[Traffic]:
    """Both at work for the length of a ``with``; after it everything that was acknowledged has been
    read, or that took longer than a minute."""
    servers = {"bootstrap.servers": f"127.0.0.1:{port}"}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(_PATIENCE_S)
    traffic = Traffic()
    stop, read_all = threading.Event(), threading.Event()
    consumer = Consumer(
        {
            **servers,
            "group.id": f"{topic}-readers",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 30_000,
            "auto.commit.interval.ms": 1000,
        }
    )
    threads = [
        threading.Thread(target=_produce, args=(servers, topic, traffic, stop), daemon=True),
        threading.Thread(target=_consume, args=(consumer, topic, traffic, read_all), daemon=True),
    ]
    for thread in threads:
        thread.start()
    try:
        yield traffic
    finally:
        stop.set()
        threads[0].join(_PATIENCE_S)
        deadline = time.monotonic() + _PATIENCE_S
        while not traffic.acknowledged <= traffic.read and time.monotonic() < deadline:
            time.sleep(0.1)
        read_all.set()
        threads[1].join(_PATIENCE_S)


def _produce(servers: dict[str, str], topic: str, traffic: Traffic, stop: threading.Event) -> None:
    producer = Producer({**servers, "acks": "all", "linger.ms": 5})

    def delivered(error: KafkaError | None, message: Message) -> None:
        value: Any = message.value()
        if error is None:
            traffic.acknowledged.add(value)

    number = 0
    while not stop.wait(1 / _PER_SECOND):
        producer.produce(topic, b"%d" % number, on_delivery=delivered)
        producer.poll(0)
        number += 1
    producer.flush(_PATIENCE_S)


def _consume(consumer: Consumer, topic: str, traffic: Traffic, stop: threading.Event) -> None:
    consumer.subscribe([topic])
    while not stop.is_set():
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            value: Any = message.value()
            traffic.read.add(value)
    consumer.close()

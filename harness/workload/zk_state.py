"""The committed state that a control request must agree with, read from ZooKeeper and kept fresh.

One thread re-reads everything when the controller, its epoch or the set of brokers changes, and at
least every second; `snapshot` is the newest whole reading.
"""

from __future__ import annotations

import base64
import json
import threading
import uuid
from dataclasses import dataclass, replace
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

_REREAD_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Broker:
    """A registration. ``endpoints``: (listener, security protocol, host, port)."""

    broker_epoch: int
    endpoints: tuple[tuple[str, str, str, int], ...]
    rack: str | None


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition's state znode with its assignment."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    leader: int
    leader_epoch: int
    controller_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading. ``version`` counts readings that differed from the one before."""

    version: int
    controller: int
    controller_epoch: int
    brokers: dict[int, Broker]
    partitions: tuple[Partition, ...]


class ZkState:
    """Thread-safe. ``topics``: those whose partitions are read."""

    def __init__(self, connect: str, topics: tuple[str, ...]) -> None:
        self._topics = topics
        self._client = KazooClient(hosts=connect, timeout=10.0, read_only=True)
        self._changed = threading.Event()
        self._closing = False
        self._snapshot: Snapshot | None = None
        self._thread = threading.Thread(target=self._run, name="zk-state", daemon=True)

    def start(self, timeout_s: float = 15.0) -> None:
        self._client.start(timeout=timeout_s)
        self._thread.start()

    def close(self) -> None:
        self._closing = True
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(5.0)
        self._client.stop()
        self._client.close()

    @property
    def snapshot(self) -> Snapshot | None:
        """None until there is a controller."""
        return self._snapshot

    def _run(self) -> None:
        while not self._closing:
            self._changed.clear()
            try:
                self._take_in(self._read())
            except (KazooException, KazooTimeoutError, KeyError, ValueError):
                # The session, a znode or the controller went away under us: there is a next time.
                self._snapshot = None
            self._changed.wait(_REREAD_S)

    def _take_in(self, read: Snapshot) -> None:
        old = self._snapshot
        version = 0 if old is None else old.version
        if replace(read, version=version) != old:
            self._snapshot = replace(read, version=version + 1)

    def _poke(self, _event: Any) -> None:
        self._changed.set()

    def _read(self) -> Snapshot:
        client = self._client
        controller, _ = client.get("/controller", watch=self._poke)
        controller_epoch, _ = client.get("/controller_epoch", watch=self._poke)
        ids = client.get_children("/brokers/ids", watch=self._poke)
        brokers = {}
        for name, answer in [(name, client.get_async(f"/brokers/ids/{name}")) for name in ids]:
            try:
                data, stat = answer.get(timeout=10)
            except NoNodeError:
                continue
            brokers[int(name)] = _broker(json.loads(data), stat.czxid)
        return Snapshot(
            0,
            json.loads(controller)["brokerid"],
            int(controller_epoch),
            brokers,
            tuple(p for topic in self._topics for p in self._partitions(topic)),
        )

    def _partitions(self, topic: str) -> list[Partition]:
        try:
            data, _ = self._client.get(f"/brokers/topics/{topic}")
        except NoNodeError:
            return []
        assignment = json.loads(data)
        found = []
        pending = [
            (
                int(number),
                self._client.get_async(f"/brokers/topics/{topic}/partitions/{number}/state"),
            )
            for number in assignment["partitions"]
        ]
        for number, answer in sorted(pending, key=lambda one: one[0]):
            try:
                raw, stat = answer.get(timeout=10)
            except NoNodeError:
                continue
            state = json.loads(raw)
            found.append(
                Partition(
                    topic,
                    topic_uuid(assignment.get("topic_id")),
                    number,
                    state["leader"],
                    state["leader_epoch"],
                    state["controller_epoch"],
                    stat.version,
                    tuple(state["isr"]),
                    tuple(assignment["partitions"][str(number)]),
                )
            )
        return found


def topic_uuid(text: str | None) -> uuid.UUID:
    """Kafka writes ids as unpadded URL-safe base64 of the 16 bytes."""
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "==")) if text else uuid.UUID(int=0)


def _broker(data: dict[str, Any], czxid: int) -> Broker:
    protocols = data.get("listener_security_protocol_map", {})
    endpoints = []
    for endpoint in data["endpoints"]:
        listener, _, address = endpoint.partition("://")
        host, _, port = address.rpartition(":")
        endpoints.append((listener, protocols.get(listener, listener), host, int(port)))
    return Broker(czxid, tuple(endpoints), data.get("rack"))

"""The committed state that a control request must agree with, read from ZooKeeper and kept fresh.

One thread re-reads everything when the controller, its epoch or the set of brokers changes, and at
least every second; `snapshot` is the newest whole reading.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from faults.protocol import PartitionState
from harness.cluster import state
from harness.cluster.state import Registration

_REREAD_S: Final = 1.0
_ANSWER_S: Final = 10.0
_Name = TypeVar("_Name", int, str)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One reading. ``version`` counts readings that differed from the one before."""

    version: int
    controller: int
    controller_epoch: int
    brokers: dict[int, Registration]
    partitions: tuple[PartitionState, ...]
    topic_ids: dict[str, str | None]


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
        controller, _ = client.get(state.CONTROLLER, watch=self._poke)
        controller_epoch, _ = client.get(state.CONTROLLER_EPOCH, watch=self._poke)
        ids = [int(name) for name in client.get_children(state.BROKER_IDS, watch=self._poke)]
        brokers = {
            node: state.parse_registration(node, data, stat.czxid)
            for node, (data, stat) in self._get_all({n: state.broker_path(n) for n in ids}).items()
        }
        topics = [
            state.parse_topic(name, data)
            for name, (data, _) in self._get_all(
                {name: state.topic_path(name) for name in self._topics}
            ).items()
        ]
        return Snapshot(
            0,
            state.parse_controller(controller),
            int(controller_epoch),
            brokers,
            tuple(p for topic in topics for p in self._partitions(topic)),
            {topic.name: topic.topic_id for topic in topics},
        )

    def _partitions(self, topic: state.Topic) -> list[PartitionState]:
        found = self._get_all({p: state.state_path(topic.name, p) for p in sorted(topic.replicas)})
        return [
            state.parse_partition(topic.name, p, data, stat.version, topic.replicas[p])
            for p, (data, stat) in found.items()
        ]

    def _get_all(self, paths: Mapping[_Name, str]) -> dict[_Name, tuple[bytes, Any]]:
        """Those znodes that there are, all asked for before the first is waited for."""
        found = {}
        pending = {name: self._client.get_async(path) for name, path in paths.items()}
        for name, answer in pending.items():
            with contextlib.suppress(NoNodeError):
                found[name] = answer.get(timeout=_ANSWER_S)
        return found

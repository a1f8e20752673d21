"""The cluster's committed state, read from the real ZooKeeper past every proxy.

Every call reads afresh: a fault that aims at "the leader" must not aim at a cached one. Reads are
pipelined, so that a cluster of hundreds of partitions costs two round trips. Thread-safe (kazoo's
client is).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from faults.protocol import PartitionState, View
from harness.cluster import state
from harness.cluster.errors import StateUnreadable

_TIMEOUT_S: Final = 15.0


class StateView(View, Protocol):
    """What the cluster asks besides what faults may ask."""

    def registrations(self) -> Mapping[int, state.Registration]: ...
    def topics(self, topic: str | None = None) -> Sequence[state.Topic]: ...
    def pending(self) -> Sequence[tuple[str, str]]:
        """What was asked for and has not ended: ("deletion" | "reassignment" | "settings", topic);
        settings: a topic is gone, and what was configured for it is not."""
        ...


class ZookeeperView:
    """Implements `faults.protocol.View`; the client is the cluster's and must be connected."""

    def __init__(self, client: KazooClient, root: str) -> None:
        self._client = client
        self._root = root

    def controller(self) -> int | None:
        found = self._get(state.CONTROLLER)
        return None if found is None else state.parse_controller(found[0])

    def controller_epoch(self) -> int:
        found = self._get(state.CONTROLLER_EPOCH)
        return 0 if found is None else int(found[0])

    def broker_epoch(self, node: int) -> int | None:
        found = self._get(state.broker_path(node))
        return None if found is None else int(found[1].czxid)

    def live_brokers(self) -> Sequence[int]:
        return sorted(int(node) for node in self._children(state.BROKER_IDS))

    def registrations(self) -> Mapping[int, state.Registration]:
        """Every registered broker with its epoch and endpoints."""
        nodes = self.live_brokers()
        found = self._get_all([state.broker_path(node) for node in nodes])
        return {
            node: state.parse_registration(node, got[0], got[1].czxid)
            for node, got in zip(nodes, found, strict=True)
            if got is not None
        }

    def topics(self, topic: str | None = None) -> Sequence[state.Topic]:
        names = sorted(self._children(state.TOPICS)) if topic is None else [topic]
        found = self._get_all([state.topic_path(name) for name in names])
        return [
            state.parse_topic(name, got[0])
            for name, got in zip(names, found, strict=True)
            if got is not None
        ]

    def partitions(self, topic: str | None = None) -> Sequence[PartitionState]:
        """Those that have a state; a partition that was just created has none yet."""
        wanted = [
            (each.name, partition, replicas)
            for each in self.topics(topic)
            for partition, replicas in sorted(each.replicas.items())
        ]
        found = self._get_all([state.state_path(name, p) for name, p, _ in wanted])
        return [
            state.parse_partition(name, partition, got[0], got[1].version, replicas)
            for (name, partition, replicas), got in zip(wanted, found, strict=True)
            if got is not None
        ]

    def pending(self) -> Sequence[tuple[str, str]]:
        deletions = sorted(self._children(state.DELETE_TOPICS))
        asked = self._get(state.REASSIGN_PARTITIONS)
        # Settings first: who makes a topic writes them before it.
        configured = set(self._children(state.TOPIC_CONFIGS))
        topics = self.topics()
        moving = {each.name for each in topics if each.moving}
        moving |= state.parse_reassignment(asked[0]) if asked is not None else set()
        return [
            *(("deletion", topic) for topic in deletions),
            *(("reassignment", topic) for topic in sorted(moving)),
            *(("settings", topic) for topic in sorted(configured - {t.name for t in topics})),
        ]

    def settings(self, topic: str) -> Mapping[str, str]:
        """What is set for the topic itself."""
        found = self._get(f"{state.TOPIC_CONFIGS}/{topic}")
        return {} if found is None else state.parse_settings(found[0])

    def cluster_id(self) -> str | None:
        found = self._get(state.CLUSTER_ID)
        return None if found is None else state.parse_cluster_id(found[0])

    def topic_id(self, topic: str) -> str | None:
        return next((each.topic_id for each in self.topics(topic)), None)

    def _get(self, path: str) -> tuple[bytes, Any] | None:
        return self._get_all([path])[0]

    def _get_all(self, paths: Sequence[str]) -> list[tuple[bytes, Any] | None]:
        pending = [self._client.get_async(self._root + path) for path in paths]
        return [self._wait(result) for result in pending]

    def _children(self, path: str) -> list[str]:
        return self._wait(self._client.get_children_async(self._root + path)) or []

    def _wait(self, result: Any) -> Any:
        """The result of an asynchronous read; None when there is no such znode."""
        try:
            return result.get(timeout=_TIMEOUT_S)
        except NoNodeError:
            return None
        except (KazooException, KazooTimeoutError) as e:
            raise StateUnreadable(f"ZooKeeper did not answer: {e!r}") from e

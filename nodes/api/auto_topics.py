"""Topics that come to be because somebody asked for them (Kafka's AutoTopicCreationManager).

Any broker writes the topic into ZooKeeper itself, whoever is controller; the controller learns of
it from its watch. The one who asked is told to come back (LEADER_NOT_AVAILABLE), since leaders are
elected and metadata spread only afterwards. A topic that is being created by another thread of this
broker is not created a second time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nodes.api.topic_names import OFFSETS_TOPIC, is_legal
from nodes.coordination.admin import NewTopic
from nodes.core.errors import Errors

if TYPE_CHECKING:
    from nodes.config import BrokerConfig
    from nodes.coordination.admin import AdminManager


class AutoTopicCreation:
    """Thread-safe; blocks its caller on ZooKeeper."""

    def __init__(self, config: BrokerConfig, admin: AdminManager) -> None:
        self._config = config
        self._admin = admin
        self._lock = threading.Lock()
        self._in_flight: set[str] = set()

    def create(self, topics: Iterable[str]) -> dict[str, Errors]:
        """Create what can be created; answer for each topic what its client is to be told."""
        answers: dict[str, Errors] = {}
        mine: list[str] = []
        for name in topics:
            if not is_legal(name):
                answers[name] = Errors.INVALID_TOPIC_EXCEPTION
            elif self._claim(name):
                mine.append(name)
            else:
                answers[name] = Errors.UNKNOWN_TOPIC_OR_PARTITION
        if not mine:
            return answers
        try:
            results = self._admin.create_topics([self._new_topic(name) for name in mine])
        finally:
            with self._lock:
                self._in_flight.difference_update(mine)
        for name, result in results.items():
            created = result.error in (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS)
            answers[name] = Errors.LEADER_NOT_AVAILABLE if created else result.error
        return answers

    def _claim(self, name: str) -> bool:
        with self._lock:
            if name in self._in_flight:
                return False
            self._in_flight.add(name)
            return True

    def _new_topic(self, name: str) -> NewTopic:
        config = self._config
        if name != OFFSETS_TOPIC:
            return NewTopic(
                name=name,
                num_partitions=config.num_partitions,
                replication_factor=config.default_replication_factor,
            )
        configs: dict[str, Any] = {
            "cleanup.policy": "compact",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
            "compression.type": "producer",
        }
        return NewTopic(
            name=name,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=config.offsets_topic_replication_factor,
            configs=configs,
        )

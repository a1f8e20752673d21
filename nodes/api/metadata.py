"""Metadata: where partitions are led, as seen from the listener that was asked.

An answer depends on the snapshot, the listener, the version and what was asked for, and clients ask
the same again and again, so whole answers are kept encoded with the snapshot that they came from
(building one takes a thousand times as long as copying it). Only the correlation id differs; it is
patched in. A new snapshot starts with an empty cache, so nothing has to be invalidated.

Asking for a topic that does not exist creates it when both broker and client allow it; such an
answer is not cached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from nodes.api.answers import (
    CLUSTER_OPERATIONS,
    NO_OPERATIONS,
    TOPIC_OPERATIONS,
    frame_of,
)
from nodes.api.topic_names import is_internal, is_legal
from nodes.core.errors import ApiError, Errors

if TYPE_CHECKING:
    from nodes.api.auto_topics import AutoTopicCreation
    from nodes.api.services import Services
    from nodes.network.request_channel import Request
    from nodes.replication.metadata_cache import MetadataSnapshot, PartitionState

LISTENER_NOT_FOUND: Final = 72
NO_LEADER: Final = -1

_CACHED_ANSWERS: Final = 256
"""Answers kept per snapshot: clients that each ask for topics of their own must not fill memory."""

_MAX_CACHED_BYTES: Final = 4_000_000

Row = dict[str, Any]


class MetadataApi:
    """Stateless but for the caches in the snapshots; runs on any handler thread."""

    def __init__(self, services: Services, auto_topics: AutoTopicCreation) -> None:
        self._services = services
        self._auto_topics = auto_topics
        self._rules = services.replica_manager.rules

    def metadata(self, request: Request) -> None:
        body, version = request.body, request.api_version
        snapshot = self._services.metadata_cache.snapshot
        names, ids = _asked_for(body, version, self._rules.asks_for_all_topics)
        key = (
            request.listener,
            version,
            None if names is None else tuple(names),
            tuple(ids),
            getattr(body, "include_cluster_authorized_operations", False),
            getattr(body, "include_topic_authorized_operations", False),
        )
        frame = snapshot.encoded.get(key)
        if frame is None:
            missing = [name for name in names or () if name not in snapshot.topics]
            extra = self._missing_topics(request, missing)
            frame = frame_of(request, self._fields(request, snapshot, names, ids, extra))
            cacheable = not missing and len(frame) <= _MAX_CACHED_BYTES
            if cacheable and len(snapshot.encoded) < _CACHED_ANSWERS:
                snapshot.encoded[key] = frame
        request.respond(
            b"".join((frame[:4], request.correlation_id.to_bytes(4, "big", signed=True), frame[8:]))
        )

    def _fields(
        self,
        request: Request,
        snapshot: MetadataSnapshot,
        names: list[str] | None,
        ids: list[UUID],
        extra: list[Row],
    ) -> Row:
        body, version, listener = request.body, request.api_version, request.listener
        operations = NO_OPERATIONS
        if getattr(body, "include_topic_authorized_operations", False):
            operations = TOPIC_OPERATIONS
        topics: list[Row] = [
            _unknown(None, topic_id, Errors.UNKNOWN_TOPIC_ID)
            for topic_id in ids
            if topic_id not in snapshot.topic_names
        ]
        wanted: Iterable[str]
        if ids:
            wanted = [snapshot.topic_names[i] for i in ids if i in snapshot.topic_names]
        else:
            wanted = snapshot.topics if names is None else names
        topics += [
            topic_row(snapshot, name, listener, version, operations)
            for name in wanted
            if name in snapshot.topics
        ]
        topics += [{**row, "topic_authorized_operations": operations} for row in extra]
        include_cluster = getattr(body, "include_cluster_authorized_operations", False)
        return {
            "brokers": broker_rows(snapshot, self._told_listener(listener)),
            "cluster_id": self._services.cluster_id,
            "controller_id": snapshot.controller_id,
            "topics": topics,
            "cluster_authorized_operations": (
                CLUSTER_OPERATIONS if include_cluster else NO_OPERATIONS
            ),
        }

    def _told_listener(self, asked_by: str) -> str:
        inter_broker = self._services.config.inter_broker_listener_name
        return self._rules.clients_listener(asked_by, inter_broker)

    def _missing_topics(self, request: Request, missing: list[str]) -> list[Row]:
        """What to say of topics that this broker does not know; perhaps they come to be."""
        if not missing:
            return []
        # Versions before 4 could not say; they always allowed it.
        allowed = getattr(request.body, "allow_auto_topic_creation", True)
        if allowed and self._services.config.auto_create_topics_enable:
            errors: Mapping[str, Errors] = self._auto_topics.create(missing)
        else:
            errors = {
                name: Errors.UNKNOWN_TOPIC_OR_PARTITION
                if is_legal(name)
                else Errors.INVALID_TOPIC_EXCEPTION
                for name in missing
            }
        topic_id = self._services.metadata_cache.topic_id
        return [_unknown(name, topic_id(name), error) for name, error in errors.items()]


def _asked_for(
    body: Any, version: int, is_all: Callable[[Sequence[object] | None, int], bool]
) -> tuple[list[str] | None, list[UUID]]:
    """Names (None: every topic) and topic ids, each once, in the order asked for.

    Ids may be asked for from version 12 on; a request that does so is answered by id alone.
    """
    topics = body.topics
    if is_all(topics, version):
        return None, []
    names: dict[str, None] = {}
    ids: dict[UUID, None] = {}
    for topic in topics:
        topic_id: UUID | None = getattr(topic, "topic_id", None)
        if topic_id is not None and topic_id.int:
            ids[topic_id] = None
        elif topic.name is not None:
            names[str(topic.name)] = None
        if version < 12 and (topic.name is None or (topic_id is not None and topic_id.int)):
            text = "Topic ids are not supported, or a name is null, in this version"
            raise ApiError(Errors.INVALID_REQUEST, text)
    return ([] if ids else list(names)), list(ids)


def broker_rows(snapshot: MetadataSnapshot, listener: str) -> list[Row]:
    """The live brokers that have this listener, with its endpoints."""
    return [
        {
            "node_id": broker_id,
            "host": endpoint[0],
            "port": endpoint[1],
            "rack": broker.rack,
        }
        for broker_id, broker in snapshot.brokers.items()
        if (endpoint := broker.endpoints.get(listener)) is not None
    ]


def topic_row(
    snapshot: MetadataSnapshot,
    name: str,
    listener: str,
    version: int,
    operations: int = NO_OPERATIONS,
) -> Row:
    """One known topic with all its partitions."""
    return {
        "error_code": Errors.NONE,
        "name": name,
        "topic_id": snapshot.topic_ids.get(name),
        "is_internal": is_internal(name),
        "partitions": [
            _partition_row(snapshot, index, state, listener, version)
            for index, state in snapshot.topics[name].items()
        ],
        "topic_authorized_operations": operations,
    }


def _partition_row(
    snapshot: MetadataSnapshot, index: int, state: PartitionState, listener: str, version: int
) -> Row:
    """Version 0 knew no offline replicas: it leaves out dead ones and says so with error 9."""
    replicas, isr = state.replicas, state.isr
    error, leader = int(Errors.NONE), state.leader
    if version == 0:
        replicas = tuple(r for r in replicas if _reachable(snapshot, r, listener))
        isr = tuple(r for r in isr if _reachable(snapshot, r, listener))
    if not _reachable(snapshot, leader, listener):
        known = leader in snapshot.brokers
        error = LISTENER_NOT_FOUND if known and version >= 6 else int(Errors.LEADER_NOT_AVAILABLE)
        leader = NO_LEADER
    elif len(replicas) < len(state.replicas) or len(isr) < len(state.isr):
        error = int(Errors.REPLICA_NOT_AVAILABLE)
    return {
        "error_code": error,
        "partition_index": index,
        "leader_id": leader,
        "leader_epoch": state.leader_epoch,
        "replica_nodes": replicas,
        "isr_nodes": isr,
        "offline_replicas": state.offline_replicas,
    }


def _reachable(snapshot: MetadataSnapshot, broker_id: int, listener: str) -> bool:
    broker = snapshot.brokers.get(broker_id)
    return broker is not None and listener in broker.endpoints


def _unknown(name: str | None, topic_id: UUID | None, error: Errors) -> Row:
    return {
        "error_code": error,
        "name": name,
        "topic_id": topic_id,
        "is_internal": is_internal(name),
        "partitions": [],
    }

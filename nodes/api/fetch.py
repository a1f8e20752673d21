"""Fetch, for consumers and followers alike.

There are no fetch sessions (KIP-227 lets a broker decline them): a full request is answered with
session id 0, and an incremental one, which names a session that cannot exist here, with
FETCH_SESSION_ID_NOT_FOUND, upon which its client sends a full one.

Partitions that this broker's metadata does not know are answered UNKNOWN_TOPIC_OR_PARTITION without
asking the replica manager; if none remains the answer goes out at once. From version 13 on topics
are named by their ids alone (KIP-516): an unknown one is UNKNOWN_TOPIC_ID, and one that is not the
log's here, of a topic that was made anew, INCONSISTENT_TOPIC_ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID

from nodes.api.answers import by_topic, millis
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.replication.model import FetchParams, FetchPartitionRequest, FetchResult
from nodes.wire.fetch_codec import FetchedPartition, encode_fetch_response

if TYPE_CHECKING:
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

_FULL_EPOCHS: Final = frozenset({0, -1})
"""Session epochs of a full request: the first of a new session, and one that wants none."""

_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_FOLLOWER_READS: Final = 11
_FIRST_WITH_STORAGE_ERROR: Final = 6
_FIRST_WITH_TOPIC_IDS: Final = 13
_NO_ID: Final = UUID(int=0)

_UNKNOWN: Final = FetchResult(int(Errors.UNKNOWN_TOPIC_OR_PARTITION))
_UNKNOWN_ID: Final = FetchResult(int(Errors.UNKNOWN_TOPIC_ID))

Rows = list[tuple[TopicPartition, FetchResult]]
Refused = list[tuple[str | UUID, FetchedPartition]]


class FetchApi:
    """Stateless; runs on any handler thread, its callback on any thread at all."""

    def __init__(self, services: Services) -> None:
        self._max_bytes = services.config.fetch_max_bytes
        self._cache = services.metadata_cache
        self._replica_manager = services.replica_manager

    def fetch(self, request: Request) -> None:
        body, version = request.body, request.api_version
        request.is_followers = body.replica_id >= 0
        if version >= _FIRST_WITH_SESSIONS and body.session_epoch not in _FULL_EPOCHS:
            error = int(Errors.FETCH_SESSION_ID_NOT_FOUND)
            request.errors = (error,)
            request.respond(encode_fetch_response(version, request.correlation_id, [], error=error))
            return
        refused: Refused = []
        wanted: list[tuple[TopicPartition, FetchPartitionRequest]] = []
        ids: dict[str, UUID] = {}
        metadata = self._cache.snapshot
        for topic in body.topics:
            topic_id = (topic.topic_id or _NO_ID) if version >= _FIRST_WITH_TOPIC_IDS else None
            name = topic.topic if topic_id is None else metadata.topic_names.get(topic_id)
            if name is not None and topic_id is not None:
                ids[name] = topic_id
            known = () if name is None else metadata.topics.get(name, ())
            for asked in topic.partitions:
                tp = TopicPartition(name or "", asked.partition)
                if tp.partition not in known:
                    why = _UNKNOWN_ID if name is None else _UNKNOWN
                    refused.append((topic_id or name or "", FetchedPartition(tp.partition, *why)))
                    continue
                wanted.append(
                    (
                        tp,
                        FetchPartitionRequest(
                            fetch_offset=asked.fetch_offset,
                            log_start_offset=getattr(asked, "log_start_offset", -1),
                            max_bytes=asked.partition_max_bytes,
                            current_leader_epoch=getattr(asked, "current_leader_epoch", -1),
                            last_fetched_epoch=getattr(asked, "last_fetched_epoch", -1),
                            topic_id=topic_id,
                        ),
                    )
                )
        respond = partial(_respond, request, refused, ids)
        if not wanted:
            respond([])
            return
        max_bytes = min(body.max_bytes, self._max_bytes)
        params = FetchParams(
            replica_id=body.replica_id,
            max_wait_ms=millis(body.max_wait),
            min_bytes=min(body.min_bytes, max_bytes),
            max_bytes=max_bytes,
            isolation=body.isolation_level,
            client_id=request.client_id or "",
            may_read_follower=version >= _FIRST_WITH_FOLLOWER_READS,
        )
        self._replica_manager.fetch_messages(params, wanted, respond, request.is_abandoned)


def _respond(request: Request, refused: Refused, ids: Mapping[str, UUID], found: Rows) -> None:
    """`ids`: of the topics that were asked for by them."""
    version = request.api_version
    if version < _FIRST_WITH_STORAGE_ERROR:
        found = [(tp, _downgraded(result)) for tp, result in found]
    rows = [
        *(
            (ids.get(tp.topic, tp.topic), FetchedPartition(tp.partition, *result))
            for tp, result in found
        ),
        *refused,
    ]
    # As Kafka counts: the answer as a whole, and each partition.
    request.errors = [0, *(row.error for _, row in rows)]
    topics = list(by_topic(rows).items())
    request.respond(encode_fetch_response(version, request.correlation_id, topics))


def _downgraded(result: FetchResult) -> FetchResult:
    """KAFKA_STORAGE_ERROR came with version 6; older clients are told to find another leader."""
    if result.error != Errors.KAFKA_STORAGE_ERROR:
        return result
    return result._replace(error=int(Errors.NOT_LEADER_OR_FOLLOWER))

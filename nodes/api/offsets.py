"""ListOffsets and OffsetForLeaderEpoch: questions about where a partition's log begins and ends."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from nodes.api.answers import answer
from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition

if TYPE_CHECKING:
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

Row = dict[str, Any]

_SINCE_VERSION: Final = {-1: 1, -2: 1, -3: 7}
"""Special timestamps (latest, earliest, the one of the highest timestamp): their first version."""


class OffsetApis:
    """Stateless; runs on any handler thread."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def list_offsets(self, request: Request) -> None:
        body = request.body
        seen = Counter(
            (topic.name, p.partition_index) for topic in body.topics for p in topic.partitions
        )
        topics = [
            {
                "name": topic.name,
                "partitions": [
                    self._offset(request, topic.name, p, seen[topic.name, p.partition_index] > 1)
                    for p in topic.partitions
                ],
            }
            for topic in body.topics
        ]
        answer(request, topics=topics)

    def _offset(self, request: Request, topic: str, asked: Any, is_duplicate: bool) -> Row:
        index, timestamp_ms = int(asked.partition_index), int(asked.timestamp)
        if is_duplicate:
            return _no_offset(index, Errors.INVALID_REQUEST)
        if timestamp_ms < 0 and request.api_version < _SINCE_VERSION.get(timestamp_ms, 2**15):
            return _no_offset(index, Errors.UNSUPPORTED_VERSION)
        body = request.body
        try:
            found = self._services.replica_manager.list_offset(
                TopicPartition(str(topic), index),
                timestamp_ms,
                int(getattr(asked, "current_leader_epoch", -1)),
                int(getattr(body, "isolation_level", 0)),
                int(body.replica_id),
            )
        except ApiError as error:
            return _no_offset(index, _for_version(error.error, request.api_version))
        if found.error:
            return _no_offset(index, _for_version(found.error, request.api_version))
        return {
            "partition_index": index,
            "error_code": Errors.NONE,
            "timestamp": found.timestamp_ms,
            "offset": found.offset,
            "leader_epoch": found.leader_epoch,
        }

    def offset_for_leader_epoch(self, request: Request) -> None:
        answer(
            request,
            topics=[
                {
                    "topic": topic.topic,
                    "partitions": [self._epoch_end(topic.topic, p) for p in topic.partitions],
                }
                for topic in request.body.topics
            ],
        )

    def _epoch_end(self, topic: str, asked: Any) -> Row:
        tp = TopicPartition(str(topic), int(asked.partition))
        try:
            error, leader_epoch, end_offset = (
                self._services.replica_manager.last_offset_for_leader_epoch(
                    tp, int(asked.current_leader_epoch), int(asked.leader_epoch)
                )
            )
        except ApiError as failure:
            error, leader_epoch, end_offset = failure.error, -1, -1
        return {
            "error_code": error,
            "partition": tp.partition,
            "leader_epoch": leader_epoch,
            "end_offset": end_offset,
        }


def _for_version(error: int, version: int) -> int:
    """OFFSET_NOT_AVAILABLE came with version 5; before, such a client is told to look again."""
    if error == Errors.OFFSET_NOT_AVAILABLE and version < 5:
        return Errors.LEADER_NOT_AVAILABLE
    return error


def _no_offset(index: int, error: int) -> Row:
    return {"partition_index": index, "error_code": error, "timestamp": -1, "offset": -1}

"""DeleteRecords: a partition's log shall begin later (KIP-107).

The leader moves its log's start at once; the answer waits until every live replica has followed,
and carries the low watermark: the offset that none of them can be asked below of any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nodes.api.answers import answer, by_topic, millis
from nodes.api.topic_names import is_internal
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.replication.record_deletion import INVALID_LOW_WATERMARK, DeleteRecordsResult

if TYPE_CHECKING:
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

Row = dict[str, Any]

_UNKNOWN: Final = DeleteRecordsResult(Errors.UNKNOWN_TOPIC_OR_PARTITION, INVALID_LOW_WATERMARK)


class RecordDeletionApi:
    """Stateless; runs on any handler thread, its callback on any thread at all."""

    def __init__(self, services: Services) -> None:
        self._cache = services.metadata_cache
        self._deletions = services.replica_manager.deletions

    def delete_records(self, request: Request) -> None:
        body = request.body
        wanted: dict[TopicPartition, int] = {}
        refused: dict[TopicPartition, DeleteRecordsResult] = {}
        for topic in body.topics:
            for p in topic.partitions:
                tp = TopicPartition(str(topic.name), int(p.partition_index))
                if self._cache.partition_state(*tp) is None:
                    refused[tp] = _UNKNOWN
                elif is_internal(tp.topic):
                    error = Errors.INVALID_TOPIC_EXCEPTION
                    refused[tp] = DeleteRecordsResult(error, INVALID_LOW_WATERMARK)
                else:
                    wanted[tp] = int(p.offset)

        def respond(results: dict[TopicPartition, DeleteRecordsResult]) -> None:
            grouped = by_topic(
                (
                    tp.topic,
                    {
                        "partition_index": tp.partition,
                        "low_watermark": result.low_watermark,
                        "error_code": result.error,
                    },
                )
                for tp, result in {**results, **refused}.items()
            )
            topics = [{"name": name, "partitions": rows} for name, rows in grouped.items()]
            answer(request, topics=topics)

        self._deletions.delete(wanted, millis(body.timeout), respond, request.is_abandoned)

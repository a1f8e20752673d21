"""DescribeProducers: who writes idempotently into a partition, as its leader remembers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from nodes.api.answers import answer
from nodes.api.topic_names import is_legal
from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition

if TYPE_CHECKING:
    from nodes.api.services import Services
    from nodes.network.request_channel import Request

_NONE: Final = -1


class ProducersApi:
    """Stateless; runs on any handler thread."""

    def __init__(self, services: Services) -> None:
        self._replica_manager = services.replica_manager
        self._cache = services.metadata_cache

    def describe_producers(self, request: Request) -> None:
        answer(
            request,
            topics=[
                {
                    "name": topic.name,
                    "partitions": [
                        self._row(TopicPartition(str(topic.name), int(p)))
                        for p in topic.partition_indexes
                    ],
                }
                for topic in request.body.topics
            ],
        )

    def _row(self, tp: TopicPartition) -> dict[str, Any]:
        row: dict[str, Any] = {
            "partition_index": tp.partition,
            "error_code": Errors.NONE,
            "error_message": None,
            "active_producers": [],
        }
        try:
            if not is_legal(tp.topic):
                raise ApiError(Errors.INVALID_TOPIC_EXCEPTION)
            if self._cache.partition_state(*tp) is None:
                raise ApiError(Errors.UNKNOWN_TOPIC_OR_PARTITION)
            partition = self._replica_manager.partition(tp)
            if partition is None or not partition.is_leader:
                raise ApiError(Errors.NOT_LEADER_OR_FOLLOWER)
            producers = partition.local_log().active_producers()
        except ApiError as error:
            return {**row, "error_code": error.error, "error_message": str(error)}
        row["active_producers"] = [
            {
                "producer_id": p.producer_id,
                "producer_epoch": p.producer_epoch,
                "last_sequence": p.last_sequence,
                "last_timestamp": p.timestamp_ms,
                "coordinator_epoch": _NONE,
                "current_txn_start_offset": _NONE,
            }
            for p in producers
        ]
        return row

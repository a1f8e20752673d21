"""A fetch that waits for enough bytes.

It is answered early when waiting has become pointless: a partition is no longer served here, its
leader epoch moved on, its log was cut below the fetch offset, or the follower has to truncate.
The answer is read afresh on completion; positions of followers were recorded when the fetch came
in, and are not recorded again, or a late answer would count as a new sign of life.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nodes.core.errors import ApiError
from nodes.core.truncation import EpochEnd, diverges
from nodes.core.types import TopicPartition
from nodes.replication.model import FetchParams, FetchPartitionRequest, FetchRespond, FetchResult
from nodes.replication.purgatory import DelayedOperation

FetchList = Sequence[tuple[TopicPartition, FetchPartitionRequest]]


class ReadSource(Protocol):
    def readable(
        self, tp: TopicPartition, params: FetchParams, request: FetchPartitionRequest
    ) -> tuple[int, EpochEnd | None]: ...

    def read(
        self, params: FetchParams, partitions: FetchList, *, record_positions: bool
    ) -> list[tuple[TopicPartition, FetchResult]]: ...


class DelayedFetch(DelayedOperation):
    """Kafka's DelayedFetch."""

    __slots__ = ("_params", "_partitions", "_respond", "_source")

    def __init__(
        self,
        deadline_ns: int,
        params: FetchParams,
        partitions: FetchList,
        source: ReadSource,
        respond: FetchRespond,
    ) -> None:
        super().__init__(deadline_ns)
        self._params = params
        self._partitions = partitions
        self._source = source
        self._respond = respond

    def try_complete(self) -> bool:
        has_news = False
        for tp, request in self._partitions:
            try:
                end, epoch_end = self._source.readable(tp, self._params, request)
            except ApiError:
                return self.force_complete()
            if request.fetch_offset > end:
                # The log was cut below the offset, or a consumer is ahead of a new leader's high
                # watermark. Kafka makes neither wait.
                return self.force_complete()
            has_news = has_news or request.fetch_offset < end
            if epoch_end is not None and (
                epoch_end.is_undefined
                or diverges(epoch_end, request.last_fetched_epoch, request.fetch_offset)
            ):
                return self.force_complete()
        if has_news and (self._params.min_bytes <= 1 or self._has_enough()):
            return self.force_complete()
        return False

    def _has_enough(self) -> bool:
        """More than one byte was asked for: the log knows sizes only by reading."""
        answer = self._source.read(self._params, self._partitions, record_positions=False)
        return sum(len(result.records) for _tp, result in answer) >= self._params.min_bytes

    def on_complete(self) -> None:
        self._respond(self._source.read(self._params, self._partitions, record_positions=False))

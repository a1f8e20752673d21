"""A fetch that waits for enough bytes (Kafka's DelayedFetch).

It is answered early when waiting has become pointless: a partition is no longer served here, its
leader epoch moved on, its log was cut below the fetch offset, or the follower has to truncate; and
at once when a partition's data lies in a later segment than the fetch offset, since an answer ends
with its segment.

How much there is, is told by positions: each append only asks where the log, or what is committed
of it, ends now. The answer is looked up once, on completion; positions of followers were recorded
when the fetch came in, and are not recorded again, or a late answer would count as a new sign of
life.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nodes.core.errors import ApiError
from nodes.core.truncation import EpochEnd, diverges
from nodes.core.types import TopicPartition
from nodes.log.slices import OffsetPosition
from nodes.replication.model import FetchParams, FetchPartitionRequest, FetchRespond, FetchResult
from nodes.replication.purgatory import DelayedOperation

FetchList = Sequence[tuple[TopicPartition, FetchPartitionRequest]]


class ReadSource(Protocol):
    def readable(
        self, tp: TopicPartition, params: FetchParams, request: FetchPartitionRequest
    ) -> tuple[int, EpochEnd | None]: ...

    def position_of(self, tp: TopicPartition, offset: int) -> OffsetPosition: ...

    def read(
        self, params: FetchParams, partitions: FetchList, *, record_positions: bool
    ) -> list[tuple[TopicPartition, FetchResult]]: ...


class DelayedFetch(DelayedOperation):
    """See the module. `try_complete` runs under the operation's lock."""

    __slots__ = ("_begins", "_params", "_partitions", "_respond", "_source")

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
        self._begins: dict[TopicPartition, OffsetPosition] = {}
        """Where the fetch offsets are, as far as anybody had to know."""

    def try_complete(self) -> bool:
        available = 0
        for tp, request in self._partitions:
            try:
                end, epoch_end = self._source.readable(tp, self._params, request)
                if request.fetch_offset > end:
                    # The log was cut below the offset, or a consumer is ahead of a new leader's
                    # high watermark. Kafka makes neither wait.
                    return self.force_complete()
                if epoch_end is not None and (
                    epoch_end.is_undefined
                    or diverges(epoch_end, request.last_fetched_epoch, request.fetch_offset)
                ):
                    return self.force_complete()
                if request.fetch_offset < end:
                    if self._params.min_bytes <= 1:
                        return self.force_complete()
                    size = self._size(tp, request, end)
                    if size is None:
                        return self.force_complete()
                    available += size
                elif self._params.min_bytes > 1 and tp not in self._begins:
                    # Costs nothing now: that is where the log ends, or what is committed of it.
                    self._begins[tp] = self._source.position_of(tp, end)
            except ApiError:
                return self.force_complete()
        return available >= max(1, self._params.min_bytes) and self.force_complete()

    def _size(self, tp: TopicPartition, request: FetchPartitionRequest, end: int) -> int | None:
        """Bytes between the fetch offset and `end`, no more than the partition's share may have;
        None when they lie in different segments."""
        begin = self._begins.get(tp)
        if begin is None:
            begin = self._begins[tp] = self._source.position_of(tp, request.fetch_offset)
        last = self._source.position_of(tp, end)
        if begin.segment_base_offset != last.segment_base_offset:
            return None
        return min(max(0, last.position - begin.position), request.max_bytes)

    def on_complete(self) -> None:
        self._respond(self._source.read(self._params, self._partitions, record_positions=False))

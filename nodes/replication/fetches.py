"""Fetches of consumers and followers: answered at once, or when there is enough.

The fetch half of Kafka's ReplicaManager. Records are found, not read: their bytes are read when
they are sent (`nodes.log.slices`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from nodes.core.errors import ApiError, Errors
from nodes.core.truncation import EpochEnd
from nodes.core.types import TopicPartition
from nodes.log.slices import OffsetPosition
from nodes.replication.delayed_fetch import DelayedFetch, FetchList
from nodes.replication.model import FetchParams, FetchPartitionRequest, FetchRespond, FetchResult
from nodes.replication.partition import Partition
from nodes.replication.purgatory import Purgatory, nobody_leaves


class Waiters(Protocol):
    """The ReplicaManager, which wakes who waits for a partition."""

    def complete_delayed(self, tp: TopicPartition) -> None: ...


class Fetches:
    """Any thread. Shares the partitions' map with the ReplicaManager, which owns it."""

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        error_for_missing: Callable[[TopicPartition], Errors],
        waiting: Purgatory[DelayedFetch],
        waiters: Waiters,
        now_ns: Callable[[], int],
    ) -> None:
        self._partitions = partitions
        self._error_for_missing = error_for_missing
        self._waiting = waiting
        self._waiters = waiters
        self._now_ns = now_ns

    def fetch_messages(
        self,
        params: FetchParams,
        partitions: Sequence[tuple[TopicPartition, FetchPartitionRequest]],
        respond: FetchRespond,
        is_abandoned: Callable[[], bool] = nobody_leaves,
    ) -> None:
        """Answers at once when there is enough, an error, a divergence, or nothing to wait for."""
        results = self.read(params, partitions, record_positions=True)
        available = 0
        answer_now = params.max_wait_ms <= 0 or not partitions
        for _tp, result in results:
            available += len(result.records)
            if result.error or result.diverging_epoch is not None:
                answer_now = True
        if answer_now or available >= params.min_bytes:
            respond(results)
            return
        deadline_ns = self._now_ns() + params.max_wait_ms * 1_000_000
        operation = DelayedFetch(deadline_ns, params, partitions, self, respond)
        operation.is_abandoned = is_abandoned
        self._waiting.try_complete_else_watch(operation, [tp for tp, _request in partitions])

    def read(
        self, params: FetchParams, partitions: FetchList, *, record_positions: bool
    ) -> list[tuple[TopicPartition, FetchResult]]:
        """One pass over the logs within the request's limits: records are found, not read. The
        first partition with records may exceed them, or a large batch would never get through."""
        results = []
        advanced = []
        remaining = params.max_bytes
        min_one = not params.hard_max_bytes
        for tp, request in partitions:
            partition = self._partitions.get(tp)
            if partition is None:
                results.append((tp, FetchResult(int(self._error_for_missing(tp)))))
                continue
            if request.topic_id is not None and partition.topic_id not in (None, request.topic_id):
                results.append((tp, FetchResult(int(Errors.INCONSISTENT_TOPIC_ID))))
                continue
            try:
                result, has_advanced = partition.fetch(
                    params, request, min(request.max_bytes, remaining), min_one, record_positions
                )
            except ApiError as refused:
                result, has_advanced = FetchResult(int(refused.error)), False
            if result.records:
                min_one = False
                remaining = max(0, remaining - len(result.records))
            if has_advanced:
                advanced.append(tp)
            results.append((tp, result))
        for tp in advanced:
            self._waiters.complete_delayed(tp)
        return results

    # ---- for who waits ---------------------------------------------------------------------------

    def readable(
        self, tp: TopicPartition, params: FetchParams, request: FetchPartitionRequest
    ) -> tuple[int, EpochEnd | None]:
        """Raises ApiError."""
        return self._hosted(tp).readable(params, request)

    def position_of(self, tp: TopicPartition, offset: int) -> OffsetPosition:
        """Raises ApiError."""
        return self._hosted(tp).position_of(offset)

    def _hosted(self, tp: TopicPartition) -> Partition:
        partition = self._partitions.get(tp)
        if partition is None:
            raise ApiError(self._error_for_missing(tp))
        return partition

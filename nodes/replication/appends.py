"""Producers' records: append, and answer when as many replicas hold them as was asked for.

The produce half of Kafka's ReplicaManager. For one partition with acks=1 the whole path is: the
partition's lock, the log's append, two dict lookups to see whether anybody waits, the answer.

With acks=all the request is watched *before* fetches are woken: the followers' next fetches are
what will complete it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from nodes.core import acks
from nodes.core.acks import Acknowledgement
from nodes.core.errors import ApiError, Errors, RecordsRefused
from nodes.core.rules import RULES
from nodes.core.types import TopicPartition
from nodes.replication.delayed_fetch import DelayedFetch
from nodes.replication.delayed_produce import DelayedProduce, PendingAppend
from nodes.replication.model import ProduceRespond, ProduceResult
from nodes.replication.partition import Append, Partition
from nodes.replication.purgatory import Purgatory, nobody_leaves

if TYPE_CHECKING:
    from nodes.metrics import Metrics

log = logging.getLogger("kafka.server.ReplicaManager")

_WITHOUT_LOG_START = frozenset(
    {
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        Errors.NOT_LEADER_OR_FOLLOWER,
        Errors.MESSAGE_TOO_LARGE,
        Errors.RECORD_LIST_TOO_LARGE,
        Errors.CORRUPT_MESSAGE,
        Errors.KAFKA_STORAGE_ERROR,
    }
)
"""What Kafka answers without the log's start; with any other refusal that is told."""


def _refusal(partition: Partition, refused: ApiError) -> ProduceResult:
    own_log = partition.log
    if own_log is None or refused.error in _WITHOUT_LOG_START:
        return ProduceResult(int(refused.error))
    result = ProduceResult(int(refused.error), log_start_offset=own_log.log_start_offset)
    if isinstance(refused, RecordsRefused):
        return result._replace(record_errors=refused.record_errors, error_message=str(refused))
    return result


class Appends:
    """Any thread. Shares the partitions' map with the ReplicaManager, which owns it."""

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        error_for_missing: Callable[[TopicPartition], Errors],
        produces: Purgatory[DelayedProduce],
        fetches: Purgatory[DelayedFetch],
        metrics: Metrics,
        now_ns: Callable[[], int],
        *,
        awaits_duplicates: bool = True,
        awaits_beside_refusals: bool = True,
        awaits_commit: Callable[[int], bool] = RULES.awaits_commit,
        ack_wait_ms: Callable[[int], int] = RULES.ack_wait_ms,
    ) -> None:
        self._partitions = partitions
        self._awaits_duplicates = awaits_duplicates
        self._awaits_beside_refusals = awaits_beside_refusals
        self._awaiting = frozenset(filter(awaits_commit, acks.VALID))
        self._ack_wait_ms = ack_wait_ms
        self._error_for_missing = error_for_missing
        self._produces = produces
        self._fetches = fetches
        self._now_ns = now_ns
        self._expired = metrics.meter(
            "kafka.server:type=DelayedOperationMetrics,name=ProduceExpiresPerSec"
        )
        self._bytes_in = metrics.meter("kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec")
        self._messages_in = metrics.meter(
            "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec"
        )

    def append_single(
        self,
        tp: TopicPartition,
        data: bytes | memoryview,
        required_acks: int,
        timeout_ms: int,
        respond: Callable[[ProduceResult], None],
        is_abandoned: Callable[[], bool] = nobody_leaves,
    ) -> None:
        """`append_records` for one partition: the hot path."""
        if required_acks not in acks.VALID:
            respond(ProduceResult(int(Errors.INVALID_REQUIRED_ACKS)))
            return
        result, append = self._append(tp, data, required_acks)
        if append is None:
            respond(result)
            return
        if required_acks in self._awaiting and (
            self._awaits_duplicates or not append.info.duplicate
        ):
            self._await_commit(
                timeout_ms,
                {tp: PendingAppend(result, append.info.last_offset + 1, append.leader_epoch)},
                lambda results: respond(results[tp]),
                is_abandoned,
            )
        else:
            respond(result)
        self._appended(tp, append)

    def append_records(
        self,
        timeout_ms: int,
        required_acks: int,
        entries: Mapping[TopicPartition, bytes | memoryview],
        respond: ProduceRespond,
        is_abandoned: Callable[[], bool] = nobody_leaves,
    ) -> None:
        """Appends to each partition and answers when `required_acks` is met everywhere."""
        if required_acks not in acks.VALID:
            error = int(Errors.INVALID_REQUIRED_ACKS)
            respond({tp: ProduceResult(error) for tp in entries})
            return
        results: dict[TopicPartition, ProduceResult] = {}
        appends: dict[TopicPartition, Append] = {}
        for tp, data in entries.items():
            results[tp], append = self._append(tp, data, required_acks)
            if append is not None:
                appends[tp] = append
        awaits = self._awaits_beside_refusals or len(appends) == len(entries)
        if required_acks in self._awaiting and appends and awaits:
            pending = {
                tp: PendingAppend(
                    result,
                    appends[tp].info.last_offset + 1 if tp in appends else 0,
                    appends[tp].leader_epoch if tp in appends else -1,
                )
                for tp, result in results.items()
            }
            self._await_commit(timeout_ms, pending, respond, is_abandoned)
        else:
            respond(results)
        for tp, append in appends.items():
            self._appended(tp, append)

    def _append(
        self, tp: TopicPartition, data: bytes | memoryview, required_acks: int
    ) -> tuple[ProduceResult, Append | None]:
        partition = self._partitions.get(tp)
        if partition is None:
            return ProduceResult(int(self._error_for_missing(tp))), None
        try:
            append = partition.append_as_leader(data, required_acks)
        except ApiError as refused:
            return _refusal(partition, refused), None
        info = append.info
        self._bytes_in.mark(len(data))
        self._messages_in.mark(info.last_offset - info.first_offset + 1)
        # As ProduceResult(...), in a third of the time.
        fields = (0, info.first_offset, info.log_append_time_ms, append.log_start_offset, (), None)
        return tuple.__new__(ProduceResult, fields), append

    def _await_commit(
        self,
        timeout_ms: int,
        pending: dict[TopicPartition, PendingAppend],
        respond: ProduceRespond,
        is_abandoned: Callable[[], bool],
    ) -> None:
        deadline_ns = self._now_ns() + self._ack_wait_ms(timeout_ms) * 1_000_000
        operation = DelayedProduce(deadline_ns, pending, self, respond, self._produce_expired)
        operation.is_abandoned = is_abandoned
        self._produces.try_complete_else_watch(operation, pending)

    def _appended(self, tp: TopicPartition, append: Append) -> None:
        if append.high_watermark_advanced and tp in self._produces.watched:
            self._produces.check_and_complete(tp)
        if tp in self._fetches.watched:
            self._fetches.check_and_complete(tp)

    def _produce_expired(self, _tp: TopicPartition) -> None:
        self._expired.mark()

    def acknowledgement(
        self, tp: TopicPartition, required_offset: int, appended_in_epoch: int
    ) -> Acknowledgement:
        """For delayed produces."""
        partition = self._partitions.get(tp)
        if partition is None:
            return Acknowledgement(True, self._error_for_missing(tp))
        return partition.acknowledgement(required_offset, appended_in_epoch)

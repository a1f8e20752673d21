"""DeleteRecords inside a broker: move the leaders' log starts, wait for the followers (Kafka's
deleteRecords and DelayedDeleteRecords).

Followers take over their leader's log start with each fetch and tell theirs with the next; the low
watermark of a partition is the least of all live replicas' log starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from nodes.core.errors import ApiError, Errors
from nodes.core.types import TopicPartition
from nodes.replication.purgatory import DelayedOperation, Purgatory, nobody_leaves

if TYPE_CHECKING:
    from nodes.replication.partition import Partition

INVALID_LOW_WATERMARK: Final = -1


class DeleteRecordsResult(NamedTuple):
    error: int
    low_watermark: int


Respond = Callable[[dict[TopicPartition, DeleteRecordsResult]], None]
FindLeader = Callable[[TopicPartition], "Partition"]
"""The partition; raises ApiError when it is not hosted here."""


class _Waiting(NamedTuple):
    """One partition's share: the low watermark that is waited for, and the one seen last."""

    wanted: int
    seen: int


class DelayedDeleteRecords(DelayedOperation):
    """Answers when the low watermark of every partition has come up to where it should be."""

    __slots__ = ("_find", "_respond", "_results", "_waiting")

    def __init__(
        self,
        deadline_ns: int,
        waiting: dict[TopicPartition, _Waiting],
        results: dict[TopicPartition, DeleteRecordsResult],
        find: FindLeader,
        respond: Respond,
    ) -> None:
        super().__init__(deadline_ns)
        self._waiting = waiting
        self._results = results
        self._find = find
        self._respond = respond

    def try_complete(self) -> bool:
        for tp, (wanted, _) in list(self._waiting.items()):
            try:
                low_watermark = self._find(tp).low_watermark()
            except ApiError as error:
                self._results[tp] = DeleteRecordsResult(error.error, INVALID_LOW_WATERMARK)
                del self._waiting[tp]
                continue
            if low_watermark >= wanted:
                self._results[tp] = DeleteRecordsResult(Errors.NONE, low_watermark)
                del self._waiting[tp]
            else:
                self._waiting[tp] = _Waiting(wanted, low_watermark)
        return not self._waiting and self.force_complete()

    def on_complete(self) -> None:
        # A deadline does not wait for a try that is under way: what that settles meanwhile counts.
        late = {
            tp: DeleteRecordsResult(Errors.REQUEST_TIMED_OUT, seen)
            for tp, (_, seen) in list(self._waiting.items())
        }
        self._respond({**late, **self._results})


class RecordDeletions:
    """Thread-safe. `check` is called whenever a follower's log start may have moved."""

    def __init__(self, broker_id: int, find: FindLeader, now_ns: Callable[[], int]) -> None:
        self._find = find
        self._now_ns = now_ns
        self._purgatory: Purgatory[DelayedDeleteRecords] = Purgatory(
            "DeleteRecords", broker_id, now_ns
        )

    def startup(self) -> None:
        self._purgatory.startup()

    def shutdown(self) -> None:
        self._purgatory.shutdown()

    def delete(
        self,
        offsets: Mapping[TopicPartition, int],
        timeout_ms: int,
        respond: Respond,
        is_abandoned: Callable[[], bool] = nobody_leaves,
    ) -> None:
        """Let each partition begin at its offset (-1: at its high watermark)."""
        results: dict[TopicPartition, DeleteRecordsResult] = {}
        waiting: dict[TopicPartition, _Waiting] = {}
        for tp, offset in offsets.items():
            try:
                wanted, low_watermark = self._find(tp).delete_records(offset)
            except ApiError as error:
                results[tp] = DeleteRecordsResult(error.error, INVALID_LOW_WATERMARK)
            else:
                if low_watermark >= wanted:
                    results[tp] = DeleteRecordsResult(Errors.NONE, low_watermark)
                else:
                    waiting[tp] = _Waiting(wanted, low_watermark)
        if not waiting:
            respond(results)
            return
        keys = tuple(waiting)
        deadline_ns = self._now_ns() + timeout_ms * 1_000_000
        operation = DelayedDeleteRecords(deadline_ns, waiting, results, self._find, respond)
        operation.is_abandoned = is_abandoned
        self._purgatory.try_complete_else_watch(operation, keys)

    def check(self, tp: TopicPartition) -> None:
        self._purgatory.check_and_complete(tp)

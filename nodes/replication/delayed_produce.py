"""A produce request with acks=all that waits for its records to be committed.

Each partition of the request is resolved apart: committed, no longer leader, gone, or too few
replicas. The answer is given when *every* partition is resolved, or at the deadline, when those
still open are answered with REQUEST_TIMED_OUT: their records are in the log and may yet commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from nodes.core.acks import Acknowledgement
from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.replication.model import ProduceRespond, ProduceResult
from nodes.replication.purgatory import DelayedOperation


class PendingAppend:
    """One partition's share: where its records end, and what to answer once resolved."""

    __slots__ = ("error", "is_pending", "leader_epoch", "required_offset", "result")

    def __init__(self, result: ProduceResult, required_offset: int, leader_epoch: int) -> None:
        self.result = result
        self.required_offset = required_offset
        self.leader_epoch = leader_epoch
        self.is_pending = result.error == Errors.NONE
        self.error = Errors.REQUEST_TIMED_OUT if self.is_pending else Errors(result.error)


class AckSource(Protocol):
    def acknowledgement(
        self, tp: TopicPartition, required_offset: int, appended_in_epoch: int
    ) -> Acknowledgement: ...


class DelayedProduce(DelayedOperation):
    """Kafka's DelayedProduce."""

    __slots__ = ("_appends", "_expired", "_respond", "_source")

    def __init__(
        self,
        deadline_ns: int,
        appends: dict[TopicPartition, PendingAppend],
        source: AckSource,
        respond: ProduceRespond,
        expired: Callable[[TopicPartition], None],
    ) -> None:
        super().__init__(deadline_ns)
        self._appends = appends
        self._source = source
        self._respond = respond
        self._expired = expired

    def try_complete(self) -> bool:
        open_appends = False
        for tp, append in self._appends.items():
            if not append.is_pending:
                continue
            done, error = self._source.acknowledgement(
                tp, append.required_offset, append.leader_epoch
            )
            if done:
                append.is_pending = False
                append.error = error
            else:
                open_appends = True
        return not open_appends and self.force_complete()

    def on_complete(self) -> None:
        self._respond(
            {
                tp: append.result
                if append.error is Errors.NONE
                else append.result._replace(error=int(append.error))
                for tp, append in self._appends.items()
            }
        )

    def on_expiration(self) -> None:
        for tp, append in self._appends.items():
            if append.is_pending:
                self._expired(tp)

"""What a follower does to its log: take in what was fetched, and cut what its leader does not have.

Called by the fetcher's thread. Cuts are reported to the host (which traces them) only when records
really went.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from nodes.core.errors import ApiError, Errors
from nodes.core.truncation import UNDEFINED_EPOCH, UNDEFINED_OFFSET, EpochEnd, Truncation
from nodes.replication.partition_base import HostedPartition

if TYPE_CHECKING:
    from nodes.log.log import Log

log = logging.getLogger("kafka.cluster.Partition")


class FetchedFrom(NamedTuple):
    """Which fetch an answer belongs to, and what the leader said about itself in it."""

    fetch_offset: int
    leader_epoch: int
    leader_high_watermark: int
    leader_log_start: int


class FollowerPartition(HostedPartition):
    """The follower's half of `Partition`; see `partition` for locks."""

    def append_as_follower(
        self, records: bytes | memoryview, fetched: FetchedFrom
    ) -> tuple[int, int | None, bool]:
        """Takes in what the leader answered to a fetch at `fetched.fetch_offset`.

        Returns the new log end, the latest epoch in the log, and whether the high watermark
        changed. Raises ApiError when this broker no longer follows in that epoch, and ValueError
        when the log is not where the fetch was.
        """
        with self._changing:
            own_log = self.local_log()
            if self.leader_epoch != fetched.leader_epoch or self.is_leader:
                raise ApiError(Errors.FENCED_LEADER_EPOCH)
            if own_log.log_end_offset != fetched.fetch_offset:
                raise ValueError(
                    f"{self.tp}: fetched offset {fetched.fetch_offset} is not the log's end "
                    f"{own_log.log_end_offset}"
                )
            if len(records):
                own_log.append_as_follower(records)
            start = self._rules.follower_log_start(
                own_log.log_start_offset, fetched.leader_log_start
            )
            if own_log.log_start_offset < start <= own_log.log_end_offset:
                own_log.advance_log_start_offset(start, "leader offset increment")
            with self._lock:
                before = self.high_watermark
                self.high_watermark = self._rules.follower_high_watermark(
                    fetched.leader_high_watermark, own_log.log_start_offset, own_log.log_end_offset
                )
            return own_log.log_end_offset, own_log.latest_epoch, self.high_watermark != before

    def truncate(self, leader_end: EpochEnd) -> Truncation:
        """Cuts the log where it parts from the leader's, given the leader's answer for our last
        epoch. Says how far, and whether the leader must be asked again."""
        with self._changing, self._lock:
            own_log = self.local_log()
            own_end = EpochEnd(*own_log.end_offset_for_epoch(leader_end.leader_epoch))
            decision = self._rules.truncation_for(
                leader_end, own_end, own_log.log_end_offset, self.high_watermark
            )
            self._cut(own_log, decision.offset, "diverging epoch")
            return Truncation(own_log.log_end_offset, decision.completed)

    def truncate_to(self, offset: int, reason: str) -> int:
        """Cuts the log at `offset` unless it ends before; returns its end."""
        with self._changing, self._lock:
            own_log = self.local_log()
            self._cut(own_log, offset, reason)
            return own_log.log_end_offset

    def truncate_to_leader_end(self, leader_end_offset: int) -> int:
        """Cuts what lies above the leader's whole log (after an unclean election); returns the
        new end. No epoch is known to both logs here, so only the offset counts."""
        with self._changing, self._lock:
            own_log = self.local_log()
            decision = self._rules.truncation_for(
                EpochEnd(UNDEFINED_EPOCH, leader_end_offset),
                EpochEnd(UNDEFINED_EPOCH, UNDEFINED_OFFSET),
                own_log.log_end_offset,
                self.high_watermark,
            )
            self._cut(own_log, decision.offset, "offset out of range")
            return own_log.log_end_offset

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Throws the whole log away: the leader's log begins above our end."""
        with self._changing, self._lock:
            own_log = self.local_log()
            start, end = own_log.log_start_offset, own_log.log_end_offset
            self._report(end, start, "log start offset of the leader is higher")
            own_log.truncate_fully_and_start_at(offset)
            self.high_watermark = offset

    def _cut(self, own_log: Log, offset: int, reason: str) -> None:
        """What it cuts it tells first: of a broker that is killed meanwhile nobody would know."""
        before = own_log.log_end_offset
        if offset < min(before, self.high_watermark):
            log.warning(
                "Truncating %s to offset %d below high watermark %d",
                self.tp, offset, self.high_watermark,
            )  # fmt: skip
        self._report(before, offset, reason)
        # Also where no record goes: an epoch in which this log led but wrote nothing must go.
        own_log.truncate_to(min(offset, before))
        after = own_log.log_end_offset
        self.high_watermark = min(self.high_watermark, after)
        self._report(min(offset, before), after, reason)  # a batch goes as a whole

    def _report(self, from_offset: int, to_offset: int, reason: str) -> None:
        if to_offset < from_offset:
            self._host.truncated(self.tp, self.leader_epoch, from_offset, to_offset, reason)

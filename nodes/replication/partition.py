"""One partition on one broker: its role, its epochs, its ISR and its high watermark.

Kafka's Partition (with Replica and the watermark half of UnifiedLog). The rules are in
`nodes.core`; this class holds the state that they need and applies what they decide.

Threads: any. Two locks, taken in this order and before the log's:

* `_changing` for whatever changes the log or the role, so that no append straddles a change of
  leadership. An append holds it over its write, which may take as long as the disk likes.
* `_lock` for all state. An append does not hold it over its write; a change of role and a moved log
  start do (a few bytes of a checkpoint), and a truncation.

So a fetch does not wait for a stalled append of its own partition. (In Kafka both hold
leaderIsrUpdateLock for reading, and only the append takes the log's lock.) It looks for records
under neither lock, see `nodes.log.reads`, and begins anew if the role changed meanwhile.

What may wake waiting requests or write to the network is never called under a lock: methods return
what changed, and the caller (`ReplicaManager`, the fetcher) completes delayed operations; ISR
proposals are submitted after the lock is released.

The high watermark lives here, in memory, and is checkpointed by the ReplicaManager. After a crash
it starts from the checkpoint, which may be old; a leader re-learns it from its followers' fetches.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from nodes.core import isr as isr_rules
from nodes.core.acks import Acknowledgement, may_append
from nodes.core.errors import ApiError, Errors
from nodes.core.isr import NO_ISR, FollowerState
from nodes.core.truncation import EpochEnd, diverges
from nodes.log.slices import LogSlice, OffsetPosition
from nodes.replication.model import (
    CONSUMER_REPLICA_ID,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    FetchParams,
    FetchPartitionRequest,
    FetchResult,
    LeaderAndIsrState,
    ListOffsetResult,
)
from nodes.replication.partition_base import IsrAnswer, IsrProposal
from nodes.replication.partition_follower import FetchedFrom
from nodes.replication.partition_isr import IsrPartition

if TYPE_CHECKING:
    from nodes.log.log import AppendInfo, Log

__all__ = ("Append", "FetchedFrom", "IsrAnswer", "IsrProposal", "Partition")

log = logging.getLogger("kafka.cluster.Partition")

_DEBUGGING_REPLICA_ID: Final = -2


class Append(NamedTuple):
    """A leader's append: what the log said, in which epoch, and whether it committed anything."""

    info: AppendInfo
    leader_epoch: int
    high_watermark_advanced: bool
    log_start_offset: int


class Watermarks(NamedTuple):
    """Of one moment."""

    high_watermark: int
    log_start_offset: int
    log_end_offset: int


class Partition(IsrPartition):
    """Leader or follower of one partition. -1 stands for an epoch or leader not known yet."""

    # ---- changes of role -------------------------------------------------------------------------

    def make_leader(self, state: LeaderAndIsrState) -> bool:
        """Leads from now on. True when it did not lead before."""
        with self._changing, self._lock:
            if state.partition_epoch < self.partition_epoch:
                log.info("%s: ignoring an older partition epoch %s", self.tp, state)
                return False
            own_log = self.local_log()
            newly_leader = not self.is_leader
            new_epoch = state.leader_epoch > self.leader_epoch
            now_ms = self._host.now_ms()
            self.controller_epoch = state.controller_epoch
            self._assign(state)
            self.isr_state = isr_rules.committed(state.isr)
            followers = {
                replica: self.followers.get(replica, FollowerState())
                for replica in state.replicas
                if replica != self._broker_id
            }
            if new_epoch:
                start = own_log.log_end_offset
                # Followers may hold records of epochs in which this broker heard of nothing: the
                # new epoch must be known, with its start, before the first of them asks.
                if self._rules.notes_epoch_at_election():
                    own_log.start_epoch(state.leader_epoch, start)
                followers = {
                    replica: isr_rules.at_new_leader_epoch(
                        follower,
                        newly_leader=newly_leader and self._rules.forgets_followers(),
                        in_isr=replica in self.isr_state.isr,
                        leader_end=start,
                        now_ms=now_ms,
                    )
                    for replica, follower in followers.items()
                }
                self.leader_epoch = state.leader_epoch
                self.leader_epoch_start = start
            if newly_leader:
                self.high_watermark = self._rules.high_watermark_at_election(
                    self.high_watermark, own_log.log_end_offset
                )
                self._leading_since_epoch = state.leader_epoch
                if not self._rules.keeps_producers():
                    own_log.forget_producers()
                if not self._rules.remembers_batches():
                    own_log.forget_older_batches()
                if not self._rules.tells_producer_epochs_apart():
                    own_log.confuse_producer_epochs()
                self._fetched_from.clear()
            self.followers = followers
            self.partition_epoch = state.partition_epoch
            self.leader_id = self._broker_id
            advanced = self._advance_high_watermark(own_log)
            self.ordered_at = own_log.log_end_offset, self.high_watermark
        if advanced:
            self._host.complete_delayed(self.tp)
        return newly_leader

    def make_follower(self, state: LeaderAndIsrState) -> bool:
        """Follows `state.leader` from now on. True when its fetcher must start anew."""
        with self._changing, self._lock:
            if state.partition_epoch < self.partition_epoch:
                log.info("%s: ignoring an older partition epoch %s", self.tp, state)
                return False
            new_epoch = state.leader_epoch > self.leader_epoch
            self.controller_epoch = state.controller_epoch
            self.leader_id = state.leader
            self.leader_epoch = state.leader_epoch
            self.leader_epoch_start = None
            self.partition_epoch = state.partition_epoch
            self._assign(state)
            self.isr_state = NO_ISR
            if self._rules.forgets_followers():
                self.followers = {}
            return new_epoch

    def _assign(self, state: LeaderAndIsrState) -> None:
        self.replicas = state.replicas
        self.adding_replicas = state.adding_replicas
        self.removing_replicas = state.removing_replicas

    def delete(self) -> None:
        """Forgets everything, before its log goes. Nobody can append any more afterwards."""
        with self._changing, self._lock:
            self.log = None
            self.leader_id = None
            self.leader_epoch_start = None
            self.isr_state = NO_ISR
            self.followers = {}

    # ---- the leader's appends --------------------------------------------------------------------

    def append_as_leader(self, data: bytes | memoryview, required_acks: int) -> Append:
        """Appends producers' batches. The broker's hot path."""
        with self._changing:
            own_log, leader_epoch = self.log, self.leader_epoch
            if own_log is None or (
                self.leader_id != self._broker_id and not self._may_append_as_follower
            ):
                raise ApiError(Errors.NOT_LEADER_OR_FOLLOWER)
            if required_acks == -1 and not may_append(
                required_acks, len(self.isr_state.isr), self.min_isr
            ):
                if not self._asks_before_append:
                    own_log.append_as_leader(data, leader_epoch)
                raise ApiError(Errors.NOT_ENOUGH_REPLICAS)
            info = own_log.append_as_leader(data, leader_epoch)
            if self._extra_appends:
                for _ in range(self._extra_appends):
                    own_log.append_as_leader(data, leader_epoch)
            with self._lock:
                advanced = self._advance_high_watermark(own_log)
        # As Append(...), in a third of the time.
        return tuple.__new__(Append, (info, leader_epoch, advanced, own_log.log_start_offset))

    def acknowledgement(self, required_offset: int, appended_in_epoch: int) -> Acknowledgement:
        """The state of an acks=all append that ended at `required_offset`.

        Kafka only asks whether this broker leads *now*. A broker that lost and regained leadership
        in between may have cut the record and put another in its place, so an append from before
        the present reign is never acknowledged.
        """
        with self._lock:
            if (
                self.log is None
                or self.leader_id != self._broker_id
                or appended_in_epoch < self._leading_since_epoch
            ):
                return self._rules.acknowledgement_after_demotion()
            high_watermark = self.high_watermark
            isr_size = len(self.isr_state.maximal_isr)
            min_isr = self.min_isr
        return self._rules.acknowledgement(required_offset, high_watermark, isr_size, min_isr)

    # ---- fetches ---------------------------------------------------------------------------------

    def fetch(
        self,
        params: FetchParams,
        request: FetchPartitionRequest,
        max_bytes: int,
        min_one: bool,
        record_position: bool,
    ) -> tuple[FetchResult, bool]:
        """Finds records for a consumer or a follower, without reading them; for a follower,
        `record_position` also takes its fetch offset as proof of what it holds. Returns the answer
        and whether delayed requests may be completable. Raises ApiError."""
        while True:
            found = self._fetch(params, request, max_bytes, min_one, record_position)
            if found is not None:
                return found

    def _fetch(
        self,
        params: FetchParams,
        request: FetchPartitionRequest,
        max_bytes: int,
        min_one: bool,
        record_position: bool,
    ) -> tuple[FetchResult, bool] | None:
        """None: the role changed under its hands."""
        replica_id = params.replica_id
        with self._lock:
            own_log = self._log_for_reading(request.current_leader_epoch, params.only_leader)
            if replica_id >= 0 and replica_id not in self.followers:
                # Not assigned as far as we know; perhaps we have yet to hear of a reassignment.
                raise ApiError(
                    Errors.NOT_LEADER_OR_FOLLOWER
                    if request.current_leader_epoch < 0
                    else Errors.UNKNOWN_LEADER_EPOCH
                )
            leader_epoch = self.leader_epoch
            # The end before the read: appends that race with it must not make a follower lag.
            log_end = own_log.log_end_offset
            watermarks = Watermarks(self.high_watermark, own_log.log_start_offset, log_end)
        try:
            result = self._read(own_log, watermarks, params, request, max_bytes, min_one)
        except ApiError:
            if self.leader_epoch == leader_epoch:
                raise
            return None  # a truncation that came with it may be all that is wrong
        parts = result.diverging_epoch is not None and not self._counts_diverging
        if replica_id < 0 or not record_position or parts:
            return (result, False) if self.leader_epoch == leader_epoch else None
        position = None
        if isinstance(result.records, LogSlice):
            position = result.records.position
        elif request.fetch_offset == log_end:
            position = own_log.position_of(log_end)
        with self._lock:
            if self.leader_epoch != leader_epoch or replica_id not in self.followers:
                return None
            advanced, proposal = self._record_position(own_log, replica_id, request, log_end)
            if position is not None:
                self._fetched_from[replica_id] = position
        if proposal is not None:
            self._propose(proposal)
        return result, advanced

    def _read(
        self,
        own_log: Log,
        watermarks: Watermarks,
        params: FetchParams,
        request: FetchPartitionRequest,
        max_bytes: int,
        min_one: bool,
    ) -> FetchResult:
        high_watermark, log_start, log_end = watermarks
        offset = request.fetch_offset
        diverging: EpochEnd | None = None
        if request.last_fetched_epoch >= 0:
            end = self._epoch_end(own_log, request.last_fetched_epoch)
            if end.is_undefined:
                raise ApiError(Errors.OFFSET_OUT_OF_RANGE, "the last fetched epoch is not known")
            if offset < log_start:
                raise ApiError(Errors.OFFSET_OUT_OF_RANGE)
            if diverges(end, request.last_fetched_epoch, offset):
                diverging = end
        records: LogSlice | None = None
        if diverging is None:
            readable_end = self._rules.readable_end(
                params.reads_to_log_end, high_watermark, log_end
            )
            if self._rules.is_out_of_range(offset, log_start, log_end):
                raise ApiError(Errors.OFFSET_OUT_OF_RANGE)
            if log_start <= offset < readable_end and (max_bytes > 0 or min_one):
                first = offset if params.reads_to_log_end else offset + self._skipped_offsets
                records = own_log.slice(first, max_bytes, max_offset=readable_end, min_one=min_one)
        found = b"" if records is None else records
        return FetchResult(0, high_watermark, high_watermark, log_start, found, -1, diverging)

    def _record_position(
        self, own_log: Log, replica_id: int, request: FetchPartitionRequest, log_end: int
    ) -> tuple[bool, IsrProposal | None]:
        before = self.followers[replica_id]
        after = isr_rules.after_fetch(
            before,
            fetch_offset=request.fetch_offset,
            log_start_offset=request.log_start_offset,
            leader_end=log_end,
            now_ms=self._host.now_ms(),
        )
        self.followers[replica_id] = after
        proposal = self._maybe_expand_isr(replica_id, after)
        moved = before.log_end_offset != after.log_end_offset
        # Whoever waits for records to be deleted waits for the followers' log starts.
        begins_later = before.log_start_offset != after.log_start_offset
        return (moved and self._advance_high_watermark(own_log)) or begins_later, proposal

    def readable(
        self, params: FetchParams, request: FetchPartitionRequest
    ) -> tuple[int, EpochEnd | None]:
        """For a waiting fetch: how far it may read now, and its last epoch's end here (None when it
        did not name one). Raises ApiError when it cannot be served any more."""
        with self._lock:
            own_log = self._log_for_reading(request.current_leader_epoch, params.only_leader)
            end = self._rules.awaited_end(
                params.reads_to_log_end, self.high_watermark, own_log.log_end_offset
            )
            epoch_end = None
            if request.last_fetched_epoch >= 0:
                epoch_end = self._epoch_end(own_log, request.last_fetched_epoch)
            return end, epoch_end

    def position_of(self, offset: int) -> OffsetPosition:
        """Where an offset is in the log; raises ApiError.

        A high watermark is where some replica fetches from, so that its place is mostly known
        without a look into the file.
        """
        with self._lock:
            own_log = self.local_log()
            for position in self._fetched_from.values():
                if position.offset == offset < own_log.log_end_offset:
                    return position
        return own_log.position_of(offset)

    def end_offset_for_epoch(
        self, current_leader_epoch: int, leader_epoch: int, only_leader: bool = True
    ) -> EpochEnd:
        """OffsetForLeaderEpoch; raises ApiError."""
        with self._lock:
            own_log = self._log_for_reading(current_leader_epoch, only_leader)
            found, end = self._epoch_end(own_log, leader_epoch)
            return EpochEnd(found, self._rules.told_epoch_end(end, own_log.log_end_offset))

    def _epoch_end(self, own_log: Log, leader_epoch: int) -> EpochEnd:
        found, end = own_log.end_offset_for_epoch(leader_epoch)
        return EpochEnd(found if found < 0 else self._epoch_answered_for(found, leader_epoch), end)

    # ---- offsets ---------------------------------------------------------------------------------

    def list_offset(
        self, timestamp: int, current_leader_epoch: int, replica_id: int
    ) -> ListOffsetResult:
        """ListOffsets; raises ApiError. Clients see what is committed, followers everything.

        A leader whose high watermark has not reached the start of its own epoch may answer a
        client with an offset below one that it was told before; it refuses instead (KIP-207).
        """
        with self._lock:
            only_leader = replica_id != _DEBUGGING_REPLICA_ID
            own_log = self._log_for_reading(current_leader_epoch, only_leader)
            is_client = replica_id == CONSUMER_REPLICA_ID
            end = self.high_watermark if is_client else own_log.log_end_offset
            start, leader_epoch = self.leader_epoch_start, self.leader_epoch
            is_lagging = (
                is_client
                and start is not None
                and not self._rules.knows_its_end(self.high_watermark, start)
            )
        if timestamp == LATEST_TIMESTAMP:
            if is_lagging:
                raise ApiError(Errors.OFFSET_NOT_AVAILABLE)
            return ListOffsetResult(0, -1, end, leader_epoch)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            first = own_log.log_start_offset
            return ListOffsetResult(0, -1, first, own_log.epoch_at(first))
        found = (
            own_log.offset_of_max_timestamp()
            if timestamp == MAX_TIMESTAMP
            else own_log.offset_for_timestamp(self._rules.searched_time_ms(timestamp))
        )
        if found is not None and found[1] < end:
            return ListOffsetResult(0, *found)
        if is_lagging:
            raise ApiError(Errors.OFFSET_NOT_AVAILABLE)
        return ListOffsetResult(0)

    def delete_records(self, offset: int) -> tuple[int, int]:
        """Let the log begin at `offset` (-1: at the high watermark), here and by and by on the
        followers. Returns that offset and the low watermark; raises ApiError."""
        with self._changing, self._lock:
            own_log = self._log_for_reading(-1, True)
            if "delete" not in own_log.config.cleanup_policy:
                raise ApiError(
                    Errors.POLICY_VIOLATION,
                    f"Records of partition {self.tp} can not be deleted due to the configured "
                    "policy",
                )
            wanted = self.high_watermark if offset == LATEST_TIMESTAMP else offset
            end = self._rules.deletable_end(self.high_watermark, own_log.log_end_offset)
            if not 0 <= wanted <= end:
                raise ApiError(Errors.OFFSET_OUT_OF_RANGE)
            own_log.advance_log_start_offset(wanted, "client delete records request")
            return wanted, self._low_watermark(own_log)

    def low_watermark(self) -> int:
        """The offset below which no live replica can be read; raises ApiError."""
        with self._lock:
            return self._low_watermark(self._log_for_reading(-1, True))

    def _low_watermark(self, own_log: Log) -> int:
        counts, is_alive = self._rules.holds_deletions_up, self._host.is_alive
        starts = [f.log_start_offset for i, f in self.followers.items() if counts(is_alive(i))]
        return self._rules.low_watermark(own_log.log_start_offset, starts)

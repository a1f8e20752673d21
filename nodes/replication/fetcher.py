"""A thread that copies partitions from one leader (Kafka's ReplicaFetcherThread).

Each round fetches all its partitions in one request. An answer is applied only if its partition is
still where the request found it: same leader epoch, same offset. Truncation is the leader's call:
when our last epoch and its end do not fit its log it answers with a *diverging epoch* instead of
records; we cut, and fetch again (KIP-595's form of KIP-101/279). A partition whose answer was an
error rests for `replica.fetch.backoff.ms`; one that was fenced in the epoch that we believe in is
dropped until a LeaderAndIsr says more.

Threads: `add` and `remove` come from the thread that handles LeaderAndIsr. The lock is held while
answers are applied, so that `remove` returning means that nothing more will be written.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from nodes.core.errors import ApiError, Errors
from nodes.core.rules import RULES, Rules
from nodes.core.truncation import EpochEnd
from nodes.core.types import TopicPartition
from nodes.log.slices import LogSlice
from nodes.replication.leader_endpoint import LeaderEndPoint
from nodes.replication.model import FetchPartitionRequest, FetchResult
from nodes.replication.partition import FetchedFrom, Partition

log = logging.getLogger("kafka.server.ReplicaFetcherThread")


class InitialFetch(NamedTuple):
    """Where following begins. `cuts_first`: the log knows no epochs (or the rules say not to ask),
    so it is cut at `offset`, its high watermark, before anything is fetched."""

    leader_id: int
    leader_epoch: int
    offset: int
    cuts_first: bool


class _State:
    __slots__ = ("cuts_first", "fetch_offset", "last_fetched_epoch", "leader_epoch", "ready_ns")

    def __init__(self, initial: InitialFetch, last_fetched_epoch: int) -> None:
        self.leader_epoch = initial.leader_epoch
        self.fetch_offset = initial.offset
        self.last_fetched_epoch = last_fetched_epoch
        self.cuts_first = initial.cuts_first
        self.ready_ns = 0


class Followed(Protocol):
    """What a fetcher needs of the broker."""

    def partition(self, tp: TopicPartition) -> Partition | None: ...
    def complete_delayed_fetches(self, tps: Iterable[TopicPartition]) -> None: ...


class ReplicaFetcherThread:
    """Owns its connection; see the module's text for the rest."""

    def __init__(
        self,
        name: str,
        leader: LeaderEndPoint,
        followed: Followed,
        *,
        max_bytes: int,
        backoff_ms: int,
        now_ns: Callable[[], int],
        rules: Rules = RULES,
    ) -> None:
        self.name = name
        self._rules = rules
        self.failed: set[TopicPartition] = set()
        self._leader = leader
        self._followed = followed
        self._max_bytes = max_bytes
        self._backoff_ns = backoff_ms * 1_000_000
        self._now_ns = now_ns
        self._states: dict[TopicPartition, _State] = {}
        self._changed = threading.Condition(threading.Lock())
        self._is_running = True
        self._new_watermarks: list[TopicPartition] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # ---- from other threads ----------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def add(self, initial: Mapping[TopicPartition, InitialFetch]) -> None:
        """Begins to follow; a partition already followed in the same epoch goes on as it was."""
        with self._changed:
            for tp, fetch in initial.items():
                self.failed.discard(tp)
                current = self._states.get(tp)
                if current is None or current.leader_epoch != fetch.leader_epoch:
                    partition = self._followed.partition(tp)
                    own_log = None if partition is None else partition.log
                    epoch = None if own_log is None else own_log.latest_epoch
                    known = -1 if epoch is None or fetch.cuts_first else epoch
                    self._states[tp] = _State(fetch, known)
            self._changed.notify()

    def remove(self, tps: Iterable[TopicPartition]) -> None:
        """Stops following. Nothing is written to these partitions once this has returned."""
        with self._changed:
            for tp in tps:
                self._states.pop(tp, None)
                self.failed.discard(tp)

    @property
    def partition_count(self) -> int:
        return len(self._states)

    def stop(self) -> None:
        """Ends the thread soon, without waiting for it."""
        with self._changed:
            self._is_running = False
            self._changed.notify()
        self._leader.close()

    def join(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)

    # ---- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._is_running:
            try:
                self.work()
            except Exception:
                log.exception("[%s] unexpected error", self.name)
                with self._changed:
                    self._rest(list(self._states))
        self._leader.close()

    def work(self) -> None:
        """One round: wait for something to fetch, fetch it, apply the answers."""
        requests = self._next_requests()
        if not requests:
            return
        try:
            answers = self._leader.fetch(list(requests.items()))
        except Exception as error:
            if self._is_running:
                log.warning("[%s] Error in response for fetch request: %s", self.name, error)
                with self._changed:
                    self._rest(requests)
            return
        with self._changed:
            for tp, answer in answers:
                state = self._states.get(tp)
                request = requests.get(tp)
                if (
                    state is not None
                    and request is not None
                    and request.fetch_offset == state.fetch_offset
                    and request.current_leader_epoch == state.leader_epoch
                ):
                    self._apply(tp, state, answer)
        if self._new_watermarks:
            advanced, self._new_watermarks = self._new_watermarks, []
            self._followed.complete_delayed_fetches(advanced)

    def _next_requests(self) -> dict[TopicPartition, FetchPartitionRequest]:
        with self._changed:
            now_ns = self._now_ns()
            requests = {}
            for tp, state in list(self._states.items()):
                if state.ready_ns > now_ns:
                    continue
                partition = self._followed.partition(tp)
                if partition is None or partition.log is None:
                    self._fail(tp, "it is not hosted here any more")
                    continue
                if state.cuts_first:
                    try:
                        state.fetch_offset = partition.truncate_to(
                            state.fetch_offset, "high watermark"
                        )
                    except ApiError as refused:
                        self._fail(tp, f"it cannot be truncated: {refused}")
                        continue
                    state.cuts_first = False
                requests[tp] = FetchPartitionRequest(
                    state.fetch_offset,
                    partition.log.log_start_offset,
                    self._max_bytes,
                    state.leader_epoch,
                    state.last_fetched_epoch,
                )
            if not requests and self._is_running:
                ready_ns = min((s.ready_ns for s in self._states.values()), default=None)
                self._changed.wait(None if ready_ns is None else (ready_ns - now_ns) / 1e9)
            return requests

    def _apply(self, tp: TopicPartition, state: _State, answer: FetchResult) -> None:
        error = answer.error
        if error == Errors.NONE:
            try:
                if answer.diverging_epoch is not None:
                    self._truncate(tp, state, EpochEnd(*answer.diverging_epoch))
                else:
                    self._append(tp, state, answer)
            except ApiError as refused:
                if refused.error is Errors.KAFKA_STORAGE_ERROR:
                    self._fail(tp, str(refused))
                    return
                # Corrupt batches may be whole next time; a change of leadership sorts itself out.
                log.error("[%s] %s at offset %d: %s", self.name, tp, state.fetch_offset, refused)
                self._rest([tp])
            except Exception:
                log.exception("[%s] cannot take in what was fetched of %s", self.name, tp)
                self._fail(tp, "an unexpected error")
        elif error == Errors.OFFSET_OUT_OF_RANGE:
            self._out_of_range(tp, state)
        elif error == Errors.FENCED_LEADER_EPOCH or (
            error == Errors.UNKNOWN_LEADER_EPOCH and not self._rules.asks_again_who_has_not_heard()
        ):
            self._fail(tp, f"leader epoch {state.leader_epoch} is fenced; awaiting a LeaderAndIsr")
        else:
            log.debug("[%s] %s answered with error %d", self.name, tp, error)
            self._rest([tp])

    def _append(self, tp: TopicPartition, state: _State, answer: FetchResult) -> None:
        partition = self._partition(tp)
        records = answer.records
        assert not isinstance(records, LogSlice), "bytes came from the network"
        log_end, latest_epoch, watermark_changed = partition.append_as_follower(
            records,
            FetchedFrom(
                state.fetch_offset,
                state.leader_epoch,
                answer.high_watermark,
                answer.log_start_offset,
            ),
        )
        if watermark_changed:
            self._new_watermarks.append(tp)
        if log_end != state.fetch_offset:
            state.fetch_offset = log_end
            if latest_epoch is not None:
                state.last_fetched_epoch = latest_epoch
            self._to_the_end(tp, state)

    def _truncate(self, tp: TopicPartition, state: _State, leader_end: EpochEnd) -> None:
        partition = self._partition(tp)
        before = (state.fetch_offset, state.last_fetched_epoch)
        decision = partition.truncate(leader_end)
        log.info(
            "[%s] Truncating partition %s with offset=%d, completed=%s due to leader epoch and "
            "offset %s", self.name, tp, decision.offset, decision.completed, leader_end,
        )  # fmt: skip
        self._restart_at(state, partition, decision.offset)
        if decision.completed and (state.fetch_offset, state.last_fetched_epoch) == before:
            # The rules call it settled although nothing was cut (only a broken rule does): asking
            # the same question again would go on for ever.
            state.last_fetched_epoch = -1
        self._to_the_end(tp, state)

    def _out_of_range(self, tp: TopicPartition, state: _State) -> None:
        """Our end is outside the leader's log: cut to its end, or start over at its start."""
        try:
            partition = self._partition(tp)
            own_end = partition.local_log().log_end_offset
            latest = self._leader.latest_offset(tp, state.leader_epoch)
            if latest.error == Errors.NONE and latest.offset >= own_end:
                earliest = self._leader.earliest_offset(tp, state.leader_epoch)
                error, start = earliest.error, earliest.offset
                if error == Errors.NONE:
                    if start > own_end:
                        partition.truncate_fully_and_start_at(start)
                    self._restart_at(state, partition, max(start, own_end))
            else:
                error = latest.error
                if error == Errors.NONE:
                    offset = partition.truncate_to_leader_end(latest.offset)
                    self._restart_at(state, partition, offset)
        except Exception as problem:
            log.warning("[%s] Error getting offset for partition %s: %s", self.name, tp, problem)
            self._rest([tp])
            return
        if error == Errors.FENCED_LEADER_EPOCH:
            self._fail(tp, f"leader epoch {state.leader_epoch} is fenced; awaiting a LeaderAndIsr")
        elif error:
            self._rest([tp])
        else:
            log.info(
                "[%s] %s was out of range, fetching from %d", self.name, tp, state.fetch_offset
            )

    def _restart_at(self, state: _State, partition: Partition, offset: int) -> None:
        latest_epoch = partition.local_log().latest_epoch
        state.fetch_offset = offset
        state.last_fetched_epoch = -1 if latest_epoch is None else latest_epoch

    def _partition(self, tp: TopicPartition) -> Partition:
        partition = self._followed.partition(tp)
        if partition is None:
            raise ApiError(Errors.NOT_LEADER_OR_FOLLOWER, f"{tp} is not hosted here")
        return partition

    def _to_the_end(self, tp: TopicPartition, state: _State) -> None:
        """Partitions take turns at the front of a response of limited size."""
        if self._states.pop(tp, None) is not None:
            self._states[tp] = state

    def _rest(self, tps: Iterable[TopicPartition]) -> None:
        until_ns = self._now_ns() + self._backoff_ns
        for tp in tps:
            state = self._states.get(tp)
            if state is not None:
                state.ready_ns = until_ns
                self._to_the_end(tp, state)

    def _fail(self, tp: TopicPartition, why: str) -> None:
        log.warning("[%s] Partition %s marked as failed: %s", self.name, tp, why)
        self.failed.add(tp)
        self._states.pop(tp, None)

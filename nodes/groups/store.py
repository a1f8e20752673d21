"""Where groups live: which partition of `__consumer_offsets`, and how its records get in and out.

A group belongs to one partition, by Kafka's hash of its id; the partition's leader is the group's
coordinator. Records are written with acks=all, and count only once they are committed. A new leader
reads the whole partition before it serves its groups: later records override earlier ones, records
without a value erase.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from nodes.core.errors import Errors
from nodes.core.types import TopicPartition
from nodes.groups.messages import (
    CommittedOffset,
    GroupKey,
    OffsetKey,
    StoredGroup,
    UnknownMessage,
    group_key,
    group_value,
    offset_key,
    offset_value,
    read_group,
    read_key,
    read_offset,
)
from nodes.wire.errors import WireError
from nodes.wire.records import Record, build_batch, iter_batches, iter_records

if TYPE_CHECKING:
    from nodes.replication.model import ProduceResult
    from nodes.replication.replica_manager import ReplicaManager

log = logging.getLogger("kafka.coordinator.group.GroupMetadataManager")

OFFSETS_TOPIC: Final = "__consumer_offsets"

_READ_BYTES: Final = 5 * 1024 * 1024

Rows = Sequence[tuple[bytes, bytes | None]]


@dataclass(slots=True)
class Loaded:
    """What one partition says after all of its records."""

    groups: dict[str, StoredGroup] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    erases: bool = True

    def apply(self, record: Record) -> None:
        key = read_key(record.key) if record.key is not None else None
        if record.value is None and not self.erases:
            return
        if isinstance(key, GroupKey):
            if record.value is None:
                self.groups.pop(key.group, None)
            else:
                self.groups[key.group] = read_group(record.value)
        elif isinstance(key, OffsetKey):
            offsets = self.offsets.setdefault(key.group, {})
            if record.value is None:
                offsets.pop(key.tp, None)
            else:
                offsets[key.tp] = read_offset(record.value)


class GroupStore:
    """Stateless; thread-safe as far as the replica manager is. Must be called without locks that a
    completed append's callback takes: callbacks may run before `append` returns."""

    def __init__(
        self, replica_manager: ReplicaManager, commit_timeout_ms: int, now_ms: Callable[[], int]
    ) -> None:
        self._replica_manager = replica_manager
        self._commit_timeout_ms = commit_timeout_ms
        self._now_ms = now_ms

    def append(self, partition: int, rows: Rows, done: Callable[[Errors, int], None]) -> None:
        """Write rows as one batch; `done` hears of it once it is committed, and where it is in the
        log, or once it has failed. Of two batches either may be heard of first."""
        now_ms = self._now_ms()
        batch = build_batch([(key, value, now_ms) for key, value in rows])
        tp = TopicPartition(OFFSETS_TOPIC, partition)

        def respond(results: dict[TopicPartition, ProduceResult]) -> None:
            done(Errors(results[tp].error), results[tp].base_offset)

        self._replica_manager.append_records(
            self._commit_timeout_ms,
            self._replica_manager.rules.offsets_commit_acks(),
            {tp: batch},
            respond,
        )

    def load(self, partition: int, is_wanted: Callable[[], bool]) -> Loaded:
        """Read a partition that this broker leads, from its start to its present end."""
        loaded = Loaded(erases=self._replica_manager.rules.erases_on_load())
        if not self._replica_manager.rules.loads_groups():
            return loaded
        for record in self._records(TopicPartition(OFFSETS_TOPIC, partition), is_wanted):
            try:
                loaded.apply(record)
            except UnknownMessage as error:
                log.warning("%s-%d offset %d: %s", OFFSETS_TOPIC, partition, record.offset, error)
        return loaded

    def _records(self, tp: TopicPartition, is_wanted: Callable[[], bool]) -> Iterator[Record]:
        replica = self._replica_manager.partition(tp)
        own_log = None if replica is None else replica.log
        if replica is None or own_log is None:
            return
        upto = self._replica_manager.rules.groups_upto
        offset, end = own_log.log_start_offset, upto(replica.high_watermark, own_log.log_end_offset)
        while offset < end and is_wanted():
            data = own_log.read(offset, _READ_BYTES, max_offset=end, min_one=True)
            if not data:
                return
            for batch in iter_batches(data):
                offset = batch.header.next_offset
                stop = batch.position + batch.size_bytes
                try:
                    yield from iter_records(data[batch.position : stop])
                except WireError as error:
                    log.warning("%s offset %d: %s", tp, batch.header.base_offset, error)


def group_row(group_id: str, stored: StoredGroup | None) -> tuple[bytes, bytes | None]:
    """A group's record; None erases it."""
    return group_key(GroupKey(group_id)), None if stored is None else group_value(stored)


def offset_row(
    group_id: str, tp: TopicPartition, committed: CommittedOffset | None
) -> tuple[bytes, bytes | None]:
    """An offset's record; None erases it."""
    value = None if committed is None else offset_value(committed)
    return offset_key(OffsetKey(group_id, tp)), value


def partition_for(group_id: str, partition_count: int) -> int:
    """Kafka's choice: the absolute value of Java's String.hashCode, modulo."""
    hashed = 0
    units = group_id.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    signed = hashed - 0x1_0000_0000 if hashed >= 0x8000_0000 else hashed
    return (0 if signed == -0x8000_0000 else abs(signed)) % partition_count


def group_store_error(error: Errors) -> Errors:
    """How a failed append of a group's record looks to its members."""
    return _GROUP_ERRORS.get(error, _COMMON_ERRORS.get(error, error))


def offset_store_error(error: Errors) -> Errors:
    """How a failed append of offsets looks to who committed them."""
    return _OFFSET_ERRORS.get(error, _COMMON_ERRORS.get(error, error))


_COMMON_ERRORS: Final = {
    Errors.UNKNOWN_TOPIC_OR_PARTITION: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_LEADER_OR_FOLLOWER: Errors.NOT_COORDINATOR,
    Errors.KAFKA_STORAGE_ERROR: Errors.NOT_COORDINATOR,
}
_GROUP_ERRORS: Final = {
    Errors.REQUEST_TIMED_OUT: Errors.REBALANCE_IN_PROGRESS,
    Errors.MESSAGE_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.RECORD_LIST_TOO_LARGE: Errors.UNKNOWN_SERVER_ERROR,
    Errors.INVALID_FETCH_SIZE: Errors.UNKNOWN_SERVER_ERROR,
}
_OFFSET_ERRORS: Final = {
    Errors.MESSAGE_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
    Errors.RECORD_LIST_TOO_LARGE: Errors.INVALID_COMMIT_OFFSET_SIZE,
    Errors.INVALID_FETCH_SIZE: Errors.INVALID_COMMIT_OFFSET_SIZE,
}

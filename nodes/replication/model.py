"""What the replica manager takes and gives: plain values, no wire entities.

Offsets named ``end`` are exclusive. Epochs are -1 when not known. Errors are wire codes, because
they go into answers as they are.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from nodes.core.types import TopicPartition
from nodes.log.slices import LogSlice

CONSUMER_REPLICA_ID: Final = -1
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4


class Isolation(IntEnum):
    """How far a client may read. There are no transactions here, so the last stable offset is the
    high watermark and both read the same. Followers read to the log's end whatever they say."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ProduceResult(NamedTuple):
    """One partition's share of a Produce answer. A refused batch has base_offset -1.

    `record_errors` (index in the batch, why) and `error_message` are there when single records were
    at fault.
    """

    error: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str]] = ()
    error_message: str | None = None


ProduceRespond = Callable[[dict[TopicPartition, ProduceResult]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchParams:
    """What holds for a whole Fetch request.

    `replica_id` >= 0 is a follower. `may_read_follower`: the request is a consumer's of version 11
    or later, which Kafka lets read followers too. `hard_max_bytes`: version 2 or older, where a
    first batch larger than the limit is cut instead of sent whole.
    """

    replica_id: int = CONSUMER_REPLICA_ID
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 0x7FFFFFFF
    isolation: int = Isolation.READ_UNCOMMITTED
    client_id: str = ""
    may_read_follower: bool = False
    hard_max_bytes: bool = False

    @property
    def is_from_follower(self) -> bool:
        return self.replica_id >= 0

    @property
    def reads_to_log_end(self) -> bool:
        """Followers and debugging replicas (-2) read past the high watermark (FetchIsolation)."""
        return self.replica_id != CONSUMER_REPLICA_ID

    @property
    def only_leader(self) -> bool:
        """Only the leader may serve it (Kafka's fetchOnlyLeader)."""
        return self.is_from_follower or not self.may_read_follower


class FetchPartitionRequest(NamedTuple):
    """One partition of a Fetch request. topic_id is None where the request names the topic."""

    fetch_offset: int
    log_start_offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    topic_id: uuid.UUID | None = None


class FetchResult(NamedTuple):
    """One partition's share of a Fetch answer. `diverging_epoch` is (leader_epoch, end_offset).

    A leader's records are where they are in its log; a follower has their bytes.
    """

    error: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: bytes | memoryview | LogSlice = b""
    preferred_read_replica: int = -1
    diverging_epoch: tuple[int, int] | None = None


FetchRespond = Callable[[list[tuple[TopicPartition, FetchResult]]], None]


class ListOffsetResult(NamedTuple):
    """offset -1: there is no such record."""

    error: int
    timestamp_ms: int = -1
    offset: int = -1
    leader_epoch: int = -1


class EpochEndResult(NamedTuple):
    error: int
    leader_epoch: int = -1
    end_offset: int = -1


class PartitionErrorRow(NamedTuple):
    """topic_id is None when the request's version has none."""

    topic: str
    topic_id: uuid.UUID | None
    partition: int
    error: int


@dataclass(frozen=True, slots=True)
class LeaderAndIsrResult:
    """With a top-level error every partition carries that error too."""

    error: int
    partition_errors: list[PartitionErrorRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StopReplicaResult:
    """With a top-level error every partition carries that error too."""

    error: int
    partition_errors: list[PartitionErrorRow] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class UpdateMetadataResult:
    """`deleted`: partitions that the cache dropped (group coordinators forget their offsets)."""

    error: int
    deleted: Sequence[TopicPartition] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAndIsrState:
    """One partition of a LeaderAndIsr request."""

    tp: TopicPartition
    topic_id: uuid.UUID | None
    controller_epoch: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """Kafka's ReplicaManager gauges."""

    partitions: int
    leaders: int
    under_replicated: int
    under_min_isr: int
    at_min_isr: int
    offline: int
    reassigning: int


TopicOverrides = Callable[[str], Mapping[str, str]]
"""A topic's own configs as kept in /config/topics/<topic>."""

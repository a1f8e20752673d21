"""The gauges of replication, under Kafka's MBean names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from nodes.replication.fetcher_manager import ReplicaFetcherManager
from nodes.replication.model import PartitionCounts
from nodes.replication.partition_base import HostedPartition
from nodes.replication.purgatory import Purgatory

if TYPE_CHECKING:
    from nodes.metrics import Metrics

REPLICA_MANAGER: Final = "kafka.server:type=ReplicaManager,name="
_PURGATORY: Final = "kafka.server:type=DelayedOperationPurgatory,name="
_FETCHER_MANAGER: Final = "kafka.server:type=ReplicaFetcherManager,clientId=Replica,name="
_COUNTS: Final = {
    "PartitionCount": "partitions",
    "LeaderCount": "leaders",
    "UnderReplicatedPartitions": "under_replicated",
    "UnderMinIsrPartitionCount": "under_min_isr",
    "AtMinIsrPartitionCount": "at_min_isr",
    "OfflineReplicaCount": "offline",
    "ReassigningPartitions": "reassigning",
}


class Measured(Protocol):
    fetchers: ReplicaFetcherManager

    @property
    def offline_count(self) -> int: ...
    def partitions(self) -> Sequence[HostedPartition]: ...


def partition_counts(partitions: Sequence[HostedPartition], offline: int = 0) -> PartitionCounts:
    """`offline`: how many more there are in log directories that have failed."""
    return PartitionCounts(
        partitions=len(partitions) + offline,
        leaders=sum(p.is_leader for p in partitions),
        under_replicated=sum(p.is_under_replicated for p in partitions),
        under_min_isr=sum(p.is_under_min_isr for p in partitions),
        at_min_isr=sum(p.is_at_min_isr for p in partitions),
        offline=sum(p.log is None for p in partitions) + offline,
        reassigning=sum(p.is_leader and p.is_reassigning for p in partitions),
    )


def register_gauges(
    metrics: Metrics, measured: Measured, produces: Purgatory[Any], fetches: Purgatory[Any]
) -> None:
    """Registers them all. Each is computed when somebody reads."""

    def count(field: str) -> float:
        counts = partition_counts(measured.partitions(), measured.offline_count)
        return float(getattr(counts, field))

    for name, field in _COUNTS.items():
        metrics.gauge(REPLICA_MANAGER + name, partial(count, field))
    for purgatory in (produces, fetches):
        _register_purgatory(metrics, purgatory)
    metrics.gauge(
        _FETCHER_MANAGER + "FailedPartitionsCount", lambda: measured.fetchers.failed_count
    )


def _register_purgatory(metrics: Metrics, purgatory: Purgatory[Any]) -> None:
    suffix = f",delayedOperation={purgatory.name}"
    metrics.gauge(_PURGATORY + "PurgatorySize" + suffix, lambda: purgatory.size)
    metrics.gauge(_PURGATORY + "NumDelayedOperations" + suffix, lambda: purgatory.delayed)
    # biplane's own: what the timer holds in memory, completed operations included.
    metrics.gauge(_PURGATORY + "TimerEntries" + suffix, lambda: purgatory.entries)

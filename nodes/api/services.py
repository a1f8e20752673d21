"""Everything that a request handler may touch, handed in once when the broker is composed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nodes.config import BrokerConfig
    from nodes.controller.controller import KafkaController
    from nodes.coordination.admin import AdminManager
    from nodes.coordination.producer_ids import ProducerIdManager
    from nodes.coordination.zk import KafkaZkClient
    from nodes.groups.coordinator import GroupCoordinator
    from nodes.metrics import Metrics
    from nodes.replication.metadata_cache import MetadataCache
    from nodes.replication.replica_manager import ReplicaManager
    from nodes.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The parts behind the APIs. All of them are thread-safe; handlers hold no state of their own.

    `broker_epoch` answers this broker's epoch (the czxid of its registration), which changes
    when it registers again; `broker_configs` what was set for an entity while brokers run, as this
    one has taken it in; `now_ns` is CLOCK_MONOTONIC.
    """

    config: BrokerConfig
    cluster_id: str
    replica_manager: ReplicaManager
    metadata_cache: MetadataCache
    controller: KafkaController
    admin: AdminManager
    broker_configs: Callable[[str], Mapping[str, str]]
    zk: KafkaZkClient
    producer_ids: ProducerIdManager
    groups: GroupCoordinator
    trace: Trace
    metrics: Metrics
    broker_epoch: Callable[[], int]
    now_ns: Callable[[], int]

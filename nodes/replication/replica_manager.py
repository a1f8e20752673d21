"""All partitions of a broker: appends, fetches, roles, and what waits for them.

Kafka's ReplicaManager. Requests come in as plain values and are answered through ``respond``,
which is called exactly once, on any thread, perhaps before the call returns. What the controller
orders is in `state_changes`; what one partition does in `partition`; waiting in `purgatory`.

Waking whoever waits: an append wakes fetches of its partition; a high watermark that moves wakes
produces and fetches; a change of role wakes both. Each wake-up costs one dict lookup when nobody
waits, which is what keeps acks=1 cheap.

Threads owned: two expiration reapers, ISR shrinking, high-watermark checkpoints (from the first
LeaderAndIsr on, so that no checkpoint is written before the partitions are known), the fetchers,
the AlterPartition sender.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from nodes.core.errors import ApiError, Errors
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition
from nodes.log.config import LogConfig, LogConfigError
from nodes.replication.alter_partition import AlterPartitionManager, RemoteController
from nodes.replication.appends import Appends
from nodes.replication.delayed_fetch import DelayedFetch
from nodes.replication.delayed_produce import DelayedProduce
from nodes.replication.fetcher_manager import EndPoints, ReplicaFetcherManager
from nodes.replication.fetches import Fetches
from nodes.replication.gauges import register_gauges
from nodes.replication.leader_endpoint import RemoteLeader
from nodes.replication.model import (
    EpochEndResult,
    LeaderAndIsrResult,
    LeaderAndIsrState,
    ListOffsetResult,
    ProduceRespond,
    ProduceResult,
    StopReplicaResult,
    TopicOverrides,
    UpdateMetadataResult,
)
from nodes.replication.partition import IsrAnswer, IsrProposal, Partition
from nodes.replication.partition_base import HostedPartition
from nodes.replication.purgatory import Purgatory, nobody_leaves
from nodes.replication.record_deletion import RecordDeletions
from nodes.replication.state_changes import LeadershipListener, StateChanges
from nodes.replication.ticker import Ticker

if TYPE_CHECKING:
    from nodes.config import BrokerConfig
    from nodes.log.log import Log
    from nodes.log.manager import LogManager
    from nodes.metrics import Metrics
    from nodes.replication.metadata_cache import MetadataCache
    from nodes.trace import Trace

log = logging.getLogger("kafka.server.ReplicaManager")

_BEAN: Final = "kafka.server:type=ReplicaManager,name="


class ReplicaManager:
    """Thread-safe. `rules` is public: the API layer asks it about broker epochs.

    `broker_epoch` gives the present registration; `topic_overrides` a topic's own configs.
    `end_points` and `alter_partition` replace the network in tests. `on_leadership_change` may be
    set after construction (the group coordinator needs this object first).
    """

    def __init__(
        self,
        config: BrokerConfig,
        log_manager: LogManager,
        metadata_cache: MetadataCache,
        trace: Trace,
        metrics: Metrics,
        rules: Rules = RULES,
        *,
        now_ns: Callable[[], int],
        broker_epoch: Callable[[], int],
        topic_overrides: TopicOverrides,
        end_points: EndPoints | None = None,
        alter_partition: AlterPartitionManager | None = None,
        on_leadership_change: LeadershipListener | None = None,
    ) -> None:
        self.broker_id = config.broker_id
        self.rules = rules
        self.lag_max_ms = config.replica_lag_time_max_ms
        self.on_leadership_change = on_leadership_change
        self._config = config
        self._log_manager = log_manager
        self._metadata_cache = metadata_cache
        self._trace = trace
        self._now_ns = now_ns
        self._topic_overrides = topic_overrides
        self._partitions: dict[TopicPartition, Partition] = {}
        self._offline: set[TopicPartition] = set()
        """Those whose log directory has failed."""
        self._checkpointed: dict[TopicPartition, int] = {}
        self._shutting_down = threading.Event()
        self._produces: Purgatory[DelayedProduce] = Purgatory(
            "Produce", self.broker_id, now_ns, looks_at_all=rules.looks_at_all_who_wait()
        )
        self._fetches: Purgatory[DelayedFetch] = Purgatory("Fetch", self.broker_id, now_ns)
        self.deletions = RecordDeletions(self.broker_id, self._hosted, now_ns)
        self.fetchers = ReplicaFetcherManager(
            self,
            end_points or self._remote_leader,
            fetchers_per_leader=config.num_replica_fetchers,
            max_bytes=config.replica_fetch_max_bytes,
            backoff_ms=config.replica_fetch_backoff_ms,
            now_ns=now_ns,
            rules=rules,
        )
        self._alter_partition = alter_partition or AlterPartitionManager(
            self.broker_id,
            RemoteController(
                config,
                lambda: metadata_cache.controller_id,
                lambda i: metadata_cache.broker_endpoint(i, config.controller_listener_name),
            ),
            broker_epoch,
        )
        self._state_changes = StateChanges(self)
        self._shrinker = Ticker("isr-expiration", self.lag_max_ms / 2, self.maybe_shrink_isrs)
        self._checkpointer = Ticker(
            "highwatermark-checkpoint",
            config.replica_high_watermark_checkpoint_interval_ms,
            self.checkpoint_high_watermarks,
        )
        self._checkpoints_started = False
        self._expands = metrics.meter(_BEAN + "IsrExpandsPerSec")
        self._shrinks = metrics.meter(_BEAN + "IsrShrinksPerSec")
        self._appends = Appends(
            self._partitions,
            self._error_for_missing,
            self._produces,
            self._fetches,
            metrics,
            now_ns,
            awaits_duplicates=rules.awaits_duplicates(),
            awaits_beside_refusals=rules.awaits_beside_refusals(),
            awaits_commit=rules.awaits_commit,
            ack_wait_ms=rules.ack_wait_ms,
        )
        fetches = Fetches(self._partitions, self._error_for_missing, self._fetches, self, now_ns)
        self.fetch_messages = fetches.fetch_messages
        register_gauges(metrics, self, self._produces, self._fetches)

    def _remote_leader(self, leader_id: int, fetcher_id: int) -> RemoteLeader:
        config = self._config
        listener = self.rules.replication_listener(
            config.inter_broker_listener_name, config.control_plane_listener_name
        )
        return RemoteLeader(
            self._config,
            leader_id,
            fetcher_id,
            lambda i: self._metadata_cache.broker_endpoint(i, listener),
        )

    # ---- life ------------------------------------------------------------------------------------

    def startup(self) -> None:
        """Reads the checkpointed high watermarks and starts the threads; the logs are loaded."""
        self._checkpointed = self._log_manager.read_high_watermarks()
        self._produces.startup()
        self._fetches.startup()
        self.deletions.startup()
        self._alter_partition.startup()
        self._shrinker.start()

    def shutdown(self, checkpoint: bool = True) -> None:
        """Stops fetching and expiring. The logs stay open: closing them is the log manager's."""
        self._shutting_down.set()
        self._shrinker.stop()
        if self._checkpoints_started:
            self._checkpointer.stop()
        self.fetchers.shutdown()
        self._alter_partition.shutdown()
        self._produces.shutdown()
        self._fetches.shutdown()
        self.deletions.shutdown()
        if checkpoint:
            self.checkpoint_high_watermarks()

    def is_shutting_down(self) -> bool:
        return self._shutting_down.is_set()

    def start_high_watermark_checkpoints(self) -> None:
        """Called under the state-change lock, with the first LeaderAndIsr."""
        if not self._checkpoints_started and not self.is_shutting_down():
            self._checkpoints_started = True
            self._checkpointer.start()

    def checkpoint_high_watermarks(self) -> None:
        # Partitions that no LeaderAndIsr has named yet keep what the last life checkpointed.
        watermarks = dict(self._checkpointed)
        for tp in [tp for tp in watermarks if self._log_manager.get(tp) is None]:
            del watermarks[tp]
        for partition in list(self._partitions.values()):
            if partition.log is not None:
                watermarks[partition.tp] = partition.high_watermark
        self._log_manager.checkpoint_high_watermarks(watermarks)

    def maybe_shrink_isrs(self) -> None:
        for partition in list(self._partitions.values()):
            partition.maybe_shrink_isr()

    # ---- produce ---------------------------------------------------------------------------------

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
        self._appends.append_single(tp, data, required_acks, timeout_ms, respond, is_abandoned)

    def append_records(
        self,
        timeout_ms: int,
        required_acks: int,
        entries: Mapping[TopicPartition, bytes | memoryview],
        respond: ProduceRespond,
        is_abandoned: Callable[[], bool] = nobody_leaves,
    ) -> None:
        """Appends to each partition and answers when `required_acks` is met everywhere, or soon
        after `is_abandoned` says that nobody waits for it any more."""
        self._appends.append_records(timeout_ms, required_acks, entries, respond, is_abandoned)

    # ---- offsets ---------------------------------------------------------------------------------

    def list_offset(
        self,
        tp: TopicPartition,
        timestamp: int,
        current_leader_epoch: int,
        isolation: int,
        replica_id: int,
    ) -> ListOffsetResult:
        """ListOffsets for one partition. `isolation` makes no difference without transactions."""
        del isolation
        partition = self._partitions.get(tp)
        if partition is None:
            return ListOffsetResult(int(self._error_for_missing(tp)))
        try:
            return partition.list_offset(timestamp, current_leader_epoch, replica_id)
        except ApiError as refused:
            return ListOffsetResult(int(refused.error))

    def last_offset_for_leader_epoch(
        self, tp: TopicPartition, current_leader_epoch: int, leader_epoch: int
    ) -> EpochEndResult:
        partition = self._partitions.get(tp)
        if partition is None:
            return EpochEndResult(int(self._error_for_missing(tp)))
        try:
            return EpochEndResult(
                0, *partition.end_offset_for_epoch(current_leader_epoch, leader_epoch)
            )
        except ApiError as refused:
            return EpochEndResult(int(refused.error))

    # ---- the controller's orders -----------------------------------------------------------------

    def become_leader_or_follower(self, correlation_id: int, request: Any) -> LeaderAndIsrResult:
        return self._state_changes.become_leader_or_follower(correlation_id, request)

    def stop_replicas(self, correlation_id: int, request: Any) -> StopReplicaResult:
        return self._state_changes.stop_replicas(correlation_id, request)

    def maybe_update_metadata_cache(
        self, correlation_id: int, request: Any
    ) -> UpdateMetadataResult:
        return self._state_changes.maybe_update_metadata_cache(correlation_id, request)

    @property
    def controller_epoch(self) -> int:
        """The highest controller epoch heard of."""
        return self._state_changes.controller_epoch

    def create_partition(self, tp: TopicPartition) -> Partition:
        partition = Partition(tp, self)
        partition.topic_id = self._log_manager.topic_id(tp)
        return self._partitions.setdefault(tp, partition)

    def drop_partition(self, tp: TopicPartition) -> None:
        partition = self._partitions.pop(tp, None)
        self._checkpointed.pop(tp, None)
        if partition is not None:
            partition.delete()

    def take_out(self, log_dir: Path) -> None:
        """A log directory has failed, and there are others (KIP-112)."""
        self._state_changes.take_out(log_dir)

    def take_out_logs(self, directory: Path) -> list[TopicPartition]:
        """Nothing is opened there any more; the partitions whose logs are there. Needs the
        state-change lock."""
        self._log_manager.take_out(directory)
        found = []
        for partition in self.partitions():
            if partition.log is not None and partition.log.dir.parent == directory:
                found.append(partition.tp)
        return found

    def is_offline(self, tp: TopicPartition) -> bool:
        return tp in self._offline

    def take_offline(self, tp: TopicPartition) -> None:
        """For the rest of this life."""
        self._offline.add(tp)
        self.drop_partition(tp)

    @property
    def offline_count(self) -> int:
        return len(self._offline)

    def delete_log(self, tp: TopicPartition) -> None:
        """Raises ApiError KAFKA_STORAGE_ERROR."""
        if self._log_manager.get(tp) is not None:
            self._log_manager.async_delete(tp)

    def ensure_log(self, partition: Partition, state: LeaderAndIsrState) -> None:
        """Opens or creates the partition's log, once; raises OSError. One that was there before its
        topic had an id is given it (Partition.createLogIfNotExists)."""
        if partition.log is not None:
            if partition.topic_id is None and state.topic_id is not None:
                self.assign_topic_id(partition, state.topic_id)
            return
        tp = partition.tp
        topic_id = partition.topic_id or state.topic_id
        new_log = self._log_manager.get_or_create(
            tp, self._log_config(tp.topic), topic_id, is_new=state.is_new
        )
        partition.topic_id = topic_id
        checkpointed = self._checkpointed.get(tp, 0)
        partition.attach_log(new_log, checkpointed)

    def assign_topic_id(self, partition: Partition, topic_id: uuid.UUID) -> None:
        """The id of a topic that was made without one, here and in its log's directory."""
        self._log_manager.get_or_create(partition.tp, None, topic_id)
        partition.topic_id = topic_id

    def _log_config(self, topic: str) -> LogConfig:
        defaults = self._log_manager.default_config
        try:
            return LogConfig.from_overrides(defaults, self._topic_overrides(topic))
        except LogConfigError as error:
            log.error("configs of topic %s are ignored: %s", topic, error)
            return defaults

    def update_topic_config(self, topic: str, overrides: Mapping[str, str]) -> None:
        """A topic's configs changed in ZooKeeper; raises LogConfigError."""
        config = LogConfig.from_overrides(self._log_manager.default_config, overrides)
        for partition in list(self._partitions.values()):
            if partition.tp.topic == topic and partition.log is not None:
                partition.log.update_config(config)

    def take_in_metadata(self, request: Any) -> list[TopicPartition]:
        return self._metadata_cache.update(request)

    # ---- what partitions and fetchers need of the broker -----------------------------------------

    def now_ms(self) -> int:
        return self._now_ns() // 1_000_000

    def is_alive(self, broker_id: int) -> bool:
        return self._metadata_cache.is_alive(broker_id)

    def propose_isr(
        self, tp: TopicPartition, proposal: IsrProposal, answer: Callable[[IsrAnswer], None]
    ) -> bool:
        if not self.rules.sends_isr_changes():
            return True
        return self._alter_partition.submit(tp, proposal, answer)

    def complete_delayed(self, tp: TopicPartition) -> None:
        """Tries all that waits for a partition. Not to be called under a partition's lock."""
        if self.rules.wakes_who_waits():
            self._fetches.check_and_complete(tp)
        self._produces.check_and_complete(tp)
        self.deletions.check(tp)

    def complete_delayed_fetches(self, tps: Iterable[TopicPartition]) -> None:
        for tp in tps:
            self._fetches.check_and_complete(tp)

    def isr_changed(self, partition: HostedPartition, shrunk: bool) -> None:
        (self._shrinks if shrunk else self._expands).mark()
        self._trace.event(
            "isr_change",
            topic=partition.tp.topic,
            partition=partition.tp.partition,
            isr=sorted(partition.isr_state.isr),
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
        )

    def truncated(
        self, tp: TopicPartition, leader_epoch: int, from_offset: int, to_offset: int, reason: str
    ) -> None:
        log.info("[UnifiedLog partition=%s] Truncating to offset %d", tp, to_offset)
        self._trace.event(
            "truncation",
            topic=tp.topic,
            partition=tp.partition,
            leader_epoch=leader_epoch,
            from_offset=from_offset,
            to_offset=to_offset,
            reason=reason,
        )

    def trace_event(self, kind: str, **fields: Any) -> None:
        self._trace.event(kind, **fields)

    # ---- looks -----------------------------------------------------------------------------------

    def partition(self, tp: TopicPartition) -> Partition | None:
        return self._partitions.get(tp)

    def _hosted(self, tp: TopicPartition) -> Partition:
        partition = self._partitions.get(tp)
        if partition is None:
            raise ApiError(self._error_for_missing(tp))
        return partition

    @property
    def log_dirs(self) -> list[Path]:
        """Where this broker keeps its logs."""
        return self._log_manager.log_dirs

    def logs(self) -> list[Log]:
        """All that there are, hosted or not."""
        return self._log_manager.all()

    @property
    def failed_log_dirs(self) -> set[Path]:
        return self._log_manager.failed_log_dirs

    def partitions(self) -> list[Partition]:
        return list(self._partitions.values())

    def leader_of(self, tp: TopicPartition) -> int | None:
        """The leader that this replica knows; None when it is not hosted here or knows none."""
        partition = self._partitions.get(tp)
        return None if partition is None else partition.leader_id

    def is_leader(self, tp: TopicPartition) -> bool:
        partition = self._partitions.get(tp)
        return partition is not None and partition.is_leader

    def high_watermark_of(self, tp: TopicPartition) -> int | None:
        """For retention: nothing at or above it may be deleted; None for a log nobody hosts."""
        partition = self._partitions.get(tp)
        return None if partition is None else partition.high_watermark

    def _error_for_missing(self, tp: TopicPartition) -> Errors:
        """A partition that exists elsewhere sends the client to look for its leader."""
        if tp in self._offline:
            return Errors.KAFKA_STORAGE_ERROR
        if self._metadata_cache.partition_state(tp.topic, tp.partition) is not None:
            return Errors.NOT_LEADER_OR_FOLLOWER
        return Errors.UNKNOWN_TOPIC_OR_PARTITION

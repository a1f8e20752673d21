"""Brokers joined in memory: everything is real (logs on disk, fetcher threads, purgatories) except
the sockets between them, ZooKeeper and the controller."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from nodes.config import BrokerConfig
from nodes.core.errors import ApiError, Errors
from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition
from nodes.log.config import LogConfig
from nodes.log.manager import LogManager
from nodes.log.slices import LogSlice
from nodes.metrics import Metrics
from nodes.replication.alter_partition import AlterPartitionManager
from nodes.replication.metadata_cache import MetadataCache
from nodes.replication.model import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchParams,
    FetchPartitionRequest,
    FetchResult,
    ListOffsetResult,
    ProduceResult,
)
from nodes.replication.partition import Partition
from nodes.replication.replica_manager import ReplicaManager
from nodes.trace import Trace
from nodes.wire.apis import ApiKey, request_class, response_class
from nodes.wire.build import build
from nodes.wire.records import build_batch, iter_batches, iter_records
from tests.jsonl import whole_rows

TP = TopicPartition("t", 0)
TOPIC_ID = uuid.UUID(int=77)
LAG_MAX_MS = 400
"""For followers that are to fall behind: see `MemoryCluster.notice_lag`."""
PATIENT_LAG_MAX_MS = 600_000


def batch(value: int) -> bytes:
    return bytes(build_batch([(None, b"%d" % value, 1_700_000_000_000)]))


def wait_for(condition: Callable[[], Any], timeout_s: float = 60.0, what: str = "") -> Any:
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"timed out: {what or condition}"
        time.sleep(0.002)


class Waiter:
    """A `respond` that can be waited for and tolerates exactly one answer."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.value: Any = None
        self.calls = 0

    def __call__(self, value: Any) -> None:
        self.calls += 1
        self.value = value
        self._event.set()

    def answered_within(self, timeout_s: float) -> bool:
        return self._event.wait(timeout_s)

    @property
    def is_answered(self) -> bool:
        return self._event.is_set()

    def wait(self, timeout_s: float = 60.0) -> Any:
        assert self._event.wait(timeout_s), "no answer"
        return self.value


@dataclass(frozen=True)
class State:
    """What ZooKeeper would hold of one partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int
    replicas: tuple[int, ...]


class Unreachable(Exception):
    pass


def as_sent(result: FetchResult) -> FetchResult:
    """With the record bytes themselves. Raises OSError when they are gone."""
    if not isinstance(result.records, LogSlice):
        return result
    return result._replace(records=result.records.read())


class MemoryLeader:
    """A LeaderEndPoint over a direct call."""

    def __init__(self, cluster: MemoryCluster, follower_id: int, leader_id: int) -> None:
        self._cluster = cluster
        self._follower_id = follower_id
        self._leader_id = leader_id
        self._closed = threading.Event()

    def _manager(self) -> ReplicaManager:
        if self._closed.is_set() or not self._cluster.is_linked(self._follower_id, self._leader_id):
            self._cluster.refusals += 1
            raise Unreachable
        return self._cluster.brokers[self._leader_id].manager

    def fetch(
        self, partitions: Sequence[tuple[TopicPartition, FetchPartitionRequest]]
    ) -> Sequence[tuple[TopicPartition, FetchResult]]:
        waiter = Waiter()
        params = FetchParams(replica_id=self._follower_id, max_wait_ms=30)
        manager = self._manager()
        manager.fetch_messages(params, partitions, waiter)
        while not waiter.answered_within(0.05):
            if self._manager() is not manager:
                raise Unreachable  # who died and came back does not know of it
        self._manager()  # an answer cannot cross a link that was cut meanwhile
        return [(tp, as_sent(result)) for tp, result in waiter.value]

    def latest_offset(self, tp: TopicPartition, current_leader_epoch: int) -> ListOffsetResult:
        return self._manager().list_offset(
            tp, LATEST_TIMESTAMP, current_leader_epoch, 0, self._follower_id
        )

    def earliest_offset(self, tp: TopicPartition, current_leader_epoch: int) -> ListOffsetResult:
        return self._manager().list_offset(
            tp, EARLIEST_TIMESTAMP, current_leader_epoch, 0, self._follower_id
        )

    def close(self) -> None:
        self._closed.set()


class MemoryController:
    """Commits AlterPartition as the real one does, and tells brokers what was elected."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.lock = threading.RLock()
        self.states: dict[TopicPartition, State] = {}
        self.controller_epoch = 1
        self.correlation_id = 0
        self.is_reachable = True
        self.requests: list[Any] = []

    # ---- AlterPartition --------------------------------------------------------------------------

    def request(self, entity: Any) -> Any:
        if not self.is_reachable:
            raise Unreachable
        with self.lock:
            self.requests.append(entity)
            topics = [
                {
                    "topic_id": topic.topic_id,
                    "partitions": [self._alter(entity.broker_id, p) for p in topic.partitions],
                }
                for topic in entity.topics
            ]
        return build(response_class(ApiKey.ALTER_PARTITION, 3), error_code=0, topics=topics)

    def close(self) -> None:
        pass

    def _alter(self, broker_id: int, row: Any) -> dict[str, Any]:
        tp = TopicPartition(TP.topic, int(row.partition_index))
        state = self.states[tp]
        isr = tuple(int(b.broker_id) for b in row.new_isr_with_epochs)
        error = Errors.NONE
        if row.leader_epoch < state.leader_epoch or state.leader != broker_id:
            error = Errors.FENCED_LEADER_EPOCH
        elif isr != state.isr or row.partition_epoch > state.partition_epoch:
            if row.partition_epoch != state.partition_epoch:
                error = Errors.INVALID_UPDATE_VERSION
            elif any(i not in self._cluster.alive for i in isr):
                error = Errors.INELIGIBLE_REPLICA
            else:
                state = replace(state, isr=isr, partition_epoch=state.partition_epoch + 1)
                self.states[tp] = state
        return {
            "partition_index": tp.partition,
            "error_code": int(error),
            "leader_id": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
            "partition_epoch": state.partition_epoch,
        }

    # ---- orders ----------------------------------------------------------------------------------

    def elect(self, tp: TopicPartition, leader: int, isr: tuple[int, ...] | None = None) -> None:
        """Commits a new leader; nobody is told yet."""
        with self.lock:
            old = self.states[tp]
            self.states[tp] = replace(
                old,
                leader=leader,
                leader_epoch=old.leader_epoch + 1,
                isr=old.isr if isr is None else isr,
                partition_epoch=old.partition_epoch + 1,
            )

    def leader_and_isr(self, tp: TopicPartition = TP, **changes: Any) -> Any:
        state = replace(self.states[tp], **changes.pop("state", {}))
        self.correlation_id += 1
        row = {
            "partition_index": tp.partition,
            "controller_epoch": self.controller_epoch,
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
            "partition_epoch": state.partition_epoch,
            "replicas": list(state.replicas),
        }
        fields = {
            "controller_id": 9,
            "controller_epoch": self.controller_epoch,
            "broker_epoch": -1,
            "type_": 0,
            "topic_states": [
                {
                    "topic_name": tp.topic,
                    "topic_id": changes.pop("topic_id", TOPIC_ID),
                    "partition_states": [row],
                }
            ],
            "live_leaders": [],
        }
        return build(request_class(ApiKey.LEADER_AND_ISR, 7), **(fields | changes))

    def update_metadata(self, **changes: Any) -> Any:
        topics = [
            {
                "topic_name": tp.topic,
                "topic_id": TOPIC_ID,
                "partition_states": [
                    {
                        "partition_index": tp.partition,
                        "controller_epoch": self.controller_epoch,
                        "leader": state.leader,
                        "leader_epoch": state.leader_epoch,
                        "isr": list(state.isr),
                        "zk_version": state.partition_epoch,
                        "replicas": list(state.replicas),
                        "offline_replicas": [],
                    }
                ],
            }
            for tp, state in self.states.items()
        ]
        brokers = [
            {
                "id_": i,
                "endpoints": [
                    {"port": 1, "host": "h", "listener": "PLAINTEXT", "security_protocol": 0}
                ],
                "rack": None,
            }
            for i in sorted(self._cluster.alive)
        ]
        fields = {
            "controller_id": 9,
            "controller_epoch": self.controller_epoch,
            "broker_epoch": -1,
            "topic_states": topics,
            "live_brokers": brokers,
        }
        return build(request_class(ApiKey.UPDATE_METADATA, 8), **(fields | changes))

    def tell(self, broker_id: int, tp: TopicPartition = TP) -> int:
        """LeaderAndIsr, then UpdateMetadata, to one live broker; the partition's error."""
        manager = self._cluster.brokers[broker_id].manager
        with self.lock:
            self.tell_metadata(broker_id)
            result = manager.become_leader_or_follower(self.correlation_id, self.leader_and_isr(tp))
        return result.partition_errors[0].error

    def tell_metadata(self, broker_id: int) -> None:
        manager = self._cluster.brokers[broker_id].manager
        assert manager.maybe_update_metadata_cache(1, self.update_metadata()).error == 0

    def tell_all(self, tp: TopicPartition = TP) -> None:
        for broker_id in sorted(self._cluster.alive):
            if broker_id in self.states[tp].replicas:
                self.tell(broker_id, tp)


class Broker:
    def __init__(self, cluster: MemoryCluster, broker_id: int, rules: Rules) -> None:
        directory = cluster.directory / f"broker-{broker_id}"
        self.trace_path = cluster.directory / f"trace-{broker_id}.jsonl"
        config = BrokerConfig.from_properties(
            {
                "broker.id": str(broker_id),
                "zookeeper.connect": "unused:1",
                "log.dirs": str(directory),
                "replica.lag.time.max.ms": str(LAG_MAX_MS),
                "replica.fetch.wait.max.ms": "100",
                "replica.fetch.backoff.ms": "20",
            }
        )
        self.log_manager = LogManager(
            [directory],
            LogConfig(min_insync_replicas=cluster.min_isr, segment_bytes=64 * 1024),
            now_ms=lambda: 1_700_000_000_000,
            broker_id=broker_id,
            verify_tail=rules.verifies_log_tail(),
        )
        self.log_manager.load()
        self.metrics = Metrics()
        self.manager = ReplicaManager(
            config,
            self.log_manager,
            MetadataCache(broker_id),
            Trace(self.trace_path, broker_id),
            self.metrics,
            rules,
            now_ns=time.monotonic_ns,
            broker_epoch=lambda: 1,
            topic_overrides=lambda _topic: {},
            end_points=lambda leader_id, _f: MemoryLeader(cluster, broker_id, leader_id),
            alter_partition=AlterPartitionManager(broker_id, cluster.controller, lambda: 1),
        )
        self.manager.startup()

    def partition(self, tp: TopicPartition = TP) -> Partition:
        partition = self.manager.partition(tp)
        assert partition is not None
        return partition

    def produce(
        self, value: int, acks: int = 1, timeout_ms: int = 60_000, tp: TopicPartition = TP
    ) -> Waiter:
        waiter = Waiter()
        self.manager.append_single(tp, batch(value), acks, timeout_ms, waiter)
        return waiter

    def consume(self, offset: int = 0, **params: Any) -> FetchResult:
        waiter = Waiter()
        self.manager.fetch_messages(
            FetchParams(max_wait_ms=0, **params),
            [(TP, FetchPartitionRequest(offset, -1, 1 << 20))],
            waiter,
        )
        result: FetchResult = waiter.wait()[0][1]
        return result

    def values(self, tp: TopicPartition = TP) -> list[int]:
        """Everything in the log, committed or not; nothing while it is being cut."""
        log = self.partition(tp).local_log()
        found: list[int] = []
        offset = log.log_start_offset
        while True:
            try:
                data = log.read(offset, 1 << 20)
            except ApiError:
                return []
            if not data:
                return found
            for view in iter_batches(data):
                raw = data[view.position : view.position + view.size_bytes]
                found += [int(record.value or b"") for record in iter_records(raw)]
                offset = view.header.next_offset

    def trace(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in whole_rows(self.trace_path) if row["f"] == kind]


class MemoryCluster:
    """Brokers 1..n that replicate TP."""

    def __init__(self, directory: Path, brokers: int, min_isr: int) -> None:
        self.directory = directory
        self.min_isr = min_isr
        self.lag_max_ms = PATIENT_LAG_MAX_MS
        self.controller = MemoryController(self)
        self.alive: set[int] = set()
        self.cut: set[frozenset[int]] = set()
        self.refusals = 0
        """Calls that met a cut or a dead broker."""
        self.brokers: dict[int, Broker] = {}
        for broker_id in range(1, brokers + 1):
            self.start(broker_id)

    def is_linked(self, one: int, other: int) -> bool:
        return other in self.alive and one in self.alive and frozenset({one, other}) not in self.cut

    def start(self, broker_id: int, rules: Rules = RULES) -> Broker:
        self.brokers[broker_id] = Broker(self, broker_id, rules)
        self.brokers[broker_id].manager.lag_max_ms = self.lag_max_ms
        self.alive.add(broker_id)
        return self.brokers[broker_id]

    def notice_lag(self, lag_max_ms: int = LAG_MAX_MS) -> None:
        """From now on leaders drop who lags. Until then nobody leaves an ISR, however long a busy
        machine lets a follower wait: who is to stay should have caught up before this is called."""
        self.lag_max_ms = lag_max_ms
        for broker in self.brokers.values():
            broker.manager.lag_max_ms = lag_max_ms

    def is_running(self, broker: Broker) -> bool:
        broker_id = broker.manager.broker_id
        return broker_id in self.alive and self.brokers[broker_id] is broker

    def create(self, leader: int = 1, tp: TopicPartition = TP) -> None:
        replicas = tuple(sorted(self.brokers))
        self.controller.states[tp] = State(leader, 0, replicas, 0, replicas)
        self.controller.tell_all(tp)

    def kill(self, broker_id: int) -> None:
        """As kill -9: no checkpoint, no clean close; only what was written stays."""
        self.alive.discard(broker_id)
        manager = self.brokers[broker_id].manager
        manager.shutdown(checkpoint=False)
        for partition in manager.partitions():
            partition.delete()  # a dead process writes nothing more

    def fail_over(self, tp: TopicPartition = TP) -> int:
        """What a controller does when the leader's broker is gone; returns the new leader."""
        with self.controller.lock:
            state = self.controller.states[tp]
            isr = tuple(i for i in state.isr if i in self.alive)
            leader = state.leader if state.leader in isr else isr[0]
            self.controller.elect(tp, leader, isr)
        self.controller.tell_all(tp)
        return leader

    def isr(self, tp: TopicPartition = TP) -> set[int]:
        return set(self.controller.states[tp].isr)

    def stop(self) -> None:
        self.alive.clear()  # ends the fetches that wait for an answer
        for broker in self.brokers.values():
            broker.manager.fetchers.shutdown()
        for broker in self.brokers.values():
            broker.manager.shutdown(checkpoint=False)
            broker.log_manager.close()


ClusterFactory = Callable[..., MemoryCluster]


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[ClusterFactory]:
    made: list[MemoryCluster] = []

    def make(brokers: int = 3, min_isr: int = 2) -> MemoryCluster:
        made.append(MemoryCluster(tmp_path, brokers, min_isr))
        return made[-1]

    yield make
    for cluster in made:
        cluster.stop()


def answer_of(waiter: Waiter) -> ProduceResult:
    result: ProduceResult = waiter.wait()
    return result

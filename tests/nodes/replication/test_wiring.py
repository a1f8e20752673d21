"""Which config and which listener goes where in a broker's replication (ReplicaManager,
ReplicaFetcherManager, RemoteLeaderEndPoint, AlterPartitionManager; docs of each config)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nodes.config import BrokerConfig
from nodes.core.types import TopicPartition
from nodes.log.config import LogConfig
from nodes.log.manager import LogManager
from nodes.metrics import Metrics
from nodes.replication.fetcher import InitialFetch
from nodes.replication.metadata_cache import MetadataCache
from nodes.replication.replica_manager import ReplicaManager
from nodes.trace import Trace
from tests.kip291.requests import update_metadata

ENDPOINTS = [("CLIENT", 1), ("CONTROLLER", 2), ("REPLICATION", 3)]


@pytest.fixture
def managed(tmp_path: Path) -> Iterator[Callable[..., ReplicaManager]]:
    made: list[ReplicaManager] = []

    def make(**properties: str) -> ReplicaManager:
        """Of broker 1; it knows broker 2 with three listeners, and controller 2."""
        config = BrokerConfig.from_properties(
            {
                "broker.id": "1",
                "zookeeper.connect": "unused:1",
                "listeners": "CLIENT://:1,REPLICATION://:2,CONTROLLER://:3",
                "listener.security.protocol.map": "CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT,"
                "CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "REPLICATION",
                **{name.replace("_", "."): value for name, value in properties.items()},
            }
        )
        cache = MetadataCache(1)
        cache.update(update_metadata({2: ENDPOINTS}))
        logs = LogManager([tmp_path], LogConfig(), now_ms=lambda: 1, broker_id=1)
        made.append(
            ReplicaManager(
                config,
                logs,
                cache,
                Trace(None, 1, 1),
                Metrics(),
                now_ns=time.monotonic_ns,
                broker_epoch=lambda: 1,
                topic_overrides=lambda _topic: {},
            )
        )
        return made[-1]

    yield make
    for manager in made:
        manager.fetchers.shutdown()


@pytest.mark.parametrize("name", ["", "CONTROLLER"])
def test_followers_fetch_at_the_inter_broker_listener(
    managed: Callable[..., ReplicaManager], name: str
) -> None:
    """Never at the control plane's, named or not."""
    manager = managed(**({"control_plane_listener_name": name} if name else {}))
    leader = manager._remote_leader(2, 0)
    assert leader._resolve(2) == ("127.0.0.1", 3)
    assert leader._resolve(7) is None


@pytest.mark.parametrize(("name", "port"), [("", 3), ("CONTROLLER", 2)])
def test_leaders_ask_the_controller_where_controllers_ask_brokers(
    managed: Callable[..., ReplicaManager], name: str, port: int
) -> None:
    """AlterPartition goes to the control plane listener, else to the inter-broker one
    (MetadataCacheControllerNodeProvider)."""
    manager = managed(**({"control_plane_listener_name": name} if name else {}))
    channel = manager._alter_partition._channel
    assert channel._resolve(2) == ("127.0.0.1", port)  # type: ignore[attr-defined]


def test_how_a_follower_fetches(managed: Callable[..., ReplicaManager]) -> None:
    """``num.replica.fetchers`` threads for each leader; ``replica.fetch.max.bytes`` of a partition,
    ``replica.fetch.backoff.ms`` after a failure."""
    manager = managed(
        num_replica_fetchers="3", replica_fetch_max_bytes="4321", replica_fetch_backoff_ms="7000"
    )
    fetches = {
        TopicPartition(topic, p): InitialFetch(2, 0, 0, cuts_first=False)
        for topic in ("t", "u")
        for p in range(12)
    }
    manager.fetchers.add(fetches)
    threads = manager.fetchers._threads
    assert {key: thread.name for key, thread in threads.items()} == {
        (2, i): f"ReplicaFetcherThread-{i}-2" for i in range(3)
    }
    for thread in threads.values():
        assert (thread._max_bytes, thread._backoff_ns) == (4321, 7_000_000_000)


def test_how_often_a_leader_looks_and_writes(managed: Callable[..., ReplicaManager]) -> None:
    """In-sync sets are looked at twice within ``replica.lag.time.max.ms`` (ReplicaManager.startup),
    and high watermarks written at ``replica.high.watermark.checkpoint.interval.ms``."""
    manager = managed(
        replica_lag_time_max_ms="12000", replica_high_watermark_checkpoint_interval_ms="3000"
    )
    assert manager._shrinker._interval_s == 6
    assert manager._checkpointer._interval_s == 3

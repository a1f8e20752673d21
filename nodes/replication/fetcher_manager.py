"""Which thread follows which partition (Kafka's ReplicaFetcherManager).

One thread for each pair of leader and ``hash(partition) % num.replica.fetchers``, made when first
needed. A thread left without partitions is told to end but not waited for: it may be in the middle
of a call to a broker that is gone, and a controller's request must not wait for that.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable, Mapping

from nodes.core.rules import RULES, Rules
from nodes.core.types import TopicPartition
from nodes.replication.fetcher import Followed, InitialFetch, ReplicaFetcherThread
from nodes.replication.leader_endpoint import LeaderEndPoint

EndPoints = Callable[[int, int], LeaderEndPoint]
"""(leader id, fetcher id) -> a way to reach it."""


class ReplicaFetcherManager:
    """Thread-safe; in practice called under the replica-state-change lock."""

    def __init__(
        self,
        followed: Followed,
        end_points: EndPoints,
        *,
        fetchers_per_leader: int,
        max_bytes: int,
        backoff_ms: int,
        now_ns: Callable[[], int],
        rules: Rules = RULES,
    ) -> None:
        self._rules = rules
        self._followed = followed
        self._end_points = end_points
        self._fetchers_per_leader = fetchers_per_leader
        self._max_bytes = max_bytes
        self._backoff_ms = backoff_ms
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._threads: dict[tuple[int, int], ReplicaFetcherThread] = {}
        self._is_shut_down = False

    def add(self, initial: Mapping[TopicPartition, InitialFetch]) -> None:
        """Follows these partitions, each from the leader and offset given."""
        by_thread: dict[tuple[int, int], dict[TopicPartition, InitialFetch]] = {}
        for tp, fetch in initial.items():
            key = (fetch.leader_id, self._fetcher_id(tp))
            by_thread.setdefault(key, {})[tp] = fetch
        with self._lock:
            if self._is_shut_down:
                return
            for key, fetches in by_thread.items():
                thread = self._threads.get(key)
                if thread is None:
                    thread = self._threads[key] = self._new_thread(*key)
                    thread.add(fetches)
                    thread.start()
                else:
                    thread.add(fetches)

    def remove(self, tps: Iterable[TopicPartition]) -> None:
        """Once this has returned, no fetched record is written to these partitions."""
        gone = list(tps)
        with self._lock:
            for thread in self._threads.values():
                thread.remove(gone)

    def stop_idle_threads(self) -> None:
        with self._lock:
            for key, thread in list(self._threads.items()):
                if not thread.partition_count:
                    del self._threads[key]
                    thread.stop()

    def shutdown(self) -> None:
        """Stops all threads and waits for them a little."""
        with self._lock:
            self._is_shut_down = True
            threads, self._threads = list(self._threads.values()), {}
        for thread in threads:
            thread.stop()
        for thread in threads:
            thread.join(5)

    @property
    def failed_count(self) -> int:
        return sum(len(thread.failed) for thread in list(self._threads.values()))

    def _fetcher_id(self, tp: TopicPartition) -> int:
        # Not hash(): strings hash differently in each process, which makes runs hard to compare.
        return (31 * zlib.crc32(tp.topic.encode()) + tp.partition) % self._fetchers_per_leader

    def _new_thread(self, leader_id: int, fetcher_id: int) -> ReplicaFetcherThread:
        return ReplicaFetcherThread(
            f"ReplicaFetcherThread-{fetcher_id}-{leader_id}",
            self._end_points(leader_id, fetcher_id),
            self._followed,
            max_bytes=self._max_bytes,
            backoff_ms=self._backoff_ms,
            now_ns=self._now_ns,
            rules=self._rules,
        )

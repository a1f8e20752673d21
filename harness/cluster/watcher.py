"""Writes down every leadership as it is committed, and every broker's registration.

One-shot watches on the real ZooKeeper, each set anew by the very read that fetches the change, so
that nothing falls between reading and watching. What a watch cannot show is a state that was
overwritten before it was read: ZooKeeper coalesces. Two things make up for it. A gap in a znode's
version is noticed and counted (`missed`), and after the run ``txn_log`` reads ZooKeeper's own
transaction log, which holds every write, to fill the gaps.

``t`` of a row is taken when the read's answer arrived: never before the commit. Rows:

- ``leadership`` (source ``zk``), one a version of a partition's state znode;
- ``node_event`` with event ``registered`` (detail: the broker epoch) or ``unregistered``.

All work happens on kazoo's two callback threads; `_lock` guards what they share. After a lost
connection everything is read and watched again; rows that were written already are known by (topic,
partition, czxid, version) and not repeated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState, WatchedEvent

from harness.cluster import state
from harness.cluster.record import Record

PROCESS: Final = "zk-watch"


class LeadershipWatcher:
    """`start` once the client is connected; `stop` before the client is stopped."""

    def __init__(
        self,
        client: KazooClient,
        root: str,
        record: Record,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._client = client
        self._root = root
        self._record = record
        self._now_ns = now_ns
        self._lock = Lock()
        self._stopped = False
        self._topics: set[str] = set()
        self._partitions: set[tuple[str, int]] = set()
        self._seen: dict[tuple[str, int], tuple[int, int]] = {}  # -> (czxid, version)
        self._epochs: dict[int, int] = {}
        self._written: dict[tuple[str, int], dict[tuple[int, int], int]] = {}
        """(topic, partition) -> (czxid, version) -> ``t`` of its leadership row."""
        self.missed = 0
        """How many versions were overwritten before they could be read."""

    def start(self) -> None:
        self._client.add_listener(self._on_connection)
        self._scan()

    def stop(self) -> None:
        self._stopped = True
        self._client.remove_listener(self._on_connection)

    def _on_connection(self, connection: str) -> None:
        if connection == KazooState.CONNECTED and not self._stopped:
            with self._lock:
                self._topics.clear()
                self._partitions.clear()
            # Not on this thread: kazoo forbids waiting here, and the scan only enqueues reads.
            self._scan()

    def _scan(self) -> None:
        self._children(state.TOPICS, self._on_topics)
        self._children(state.BROKER_IDS, self._on_brokers)

    # ---- topics, their partitions, the partitions' states ----------------------------------

    def _on_topics(self, names: Iterable[str]) -> None:
        with self._lock:
            new = set(names) - self._topics
            self._topics = set(names)
        for name in sorted(new):
            self._watch_topic(name)

    def _watch_topic(self, name: str) -> None:
        def changed(data: bytes, _: Any, __: int) -> None:
            with self._lock:
                partitions = {(name, p) for p in state.parse_topic(name, data).replicas}
                new = partitions - self._partitions
                self._partitions |= new
            for topic, partition in sorted(new):
                self._watch_partition(topic, partition)

        def gone() -> None:
            with self._lock:
                self._partitions -= {key for key in self._partitions if key[0] == name}
                self._topics.discard(name)

        self._data(state.topic_path(name), changed, gone)

    def _watch_partition(self, topic: str, partition: int) -> None:
        def changed(data: bytes, stat: Any, t: int) -> None:
            self._write(topic, partition, data, stat, t)

        def gone() -> None:
            with self._lock:
                self._partitions.discard((topic, partition))

        self._data(
            state.state_path(topic, partition),
            changed,
            gone,
            awaited=lambda: (topic, partition) in self._partitions,
        )

    def _write(self, topic: str, partition: int, data: bytes, stat: Any, t: int) -> None:
        with self._lock:
            written = self._written.setdefault((topic, partition), {})
            if (stat.czxid, stat.version) in written:
                return
            czxid, version = self._seen.get((topic, partition), (stat.czxid, -1))
            if stat.czxid < czxid:
                return  # an answer about an incarnation that was deleted since
            self.missed += max(0, stat.version - (version if stat.czxid == czxid else -1) - 1)
            self._seen[topic, partition] = (stat.czxid, stat.version)
            written[stat.czxid, stat.version] = t
        self._record("leadership", **leadership_row(topic, partition, data, stat, t))

    def add_missed(self, topic: str, partition: int, data: bytes, stat: Any) -> bool:
        """Write a version that no watch showed (``stat``: czxid, version, mtime); False when it is
        in the history already. Its ``t`` is that of the first later version that was seen: by then
        it was committed, and the order of versions stays the order of times."""
        key = (stat.czxid, stat.version)
        with self._lock:
            written = self._written.setdefault((topic, partition), {})
            if key in written:
                return False
            t = min(
                (seen for other, seen in written.items() if other > key), default=self._now_ns()
            )
            written[key] = t
        self._record("leadership", **leadership_row(topic, partition, data, stat, t))
        return True

    # ---- brokers -----------------------------------------------------------------------------

    def _on_brokers(self, names: Iterable[str]) -> None:
        present = {int(name) for name in names}
        t = self._now_ns()
        with self._lock:
            gone = set(self._epochs) - present
            for node in gone:
                del self._epochs[node]
        for node in sorted(gone):
            self._event(node, "unregistered", t, {})
        for node in sorted(present):
            self._data(state.broker_path(node), self._registered(node), lambda: None, again=False)

    def _registered(self, node: int) -> Callable[[bytes, Any, int], None]:
        def changed(_: bytes, stat: Any, t: int) -> None:
            with self._lock:
                if self._epochs.get(node) == stat.czxid:
                    return
                self._epochs[node] = stat.czxid
            self._event(node, "registered", t, {"broker_epoch": stat.czxid})

        return changed

    def _event(self, node: int, event: str, t: int, detail: dict[str, int]) -> None:
        self._record(
            "node_event", process=PROCESS, node=node, event=event, t=t, detail=json.dumps(detail)
        )

    # ---- reads that set their own watch ------------------------------------------------------

    def _children(self, path: str, changed: Callable[[list[str]], None]) -> None:
        def on_event(event: WatchedEvent) -> None:
            if event.type != "NONE" and not self._stopped:
                self._children(path, changed)

        def on_answer(result: Any) -> None:
            if result.successful():
                changed(result.value)
            elif not self._stopped:
                self._await_creation(path, lambda: self._children(path, changed))

        if not self._stopped:
            self._client.get_children_async(self._root + path, watch=on_event).rawlink(on_answer)

    def _data(
        self,
        path: str,
        changed: Callable[[bytes, Any, int], None],
        gone: Callable[[], None],
        *,
        awaited: Callable[[], bool] = lambda: False,
        again: bool = True,
    ) -> None:
        """Read ``path``, now and after every change. When it does not exist: wait for it if
        ``awaited`` says so, else tell ``gone``. Without ``again`` it is read once."""

        def repeat() -> None:
            self._data(path, changed, gone, awaited=awaited, again=again)

        def on_event(event: WatchedEvent) -> None:
            if event.type != "NONE" and not self._stopped:
                repeat()

        def on_answer(result: Any) -> None:
            t = self._now_ns()
            if result.successful():
                changed(result.value[0], result.value[1], t)
            elif self._stopped:
                return
            elif awaited():
                self._await_creation(path, repeat)
            else:
                gone()

        if not self._stopped:
            watch = on_event if again else None
            self._client.get_async(self._root + path, watch=watch).rawlink(on_answer)

    def _await_creation(self, path: str, then: Callable[[], None]) -> None:
        def on_event(event: WatchedEvent) -> None:
            if event.type == "CREATED" and not self._stopped:
                then()

        def on_answer(result: Any) -> None:
            # Created between the failed read and this one: the watch is on its next change.
            if result.successful() and result.value is not None and not self._stopped:
                then()

        self._client.exists_async(self._root + path, watch=on_event).rawlink(on_answer)


def leadership_row(topic: str, partition: int, data: bytes, stat: Any, t: int) -> dict[str, Any]:
    """The history row of one version of a state znode."""
    parsed = state.parse_partition(topic, partition, data, stat.version, ())
    return {
        "t": t,
        "process": PROCESS,
        "topic": topic,
        "partition": partition,
        "leader": parsed.leader,
        "leader_epoch": parsed.leader_epoch,
        "controller_epoch": parsed.controller_epoch,
        "partition_epoch": stat.version,
        "isr": list(parsed.isr),
        "source": "zk",
        "commit_ms": stat.mtime,
        "incarnation": str(stat.czxid),
    }

"""A context for faults whose only fake is the transport: no cluster, but real state transitions.

Brokers are entries in a table; what a controller or ZooKeeper would do is done at once, or after a
number of looks (``lag``), so that faults have something to wait for.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from faults.protocol import (
    Capability,
    ControlAnswer,
    Entry,
    FaultFailed,
    FrameCount,
    Link,
    PartitionState,
)
from tests.faults.situations import write_log


class FakeCluster:
    """Nodes, links, view, admin and control requests over one table of state."""

    def __init__(self, tmp_path: Path, brokers: int = 3) -> None:
        self.ids = list(range(1, brokers + 1))
        self.running = dict.fromkeys(self.ids, True)
        self.paused: set[int] = set()
        self.cut: set[tuple[int, Link]] = set()
        self.toxics: dict[tuple[int, Link, str], dict[str, Any]] = {}
        self.states: dict[tuple[str, int], PartitionState] = {}
        self.epochs = {node: 100 + node for node in self.ids}
        self.the_controller: int | None = 1
        self.the_controller_epoch = 5
        self.calls: list[tuple[Any, ...]] = []
        self.addresses: dict[tuple[int, Link], tuple[str, int]] = {}
        self.root = tmp_path
        self.answers: Callable[..., ControlAnswer] = self._refuse
        self.add_topic("t", {0: [1, 2, 3], 1: [2, 3, 1]})

    def add_topic(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        for partition, replicas in assignment.items():
            self.states[topic, partition] = PartitionState(
                topic, partition, replicas[0], 2, tuple(replicas), tuple(replicas), 5, 0
            )

    # nodes
    def kill(self, node: int) -> None:
        self.calls.append(("kill", node))
        self.running[node] = False

    def stop(self, node: int) -> None:
        self.calls.append(("stop", node))
        self.running[node] = False

    def start(self, node: int, *, wait_ready: bool = True) -> None:
        self.calls.append(("start", node))
        self.running[node] = True

    def pause(self, node: int) -> None:
        self.calls.append(("pause", node))
        self.paused.add(node)
        self._settle()

    def resume(self, node: int) -> None:
        self.calls.append(("resume", node))
        self.paused.discard(node)

    def is_running(self, node: int) -> bool:
        return self.running[node]

    def log_dir(self, node: int) -> str:
        return str(self.root)

    # links
    def add_toxic(self, node: int, link: Link, *, name: str, **toxic: Any) -> None:
        self.calls.append(("add_toxic", node, link, name))
        self.toxics[node, link, name] = toxic

    def remove_toxic(self, node: int, link: Link, *, name: str) -> None:
        self.calls.append(("remove_toxic", node, link, name))
        self.toxics.pop((node, link, name), None)  # idempotent, as toxiproxy's is here

    def disable(self, node: int, link: Link) -> None:
        self.calls.append(("disable", node, link))
        self.cut.add((node, link))
        self._settle()

    def enable(self, node: int, link: Link) -> None:
        self.calls.append(("enable", node, link))
        self.cut.discard((node, link))

    def address(self, node: int, link: Link, *, direct: bool = False) -> tuple[str, int]:
        return self.addresses.get((node, link), ("127.0.0.1", 1))

    # view
    def _out(self, node: int) -> bool:
        away = node in self.paused or (node, Link.ZOOKEEPER) in self.cut
        return away or not self.running[node]

    def _settle(self) -> None:
        """What ZooKeeper and the next controller would make of it."""
        if self.the_controller is not None and self._out(self.the_controller):
            self.the_controller = next((n for n in self.ids if not self._out(n)), None)
            self.the_controller_epoch += 1

    def controller(self) -> int | None:
        return self.the_controller

    def controller_epoch(self) -> int:
        return self.the_controller_epoch

    def broker_epoch(self, node: int) -> int | None:
        return None if self._out(node) else self.epochs[node]

    def live_brokers(self) -> list[int]:
        return [node for node in self.ids if not self._out(node)]

    def partitions(self, topic: str | None = None) -> list[PartitionState]:
        return [s for (t, _), s in sorted(self.states.items()) if topic is None or t == topic]

    def topic_id(self, topic: str) -> str | None:
        return None

    # admin
    def create_topic(
        self, topic: str, assignment: Mapping[int, Sequence[int]], configs: Mapping[str, str]
    ) -> None:
        self.calls.append(("create_topic", topic))
        self.add_topic(topic, assignment)

    def add_partitions(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        self.calls.append(("add_partitions", topic, dict(assignment)))
        self.add_topic(topic, assignment)

    def write_partitions(self, topic: str, assignment: Mapping[int, Sequence[int]]) -> None:
        self.calls.append(("write_partitions", topic, dict(assignment)))
        self.add_topic(topic, assignment)

    def alter_topic_configs(self, topic: str, configs: Mapping[str, str]) -> None:
        self.calls.append(("alter_topic_configs", topic, dict(configs)))

    def delete_topic(self, topic: str) -> None:
        self.calls.append(("delete_topic", topic))
        for key in [key for key in self.states if key[0] == topic]:
            del self.states[key]

    def delete_records(self, node: int, topic: str, partition: int, offset: int) -> None:
        self.calls.append(("delete_records", node, topic, partition, offset))

    def elect_preferred(self, partitions: Sequence[tuple[str, int]]) -> None:
        self.calls.append(("elect_preferred", tuple(partitions)))
        moved = False
        for tp in partitions:
            state = self.states[tp]
            if state.leader != state.replicas[0]:
                moved = True
                self.states[tp] = replace(
                    state, leader=state.replicas[0], leader_epoch=state.leader_epoch + 1
                )
        if not moved:
            raise FaultFailed("ELECTION_NOT_NEEDED")

    def reassign(self, assignment: Mapping[tuple[str, int], Sequence[int]]) -> None:
        self.calls.append(("reassign", tuple(assignment)))
        for tp, replicas in assignment.items():
            self.states[tp] = replace(self.states[tp], replicas=tuple(replicas))

    def begin_reassign(self, assignment: Mapping[tuple[str, int], Sequence[int] | None]) -> None:
        self.calls.append(("begin_reassign", dict(assignment)))

    def remove_controller(self) -> None:
        self.calls.append(("remove_controller",))
        able = [n for n in self.ids if n != self.the_controller and n not in self.paused]
        self.the_controller = able[0] if able else None
        self.the_controller_epoch += 1

    # control
    def leader_and_isr(self, node: int, link: Link, **sent: Any) -> ControlAnswer:
        return self.answers("LEADER_AND_ISR", node, link, sent)

    def update_metadata(self, node: int, link: Link, **sent: Any) -> ControlAnswer:
        return self.answers("UPDATE_METADATA", node, link, sent)

    def stop_replica(self, node: int, link: Link, **sent: Any) -> ControlAnswer:
        return self.answers("STOP_REPLICA", node, link, sent)

    def controlled_shutdown(self, node: int, link: Link, **sent: Any) -> ControlAnswer:
        self.calls.append(("control", "CONTROLLED_SHUTDOWN", node, link, sent))
        error = 77 if sent["broker_epoch"] < self.epochs[sent["broker"]] else 0
        now = time.monotonic_ns()
        return ControlAnswer(
            invoke_t=now,
            t=now + 1,
            error=error,
            partition_errors={},
            failure=None,
            correlation_id=1,
            client_id="forger",
        )

    def _refuse(self, api: str, node: int, link: Link, sent: dict[str, Any]) -> ControlAnswer:
        """As Kafka does: the reference sheet's order of checks."""
        self.calls.append(("control", api, node, link, sent))
        now = time.monotonic_ns()
        state = sent["states"][0]
        known = self.states[state.topic, state.partition]
        error, partition_error = 0, 0
        if sent["broker_epoch"] < self.epochs[node]:
            error = partition_error = 77
        elif sent["controller_epoch"] < self.the_controller_epoch:
            error = partition_error = 11
        elif api == "LEADER_AND_ISR" and state.leader_epoch <= known.leader_epoch:
            partition_error = 11
        elif api == "STOP_REPLICA" and state.leader_epoch < known.leader_epoch:
            partition_error = 74
        errors = (
            {} if api == "UPDATE_METADATA" else {(state.topic, state.partition): partition_error}
        )
        return ControlAnswer(
            invoke_t=now,
            t=now + 1,
            error=error,
            partition_errors=errors,
            failure=None,
            correlation_id=1,
            client_id="forger",
        )


class FakeFrames:
    """Counts as told: ``met`` frames are met by every rule as soon as it is there."""

    def __init__(self) -> None:
        self.rules: dict[str, dict[str, Any]] = {}
        self.removed: list[str] = []
        self.met = 1

    def add(self, rule_id: str, **fields: Any) -> None:
        self.rules[rule_id] = fields

    def count(self, rule_id: str) -> FrameCount:
        return FrameCount(matched=self.met, applied=self.met)

    def remove(self, rule_id: str) -> FrameCount:
        self.removed.append(rule_id)
        there = self.met if self.rules.pop(rule_id, None) else 0
        return FrameCount(matched=there, applied=there)


class FakeContext:
    """A `Context` over a `FakeCluster`; `sleep` really sleeps, but never long."""

    def __init__(self, cluster: FakeCluster, store: Path) -> None:
        self.cluster = cluster
        self.rng = random.Random(1)
        self.nodes = self.links = self.view = self.admin = self.control = cluster
        self.frames = FakeFrames()
        self.capabilities = frozenset(Capability)
        self.store = str(store)
        self.rows: list[dict[str, Any]] = []
        self.stopped = threading.Event()

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        if self.stopped.wait(min(seconds, 0.01)):
            raise RuntimeError("the run is being stopped")

    def record_gauges(self, node: int, occasion: str) -> None:
        in_sync = [frozenset(state.isr) for state in self.view.partitions("t")]
        self.cluster.calls.append(("record_gauges", node, occasion, in_sync[0]))

    def record_plane_metrics(self, node: int, occasion: str) -> None:
        self.cluster.calls.append(("record_plane_metrics", node, occasion))

    def record_moves(self, occasion: str) -> None:
        replicas = {key: state.replicas for key, state in self.cluster.states.items()}
        self.cluster.calls.append(("record_moves", occasion, replicas))

    def record(self, kind: str, **fields: Any) -> None:
        self.rows.append({"f": kind, **fields})


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)


@pytest.fixture
def ctx(cluster: FakeCluster, tmp_path: Path) -> FakeContext:
    return FakeContext(cluster, tmp_path)


@pytest.fixture
def entry() -> Callable[..., Entry]:
    def make(fault: str, duration_ms: int = 1000, **params: Any) -> Entry:
        return Entry(id="e1", fault=fault, at_ms=0, duration_ms=duration_ms, params=params)

    return make


@pytest.fixture
def logs(ctx: Any, tmp_path: Path) -> Callable[..., None]:
    """Each broker has a log directory of its own; ``logs(node, "t-0", 7)`` fills one."""
    ctx.cluster.log_dir = lambda node: str(tmp_path / str(node))

    def write(node: int, partition: str, records: int) -> None:
        write_log(tmp_path, node, partition, records)

    for node in (1, 2, 3):
        for partition in ("t-0", "t-1"):
            write(node, partition, 5)
    return write

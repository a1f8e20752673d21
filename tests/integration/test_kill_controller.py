"""Brokers, controllers and ZooKeeper die in the middle of the controller's work, under load.

While two acks=all producers write, each round begins to create topics, to delete one, to grow one
and to move one, and then something dies: the controller (kill -9 a moment after the requests went
out), two brokers at once, a broker whose last write was torn, ZooKeeper itself, or a broker that is
stopped (SIGSTOP) for longer than its session. Afterwards:

* what was begun is either done or not begun: every topic has all of its leaders, no deletion and no
  reassignment is left hanging;
* nothing acknowledged is lost, and all replicas agree (see `test_kill_loop`).

``BIPLANE_ROUNDS`` is the number of rounds, ``BIPLANE_KILL_SEED`` repeats the choices.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.protocol import Link
from harness.cluster.ask import NoAnswer, ask, request
from harness.cluster.cluster import Cluster
from harness.cluster.errors import StateUnreadable
from harness.runtime.protocol import Handle, ProcessSpec
from harness.runtime.select import get_runtime
from harness.sut.protocol import Planes
from harness.sut.registry import get as get_sut
from nodes.coordination import znodes
from nodes.coordination.zk import KafkaZkClient
from nodes.wire.apis import ApiKey
from tests.integration.test_kill_loop import PARTITIONS, TOPIC, Load, check_nothing_lost

pytestmark = pytest.mark.cluster

ROUNDS = int(os.environ.get("BIPLANE_ROUNDS", "5"))
SEED = int(os.environ.get("BIPLANE_KILL_SEED", "291"))
SESSION_TIMEOUT_MS = 2000
ASK_TIMEOUT_S = 3.0
SETTLED_TIMEOUT_S = 90.0
PROGRESS = 20
DEATHS = ("controller", "two brokers", "torn write", "zookeeper", "stopped")


@pytest.fixture
def services() -> dict[str, Handle]:
    """What the cluster runs, by name; filled by `cluster`."""
    return {}


@pytest.fixture
def cluster(
    tmp_path: Path, services: dict[str, Handle], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Cluster]:
    runtime = get_runtime("process")
    runtime.prepare()
    spawn = runtime.spawn

    def remembering(spec: ProcessSpec) -> Handle:
        services[spec.name] = handle = spawn(spec)
        return handle

    monkeypatch.setattr(runtime, "spawn", remembering)
    # ZooKeeper dies here on purpose: nobody shall give up a wait because of it
    monkeypatch.setattr(Cluster, "_watch_health", lambda *_services: None)
    made = Cluster(
        runtime,
        get_sut("dualplane"),
        Planes.DUAL,
        dir=tmp_path,
        record=lambda _kind, /, **_fields: None,
        rng=random.Random(SEED),
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    try:
        made.start()
        yield made
    finally:
        made.stop()
        runtime.close()


class Churn:
    """Sends the controller work and does not wait for what comes of it."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._threads: list[threading.Thread] = []
        self._number = 0

    def begin(self) -> None:
        """Create two topics, delete, grow and move one of those that there are."""
        names = [f"churn-{self._number + i}" for i in range(2)]
        self._number += 2
        row = {"num_partitions": 4, "replication_factor": 3}
        self._send(
            ApiKey.CREATE_TOPICS, 5, topics=[{"name": name, **row} for name in names], timeout=1000
        )
        topics = [topic.name for topic in self._cluster.view.topics()]
        there = [name for name in topics if name.startswith("churn-")]
        self._rng.shuffle(there)
        if len(there) >= 3:
            dying, growing, moving, *_ = there
            self._send(ApiKey.DELETE_TOPICS, 5, topic_names=[dying], timeout=1000)
            count = len(self._cluster.view.partitions(growing)) + 1
            rows = [{"name": growing, "count": count, "assignments": None}]
            self._send(ApiKey.CREATE_PARTITIONS, 1, topics=rows, timeout=1000)
            nodes = list(self._cluster.node_ids)
            self._rng.shuffle(nodes)
            partitions = [{"partition_index": p, "replicas": nodes[:2]} for p in range(4)]
            self._send(
                ApiKey.ALTER_PARTITION_REASSIGNMENTS,
                0,
                topics=[{"name": moving, "partitions": partitions}],
                timeout=1000,
            )

    def _send(self, api: ApiKey, version: int, **fields: Any) -> None:
        controller = self._cluster.view.controller()
        if controller is None:
            return
        address = self._cluster.address(controller, Link.CLIENT, direct=True)

        def run() -> None:
            try:
                ask(address, request(api, version, **fields), ASK_TIMEOUT_S)
            except NoAnswer:
                return  # it died over it

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._threads.append(thread)

    def finish(self) -> None:
        for thread in self._threads:
            thread.join(2 * ASK_TIMEOUT_S)


def tear(cluster: Cluster, node: int) -> None:
    """Half a batch behind the last one of each log, as a write leaves it that was cut short."""
    for path in Path(cluster.nodes.log_dir(node)).glob(f"{TOPIC}-*/*.log"):
        data = path.read_bytes()
        end = len(data.rstrip(b"\0")) + 1  # a record ends with its count of headers, a zero
        torn = data[end - 150 : end - 80]
        with path.open("r+b") as file:
            file.seek(end)
            file.write(torn)


def let_die(
    death: str, cluster: Cluster, services: dict[str, Handle], rng: random.Random
) -> list[int]:
    """Returns the nodes that have to be started again."""
    nodes = list(cluster.node_ids)
    rng.shuffle(nodes)
    time.sleep(rng.random() * 0.15)  # the moment is the point, not a condition
    if death == "controller":
        nodes = [cluster.view.controller() or nodes[0]]
    elif death == "two brokers":
        nodes = nodes[:2]
    elif death == "torn write":
        nodes = nodes[:1]
    elif death == "stopped":
        cluster.nodes.pause(nodes[0])
        time.sleep(2 * SESSION_TIMEOUT_MS / 1000)
        cluster.nodes.resume(nodes[0])
        return []
    else:
        zookeeper = services["zookeeper"]
        zookeeper.kill()
        time.sleep(rng.random())
        zookeeper.start()
        zookeeper.wait_ready()
        cluster.wait_until("ZooKeeper to be read", lambda: is_readable(cluster), SETTLED_TIMEOUT_S)
        return []
    for node in nodes:
        cluster.nodes.kill(node)
    if death == "torn write":
        tear(cluster, nodes[0])
    return nodes


def is_readable(cluster: Cluster) -> bool:
    try:
        return cluster.view.topics() is not None
    except StateUnreadable:
        return False


def unsettled(cluster: Cluster, zookeeper: KafkaZkClient) -> list[str]:
    """What is hanging, and every partition without a leader or its whole ISR."""
    found = [f"deletion of {topic}" for topic in zookeeper.get_children(znodes.DELETE_TOPICS)]
    for topic in [topic.name for topic in cluster.view.topics()]:
        assigned = zookeeper.get_full_replica_assignment_for_topic(topic)
        states = {state.partition: state for state in cluster.view.partitions(topic)}
        for tp, assignment in assigned.items():
            state = states.get(tp.partition)
            if assignment.is_being_reassigned:
                found.append(f"reassignment of {tp}: {assignment}")
            elif state is None or state.leader < 0 or set(state.isr) != set(assignment.replicas):
                found.append(f"{tp}: {state}")
    return found


def test_what_was_begun_is_done(cluster: Cluster, services: dict[str, Handle]) -> None:
    rng = random.Random(SEED)
    replicas = {p: [(p + i) % 3 + 1 for i in range(3)] for p in range(PARTITIONS)}
    cluster.admin.create_topic(TOPIC, replicas, {"min.insync.replicas": "2"})
    servers = ",".join(map(str, cluster.bootstrap(Link.CLIENT)))
    loads = [
        Load(servers, 0, **{"enable.idempotence": True}),
        Load(servers, 1 << 40, **{"enable.idempotence": False}),
    ]
    churn = Churn(cluster, rng)
    zookeeper = KafkaZkClient(cluster.zookeeper, 30_000)
    for load in loads:
        load.start()
    try:
        for number in range(ROUNDS):
            death = DEATHS[number % len(DEATHS)]
            wanted = sum(len(load.acked) for load in loads) + PROGRESS
            churn.begin()
            for node in let_die(death, cluster, services, rng):
                cluster.nodes.start(node)
            cluster.wait_until(
                f"acknowledgements after {death}",
                lambda: sum(len(load.acked) for load in loads) >= wanted,  # noqa: B023
                SETTLED_TIMEOUT_S,
            )
            print(f"round {number}: {death}, {len(cluster.view.topics())} topics")
        churn.finish()
        zookeeper.start()  # only now: sessions do not outlive ZooKeeper's own death
        deadline = time.monotonic() + SETTLED_TIMEOUT_S
        while hanging := unsettled(cluster, zookeeper):
            assert time.monotonic() < deadline, hanging
            time.sleep(0.2)
    finally:
        zookeeper.close()
        for load in loads:
            load.finish()
    check_nothing_lost(cluster, loads)

"""kill -9 of any broker at any moment, over and over, under acks=all load: no acknowledged loss.

Two librdkafka producers write unique values with acks=all to three partitions of three replicas
each, ``min.insync.replicas`` 2: one idempotent, one not. Meanwhile brokers are killed by role (a
leader, a follower, the controller) at random moments: some while the last victim is still catching
up, so that the in-sync set is already short, some in pairs. Once all are back:

* every acknowledged value is at the offset that its acknowledgement named;
* the replicas hold the same records, in the same epochs, up to the high watermark;
* the idempotent producer's values are in its order, none twice.

``BIPLANE_KILLS`` is the number of kills (30 is the project's claim; the default fits a short run),
``BIPLANE_KILL_SEED`` repeats the choices.
"""

from __future__ import annotations

import os
import random
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from faults.protocol import Link
from harness.cluster.cluster import Cluster
from harness.cluster.final_read import final_read
from harness.runtime.select import get_runtime
from harness.sut.protocol import Planes
from harness.sut.registry import get as get_sut

pytestmark = pytest.mark.cluster

KILLS = int(os.environ.get("BIPLANE_KILLS", "4"))
SEED = int(os.environ.get("BIPLANE_KILL_SEED", "291"))
TOPIC = "killed"
PARTITIONS = 3
SESSION_TIMEOUT_MS = 2000
ACKED_PER_ROUND = 50
PAUSE_S = 0.002  # between two records of a producer: a broker's death is to be felt, not the load
VALUE = struct.Struct(">q")
PADDING = b"." * 200


class Load(threading.Thread):
    """One producer: sends until told to stop, then flushes. Read `acked` after `finish`."""

    def __init__(self, servers: str, first: int, **config: Any) -> None:
        super().__init__(daemon=True)
        self.acked: dict[int, tuple[int, int]] = {}
        """value -> (partition, offset)."""
        self.failed: list[str] = []
        self.unsettled = 0
        self._next = first
        self._stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": servers,
                "acks": "all",
                "linger.ms": 5,
                "retry.backoff.ms": 50,
                "retry.backoff.max.ms": 200,
                "reconnect.backoff.ms": 50,
                "reconnect.backoff.max.ms": 200,
                "socket.timeout.ms": 5000,
                "message.timeout.ms": 120_000,
                "log_level": 0,
                **config,
            }
        )

    def run(self) -> None:
        while not self._stopping.is_set():
            value, self._next = self._next, self._next + 1
            try:
                self._producer.produce(
                    TOPIC,
                    VALUE.pack(value) + PADDING,
                    partition=value % PARTITIONS,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(0.05)
            self._producer.poll(0)
            self._stopping.wait(PAUSE_S)
        self.unsettled = self._producer.flush(60)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            (value,) = VALUE.unpack_from(message.value())
            self.acked[value] = (message.partition(), message.offset())

    def finish(self) -> None:
        self._stopping.set()
        self.join(90)
        assert not self.is_alive()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    runtime = get_runtime("process")
    runtime.prepare()
    made = Cluster(
        runtime,
        get_sut("dualplane"),
        os.environ.get("BIPLANE_KILL_PLANES", Planes.DUAL),
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


def victims(cluster: Cluster, rng: random.Random) -> list[int]:
    """Who dies next: by role, now and then two at once."""
    states = cluster.view.partitions(TOPIC)
    running = [node for node in cluster.node_ids if cluster.nodes.is_running(node)]
    state = rng.choice(states)
    role = rng.choice(["leader", "follower", "controller", "any"])
    followers = [node for node in state.replicas if node != state.leader and node in running]
    wanted = {
        "leader": state.leader,
        "follower": rng.choice(followers),
        "controller": cluster.view.controller(),
        "any": rng.choice(running),
    }[role]
    chosen = [wanted if wanted in running else rng.choice(running)]
    if rng.random() < 0.15:
        chosen.append(rng.choice([node for node in running if node not in chosen]))
    return chosen


def kill_over_and_over(cluster: Cluster, loads: list[Load], rng: random.Random) -> None:
    killed = wanted = 0
    start = time.monotonic()
    while killed < KILLS:
        # Some progress between kills, or the loop would prove nothing.
        wanted = sum(len(load.acked) for load in loads) + ACKED_PER_ROUND
        cluster.wait_until(
            "acknowledgements between kills",
            lambda: sum(len(load.acked) for load in loads) >= wanted,  # noqa: B023
            60,
        )
        if rng.random() < 0.5:
            cluster.wait_full_isr([TOPIC], 20)
        time.sleep(rng.random() * 0.5)  # the moment is the point, not a condition
        chosen = victims(cluster, rng)
        for node in chosen:
            cluster.nodes.kill(node)
        killed += len(chosen)
        acked = sum(len(load.acked) for load in loads)
        print(f"{time.monotonic() - start:6.1f} s: killed {chosen}, {acked} acknowledged so far")
        for node in chosen:
            cluster.nodes.start(node)


def test_nothing_acknowledged_is_lost(cluster: Cluster) -> None:
    rng = random.Random(SEED)
    replicas = {p: [(p + i) % 3 + 1 for i in range(3)] for p in range(PARTITIONS)}
    cluster.admin.create_topic(TOPIC, replicas, {"min.insync.replicas": "2"})
    servers = ",".join(map(str, cluster.bootstrap(Link.CLIENT)))
    idempotent = Load(servers, 0, **{"enable.idempotence": True})
    plain = Load(servers, 1 << 40, **{"enable.idempotence": False})
    loads = [idempotent, plain]
    for load in loads:
        load.start()
    try:
        kill_over_and_over(cluster, loads, rng)
    finally:
        for load in loads:
            load.finish()
    check_nothing_lost(cluster, loads)


def check_nothing_lost(cluster: Cluster, loads: list[Load]) -> None:
    """Every acknowledged value is where its acknowledgement said, on replicas that agree; the
    idempotent producer's (those below 2^40) are in order, once each."""
    for load in loads:
        assert not load.failed, load.failed[:3]
        assert load.unsettled == 0
        assert load.acked

    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    at_rest = final_read(
        cluster,
        [TOPIC],
        record=lambda kind, /, **fields: rows[kind].append(fields),
        quiesce_timeout_s=60,
    )
    assert at_rest
    errors = [row for row in rows["log_end"] if row["error"]]
    assert not errors
    logs: dict[tuple[int, int], dict[int, tuple[int, int]]] = defaultdict(dict)
    for row in rows["log_read"]:
        logs[row["partition"], row["node"]][row["offset"]] = (row["value"], row["leader_epoch"])
    for partition in range(PARTITIONS):
        check_replicas(partition, logs, rows["log_end"])
    leaders = {row["partition"]: row["node"] for row in rows["log_end"] if row["is_leader"]}
    for load in loads:
        lost = [
            (value, place)
            for value, place in load.acked.items()
            if logs[place[0], leaders[place[0]]].get(place[1], (None,))[0] != value
            and place[1] >= 0  # a duplicate whose offset the broker no longer knew
        ]
        assert not lost, f"{len(lost)} of {len(load.acked)} acknowledged: {sorted(lost)[:5]}"
    for partition, node in leaders.items():
        log = logs[partition, node]
        values = [log[offset][0] for offset in sorted(log) if log[offset][0] < 1 << 40]
        assert values == sorted(set(values)), f"partition {partition}: twice or out of order"
        unique = {value for value, _ in log.values()}
        missing = {v for load in loads for v, (p, _) in load.acked.items() if p == partition}
        assert not missing - unique


def check_replicas(
    partition: int,
    logs: dict[tuple[int, int], dict[int, tuple[int, int]]],
    ends: list[dict[str, Any]],
) -> None:
    """The same records in the same epochs, up to the leader's high watermark."""
    mine = [row for row in ends if row["partition"] == partition]
    (leader,) = [row for row in mine if row["is_leader"]]
    high_watermark = leader["high_watermark"]
    assert len(mine) == 3
    assert high_watermark == leader["log_end_offset"]
    truth = logs[partition, leader["node"]]
    assert sorted(truth) == list(range(leader["log_start_offset"], leader["log_end_offset"]))
    for row in mine:
        log = logs[partition, row["node"]]
        differing = [o for o in range(high_watermark) if log.get(o) != truth.get(o)]
        assert not differing, f"node {row['node']} differs at {differing[:5]}"

"""A real cluster of the bundled server: three nodes, ZooKeeper, toxiproxy."""

from __future__ import annotations

import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from checkers.history import problem_with
from faults.protocol import Link
from harness.cluster.cluster import Cluster
from harness.cluster.context import RunStopping
from harness.cluster.errors import ClusterError
from harness.cluster.final_read import final_read
from harness.cluster.watcher import LeadershipWatcher
from harness.runtime.process import ProcessRuntime
from harness.runtime.registry import start_ticks
from harness.runtime.tools import find_toxiproxy
from harness.sut.dualplane import DualPlaneServer
from harness.sut.protocol import ClockTie

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(find_toxiproxy() is None, reason="no toxiproxy-server: make setup"),
]

_STALE_CONTROLLER_EPOCH = 11
_STALE_BROKER_EPOCH = 77


class Rows(list[dict[str, Any]]):
    """A history in memory; every event must fit the schema."""

    def record(self, kind: str, /, **fields: Any) -> None:
        row = {"f": kind, "t": time.monotonic_ns(), "process": "test", **fields}
        assert problem_with(row) is None, problem_with(row)
        self.append(row)

    def of(self, kind: str, **wanted: Any) -> list[dict[str, Any]]:
        return [r for r in self if r["f"] == kind and all(r.get(k) == v for k, v in wanted.items())]


def make(tmp_path: Path, rows: Rows, planes: str = "dual", **overrides: str) -> Cluster:
    return Cluster(
        ProcessRuntime(),
        DualPlaneServer(),
        planes,
        dir=tmp_path / "cluster",
        record=rows.record,
        rng=random.Random(1),
        overrides={name.replace("_", "."): value for name, value in overrides.items()},
        session_timeout_ms=2000,
    )


def produce(cluster: Cluster, values: range) -> None:
    configs = {
        "bootstrap.servers": ",".join(map(str, cluster.bootstrap())),
        "acks": "all",
        "log_level": 0,
    }
    producer = Producer(configs)
    for value in values:
        producer.produce("t", struct.pack(">q", value), partition=value % 3)
    assert producer.flush(60) == 0


@pytest.mark.parametrize("planes", ["single", "dual"])
def test_a_life(tmp_path: Path, planes: str) -> None:
    rows = Rows()
    with make(tmp_path, rows, planes) as cluster:
        assignment = {p: [1 + p % 3, 1 + (p + 1) % 3, 1 + (p + 2) % 3] for p in range(3)}
        cluster.admin.create_topic("t", assignment, {"message.timestamp.type": "LogAppendTime"})
        assert cluster.wait_full_isr(["t"], 60)
        produce(cluster, range(60))

        # Leadership moves to another live broker.
        cluster.admin.reassign({("t", 0): [3, 2, 1]})
        cluster.admin.elect_preferred([("t", 0)])
        before = cluster.view.partitions("t")[0]
        assert (before.leader, before.replicas) == (3, (3, 2, 1))

        # It is fenced as Kafka fences.
        controller = cluster.view.controller()
        broker_epoch = cluster.view.broker_epoch(1)
        assert controller is not None
        assert broker_epoch is not None
        forge = {
            "controller_id": controller,
            "controller_epoch": cluster.view.controller_epoch(),
            "broker_epoch": broker_epoch,
            "states": [before],
        }
        old = {**forge, "controller_epoch": forge["controller_epoch"] - 1}  # type: ignore[operator]
        answer = cluster.control.leader_and_isr(1, Link.CONTROL, **old)  # type: ignore[arg-type]
        assert answer.error == _STALE_CONTROLLER_EPOCH
        bounced = {**forge, "broker_epoch": broker_epoch - 1}
        answer = cluster.control.update_metadata(1, Link.CONTROL, **bounced)  # type: ignore[arg-type]
        assert answer.error == _STALE_BROKER_EPOCH

        # Kill -9 of a leader, and its return.
        cluster.nodes.kill(3)
        assert not cluster.nodes.is_running(3)
        cluster.wait_until(
            "another leader", lambda: cluster.view.partitions("t")[0].leader in (1, 2), 60
        )
        cluster.nodes.start(3)
        assert cluster.wait_full_isr(["t"], 60)
        produce(cluster, range(60, 90))
        assert final_read(cluster, ["t"], quiesce_timeout_s=60)
        pids = [handle.pid for handle in cluster.runtime.handles()]
        assert None not in pids
    assert all(start_ticks(pid) is None for pid in pids if pid is not None)

    reads = Counter((r["node"], r["value"]) for r in rows.of("log_read"))
    assert reads == Counter({(node, value): 1 for node in (1, 2, 3) for value in range(90)})
    assert [r["error"] for r in rows.of("log_end")] == [None] * 9
    assert len({r["log_end_offset"] for r in rows.of("log_end", partition=0)}) == 1
    assert rows.of("infra") == []
    assert [r["event"] for r in rows.of("node_event", node=3, process="harness")] == [
        *("start", "ready", "kill", "start", "ready")
    ]
    for partition in range(3):
        versions = [r["partition_epoch"] for r in rows.of("leadership", partition=partition)]
        assert sorted(versions) == list(range(len(versions)))
    tie = ClockTie(monotonic_minus_wall_ns=0, error_ns=0)
    evidence = [r for n in cluster.node_ids for r in cluster.sut.evidence(cluster.layout(n), tie)]
    assert [problem_with(row) for row in evidence] == [None] * len(evidence)
    planes_seen = {r["plane"] for r in evidence if r["f"] == "control_request"}
    assert planes_seen == ({"control"} if planes == "dual" else {"data"})
    assert {r["boot"] for r in evidence if r["node"] == 3} == {1, 2}


def test_nobody_decides_after_zookeepers_log_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that outlives the others takes office, and would be the only one to tell of it."""
    rows = Rows()
    cluster = make(tmp_path, rows)
    lived: list[int] = []
    read = Cluster._finish_watching

    def late(self: Cluster, watcher: LeadershipWatcher) -> None:
        lived.extend(node for node in self.node_ids if self.nodes.is_running(node))
        read(self, watcher)

    monkeypatch.setattr(Cluster, "_finish_watching", late)
    with cluster:
        assert all(cluster.nodes.is_running(node) for node in cluster.node_ids)
    assert (lived, rows.of("infra")) == ([], [])
    assert rows.of("zk_write", what="controller")


def test_a_node_that_does_not_tell_of_the_cluster_is_written_down(tmp_path: Path) -> None:
    rows = Rows()
    with make(tmp_path, rows) as cluster:
        assert rows.of("admin_request") == []
        cluster.nodes.kill(2)
        begun = time.monotonic_ns()
        with pytest.raises(ClusterError, match="in vain for node 2 to know all nodes"):
            cluster.wait_formed(0.5)  # it is registered until its session ends
        (row,) = rows.of("admin_request")
        assert (row["node"], row["api"], row["type"]) == (2, "METADATA", "info")
        assert "refused" in row["failure"]
        assert begun < row["invoke_t"] < row["t"]


def test_a_node_that_refuses_its_configuration(tmp_path: Path) -> None:
    rows = Rows()
    cluster = make(tmp_path, rows, num_io_threads="several")
    with pytest.raises(ClusterError, match=r"node-1 exited with 1(.|\n)*num\.io\.threads"):
        cluster.start()
    assert not any(handle.alive for handle in cluster.runtime.handles())
    assert rows.of("node_event", event="exited")
    cluster.stop()


_HARNESS = """
import faulthandler, random, signal, sys, time
from pathlib import Path
from harness import interrupts
signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever started the tests ignores it
interrupts.install()
faulthandler.register(signal.SIGUSR1, all_threads=True)
from harness.cluster.cluster import Cluster
from harness.runtime.process import ProcessRuntime
from harness.sut.dualplane import DualPlaneServer
def record(kind, /, **fields): pass
cluster = Cluster(ProcessRuntime(), DualPlaneServer(), "dual", dir=Path(sys.argv[1]),
                  record=record, rng=random.Random(1))
try:
    spawn = cluster.runtime.spawn
    def spawn_and_tell(spec):
        handle = spawn(spec)
        print(handle.pid, flush=True)
        return handle
    cluster.runtime.spawn = spawn_and_tell
    cluster.start()
    time.sleep(60)
finally:
    cluster.stop()
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_outlives_an_interrupted_start(tmp_path: Path, how: signal.Signals) -> None:
    env = {**os.environ, "BIPLANE_HOME": str(tmp_path / "home")}
    own = find_toxiproxy()
    assert own is not None
    (tmp_path / "home" / "bin").mkdir(parents=True)
    (tmp_path / "home" / "bin" / "toxiproxy-server").symlink_to(own)
    command = [sys.executable, "-c", _HARNESS, str(tmp_path / "cluster")]
    said = tmp_path / "said"
    with (
        said.open("wb") as stderr,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=stderr, env=env, bufsize=0
        ) as harness,
    ):
        assert harness.stdout is not None
        pids = [int(harness.stdout.readline()) for _ in range(4)]  # services, two nodes
        harness.send_signal(how)
        try:
            rest, _ = harness.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            harness.send_signal(signal.SIGUSR1)  # all stacks
            time.sleep(1)
            harness.kill()
            pytest.fail(f"it does not end:\n{said.read_text()}")
    pids += [int(line) for line in rest.splitlines()]
    wait_for(lambda: all(start_ticks(pid) is None for pid in pids))


def test_a_fault_that_sleeps_wakes_when_the_run_stops(tmp_path: Path) -> None:
    cluster = make(tmp_path, Rows())
    stopping = False
    context = cluster.context(store=tmp_path / "store", stopping=lambda: stopping)
    context.sleep(0)
    stopping = True
    with pytest.raises(RunStopping):
        context.sleep(60)
    cluster.stop()


def wait_for(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "condition not met in time"
        time.sleep(0.01)

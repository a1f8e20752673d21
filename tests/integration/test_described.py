"""A broker that nobody has heard of: the bundled one, by a description file alone; and what a black
box would have told, held against what ZooKeeper had."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from checkers.history import problem_with
from faults.protocol import Link
from harness.cluster.cluster import Cluster
from harness.cluster.final_read import final_read
from harness.cluster.gauges import record_gauges
from harness.cluster.shown import ShownWatch
from harness.cluster.told_view import ToldView
from harness.runtime.process import ProcessRuntime
from harness.runtime.tools import find_toxiproxy
from harness.sut.described import DescribedSystem
from harness.sut.protocol import ClockTie

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(find_toxiproxy() is None, reason="no toxiproxy-server: make setup"),
]
ROOT = Path(__file__).resolve().parents[2]
DESCRIPTION = """adapter: 1
name: strange
coordination: zookeeper
links: [client, inter-broker, control]
planes: [single, dual]
capabilities: [controlled-stop, elect-leaders, replication, log-files, control-requests]
log_dir: "{{dir}}/data"
find:
  sources: {any_of: ["ROOT/."], mend: "have the tree"}
files:
  server.properties:
    takes_configs: true
    properties:
      broker.id: "{{node}}"
      listeners: A://{{client.bind}},B://{{inter-broker.bind}}
      advertised.listeners: A://{{client.advertised}},B://{{inter-broker.advertised}}
      listener.security.protocol.map: A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT
      inter.broker.listener.name: B
      zookeeper.connect: "{{zookeeper}}"
      zookeeper.session.timeout.ms: "{{session-timeout-ms}}"
      log.dirs: "{{dir}}/data"
      biplane.trace.path: "{{dir}}/trace.jsonl"
      biplane.metrics.host: "{{metrics.bind.host}}"
      biplane.metrics.port: "{{metrics.bind.port}}"
    dual:
      control.plane.listener.name: C
      listeners: A://{{client.bind}},B://{{inter-broker.bind}},C://{{control.bind}}
      advertised.listeners: A://{{client.advertised}},B://{{inter-broker.advertised}},C://{{control.advertised}}
start:
  argv: ["{{python}}", -m, nodes, "{{dir}}/server.properties"]
  env: {PYTHONPATH: "{{sources}}", PYTHONSAFEPATH: 1}
ready: {ports: [client], output: KafkaServer}
evidence: {kind: biplane-trace, file: trace.jsonl, rows: [metadata_update]}
metrics:
  gauges:
    ActiveControllerCount: kafka_controller_kafkacontroller_activecontrollercount
    LeaderCount: kafka_server_replicamanager_leadercount
    UnderReplicatedPartitions: kafka_server_replicamanager_underreplicatedpartitions
"""


def test_a_life_by_description(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    file = tmp_path / "strange.yaml"
    file.write_text(DESCRIPTION.replace("ROOT", str(ROOT)))
    rows: list[dict[str, Any]] = []

    def record(kind: str, /, **fields: Any) -> None:
        row = {"f": kind, "t": time.monotonic_ns(), "process": "test", **fields}
        assert problem_with(row) is None, problem_with(row)
        rows.append(row)

    sut = DescribedSystem(file)
    cluster = Cluster(
        ProcessRuntime(),
        sut,
        "dual",
        dir=tmp_path / "cluster",
        record=record,
        rng=random.Random(1),
        session_timeout_ms=2000,
    )
    with cluster:
        told = ToldView({n: cluster.address(n, Link.CLIENT, direct=True) for n in (1, 2, 3)})
        assert told.live_brokers() == [1, 2, 3]
        assert told.controller() == cluster.view.controller()
        watch = ShownWatch(told, record)
        watch.start()
        try:
            cluster.admin.create_topic("t", {0: [1, 2, 3]}, {})
            produce(cluster, range(50))
            wait_until(lambda: shown(rows) == [(1, 0)])
            cluster.nodes.kill(1)
            wait_until(lambda: told.broker_epoch(1) is None)
            wait_until(lambda: len(shown(rows)) == 2)
            for node in (2, 3):
                record_gauges(cluster, node)
            assert gauges(rows)["UnderReplicatedPartitions"] == ["0", "1"]
            assert gauges(rows)["ActiveControllerCount"] == ["0", "1"]
            cluster.nodes.start(1)
            assert final_read(cluster, ["t"], quiesce_timeout_s=30.0)
        finally:
            watch.stop()
    committed = [(r["leader"], r["leader_epoch"]) for r in of(rows, "leadership", "zk")]
    assert set(shown(rows)) <= set(committed)
    read = {(r["node"], r["value"]) for r in rows if r["f"] == "log_read"}
    assert read == {(node, value) for node in (1, 2, 3) for value in range(50)}
    clock = ClockTie(monotonic_minus_wall_ns=0, error_ns=0)
    traced = {row["f"] for row in sut.evidence(cluster.layout(2), clock)}
    assert {"metadata_update", "control_request"} <= traced


def told_at(address: tuple[str, int]) -> dict[int, tuple[str, int]]:
    """Where a client is told that brokers are."""
    client = AdminClient({"bootstrap.servers": "{}:{}".format(*address), "log_level": 0})
    brokers = client.list_topics(timeout=30).brokers.values()
    return {broker.id: (broker.host, broker.port) for broker in brokers}


@pytest.mark.parametrize("knows", [False, True], ids=["its own", "although it was given another"])
def test_where_clients_are_told_that_a_broker_is_which_tells_where_it_listens(
    tmp_path: Path, knows: bool
) -> None:
    """At its proxy, where it could not know; a broker that was given that is taken at its word,
    and accused (`named-elsewhere`)."""
    text = DESCRIPTION.replace("A://{{client.advertised}}", "A://{{client.bind}}")
    if knows:
        text = text.replace("PYTHONSAFEPATH: 1", 'PYTHONSAFEPATH: 1, ME: "{{client.advertised}}"')
    file = tmp_path / "strange.yaml"
    file.write_text(text.replace("ROOT", str(ROOT)))
    cluster = Cluster(
        ProcessRuntime(),
        DescribedSystem(file),
        "single",
        dir=tmp_path / "cluster",
        record=lambda *_args, **_fields: None,
        rng=random.Random(1),
        session_timeout_ms=2000,
    )
    with cluster:
        proxies = {node: cluster.address(node, Link.CLIENT) for node in (1, 2, 3)}
        own = {node: cluster.address(node, Link.CLIENT, direct=True) for node in (1, 2, 3)}
        assert told_at(own[1]) == own
        assert told_at(proxies[1]) == (own if knows else proxies)
        cluster.admin.create_topic("t", {0: [1, 2, 3]}, {})
        produce(cluster, range(5))


def produce(cluster: Cluster, values: range) -> None:
    bootstrap = ",".join(map(str, cluster.bootstrap()))
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce("t", struct.pack(">q", value), partition=0)
    assert producer.flush(60) == 0


def gauges(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """What was told of each, sorted; all of it true."""
    found: dict[str, list[str]] = {}
    for row in (row for row in rows if row["f"] == "described"):
        assert (row["told"], row["api"]) == (row["truth"], "MBeans")
        found[row["key"]] = sorted([*found.get(row["key"], []), row["told"]])
    return found


def of(rows: list[dict[str, Any]], kind: str, source: str) -> list[dict[str, Any]]:
    return [r for r in rows if r["f"] == kind and r["source"] == source and r["topic"] == "t"]


def shown(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """(leader, leader epoch) of what brokers showed, in its order."""
    return [(r["leader"], r["leader_epoch"]) for r in of(rows, "leadership", "shown")]

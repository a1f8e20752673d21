"""What is written down of metrics that count partitions, beside what ZooKeeper holds."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from faults.protocol import Link, PartitionState
from harness.cluster.ask import NoAnswer
from harness.cluster.errors import StateUnreadable
from harness.cluster.gauges import OF_REPLICAS, compared, read, truth
from harness.runtime.protocol import Address
from harness.sut.description import GaugeName
from harness.sut.dualplane import DualPlaneServer
from harness.sut.protocol import GaugesPage
from nodes.metrics import Metrics
from nodes.metrics_server import MetricsServer

REPLICAS = "kafka.server:type=ReplicaManager,name="
CONTROLLER = "kafka.controller:type=KafkaController,name="


def state(partition: int, leader: int, isr: tuple[int, ...]) -> PartitionState:
    replicas = (1, 2, 3) if partition else (2, 1)
    return PartitionState("t", partition, leader, 4, isr, replicas, 1, 0)


def view(*states: PartitionState, live: tuple[int, ...] = (1, 2, 3), **more: Any) -> Any:
    """Broker 2 is the controller; two in sync are enough for topic t."""
    given = {
        "live_brokers": lambda: live,
        "controller": lambda: 2,
        "pending": list,
        "topics": lambda: [SimpleNamespace(name="t")],
        "partitions": lambda: states,
        "settings": lambda _topic: {"min.insync.replicas": "2"},
    }
    return SimpleNamespace(**given | more)


def of(view: Any, node: int, min_isr: int = 1) -> dict[str, int]:
    """By their short names, those that are not 0."""
    found = {name.rpartition("=")[2]: count for name, count in truth(view, node, min_isr)}
    return {name: count for name, count in found.items() if count}


LAGGING = (state(0, 1, (1,)), state(1, 1, (1, 2)), state(2, 3, (1, 2, 3)))


@pytest.mark.parametrize(("isr", "missing"), [((1, 2), 0), ((1,), 1)])
def test_who_is_yet_to_come_is_not_missed(isr: tuple[int, ...], missing: int) -> None:
    """While a move is held; else who is what changes step by step."""
    topics = [SimpleNamespace(name="t", adding={1: (3,), 2: ()})]
    moved = view(
        *(state(1, 1, isr), state(2, 3, (1, 2, 3))),
        topics=lambda: topics,
        pending=lambda: [("reassignment", "t")],
    )
    held = {name.rpartition("=")[2]: n for name, n in truth(moved, 1, 1, moves_held=True)}
    assert held == {
        **{"ActiveControllerCount": 0, "ReassigningPartitions": 1},
        "UnderReplicatedPartitions": missing,
    }
    assert not of(moved, 1)
    moved.pending = lambda: [("reassignment", "t"), ("deletion", "u")]
    assert [*truth(moved, 1, 1, moves_held=True)] == [*truth(moved, 1, 1)]


def test_a_leader_counts_whose_replicas_lag() -> None:
    assert of(view(*LAGGING), 1) == {
        "PartitionCount": 3,
        "LeaderCount": 2,
        "UnderReplicatedPartitions": 2,
        "UnderMinIsrPartitionCount": 1,
        "AtMinIsrPartitionCount": 1,
    }
    assert of(view(*LAGGING), 3) == {"PartitionCount": 2, "LeaderCount": 1}


def test_the_controller_counts_the_cluster() -> None:
    found = of(view(*LAGGING, state(3, -1, (3,))), 2)
    assert found == {
        "PartitionCount": 4,
        "ActiveControllerCount": 1,
        "ActiveBrokerCount": 3,
        "GlobalPartitionCount": 4,
        "GlobalTopicCount": 1,
        "OfflinePartitionsCount": 1,
        "PreferredReplicaImbalanceCount": 3,
    }


def test_enough_in_sync_is_what_the_topic_says_and_no_more_than_there_are() -> None:
    unset = {"settings": lambda _topic: {}}
    assert "UnderMinIsrPartitionCount" not in of(view(*LAGGING, **unset), 1)
    assert of(view(*LAGGING, **unset), 1, min_isr=3)["UnderMinIsrPartitionCount"] == 2
    full = state(0, 1, (1, 2))
    assert "UnderMinIsrPartitionCount" not in of(view(full, **unset), 1, min_isr=3)


def test_while_partitions_move_nobody_knows_who_hosts_them() -> None:
    moving = view(*LAGGING, pending=lambda: [("reassignment", "t")])
    assert dict(truth(moving, 2, 1)) == {CONTROLLER + "ActiveControllerCount": 1}
    leftover = view(*LAGGING, pending=lambda: [("settings", "u")])
    assert of(leftover, 1)["LeaderCount"] == 2


def test_who_hears_of_nothing_is_held_to_nothing() -> None:
    with pytest.raises(StateUnreadable):
        of(view(live=(1, 2)), 3)
    with pytest.raises(StateUnreadable):
        of(view(controller=lambda: None), 3)


def test_told_beside_its_truth() -> None:
    name = REPLICAS + "LeaderCount"
    row = {"key": "LeaderCount", "told": "1", "truth": "2", "known": True}
    assert list(compared({name: 1, "other": 5}, {name: 2}, {name: 2})) == [row]
    assert list(compared({}, {name: 2}, {name: 2})) == [row | {"told": None}]
    changed = {"truth": None, "known": False}
    assert list(compared({name: 1}, {name: 1}, {name: 2})) == [row | changed]
    assert not list(compared({name: 1}, {name: 1}, {}))


def test_a_nodes_metrics_over_http(tmp_path: Path) -> None:
    """As the bundled broker serves them, wherever it does."""
    metrics = Metrics()
    metrics.gauge(REPLICAS + "LeaderCount", lambda: 2)
    metrics.gauge(REPLICAS + "PartitionCount", lambda: 1 / 0)
    metrics.counter("kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec").mark()
    address = {Link.CLIENT: Address("127.0.0.1", 1)}
    layout: Any = SimpleNamespace(dir=tmp_path, direct=address)
    assert DualPlaneServer().gauges_page(layout) is None
    (tmp_path / "data").mkdir()
    server = MetricsServer(metrics, 0, "0.0.0.0", url_file=tmp_path / "data" / "metrics.url")
    try:
        page = DualPlaneServer().gauges_page(layout)
        assert page == GaugesPage(url=f"http://127.0.0.1:{server.port}/mbeans")
        told = read(page)
        assert told[REPLICAS + "LeaderCount"] == 2
        assert told[REPLICAS + "PartitionCount"] is None
    finally:
        server.close()


def test_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(NoAnswer):
        read(GaugesPage(url=f"http://127.0.0.1:{port}/mbeans"))


def test_a_page_for_prometheus(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.gauge(REPLICAS + "LeaderCount", lambda: 2)
    metrics.gauge(CONTROLLER + "OfflinePartitionsCount", lambda: 3)
    for topic, size in (("a", 1), ("b", 4)):
        metrics.gauge(f"kafka.log:type=Log,name=Segments,topic={topic},kind=x", lambda n=size: n)
    server = MetricsServer(metrics, 0, "127.0.0.1", url_file=tmp_path / "metrics.url")

    def page(**samples: str) -> GaugesPage:
        return GaugesPage(url=f"http://127.0.0.1:{server.port}/metrics", samples=samples)

    try:
        told = read(
            page(
                LeaderCount="kafka_server_replicamanager_leadercount",
                PartitionCount='kafka_log_log_segments{topic="b"}',
                GlobalPartitionCount='kafka_log_log_segments{kind="x"}',
                OfflinePartitionsCount="kafka_controller_kafkacontroller_offlinepartitionscount",
            )
        )
        assert told == {
            REPLICAS + "LeaderCount": 2,
            REPLICAS + "PartitionCount": 4,
            CONTROLLER + "GlobalPartitionCount": 5,
            CONTROLLER + "OfflinePartitionsCount": 3,
        }
        for absent in ("no_such", 'kafka_log_log_segments{topic="c"}', "not a sample{"):
            with pytest.raises(NoAnswer):
                read(page(LeaderCount=absent))
    finally:
        server.close()


def test_a_description_may_name_each_gauge_that_has_a_truth() -> None:
    true = [name for broker in (2, 3) for name, _ in truth(view(*LAGGING), broker, 1)]
    assert {name.rpartition("=")[2] for name in true} == set(get_args(GaugeName))
    of_replicas = {n.rpartition("=")[2] for n in true if n.startswith(REPLICAS)}
    assert of_replicas == OF_REPLICAS

"""What is written down of a broker's metrics of its planes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.cluster import plane_metrics
from harness.cluster.plane_metrics import AT_REST, chosen, record_at_rest, record_plane_metrics
from harness.sut.dualplane import DualPlaneServer
from harness.sut.protocol import GaugesPage
from nodes.config import BrokerConfig
from nodes.metrics import Metrics
from nodes.metrics_server import MetricsServer
from nodes.network.socket_server import SocketServer
from nodes.wire.apis import ApiKey

DUAL = {
    "broker.id": "1",
    "zookeeper.connect": "unused:1",
    "listeners": "CLIENT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "CLIENT",
    "control.plane.listener.name": "CONTROLLER",
}


def told(url: str | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []

    class Sut(DualPlaneServer):
        def gauges_page(self, layout: Any) -> GaugesPage | None:
            return GaugesPage(url=url) if url is not None else None

    cluster: Any = SimpleNamespace(
        sut=Sut(),
        layout=lambda node: SimpleNamespace(id=node),
        record=lambda kind, **row: rows.append({"f": kind, **row}),
    )
    record_plane_metrics(cluster, 2, "flood")
    return rows


def test_a_broker_is_asked_for_both_planes() -> None:
    """By the names under which the bundled broker's own registry has them."""
    metrics = Metrics()
    config = BrokerConfig.from_properties(DUAL)
    server = SocketServer(
        config, lambda _: (None, None), metrics,
        api_name=lambda key: ApiKey(key).display_name, apis=[ApiKey.PRODUCE, ApiKey.STOP_REPLICA],
    )  # type: ignore[arg-type]  # fmt: skip
    pages = MetricsServer(metrics, 0)
    try:
        rows = told(f"{pages.url}/mbeans")
    finally:
        pages.close()
        server.stop_processing_requests()
    names = [row["mbean"].partition(",name=")[2] for row in rows]
    for plane in ("", "ControlPlane"):
        assert {
            f"{plane}RequestQueueSize",
            f"{plane}NetworkProcessorAvgIdlePercent",
            f"{plane}RequestHandlerAvgIdlePercent",
        } <= set(names)
    assert "RequestQueueTimeMs,request=Produce" in names
    assert not any("StopReplica" in name or "ResponseQueue" in name for name in names)
    assert {(row["f"], row["node"], row["name"]) for row in rows} == {("plane_metric", 2, "flood")}
    assert all(row["from_t"] <= row["t"] and float(row["value"]) >= 0 for row in rows)


def test_who_does_not_answer_is_noted_and_who_has_no_metrics_is_not() -> None:
    (row,) = told("http://127.0.0.1:9/mbeans")
    assert row["error"]
    assert "mbean" not in row
    assert not told(None)


def test_at_rest_each_is_asked_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, str]] = []
    monkeypatch.setattr(
        plane_metrics, "record_plane_metrics", lambda _, node, why: asked.append((node, why))
    )
    nodes = SimpleNamespace(is_running=lambda node: node != 2)
    record_at_rest(SimpleNamespace(node_ids=[1, 2, 3], nodes=nodes))  # type: ignore[arg-type]
    assert asked == [(1, AT_REST), (3, AT_REST)]


def test_a_metric_that_knows_nothing() -> None:
    mbean = "kafka.network:type=SocketServer,name=ControlPlaneNetworkProcessorAvgIdlePercent"
    page = {
        mbean: {"Value": None},
        "kafka.server:type=ReplicaManager,name=LeaderCount": {"Value": 1},
    }
    assert list(chosen(page)) == [(mbean, "Value", None)]

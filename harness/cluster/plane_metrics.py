"""What a broker's metrics say of its planes, loaded by a fault and at rest (KIP-291's metrics).

Whoever gives a broker a control plane looks at these to see that it helps: the queue and the idle
time of either plane, and how long each kind of request waited (kafka.network.SocketServer,
RequestChannel, RequestMetrics; kafka.server.KafkaRequestHandlerPool). They are read past every
proxy. Nothing else holds their truth: they are held against what was asked of the broker
meanwhile (`checkers.promises.planes.metrics`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from harness.cluster.ask import NoAnswer
from harness.cluster.gauges import read_mbeans
from harness.sut.protocol import ServesGauges

if TYPE_CHECKING:
    from harness.cluster.cluster import Cluster

_PLANE: Final = "(ControlPlane)?"
_READ: Final = (
    (rf"kafka\.network:type=RequestChannel,name={_PLANE}RequestQueueSize", ("Value",)),
    (
        rf"kafka\.network:type=SocketServer,name={_PLANE}"
        "(NetworkProcessorAvgIdlePercent|ExpiredConnectionsKilledCount)",
        ("Value",),
    ),
    (
        rf"kafka\.server:type=KafkaRequestHandlerPool,name={_PLANE}RequestHandlerAvgIdlePercent",
        ("Count",),  # nanoseconds, over the number of handlers
    ),
    (r"kafka\.network:type=RequestMetrics,name=RequestsPerSec,.*", ("Count",)),
    (
        r"kafka\.network:type=RequestMetrics,name=RequestQueueTimeMs,"
        "request=(Produce|LeaderAndIsr|UpdateMetadata)",
        ("50thPercentile",),
    ),
)
_PATTERNS: Final = tuple((re.compile(name), attributes) for name, attributes in _READ)
AT_REST: Final = "at rest"
"""The occasion, where no fault asks."""


def record_at_rest(cluster: Cluster) -> None:
    """Of each node that runs, once the load has ended. Two such readings tell what a plane did that
    nobody asked anything in between."""
    for node in cluster.node_ids:
        if cluster.nodes.is_running(node):
            record_plane_metrics(cluster, node, AT_REST)


def record_plane_metrics(cluster: Cluster, node: int, occasion: str) -> None:
    """A row for each attribute; one with the ``error`` where the node serves its MBeans and does
    not answer; none where it serves none. ``occasion``: the id of the fault that asks, or
    `AT_REST`."""
    sut = cluster.sut
    page = sut.gauges_page(cluster.layout(node)) if isinstance(sut, ServesGauges) else None
    if page is None or page.samples is not None:
        return
    asked = {"node": node, "name": occasion, "from_t": time.monotonic_ns()}
    try:
        told = read_mbeans(page.url)
    except NoAnswer as error:
        cluster.record("plane_metric", **asked, error=str(error))
        return
    answered_t = time.monotonic_ns()
    for mbean, attribute, value in chosen(told):
        cluster.record(
            "plane_metric", **asked, t=answered_t, mbean=mbean, attribute=attribute, value=value
        )


def chosen(
    told: Mapping[str, Mapping[str, float | None]],
) -> Iterator[tuple[str, str, str | None]]:
    """(MBean, attribute, value as text; None: NaN) of those that tell of planes."""
    for mbean, values in told.items():
        for pattern, attributes in _PATTERNS:
            if pattern.fullmatch(mbean):
                for attribute in attributes:
                    value = values.get(attribute)
                    yield mbean, attribute, None if value is None else str(value)

"""Names as in JMX, values when somebody reads, an export that Prometheus can parse."""

from __future__ import annotations

import math
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from nodes.metrics import Metrics, MetricsServer, quantiles, sanitise

QUEUE = "kafka.controller:type=ControllerChannelManager,name=QueueSize,broker-id=3"


def test_gauges_are_read_when_asked() -> None:
    metrics = Metrics()
    values = [1]
    metrics.gauge(QUEUE, lambda: values[0])
    values[0] = 5
    assert metrics.value(QUEUE) == 5
    metrics.remove(QUEUE)
    assert list(metrics.read()) == []


def test_a_gauge_that_fails_is_not_a_number() -> None:
    metrics = Metrics()
    metrics.gauge(QUEUE, lambda: 1 / 0)
    ((_, _, value),) = metrics.read()
    assert math.isnan(value)


def test_quantiles_are_nearest_rank() -> None:
    assert quantiles([]) == {}
    values = quantiles(range(1, 101))
    assert (values[0.5], values[0.99], values[0.999]) == (50, 99, 100)


def test_names_are_sanitised_like_the_jmx_exporters() -> None:
    name, labels = sanitise(QUEUE)
    assert name == "kafka_controller_controllerchannelmanager_queuesize"
    assert labels == {"broker_id": "3"}


def test_the_export_can_be_parsed() -> None:
    metrics = Metrics()
    metrics.gauge(QUEUE, lambda: 4)
    metrics.counter("kafka.server:type=T,name=X").mark(3)
    histogram = metrics.histogram("kafka.server:type=T,name=Y")
    for value in range(2000):
        histogram.update(value)
    server = MetricsServer(metrics, 0)
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://127.0.0.1:{server.port}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    finally:
        server.close()
    samples = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["kafka_controller_controllerchannelmanager_queuesize"] == 4
    assert samples["kafka_server_t_x_count_total"] == 3
    assert samples["kafka_server_t_y_count_total"] == 2000
    assert samples["kafka_server_t_y_50thpercentile"] >= 972

"""Metrics under Kafka's MBean names, and their export for Prometheus.

A metric is named by its whole MBean name, for example
``kafka.controller:type=KafkaController,name=ActiveControllerCount``: what an operator types into
JMX is what stands in the code. Reading is rare and may cost; writing happens on hot paths and may
not. Hence:

- a *gauge* is a function, called when somebody reads;
- a *counter* and a *meter* (Kafka's ``...PerSec``) are one integer; the exporter's scraper derives
  the rate;
- a *histogram* keeps the newest 1,028 values (the size of Kafka's reservoir) and counts all.
  Updates are one append to a bounded deque, which is atomic, so no lock is taken.

The export sanitises names as the JMX exporter does by default:
``kafka_controller_kafkacontroller_activecontrollercount``, other key properties become labels.
"""

from __future__ import annotations

import logging
import math
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

log = logging.getLogger("kafka.metrics")

RESERVOIR: Final = 1028
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)


class Counter:
    """Counts up. `mark` from one thread is exact; from several it may lose a rare step, as the
    price of taking no lock."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def mark(self, amount: int = 1) -> None:
        self.count += amount


class Histogram:
    """The newest values, and how many there ever were."""

    __slots__ = ("_values", "count")

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=RESERVOIR)
        self.count = 0

    def update(self, value: float) -> None:
        self._values.append(value)
        self.count += 1

    def quantiles(self) -> dict[float, float]:
        return quantiles(self._values)


def quantiles(values: Iterable[float]) -> dict[float, float]:
    """Nearest-rank quantiles; empty for no values."""
    ordered = sorted(values)
    if not ordered:
        return {}
    last = len(ordered) - 1
    return {q: ordered[min(last, math.ceil(q * len(ordered)) - 1)] for q in QUANTILES}


Collect = Callable[[], Iterable[tuple[str, float]]]
"""A family computed at reading: pairs of a whole MBean name and a value."""


class Metrics:
    """All metrics of one broker, by MBean name. Thread-safe.

    Registering a name again replaces a gauge (a rebuilt channel has a new queue) and returns the
    existing counter or histogram.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._gauges: dict[str, Callable[[], float]] = {}
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}
        self._families: list[Collect] = []

    def gauge(self, mbean: str, read: Callable[[], float]) -> None:
        with self._lock:
            self._gauges[mbean] = read

    def counter(self, mbean: str) -> Counter:
        with self._lock:
            return self._counters.setdefault(mbean, Counter())

    meter = counter

    def histogram(self, mbean: str) -> Histogram:
        with self._lock:
            return self._histograms.setdefault(mbean, Histogram())

    def family(self, collect: Collect) -> None:
        """Registers a function that yields (MBean name, value) pairs whenever somebody reads."""
        with self._lock:
            self._families.append(collect)

    def remove(self, mbean: str) -> None:
        with self._lock:
            for kind in (self._gauges, self._counters, self._histograms):
                kind.pop(mbean, None)

    def value(self, mbean: str) -> float:
        """A gauge's or counter's value now; KeyError when there is none of that name."""
        with self._lock:
            read = self._gauges.get(mbean)
            if read is None:
                return self._counters[mbean].count
        return read()

    def read(self) -> Iterator[tuple[str, str, float]]:
        """Everything: (MBean name, attribute, value). A gauge that fails reads as NaN."""
        with self._lock:
            gauges, counters = list(self._gauges.items()), list(self._counters.items())
            histograms, families = list(self._histograms.items()), list(self._families)
        for mbean, gauge in gauges:
            yield mbean, "Value", _safely(mbean, gauge)
        for mbean, counter in counters:
            yield mbean, "Count", counter.count
        for mbean, histogram in histograms:
            yield mbean, "Count", histogram.count
            for q, value in histogram.quantiles().items():
                yield mbean, f"{_percentile(q)}thPercentile", value
        for collect in families:
            for mbean, value in collect():
                yield mbean, "Value", value


MetricsRegistry = Metrics
"""The same, by the name that says more where `Metrics` alone would not."""


def _percentile(quantile: float) -> str:
    return f"{quantile * 100:g}".replace(".", "")


def _safely(mbean: str, read: Callable[[], float]) -> float:
    try:
        return float(read())
    except Exception:
        log.debug("gauge %s failed", mbean, exc_info=True)
        return math.nan


_UNSAFE = re.compile(r"[^a-zA-Z0-9_]")


def sanitise(mbean: str, attribute: str = "Value") -> tuple[str, dict[str, str]]:
    """The exported name and labels of an MBean's attribute."""
    domain, _, rest = mbean.partition(":")
    properties = dict(part.partition("=")[::2] for part in rest.split(","))
    parts = [domain, properties.pop("type", ""), properties.pop("name", "")]
    if attribute != "Value":
        parts.append(attribute)
    name = _UNSAFE.sub("_", "_".join(part for part in parts if part)).lower()
    return name, {_UNSAFE.sub("_", key): value for key, value in properties.items()}


class _Export:
    """Reads the registry once per scrape."""

    def __init__(self, registry: Metrics) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for mbean, attribute, value in self._registry.read():
            name, labels = sanitise(mbean, attribute)
            family = families.get(name)
            if family is None:
                kind = CounterMetricFamily if attribute == "Count" else GaugeMetricFamily
                family = families[name] = kind(name, mbean, labels=tuple(labels))
            family.add_metric(tuple(labels.values()), value)
        yield from families.values()


class MetricsServer:
    """Serves ``/metrics`` until closed; on loopback, unless ``biplane.metrics.host`` says else."""

    def __init__(self, registry: Metrics, port: int, host: str = "127.0.0.1") -> None:
        collectors = CollectorRegistry(auto_describe=False)
        collectors.register(_Export(registry))
        self._server, self._thread = start_http_server(port, host, collectors)
        self.port: int = self._server.server_port

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

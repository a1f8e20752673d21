"""Metrics under Kafka's MBean names, with Kafka's attributes.

A metric is named by its whole MBean name, for example
``kafka.controller:type=KafkaController,name=ActiveControllerCount``: what an operator types into
JMX is what stands in the code. Reading is rare and may cost; writing happens on hot paths and may
not. Hence:

    kind       what it holds                                   attributes
    gauge      a function, called when somebody reads          Value
    counter    one integer                                     Count
    meter      the same, and its rate (Kafka's ...PerSec)      Count, MeanRate, OneMinuteRate,
                                                               Five..., FifteenMinuteRate
    share      a growing count of nanoseconds (...Percent)     the same; rates are 0 to 1
    histogram  the newest 1,028 values (the size of Kafka's    Count, Min, Max, Mean, StdDev,
               reservoir), and how many there ever were        50thPercentile ... 999thPercentile
    timer      a histogram of milliseconds, with the rate      those of both

Updates of a histogram are one append to a bounded deque, which is atomic, so no lock is taken.
Rates are averages that forget (Yammer's Meter): they move at most every five seconds, when somebody
reads or `tick`s. How all this is served is in `nodes.metrics_server`.
"""

from __future__ import annotations

import logging
import math
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final

log = logging.getLogger("kafka.metrics")

RESERVOIR: Final = 1028
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)
TICK_NS: Final = 5_000_000_000
_MINUTE_NS: Final = 60_000_000_000
_WINDOWS: Final = (("OneMinuteRate", 1), ("FiveMinuteRate", 5), ("FifteenMinuteRate", 15))
_SECOND_NS: Final = 1_000_000_000

Row = tuple[str, str, float]
"""MBean name, attribute, value."""


class Counter:
    """Counts up. `mark` from one thread is exact; from several it may lose a rare step, as the
    price of taking no lock."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def mark(self, amount: int = 1) -> None:
        self.count += amount


class Rate:
    """How fast a total grows, per `per_ns` nanoseconds. Any thread.

    The one-minute rate is Yammer's: the growth since the last tick, averaged with what was before
    with a weight that falls to 1/e in a minute; the other two likewise. Until the first tick, five
    seconds after the start, they are 0; ticks that were left out do no harm.
    """

    def __init__(
        self,
        total: Callable[[], float],
        *,
        per_ns: int,
        now_ns: Callable[[], int],
        since_ns: int | None = None,
    ) -> None:
        """`since_ns`: when the total began to grow, if that was not now."""
        self._total = total
        self._per_ns = per_ns
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._start_ns = self._at_ns = now_ns() if since_ns is None else since_ns
        self._start = self._then = total()
        self._rates: dict[str, float] = {}

    def tick(self) -> None:
        with self._lock:
            now_ns = self._now_ns()
            elapsed_ns = now_ns - self._at_ns
            if elapsed_ns < TICK_NS:
                return
            total = self._total()
            newest = (total - self._then) / elapsed_ns
            for name, minutes in _WINDOWS:
                before = self._rates.get(name, newest)
                weight = 1 - math.exp(-elapsed_ns / (minutes * _MINUTE_NS))
                self._rates[name] = before + weight * (newest - before)
            self._at_ns, self._then = now_ns, total

    def attributes(self) -> Iterator[tuple[str, float]]:
        self.tick()
        total = self._total()
        elapsed_ns = self._now_ns() - self._start_ns
        mean = (total - self._start) / elapsed_ns if elapsed_ns > 0 else 0.0
        yield "Count", total
        yield "MeanRate", mean * self._per_ns
        for name, _ in _WINDOWS:
            yield name, self._rates.get(name, 0.0) * self._per_ns


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
        return quantiles(self._values.copy())

    def attributes(self) -> Iterator[tuple[str, float]]:
        return histogram_attributes(self.count, self._values.copy())


def histogram_attributes(count: int, values: Iterable[float]) -> Iterator[tuple[str, float]]:
    """What JMX shows of a histogram. All but the count is 0 as long as there is no value."""
    ordered = sorted(values)
    yield "Count", count
    yield "Min", ordered[0] if ordered else 0.0
    yield "Max", ordered[-1] if ordered else 0.0
    yield "Mean", statistics.fmean(ordered) if ordered else 0.0
    yield "StdDev", statistics.stdev(ordered) if len(ordered) > 1 else 0.0
    found = quantiles(ordered)
    for q in QUANTILES:
        yield f"{_percentile(q)}thPercentile", found.get(q, 0.0)


def quantiles(values: Iterable[float]) -> dict[float, float]:
    """Nearest-rank quantiles; empty for no values."""
    ordered = sorted(values)
    if not ordered:
        return {}
    last = len(ordered) - 1
    return {q: ordered[min(last, math.ceil(q * len(ordered)) - 1)] for q in QUANTILES}


Collect = Callable[[], Iterable[Row]]
"""A family computed at reading."""


class Metrics:
    """All metrics of one broker, by MBean name. Thread-safe.

    Registering a name again replaces a gauge or a share (a rebuilt channel has a new queue) and
    returns the existing counter, meter or histogram.
    """

    def __init__(self, *, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._lock = threading.Lock()
        self._gauges: dict[str, Callable[[], float]] = {}
        self._counters: dict[str, Counter] = {}
        self._rates: dict[str, Rate] = {}
        self._histograms: dict[str, Histogram] = {}
        self._families: list[Collect] = []
        self._ticks: list[Callable[[], None]] = []

    def gauge(self, mbean: str, read: Callable[[], float]) -> None:
        with self._lock:
            self._gauges[mbean] = read

    def counter(self, mbean: str) -> Counter:
        with self._lock:
            return self._counters.setdefault(mbean, Counter())

    def meter(self, mbean: str) -> Counter:
        """Kafka's ``...PerSec``."""
        with self._lock:
            counter = self._counters.setdefault(mbean, Counter())
            if mbean not in self._rates:
                self._rates[mbean] = Rate(
                    lambda: counter.count, per_ns=_SECOND_NS, now_ns=self._now_ns
                )
            return counter

    def share(self, mbean: str, total_ns: Callable[[], float]) -> None:
        """Kafka's ``...Percent`` meters: `total_ns` of something per nanosecond of time."""
        with self._lock:
            self._rates[mbean] = Rate(total_ns, per_ns=1, now_ns=self._now_ns)

    def histogram(self, mbean: str) -> Histogram:
        with self._lock:
            return self._histograms.setdefault(mbean, Histogram())

    def timer(self, mbean: str) -> Histogram:
        """Kafka's ``...RateAnd...TimeMs``."""
        with self._lock:
            histogram = self._histograms.setdefault(mbean, Histogram())
            if mbean not in self._rates:
                self._rates[mbean] = Rate(
                    lambda: histogram.count, per_ns=_SECOND_NS, now_ns=self._now_ns
                )
            return histogram

    def family(self, collect: Collect, tick: Callable[[], None] | None = None) -> None:
        """Registers a function that yields rows whenever somebody reads; `tick` is for its rates,
        if it has any."""
        with self._lock:
            self._families.append(collect)
            if tick is not None:
                self._ticks.append(tick)

    def remove(self, mbean: str) -> None:
        with self._lock:
            for kind in (self._gauges, self._counters, self._rates, self._histograms):
                kind.pop(mbean, None)

    def value(self, mbean: str) -> float:
        """A gauge's value, or a counter's or share's count; KeyError when there is none of that
        name."""
        with self._lock:
            read, rate = self._gauges.get(mbean), self._rates.get(mbean)
            if read is None and rate is None:
                return self._counters[mbean].count
        if read is not None:
            return read()
        assert rate is not None
        return dict(rate.attributes())["Count"]

    def tick(self) -> None:
        """Lets the rates move on, every five seconds, if anybody is to see one-minute rates."""
        with self._lock:
            ticks = [rate.tick for rate in self._rates.values()] + self._ticks
        for tick in ticks:
            try:
                tick()
            except Exception:
                log.exception("a rate cannot move")

    def read(self) -> Iterator[Row]:
        """Everything. A gauge that fails reads as NaN, a family that fails is left out."""
        with self._lock:
            gauges, counters = list(self._gauges.items()), list(self._counters.items())
            rates, histograms = dict(self._rates), list(self._histograms.items())
            families = list(self._families)
        for mbean, gauge in gauges:
            yield mbean, "Value", _safely(mbean, gauge)
        for mbean, counter in counters:
            if mbean not in rates:
                yield mbean, "Count", counter.count
        for mbean, rate in rates.items():
            for attribute, value in rate.attributes():
                yield mbean, attribute, value
        for mbean, histogram in histograms:
            for attribute, value in histogram.attributes():
                if attribute != "Count" or mbean not in rates:  # a timer's came with its rate
                    yield mbean, attribute, value
        for collect in families:
            try:
                rows = list(collect())
            except Exception:
                log.exception("a family of metrics could not be read")
                continue
            yield from rows

    def names(self, prefix: str) -> list[str]:
        """The gauges whose names begin so, in order."""
        with self._lock:
            return sorted(name for name in self._gauges if name.startswith(prefix))

    def attributes(self, mbean: str) -> dict[str, float]:
        """One MBean's attributes, without a look at any other; empty when there is none of that
        name (families are left out)."""
        with self._lock:
            gauge, rate = self._gauges.get(mbean), self._rates.get(mbean)
            counter, histogram = self._counters.get(mbean), self._histograms.get(mbean)
        found: dict[str, float] = {}
        if gauge is not None:
            found["Value"] = _safely(mbean, gauge)
        if counter is not None:
            found["Count"] = counter.count
        for source in (histogram, rate):
            if source is not None:
                found.update(source.attributes())
        return found

    def by_mbean(self) -> dict[str, dict[str, float]]:
        """Everything, as JMX has it: attributes by MBean name."""
        found: dict[str, dict[str, float]] = {}
        for mbean, attribute, value in self.read():
            found.setdefault(mbean, {})[attribute] = value
        return found


def _percentile(quantile: float) -> str:
    return f"{quantile * 100:g}".replace(".", "")


def _safely(mbean: str, read: Callable[[], float]) -> float:
    try:
        return float(read())
    except Exception:
        log.debug("gauge %s failed", mbean, exc_info=True)
        return math.nan

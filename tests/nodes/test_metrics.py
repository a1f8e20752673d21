"""Names as in JMX, values when somebody reads, an export that Prometheus can parse."""

from __future__ import annotations

import http.client
import json
import logging
import math
import random
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from nodes.logs import mbean_value
from nodes.metrics import RESERVOIR, Metrics, Rate, quantiles
from nodes.metrics_server import MetricsServer, sanitise

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


def test_quoted_values_of_mbeans_become_labels() -> None:
    """ObjectName.quote: a path is quoted, and may have anything in it."""
    for text in ("plain-1.2 %", "/var/kafka,logs=1", 'a "quoted\\" *?'):
        name, labels = sanitise(f"kafka.log:type=T,name=N,d={mbean_value(text)},e=2")
        assert (name, labels) == ("kafka_log_t_n", {"d": text, "e": "2"})
    assert mbean_value("/a*") == '"/a\\*"'


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


def page(server: MetricsServer, path: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{server.url}{path}", timeout=60) as answer:
        return str(answer.read().decode())


def test_one_page_has_everything_by_mbean_name(tmp_path: Path) -> None:
    metrics = Metrics()
    metrics.gauge(QUEUE, lambda: 4)
    metrics.gauge("kafka.network:type=SocketServer,name=Z", lambda: math.nan)
    metrics.histogram("kafka.server:type=T,name=Y").update(7)
    file = tmp_path / "metrics.url"
    server = MetricsServer(metrics, 0, url_file=file)
    try:
        assert file.read_text() == f"{server.url}\n"
        mbeans = json.loads(page(server, "/mbeans"))
        only = json.loads(page(server, "/mbeans?name=type%3DSocketServer"))
    finally:
        server.close()
    assert not file.exists(), "nobody is to be sent to a server that is gone"
    assert mbeans[QUEUE] == {"Value": 4}
    histogram = mbeans["kafka.server:type=T,name=Y"]
    assert (histogram["Count"], histogram["Max"], histogram["99thPercentile"]) == (1, 7, 7)
    assert only == {"kafka.network:type=SocketServer,name=Z": {"Value": None}}


def test_two_servers_that_were_told_no_port_do_not_collide() -> None:
    first, second = MetricsServer(Metrics(), 0), MetricsServer(Metrics(), 0)
    try:
        assert first.port != second.port
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize(
    ("path", "status", "content_type"),
    [
        ("/", 200, "text/plain"),
        ("/metrics", 200, "text/plain"),
        ("/metrics?x=1", 200, "text/plain"),
        ("/mbeans", 200, "application/json"),
        ("/mbeans?name=nothing", 200, "application/json"),
        ("/mbeans/", 404, "text/html"),
        ("/favicon.ico", 404, "text/html"),
    ],
)
def test_pages(path: str, status: int, content_type: str) -> None:
    metrics = Metrics()
    metrics.gauge(QUEUE, lambda: 4)
    server = MetricsServer(metrics, 0)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
        server.close()
    assert (answer.status, answer.getheader("Content-Type").partition(";")[0]) == (
        status,
        content_type,
    )
    if status == 200:
        assert answer.getheader("Content-Length") == str(len(body))
        assert (b"queuesize" in body.lower()) == ("nothing" not in path)
    else:
        assert b"there are /metrics and /mbeans" in body


def test_it_is_for_this_machine_only_unless_somebody_says_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody asks who reads. Where it is, is said."""
    with caplog.at_level(logging.INFO, "kafka.metrics"):
        server = MetricsServer(Metrics(), 0)
    try:
        assert server._server.server_address[0] == "127.0.0.1"
        assert server.url == f"http://127.0.0.1:{server.port}"
        at = f"{server.url}/metrics (Prometheus) and {server.url}/mbeans (JSON)"
        assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
            ("INFO", f"Metrics at {at}")
        ]
    finally:
        server.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), 60)


EXPORTED = {
    "kafka.network:type=RequestChannel,name=ControlPlaneRequestQueueSize": (
        "kafka_network_requestchannel_controlplanerequestqueuesize", {},
    ),
    "kafka.network:type=RequestMetrics,name=RequestsPerSec,request=LeaderAndIsr,version=7": (
        "kafka_network_requestmetrics_requestspersec",
        {"request": "LeaderAndIsr", "version": "7"},
    ),
    "kafka.controller:type=ControllerChannelManager,name=QueueSize,broker-id=3": (
        "kafka_controller_controllerchannelmanager_queuesize", {"broker_id": "3"},
    ),
    "kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=Produce": (
        "kafka_server_delayedoperationpurgatory_purgatorysize", {"delayedOperation": "Produce"},
    ),
    "java.lang:type=A-b": ("java_lang_a_b", {}),
}  # fmt: skip


@pytest.mark.parametrize("mbean", EXPORTED)
def test_exported_names(mbean: str) -> None:
    """As the JMX exporter makes them by default: lower case, whatever is no letter and no digit an
    underscore; labels keep their case and their values."""
    name, labels = EXPORTED[mbean]
    assert sanitise(mbean) == (name, labels)
    assert sanitise(mbean, "99thPercentile") == (f"{name}_99thpercentile", labels)


def test_what_only_grows_is_exported_as_a_counter() -> None:
    """Counts of every kind of metric; all else is a gauge. MBeans that differ in their labels are
    one family."""
    metrics = Metrics()
    for broker_id in (3, 4):
        metrics.gauge(f"a:type=T,name=Gauge,broker-id={broker_id}", lambda: 1)
    metrics.counter("a:type=T,name=Counter").mark()
    metrics.meter("a:type=T,name=Meter").mark()
    metrics.timer("a:type=T,name=Timer").update(1.0)
    metrics.share("a:type=T,name=Share", lambda: 1)
    server = MetricsServer(metrics, 0)
    try:
        text = page(server, "/metrics")
    finally:
        server.close()
    kinds = {family.name: family.type for family in text_string_to_metric_families(text)}
    counters = {name for name, kind in kinds.items() if kind == "counter"}
    assert counters == {f"a_t_{name}_count" for name in ("counter", "meter", "timer", "share")}
    assert (
        kinds["a_t_gauge"] == kinds["a_t_meter_oneminuterate"] == kinds["a_t_timer_max"] == "gauge"
    )
    assert set(kinds.values()) == {"counter", "gauge"}
    assert text.count("# TYPE a_t_gauge ") == 1
    assert [line for line in text.splitlines() if line.startswith("a_t_gauge")] == [
        'a_t_gauge{broker_id="3"} 1.0',
        'a_t_gauge{broker_id="4"} 1.0',
    ]


def test_what_cannot_be_read_takes_nothing_else_with_it(caplog: pytest.LogCaptureFixture) -> None:
    """A gauge that fails is not a number, a family that fails is left out, even half-way; all else
    is there."""
    metrics = Metrics()

    def broken() -> Iterator[tuple[str, str, float]]:
        yield "a:name=Half", "Value", 1
        raise RuntimeError("planted")

    metrics.gauge("a:name=Broken", lambda: 1 / 0)
    metrics.gauge("a:name=Whole", lambda: 1)
    metrics.family(broken)
    metrics.family(lambda: [("a:name=Other", "Value", 2)])
    found = {mbean: row["Value"] for mbean, row in metrics.by_mbean().items()}
    assert math.isnan(found.pop("a:name=Broken"))
    assert found == {"a:name=Whole": 1, "a:name=Other": 2}
    assert [(r.levelname, r.getMessage()) for r in caplog.records if r.levelno > 20] == [
        ("ERROR", "a family of metrics could not be read")
    ]


class Clock:
    def __init__(self) -> None:
        self.now_ns = 1

    def __call__(self) -> int:
        return self.now_ns


def test_a_rate_that_cannot_move_holds_up_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """Nor the thread that lets them, which serves whoever reads."""
    clock, moved = Clock(), []
    metrics = Metrics(now_ns=clock)
    metrics.family(lambda: [], tick=lambda: moved.append(1 // len(moved)))
    metrics.family(lambda: [], tick=lambda: moved.append(2))
    metrics.tick()
    assert moved == [2]
    assert [r.getMessage() for r in caplog.records] == ["a rate cannot move"]


def test_rates_forget_as_yammers() -> None:
    clock = Clock()
    metrics = Metrics(now_ns=clock)
    meter = metrics.meter("kafka.server:type=T,name=XPerSec")

    def minute(marks_a_second: int, seconds: int) -> float:
        for _ in range(seconds // 5):
            clock.now_ns += 5_000_000_000
            meter.mark(5 * marks_a_second)
            metrics.tick()
        return metrics.by_mbean()["kafka.server:type=T,name=XPerSec"]["OneMinuteRate"]

    assert minute(10, 5) == pytest.approx(10), "the first tick says what was seen"
    assert minute(0, 60) == pytest.approx(10 / math.e), "after a minute 1/e of it is left"
    clock.now_ns += 3600_000_000_000
    assert minute(0, 5) < 1e-6, "ticks that were left out do no harm"
    found = metrics.by_mbean()["kafka.server:type=T,name=XPerSec"]
    assert found["Count"] == 50
    assert found["MeanRate"] == pytest.approx(50 / (3600 + 70))


def test_a_share_is_a_part_of_the_time() -> None:
    clock, total = Clock(), [0]
    metrics = Metrics(now_ns=clock)
    metrics.share("kafka.server:type=T,name=ZPercent", lambda: total[0])
    for idle_ns in (5_000_000_000, 0):
        clock.now_ns += 5_000_000_000
        total[0] += idle_ns
        metrics.tick()
    found = metrics.by_mbean()["kafka.server:type=T,name=ZPercent"]
    assert found["MeanRate"] == pytest.approx(0.5)
    assert 0.9 < found["OneMinuteRate"] < 1


def test_whoever_serves_metrics_keeps_rates_moving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads: not while there is load, nor while there is none."""
    monkeypatch.setattr("nodes.metrics_server._Server.timeout", 0.001)
    clock, looks = Clock(), [0]
    metrics = Metrics(now_ns=clock)
    meter = metrics.meter("kafka.server:type=T,name=XPerSec")

    def total_ns() -> float:
        looks[0] += 1
        return 0.0

    metrics.share("kafka.server:type=T,name=Percent", total_ns)  # behind the meter
    server = MetricsServer(metrics, 0)
    try:
        meter.mark(100)
        for _ in range(13):
            before = looks[0]
            clock.now_ns += 5_000_000_000
            deadline = time.monotonic() + 60
            while looks[0] == before:
                assert time.monotonic() < deadline, "the rates stand still"
                time.sleep(0.001)
        found = metrics.by_mbean()["kafka.server:type=T,name=XPerSec"]
    finally:
        server.close()
    assert found["OneMinuteRate"] == pytest.approx(20 / math.e)


def test_it_listens_on_version_six_addresses_too() -> None:
    try:
        server = MetricsServer(Metrics(), 0, "::1")
    except OSError:
        pytest.skip("no IPv6 on this machine")
    try:
        assert server.url == f"http://[::1]:{server.port}"
        assert json.loads(page(server, "/mbeans")) == {}
    finally:
        server.close()


# ---- Yammer's arithmetic -------------------------------------------------------------------------


def test_rates_forget_at_three_speeds() -> None:
    """Yammer's EWMA, of which Kafka's meters are made: every five seconds the growth since the
    last tick is averaged in with the weight ``1 - exp(-5 s / window)``; the first one counts
    whole."""
    now_s = [0.0]
    metrics = Metrics(now_ns=lambda: int(now_s[0] * 1e9))
    meter = metrics.meter("a:name=PerSec")
    meter.mark(500)

    def shown() -> list[float]:
        found = metrics.attributes("a:name=PerSec")
        return [found[f"{n}MinuteRate"] for n in ("One", "Five", "Fifteen")]

    now_s[0] = 4.9
    assert shown() == [0, 0, 0], "nothing before the first tick"
    now_s[0] = 5.0
    assert shown() == pytest.approx([100, 100, 100])
    now_s[0] = 9.9
    meter.mark(7)
    assert shown() == pytest.approx([100, 100, 100]), "nothing between ticks"
    now_s[0] = 10.0
    expected = [1.4 + (100 - 1.4) * math.exp(-5 / (60 * minutes)) for minutes in (1, 5, 15)]
    assert shown() == pytest.approx(expected)


def test_a_histogram_keeps_as_many_values_as_kafkas() -> None:
    """1,028 (Yammer's sample), here the newest; the count is of all there ever were."""
    histogram = Metrics().histogram("a:name=H")
    for value in range(2000):
        histogram.update(value)
    found = dict(histogram.attributes())
    assert (found["Count"], found["Min"], found["Max"]) == (2000, 2000 - 1028, 1999)


def test_attributes_are_those_of_jmx() -> None:
    found = dict(Metrics().histogram("a:name=H").attributes())
    assert set(found) == {
        "Count", "Min", "Max", "Mean", "StdDev", "50thPercentile", "75thPercentile",
        "95thPercentile", "98thPercentile", "99thPercentile", "999thPercentile",
    }  # fmt: skip


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 50, 99, 100, 101, 1000])
def test_a_histogram_says_what_its_values_were(count: int) -> None:
    """Yammer's StdDev is a sample's (n - 1); a percentile is the smallest value that so many of all
    do not exceed."""
    rng = random.Random(count)
    values = [round(rng.expovariate(0.1), 3) for _ in range(count)]
    histogram = Metrics().histogram("a:name=H")
    for value in values:
        histogram.update(value)
    found = dict(histogram.attributes())
    mean = sum(values) / count
    squares = sum((value - mean) ** 2 for value in values)
    assert (found["Count"], found["Min"], found["Max"]) == (count, min(values), max(values))
    assert found["Mean"] == pytest.approx(mean)
    assert found["StdDev"] == pytest.approx(math.sqrt(squares / (count - 1)) if count > 1 else 0)
    for name, part in (("50", 0.5), ("75", 0.75), ("95", 0.95), ("98", 0.98), ("99", 0.99),
                       ("999", 0.999)):  # fmt: skip
        shown = found[f"{name}thPercentile"]
        assert shown == min(v for v in values if sum(w <= v for w in values) >= part * count - 1e-9)


KINDS = {
    "gauge": lambda metrics, name: metrics.gauge(name, lambda: 5),
    "counter": lambda metrics, name: metrics.counter(name).mark(5),
    "meter": lambda metrics, name: metrics.meter(name).mark(5),
    "share": lambda metrics, name: metrics.share(name, lambda: 5),
    "histogram": lambda metrics, name: metrics.histogram(name).update(5.0),
    "timer": lambda metrics, name: metrics.timer(name).update(5.0),
}


@pytest.mark.parametrize("kind", ["timer", "histogram"])
def test_all_are_counted_of_which_the_newest_are_kept(kind: str) -> None:
    """RequestRateAndQueueTimeMs of a controller that has sent for days."""
    metrics = Metrics()
    for _ in range(RESERVOIR + 7):
        KINDS[kind](metrics, "a:name=X")
    assert metrics.attributes("a:name=X")["Count"] == RESERVOIR + 7
    assert metrics.by_mbean()["a:name=X"]["Count"] == RESERVOIR + 7


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_removed_is_gone_and_may_begin_anew(kind: str) -> None:
    """A channel's metrics end with it; those of a broker that is back know nothing of before."""
    name, other = "a:name=X", "a:name=Y"
    metrics = Metrics()
    KINDS[kind](metrics, name)
    KINDS[kind](metrics, other)
    first = metrics.by_mbean()
    assert set(first) == {name, other}
    metrics.remove(name)
    metrics.tick()
    assert set(metrics.by_mbean()) == {other}
    assert metrics.attributes(name) == {}
    KINDS[kind](metrics, name)
    again = metrics.by_mbean()
    assert again[name].keys() == first[name].keys()
    assert again[name].get("Count") == first[name].get("Count")


@pytest.mark.parametrize("kind", KINDS)
def test_registering_again_replaces_what_is_read_and_keeps_what_is_counted(kind: str) -> None:
    metrics = Metrics()
    for _ in range(2):
        KINDS[kind](metrics, "a:name=X")
    total = {"gauge": None, "share": 5, "histogram": 2, "timer": 2}.get(kind, 10)
    assert metrics.attributes("a:name=X").get("Count") == total
    metrics.gauge("a:name=G", lambda: 1)
    metrics.gauge("a:name=G", lambda: 2)
    metrics.share("a:name=S", lambda: 1)
    metrics.share("a:name=S", lambda: 2)
    assert (metrics.value("a:name=G"), metrics.value("a:name=S")) == (2, 2)
    assert metrics.names("a:name=") == ["a:name=G"] + ["a:name=X"] * (kind == "gauge")


def test_rates_are_by_the_second_and_shares_of_the_time() -> None:
    """MeanRate since the start, whoever looked in between."""
    clock = Clock()
    metrics = Metrics(now_ns=clock)
    total = [0.0]
    metrics.share("a:name=S", lambda: total[0])
    for step in range(1, 4):
        clock.now_ns += 2_000_000_000
        total[0] += 500_000_000 * step
        metrics.meter("a:name=M").mark(10 * step)
        metrics.timer("a:name=T").update(1.0)
    clock.now_ns += 2_000_000_000
    assert metrics.attributes("a:name=S")["MeanRate"] == pytest.approx(3 / 8)
    assert metrics.attributes("a:name=M")["MeanRate"] == pytest.approx(60 / 6)
    assert metrics.attributes("a:name=T")["MeanRate"] == pytest.approx(3 / 6)


def test_a_rate_of_no_time_at_all_is_zero() -> None:
    """Yammer's Meter.getMeanRate: nothing has happened yet, whatever the clock says."""
    total = [0]
    rate = Rate(lambda: total[0], per_ns=1_000_000_000, now_ns=lambda: 5)
    assert dict(rate.attributes()) == dict.fromkeys(
        ("Count", "MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate"), 0
    )
    total[0] = 3
    assert dict(rate.attributes())["MeanRate"] == 0
    assert dict(rate.attributes())["Count"] == 3

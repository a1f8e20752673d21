"""Every MBean that the planes have, by name, and whose numbers each shows (KIP-291, Public
Interfaces: Metrics; RequestChannel, SocketServer, Acceptor, KafkaRequestHandlerPool)."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.config import BrokerConfig
from nodes.metrics import RESERVOIR, Metrics
from nodes.network.acceptor import Acceptor
from nodes.network.handler import RequestHandlerPool
from nodes.network.processor import Processor
from nodes.network.request_channel import RequestChannel
from nodes.network.request_times import SEGMENTS, Meters, RequestTimes, request_metrics
from nodes.network.socket_server import RecentShare, SocketServer

MAP = {"listener_security_protocol_map": "DATA:PLAINTEXT,CLIENT:PLAINTEXT,CONTROL:PLAINTEXT"}
LISTENERS = "DATA://127.0.0.1:0,CLIENT://127.0.0.1:0,CONTROL://127.0.0.1:0"
DUAL = {**MAP, "listeners": LISTENERS, "control_plane_listener_name": "CONTROL"}
SINGLE = {**MAP, "listeners": LISTENERS}
NETWORK = "kafka.network:type="
POOL = "kafka.server:type=KafkaRequestHandlerPool,name="


def plane(prefix: str, listeners: tuple[str, ...], processors: range) -> set[str]:
    """What a plane that is there has."""
    names = {
        f"{NETWORK}RequestChannel,name={prefix}RequestQueueSize",
        f"{NETWORK}RequestChannel,name={prefix}ResponseQueueSize",
        f"{NETWORK}SocketServer,name={prefix}NetworkProcessorAvgIdlePercent",
        f"{NETWORK}SocketServer,name={prefix}ExpiredConnectionsKilledCount",
        f"{POOL}{prefix}RequestHandlerAvgIdlePercent",
    }
    for each in listeners:
        names.add(f"{NETWORK}Acceptor,name={prefix}AcceptorBlockedPercent,listener={each}")
    for number in processors:
        names.add(f"{NETWORK}Processor,name=IdlePercent,networkProcessor={number}")
        names.add(f"{NETWORK}RequestChannel,name={prefix}ResponseQueueSize,processor={number}")
    return names


MEMORY = {f"{NETWORK}SocketServer,name=MemoryPool{what}" for what in ("Available", "Used")}
ABSENT = {
    f"{NETWORK}SocketServer,name=ControlPlane{what}"
    for what in ("NetworkProcessorAvgIdlePercent", "ExpiredConnectionsKilledCount")
}


@pytest.mark.parametrize("network_threads", [1, 3])
def test_which_there_are_with_a_control_plane(start: Any, network_threads: int) -> None:
    """Processors are numbered over all listeners; the control plane, made first, has number 0."""
    running = start(num_network_threads=str(network_threads), **DUAL)
    control = plane("ControlPlane", ("CONTROL",), range(1))
    data = plane("", ("DATA", "CLIENT"), range(1, 1 + 2 * network_threads))
    assert set(running.metrics.by_mbean()) == control | data | MEMORY


def test_which_there_are_without_one(start: Any) -> None:
    running = start(num_network_threads="2", **SINGLE)
    data = plane("", ("DATA", "CLIENT", "CONTROL"), range(6))
    assert set(running.metrics.by_mbean()) == data | MEMORY | ABSENT


def test_each_shows_its_own(start: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every source says a number of its own, which is found under its name and no other."""
    monkeypatch.setattr(RequestChannel, "size", lambda channel: channel.capacity)
    monkeypatch.setattr(Processor, "response_queue_size", property(lambda p: 100 + p.id))
    monkeypatch.setattr(RecentShare, "__call__", lambda share: share._total_ns() / 1000)
    idle_ns = property(lambda pool: 1000 * len(pool._idle))
    monkeypatch.setattr(RequestHandlerPool, "idle_ns", idle_ns)
    running = start(num_network_threads="2", num_io_threads="3", queued_max_requests="7", **DUAL)
    for parts in running.server._planes():
        for processor in parts.processors():
            processor.idle_ns = 200 + processor.id
            monkeypatch.setattr(processor, "_poll", lambda p=processor: p._epoll.poll(0.01))
        for listener in parts.listeners:
            listener.acceptor.blocked_ns = 10 * len(listener.acceptor.endpoint.name)

    def frozen() -> None:  # threads that are in their poll add its time once more
        for parts in running.server._planes():
            for processor in parts.processors():
                processor.idle_ns = 200 + processor.id

    value = running.metrics.value
    channel = f"{NETWORK}RequestChannel,name="
    assert value(f"{channel}RequestQueueSize") == 7
    assert value(f"{channel}ControlPlaneRequestQueueSize") == 20
    assert value(f"{channel}ControlPlaneResponseQueueSize") == 100
    assert value(f"{channel}ControlPlaneResponseQueueSize,processor=0") == 100
    assert value(f"{channel}ResponseQueueSize") == sum(range(101, 105))
    for number in range(1, 5):
        assert value(f"{channel}ResponseQueueSize,processor={number}") == 100 + number
    for number in range(5):
        frozen()
        name = f"{NETWORK}Processor,name=IdlePercent,networkProcessor={number}"
        assert value(name) == pytest.approx((200 + number) / 1000)
    sockets = f"{NETWORK}SocketServer,name="
    frozen()
    assert value(f"{sockets}ControlPlaneNetworkProcessorAvgIdlePercent") == pytest.approx(0.2)
    assert value(f"{sockets}NetworkProcessorAvgIdlePercent") == pytest.approx(0.2025)
    for name, prefix in (("CONTROL", "ControlPlane"), ("DATA", ""), ("CLIENT", "")):
        blocked = f"{NETWORK}Acceptor,name={prefix}AcceptorBlockedPercent,listener={name}"
        assert value(blocked) == 10 * len(name)
    assert value(f"{POOL}RequestHandlerAvgIdlePercent") == 3000
    assert value(f"{POOL}ControlPlaneRequestHandlerAvgIdlePercent") == 1000
    assert isinstance(running.server._data.listeners[0].acceptor, Acceptor)


@pytest.mark.parametrize(("given", "size"), [("-1", 2**63 - 1), ("0", 2**63 - 1), ("9000", 9000)])
def test_the_pool_is_as_large_as_was_said(start: Any, given: str, size: int) -> None:
    """``queued.max.request.bytes``, of all listeners together; MemoryPool.NONE has no end."""
    running = start(queued_max_request_bytes=given, socket_request_max_bytes="3000", **DUAL)
    sockets = f"{NETWORK}SocketServer,name=MemoryPool"
    assert running.metrics.value(f"{sockets}Available") == size
    assert running.metrics.value(f"{sockets}Used") == 0


def test_a_pool_may_be_overdrawn(start: Any) -> None:
    """SimpleMemoryPool is not strict: the last request in may be larger than what was left, which
    is then less than nothing, and more is used than there is."""
    running = start(queued_max_request_bytes="9000", socket_request_max_bytes="3000", **DUAL)
    running.server._pool.take(8000)
    running.server._pool.take(3000)
    sockets = f"{NETWORK}SocketServer,name=MemoryPool"
    assert running.metrics.value(f"{sockets}Available") == -2000
    assert running.metrics.value(f"{sockets}Used") == 11000


def test_a_share_before_the_first_second_is_of_the_time_so_far() -> None:
    now_s, idle_s = 100.0, 40.0
    recent = RecentShare(lambda: idle_s * 1e9, lambda: int(now_s * 1e9))
    assert recent() == 0, "no time has passed"
    now_s, idle_s = 100.5, 40.25
    assert recent() == pytest.approx(0.5)
    now_s, idle_s = 100.8, 40.8
    assert recent() == 1
    now_s, idle_s = 101.0, 40.8
    assert recent() == pytest.approx(0.8)


# ---- requests ------------------------------------------------------------------------------------

BEAN = f"{NETWORK}RequestMetrics,name="
MS = 1_000_000


def record(
    times: RequestTimes,
    api_key: int,
    version: int = 0,
    errors: Any = None,
    is_followers: bool = False,
    body_bytes: int = 0,
) -> None:
    request: Any = SimpleNamespace(
        api_key=api_key, api_version=version, errors=errors, receive_ns=1 * MS,
        dequeue_ns=2 * MS, handled_ns=4 * MS, ready_ns=8 * MS, taken_ns=16 * MS,
        is_followers=is_followers, body_bytes=body_bytes,
    )  # fmt: skip
    times.record(request, 32 * MS)


def read(*times: RequestTimes, meters: Meters | None = None) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for mbean, attribute, value in request_metrics(times, meters or Meters(), str, str):
        found.setdefault(mbean.removeprefix(BEAN), {})[attribute] = value
    return found


def test_requests_are_told_apart_by_api_and_version() -> None:
    """Of all processors together: neither goes into the other, whatever their numbers."""
    first, second = RequestTimes(), RequestTimes()
    counts = {(a, v): 1 + a * 7 + v for a in (0, 1, 4, 6, 80) for v in (0, 1, 8, 17)}
    for (api_key, version), count in counts.items():
        for i in range(count):
            record((first, second)[i % 2], api_key, version)
    found = read(first, second)
    for (api_key, version), count in counts.items():
        name = f"RequestsPerSec,request={api_key},version={version}"
        assert found[name]["Count"] == count
    rates = [n for n in found if n.startswith("RequestsPerSec") and "1Consumer" not in n]
    assert len(rates) == len(counts)
    for api_key in (0, 1, 4, 6, 80):
        total = sum(count for (a, _), count in counts.items() if a == api_key)
        for segment, _, _ in SEGMENTS:
            assert found[f"{segment},request={api_key}"]["Count"] == total


HISTOGRAMS = (
    "RequestQueueTimeMs", "LocalTimeMs", "RemoteTimeMs", "ThrottleTimeMs", "ResponseQueueTimeMs",
    "ResponseSendTimeMs", "TotalTimeMs", "RequestBytes",
)  # fmt: skip
"""Of Kafka's RequestMetrics, for each API."""


def test_fetches_are_told_apart_by_who_asks() -> None:
    """RequestChannel.Request.updateRequestMetrics: each Fetch counts as one, and as a follower's or
    a consumer's besides; RequestChannel.updateErrorMetrics: its errors as a Fetch's only. There is
    no other API of which some are a follower's."""
    first, second = RequestTimes(), RequestTimes()
    for number, times in enumerate((first, second, second)):
        record(times, 1, 12, [6], is_followers=True, body_bytes=100 + number)
    record(first, 1, 12, body_bytes=7)
    record(second, 1, 11, body_bytes=9)
    record(second, 0, 9, body_bytes=11)
    found = read(first, second)
    names = {"1": 5, "1Follower": 3, "1Consumer": 2, "0": 1}
    rates = {n: row["Count"] for n, row in found.items() if n.startswith("RequestsPerSec")}
    assert rates == {
        "RequestsPerSec,request=1,version=12": 4,
        "RequestsPerSec,request=1,version=11": 1,
        "RequestsPerSec,request=1Follower,version=12": 3,
        "RequestsPerSec,request=1Consumer,version=12": 1,
        "RequestsPerSec,request=1Consumer,version=11": 1,
        "RequestsPerSec,request=0,version=9": 1,
    }
    errors = {n: row["Count"] for n, row in found.items() if n.startswith("ErrorsPerSec")}
    assert errors == {
        "ErrorsPerSec,request=1,error=6": 3,
        "ErrorsPerSec,request=1,error=0": 2,
        "ErrorsPerSec,request=0,error=0": 1,
    }
    for name, count in names.items():
        assert {found[f"{h},request={name}"]["Count"] for h in HISTOGRAMS} == {count}
    sizes = {name: found[f"RequestBytes,request={name}"] for name in names}
    assert {name: (row["Min"], row["Max"]) for name, row in sizes.items()} == {
        "1": (7, 102), "1Follower": (100, 102), "1Consumer": (7, 9), "0": (11, 11),
    }  # fmt: skip
    assert len(found) == len(rates) + len(errors) + len(HISTOGRAMS) * len(names)


def test_what_nobody_asked_for_yet_is_zero() -> None:
    """RequestChannel.Metrics makes the histograms of every API at the start, the rates with the
    first request of their version, those of errors with the first error."""
    names = ("4", "1", "1Consumer", "1Follower")
    times = RequestTimes()

    def shown() -> dict[str, dict[str, float]]:
        rows: dict[str, dict[str, float]] = {}
        for mbean, attribute, value in request_metrics([times], Meters(), str, str, (4, 1)):
            rows.setdefault(mbean.removeprefix(BEAN), {})[attribute] = value
        return rows

    found = shown()
    assert set(found) == {f"{h},request={name}" for name in names for h in HISTOGRAMS}
    assert {value for row in found.values() for value in row.values()} == {0}
    record(times, 4, 7, body_bytes=3)
    found = shown()
    assert len(found) == len(HISTOGRAMS) * len(names) + 2
    assert {found[f"{h},request=4"]["Count"] for h in HISTOGRAMS} == {1}
    assert {found[f"{h},request=1"]["Count"] for h in HISTOGRAMS} == {0}


def test_the_server_shows_each_api_before_anybody_asks() -> None:
    """With nothing bound yet, let alone asked: all that it was told that there is, of all zeros."""
    config = BrokerConfig.from_properties(
        {
            "broker.id": "1",
            "zookeeper.connect": "unused:1",
            "listeners": "DATA://127.0.0.1:0,CONTROL://127.0.0.1:0",
            "listener.security.protocol.map": "DATA:PLAINTEXT,CONTROL:PLAINTEXT",
            "inter.broker.listener.name": "DATA",
            "control.plane.listener.name": "CONTROL",
        }
    )
    metrics = Metrics()
    names = {3: "Metadata", 6: "UpdateMetadata"}
    server = SocketServer(config, lambda _: (None, None), metrics, api_name=names.get, apis=names)  # type: ignore[arg-type]
    found = {n: row for n, row in metrics.by_mbean().items() if n.startswith(BEAN)}
    assert set(found) == {f"{BEAN}{h},request={n}" for n in names.values() for h in HISTOGRAMS}
    assert {value for row in found.values() for value in row.values()} == {0}
    server.stop_processing_requests()


def test_times_are_milliseconds_between_two_moments() -> None:
    times = RequestTimes()
    record(times, 4)
    found = read(times)
    shown = {n: found[f"{n}TimeMs,request=4"]["Max"] for n in (
        "RequestQueue", "Local", "Remote", "Throttle", "ResponseQueue", "ResponseSend", "Total")
    }  # fmt: skip
    assert shown == {
        "RequestQueue": 1, "Local": 2, "Remote": 4, "Throttle": 0, "ResponseQueue": 8,
        "ResponseSend": 16, "Total": 31,
    }  # fmt: skip


def test_more_requests_are_counted_than_are_kept() -> None:
    times = RequestTimes()
    for _ in range(RESERVOIR + 5):
        record(times, 4)
    found = read(times)
    assert {found[f"{n},request=4"]["Count"] for n, _, _ in SEGMENTS} == {RESERVOIR + 5}
    assert found["ErrorsPerSec,request=4,error=0"]["Count"] == RESERVOIR + 5


def test_times_are_of_the_newest_requests() -> None:
    """As many as Kafka's histograms keep, and no older ones."""
    times = RequestTimes()
    for number in range(2 * RESERVOIR):
        request: Any = SimpleNamespace(
            api_key=4, api_version=0, errors=None, receive_ns=0, dequeue_ns=number * MS,
            handled_ns=number * MS, ready_ns=number * MS, taken_ns=number * MS,
            is_followers=False, body_bytes=number,
        )  # fmt: skip
        times.record(request, number * MS)
    found = read(times)["RequestQueueTimeMs,request=4"]
    assert (found["Min"], found["Max"]) == (RESERVOIR, 2 * RESERVOIR - 1)
    sizes = read(times)["RequestBytes,request=4"]
    assert (sizes["Count"], sizes["Min"]) == (2 * RESERVOIR, RESERVOIR)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([None], {0: 1}),
        ([[0]], {0: 1}),
        ([[11]], {11: 1}),
        ([[0, 11, 11, 3]], {0: 1, 11: 2, 3: 1}),
        ([None, [11], None], {0: 2, 11: 1}),
        ([[11], [77], [11]], {11: 2, 77: 1}),
        ([[]], {}),
    ],
)
def test_errors_are_counted_as_they_are_said(answers: Any, expected: dict[int, int]) -> None:
    """ErrorsPerSec: each error code of each answer, NONE among them (KIP-152); what was never said
    is no metric."""
    times = RequestTimes()
    for errors in answers:
        record(times, 4, errors=errors)
    found = {n: a["Count"] for n, a in read(times).items() if n.startswith("ErrorsPerSec")}
    assert found == {
        f"ErrorsPerSec,request=4,error={error}": count for error, count in expected.items()
    }


REQUESTS = "RequestsPerSec,request=0,version=0"


def test_every_request_that_was_handled_is_counted(start: Any, wire: Any) -> None:
    """Processor.updateRequestMetrics: also one whose connection is closed for an answer (an acks=0
    error), one that nobody waited for, and one of whose answer only a part was sent."""
    running = start()
    ends = {
        1: lambda req: req.respond(wire.frame_of(b"answer")),
        2: lambda req: req.respond_nothing(),
        3: lambda req: req.close_connection(),
    }
    running.handle = lambda req: ends[req.correlation_id](req)

    def counted() -> float:
        found = running.metrics.by_mbean()
        return float(found.get(f"{BEAN}{REQUESTS}", {}).get("Count", 0))

    for number, end in enumerate(ends, 1):
        running.client().send(wire.request(0, end, b"12345" if end == 2 else b""))
        wire.eventually(lambda number=number: counted() == number)
    waiting: list[Any] = []
    running.handle = waiting.append
    gone = running.client()
    gone.send(wire.request(0, 4))
    wire.eventually(lambda: waiting)
    (processor,) = running.server._data.processors()
    gone.close()
    waiting[0].respond(wire.frame_of(b"x" * 50_000_000))
    wire.eventually(lambda: counted() == 4)
    wire.eventually(lambda: waiting[0].connection.fd < 0)
    assert counted() == 4, "once"
    times = running.metrics.by_mbean()[f"{BEAN}TotalTimeMs,request=0"]
    sizes = running.metrics.by_mbean()[f"{BEAN}RequestBytes,request=0"]
    assert (sizes["Min"], sizes["Max"]) == (0, 5), "the bodies: without size and header"
    assert times["Count"] == 4
    assert times["Min"] >= 0
    assert processor.times.counts[0] == 4


def test_requests_of_either_plane_are_counted_and_timed(start: Any, wire: Any) -> None:
    """RequestMetrics are the broker's: one set for both planes, in which the control requests of a
    broker with two planes are found where they are without."""
    running = start(**DUAL)
    for listener, api_key in (("CONTROL", 4), ("DATA", 3), ("CLIENT", 3)):
        client = running.client(listener)
        client.send(wire.request(api_key, 1))
        client.answer()

    def counted(api_key: int) -> tuple[float, float]:
        found = running.metrics.by_mbean()
        rate = found.get(f"{BEAN}RequestsPerSec,request={api_key},version=0", {})
        times = found.get(f"{BEAN}TotalTimeMs,request={api_key}", {})
        return rate.get("Count", 0), times.get("Count", 0)

    wire.eventually(lambda: (counted(4), counted(3)) == ((1, 1), (2, 2)))


def test_an_answer_that_nobody_is_there_for_is_counted(start: Any, wire: Any) -> None:
    late_ns = [0]
    running = start(lambda: time.monotonic_ns() + late_ns[0], connections_max_idle_ms="600000")
    waiting: list[Any] = []
    running.handle = waiting.append
    client = running.client()
    client.send(wire.request(0, 1))
    wire.eventually(lambda: waiting)
    late_ns[0] = 10**15
    assert client.is_closed_by_peer(), "it idled too long"
    waiting[0].respond(wire.frame_of(b"late"))
    wire.eventually(lambda: f"{BEAN}{REQUESTS}" in running.metrics.by_mbean())
    assert running.metrics.by_mbean()[f"{BEAN}{REQUESTS}"]["Count"] == 1


def test_rates_are_since_the_server_began() -> None:
    """Nobody has to look for a request to be counted: a first look after a while does not take all
    that came before for a moment's."""
    now_s = [1000.0]
    meters = Meters(lambda: int(now_s[0] * 1e9))
    times = RequestTimes()
    for at_s, rate in ((1010, 3), (1020, 3), (1040, 1.5)):
        now_s[0] = at_s
        if at_s < 1040:
            for _ in range(30):
                record(times, 4)
        found = read(times, meters=meters)["RequestsPerSec,request=4,version=0"]
        assert found["MeanRate"] == pytest.approx(rate)
        assert found["OneMinuteRate"] <= 3 + 1e-9
    assert found["Count"] == 60


def test_rates_move_though_nobody_reads(start: Any, wire: Any) -> None:
    """Load for five seconds, then none for a minute: 1/e of the rate is left, as in Kafka, whose
    meters tick by themselves. A look back over all of it would find the mean."""
    now_s = [1000.0]
    running = start(now_ns=lambda: int(now_s[0] * 1e9))
    client = running.client()
    for number in range(100):
        client.send(wire.request(4, number))
        client.answer()
    wire.eventually(lambda: _answered(running) == 100)
    for _ in range(13):
        now_s[0] += 5
        running.metrics.tick()
    found = running.metrics.by_mbean()
    for bean in ("RequestsPerSec,request=4,version=0", "ErrorsPerSec,request=4,error=0"):
        rates = found[f"{NETWORK}RequestMetrics,name={bean}"]
        assert rates["Count"] == 100
        assert rates["OneMinuteRate"] == pytest.approx(20 / math.e)
        assert rates["MeanRate"] == pytest.approx(100 / 65)


def _answered(running: Any) -> int:
    return sum(parts.answered() for parts in running.server._planes())


def test_a_request_that_made_its_handler_fail_is_counted_and_has_said_no_error(
    start: Any, wire: Any
) -> None:
    """Its connection is closed without a word: there is no error code to count, "none" least of
    all."""
    running = start()

    def handle(_: Any) -> None:
        raise RuntimeError("planted")

    running.handle = handle
    client = running.client()
    client.send(wire.request(0, 1))
    assert client.is_closed_by_peer()
    wire.eventually(lambda: f"{BEAN}{REQUESTS}" in running.metrics.by_mbean())
    found = running.metrics.by_mbean()
    assert found[f"{BEAN}{REQUESTS}"]["Count"] == 1
    assert [name for name in found if "ErrorsPerSec" in name] == []

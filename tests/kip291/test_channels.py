"""The controller's channels (Kafka's ControllerChannelManager) without a controller: which endpoint
each dials, with which timeouts, and what the metrics say of its queue."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.one_broker import free_port
from nodes.config import BrokerConfig
from nodes.controller.channel_manager import ControllerChannelManager, EndPointNotAvailable
from nodes.controller.connection import BrokerConnection
from nodes.controller.send_thread import QueueItem, RequestSendThread
from nodes.core.brokers import Broker, EndPoint
from nodes.metrics import Metrics
from nodes.trace import Trace
from tests.kip291.control_listener import ControlListener
from tests.kip291.parts import eventually
from tests.kip291.requests import Sender, update_metadata

CHANNELS = "kafka.controller:type=ControllerChannelManager,name="
Listen = Callable[[], ControlListener]


class Channels:
    """A manager with its metrics; `ask` counts the answers."""

    def __init__(self, **properties: str) -> None:
        self.metrics = Metrics()
        config = BrokerConfig.from_properties(
            {
                "broker.id": "1",
                "zookeeper.connect": "unused:1",
                "listeners": "REPLICATION://:1,CONTROLLER://:2",
                "listener.security.protocol.map": "REPLICATION:PLAINTEXT,CONTROLLER:PLAINTEXT",
                "inter.broker.listener.name": "REPLICATION",
                "control.plane.listener.name": "CONTROLLER",
                **{name.replace("_", "."): value for name, value in properties.items()},
            }
        )
        self.manager = ControllerChannelManager(
            config, Trace(None, 1, 1), self.metrics, now_ns=time.monotonic_ns
        )
        self.answers: list[int] = []

    def ask(self, broker_id: int, count: int = 1, *, waited_ms: int = 0) -> None:
        """``waited_ms``: how long ago it was put into the queue."""
        for _ in range(count):
            item = QueueItem(
                update_metadata({}),
                lambda _: self.answers.append(broker_id),
                time.monotonic_ns() - waited_ms * 1_000_000,
                [],
            )
            self.manager.send(broker_id, item)

    def value(self, name: str) -> float:
        return self.metrics.value(CHANNELS + name)

    def times(self, broker_id: int) -> dict[str, float]:
        name = f"{CHANNELS}RequestRateAndQueueTimeMs,broker-id={broker_id}"
        return self.metrics.by_mbean()[name]


@pytest.fixture
def channels() -> Iterator[Callable[..., Channels]]:
    made: list[Channels] = []

    def make(**properties: str) -> Channels:
        made.append(Channels(**properties))
        return made[-1]

    yield make
    for each in made:
        each.manager.shutdown()


def broker(broker_id: int, **ports: int) -> Broker:
    endpoints = [EndPoint(name, "PLAINTEXT", "127.0.0.1", port) for name, port in ports.items()]
    return Broker(broker_id, tuple(endpoints))


def test_a_broker_without_the_listener_is_an_error(
    channels: Callable[..., Channels], listener: Listen
) -> None:
    """BrokerEndPointNotAvailableException: of several brokers those before it have a channel."""
    made = channels()
    control = listener()
    with pytest.raises(EndPointNotAvailable, match="CONTROLLER not found for broker 3"):
        made.manager.startup([broker(2, CONTROLLER=control.port), broker(3, REPLICATION=9)])
    made.ask(2)
    eventually(lambda: made.answers == [2])
    with pytest.raises(EndPointNotAvailable):
        made.manager.add_broker(broker(3, REPLICATION=9))
    made.manager.add_broker(broker(2, REPLICATION=9))  # it has one: nobody looks at its endpoints
    made.manager.remove_broker(3)


def test_the_total_is_of_all_queues(channels: Callable[..., Channels], listener: Listen) -> None:
    """That to the controller's own broker, which is 1, among them."""
    made = channels()
    controls = {broker_id: listener() for broker_id in (1, 3, 4)}
    for broker_id, control in controls.items():
        control.flowing.clear()
        made.manager.add_broker(broker(broker_id, CONTROLLER=control.port))
        made.ask(broker_id, 1 + broker_id)
    for broker_id in controls:  # one is in flight, the others wait
        eventually(lambda b=broker_id: made.value(f"QueueSize,broker-id={b}") == b)
    assert made.value("TotalQueueSize") == 1 + 3 + 4
    made.manager.remove_broker(4)
    assert made.value("TotalQueueSize") == 1 + 3
    names = made.metrics.by_mbean()
    assert not [name for name in names if name.endswith("broker-id=4")]
    for control in controls.values():
        control.flowing.set()
    eventually(lambda: len(made.answers) == 2 + 4)
    assert made.value("TotalQueueSize") == 0


def test_time_in_the_queue_ends_when_the_request_is_taken(
    channels: Callable[..., Channels], listener: Listen
) -> None:
    """How long the broker takes to answer is not in it, nor are repetitions."""
    made = channels()
    control = listener()
    failures = [1, 1]
    control.answer_with = lambda _, frame: None if failures and failures.pop() else frame
    made.manager.add_broker(broker(2, CONTROLLER=control.port))
    start_ns = time.monotonic_ns()
    made.ask(2)
    eventually(lambda: made.answers == [2])
    took_ms = (time.monotonic_ns() - start_ns) / 1e6
    assert took_ms >= 200, "it was sent three times, a tenth of a second apart"
    times = made.times(2)
    assert times["Count"] == 1
    assert times["Max"] <= took_ms - 199


def test_time_in_the_queue_is_in_milliseconds(
    channels: Callable[..., Channels], listener: Listen
) -> None:
    made = channels()
    made.manager.add_broker(broker(2, CONTROLLER=listener().port))
    start_ns = time.monotonic_ns()
    made.ask(2, waited_ms=700)
    eventually(lambda: made.answers == [2])
    took_ms = (time.monotonic_ns() - start_ns) / 1e6
    assert 700 <= made.times(2)["Max"] <= 700 + took_ms


def test_the_controller_names_itself_to_all(
    channels: Callable[..., Channels], listener: Listen
) -> None:
    """As Kafka's NetworkClient of a RequestSendThread: the client id is the controller's number."""
    made = channels()
    controls = [listener(), listener()]
    for broker_id, control in enumerate(controls, 2):
        made.manager.add_broker(broker(broker_id, CONTROLLER=control.port))
        made.ask(broker_id)
    eventually(lambda: sorted(made.answers) == [2, 3])
    assert [one.header.client_id for control in controls for one in control.received] == ["1", "1"]


@pytest.mark.parametrize("dials", [True, False])
def test_each_timeout_is_for_its_own(
    channels: Callable[..., Channels],
    listener: Listen,
    monkeypatch: pytest.MonkeyPatch,
    dials: bool,
) -> None:
    """A dial may take ``controller.socket.timeout.ms``, an answer ``request.timeout.ms``."""
    seen: list[int] = []
    name = "connect" if dials else "exchange"
    real = getattr(BrokerConnection, name)

    def noted(self: BrokerConnection, *args: Any) -> Any:
        seen.append(args[-1])
        return real(self, *args)

    monkeypatch.setattr(BrokerConnection, name, noted)
    made = channels(controller_socket_timeout_ms="41000", request_timeout_ms="52000")
    made.manager.add_broker(broker(2, CONTROLLER=listener().port))
    made.ask(2)
    eventually(lambda: made.answers == [2])
    assert seen == [41_000 if dials else 52_000]


def test_whoever_does_not_listen_is_dialled_at_most_ten_times_a_second(
    channels: Callable[..., Channels], monkeypatch: pytest.MonkeyPatch
) -> None:
    dials: list[int] = []

    def refused(self: BrokerConnection, timeout_ms: int) -> None:
        dials.append(time.monotonic_ns())
        raise ConnectionRefusedError

    monkeypatch.setattr(BrokerConnection, "connect", refused)
    made = channels()
    made.manager.add_broker(broker(2, CONTROLLER=free_port()))
    made.ask(2)
    eventually(lambda: len(dials) >= 6)
    gaps_ms = [(b - a) / 1e6 for a, b in itertools.pairwise(dials)]
    assert min(gaps_ms) >= 99


def test_what_is_for_nobody_is_said_and_dropped(
    channels: Callable[..., Channels], listener: Listen, caplog: pytest.LogCaptureFixture
) -> None:
    """ControllerChannelManager.sendRequest: WARN, with the epochs of what was not sent; it does not
    wait for a broker of that number to come."""
    made = channels()
    entity = update_metadata({}, sender=Sender(1, 6, 71))
    with caplog.at_level(logging.INFO, "kafka.controller"):
        made.manager.send(9, QueueItem(entity, lambda _: made.answers.append(9), 0, []))
    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        (
            "WARNING",
            "Not sending request UpdateMetadata with controllerId=1, controllerEpoch=6, "
            "brokerEpoch=71 to broker 9, since it is offline.",
        )
    ]
    control = listener()
    made.manager.add_broker(broker(9, CONTROLLER=control.port))
    made.ask(9)
    eventually(lambda: made.answers)
    assert len(control.received) == 1


def test_every_channel_ends_with_the_office(
    channels: Callable[..., Channels], listener: Listen
) -> None:
    """Whatever each is at: waiting for work, for an answer, or for its broker to listen. Nothing is
    left of them, and what they had not sent is not sent any more."""
    made = channels()
    idle, silent = listener(), listener()
    silent.flowing.clear()
    ports = {2: idle.port, 3: silent.port, 4: free_port()}
    made.manager.startup(broker(i, CONTROLLER=port) for i, port in ports.items())
    for broker_id in (3, 4):
        made.ask(broker_id, 3)
    eventually(lambda: silent.received)
    threads = list(made.manager._threads.values())
    assert len(threads) == 3
    made.manager.shutdown()
    assert not any(thread.is_alive() for thread in threads)
    assert [n for n in made.metrics.by_mbean() if "broker-id" in n] == []
    assert made.value("TotalQueueSize") == 0
    silent.flowing.set()
    made.manager.startup([broker(3, CONTROLLER=silent.port)])
    made.ask(3)
    eventually(lambda: made.answers == [3])
    assert len(silent.received) == 2, "one before, one after"


def test_nothing_more_is_sent_once_its_broker_is_removed(
    channels: Callable[..., Channels], listener: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the broker answers just then: the thread is told to end before it is waited for, and
    what is still queued is of the past (removeExistingBroker)."""
    made, control = channels(), listener()
    control.flowing.clear()
    made.manager.add_broker(broker(2, CONTROLLER=control.port))
    made.ask(2, 3)
    eventually(lambda: control.received)
    join = RequestSendThread.join

    def answered(thread: RequestSendThread, timeout: float | None = None) -> None:
        control.flowing.set()
        join(thread, 60)

    monkeypatch.setattr(RequestSendThread, "join", answered)
    made.manager.remove_broker(2)
    assert len(control.received) == 1
    assert made.answers == []


@pytest.mark.parametrize("control", [None, "CONTROLLER"])
@pytest.mark.parametrize("others", [0, 1, 2, 5])
@pytest.mark.parametrize("number", [0, 1, 1000])
def test_whom_it_dials_is_up_to_two_names(
    monkeypatch: pytest.MonkeyPatch, control: str | None, others: int, number: int
) -> None:
    """The control listener's and the inter-broker listener's of the controller's own configuration:
    however many listeners there are besides, wherever they stand, whatever its brokers prefer."""
    names = ["CONTROLLER", *(f"L{i}" for i in range(others)), "REPLICATION"]
    given = {
        "broker.id": str(number),
        "zookeeper.connect": "unused:1",
        "listeners": ",".join(f"{name}://:{port}" for port, name in enumerate(names, 1)),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "inter.broker.listener.name": "REPLICATION",
        "request.timeout.ms": "52000",
        "controller.socket.timeout.ms": "41000",
        "replica.socket.timeout.ms": "63000",
    }
    if control:
        given["control.plane.listener.name"] = control
    made: list[Any] = []

    class Thread:
        queue_size = 0

        def __init__(self, *args: Any, **options: Any) -> None:
            made.append((*args, options["request_timeout_ms"], options["socket_timeout_ms"]))

        def start(self) -> None:
            pass

        shutdown = start

    monkeypatch.setattr("nodes.controller.channel_manager.RequestSendThread", Thread)
    manager = ControllerChannelManager(
        BrokerConfig.from_properties(given), Trace(None, 1, 1), Metrics(), now_ns=time.monotonic_ns
    )
    wanted = control or "REPLICATION"
    brokers = [broker(i, **{name: 100 * i + p for p, name in enumerate(names)}) for i in (0, 3, 7)]
    manager.startup(brokers)
    port = names.index(wanted)
    assert made == [
        (number, i, EndPoint(wanted, "PLAINTEXT", "127.0.0.1", 100 * i + port), 52_000, 41_000)
        for i in (0, 3, 7)
    ]
    manager.shutdown()

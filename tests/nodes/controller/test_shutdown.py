"""A broker's own ControlledShutdown, against a controller behind a real socket (KafkaServer's
controlledShutdown)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from nodes.config import BrokerConfig
from nodes.controller.shutdown import controlled_shutdown
from nodes.coordination.errors import SessionClosed, SessionExpired
from nodes.core.brokers import Broker, EndPoint
from nodes.core.errors import Errors
from nodes.wire.apis import ApiKey


def config(broker_id: int, **properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties(
        {
            "broker.id": str(broker_id),
            "zookeeper.connect": "ignored:1",
            "listeners": "PLAINTEXT://127.0.0.1:1",
            "controlled.shutdown.max.retries": "2",
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
    )


class Controller:
    """Broker 1 of a cluster, which answers with the next of `answers` (then with success)."""

    def __init__(self, world: Any) -> None:
        self.fake = world.broker(1)
        self.answers: list[dict[str, Any]] = []
        self.fake._answer = self._answer
        self.fake.zk.register_controller(1)

    def _answer(self, _api_key: int, _entity: Any) -> dict[str, Any]:
        return self.answers.pop(0) if self.answers else {"error_code": 0}

    def asked(self) -> list[tuple[int, int]]:
        requests = self.fake.of(ApiKey.CONTROLLED_SHUTDOWN)
        return [(r.broker_id, r.broker_epoch) for r in requests]


@pytest.fixture
def controller(world: Any) -> Controller:
    return Controller(world)


@pytest.fixture
def leave(world: Any) -> Callable[..., tuple[bool, list[float]]]:
    """Broker 2 takes its leave: whether it was granted, and the pauses between tries."""

    def run(**properties: str) -> tuple[bool, list[float]]:
        pauses_s: list[float] = []
        leaving = world.broker(2)
        done = controlled_shutdown(
            config(2, **properties), leaving.zk, lambda: 42, sleep=pauses_s.append
        )
        return done, pauses_s

    return run


def test_asks_the_controller(controller: Controller, leave: Any) -> None:
    """Once is enough when nothing is left to move."""
    assert leave() == (True, [])
    assert controller.asked() == [(2, 42)]
    assert controller.fake.requests[0][0].api_version == 3


def test_gives_up_without_a_controller(leave: Any) -> None:
    assert leave(controlled_shutdown_max_retries="3") == (False, [5.0, 5.0])


def test_asks_again_until_nothing_is_left(controller: Controller, leave: Any) -> None:
    """What the answer lists is still led by the broker: it must not go yet."""
    left = [{"topic_name": "t", "partition_index": 0}]
    controller.answers = [{"error_code": 0, "remaining_partitions": left}] * 2
    granted, pauses_s = leave(
        controlled_shutdown_max_retries="3", controlled_shutdown_retry_backoff_ms="250"
    )
    assert (granted, pauses_s) == (True, [0.25, 0.25])
    assert controller.asked() == [(2, 42)] * 3


@pytest.mark.parametrize("retries", [0, 1, 3])
def test_is_refused_so_often_and_goes_all_the_same(
    controller: Controller, leave: Any, retries: int
) -> None:
    """``controlled.shutdown.max.retries`` counts the first try, too (``remainingRetries`` in
    KafkaServer.doControlledShutdown), and there is a pause between two tries only."""
    controller.answers = [{"error_code": int(Errors.STALE_BROKER_EPOCH)}] * 9
    granted, pauses_s = leave(controlled_shutdown_max_retries=str(retries))
    assert (granted, pauses_s) == (False, [5.0] * max(0, retries - 1))
    assert controller.asked() == [(2, 42)] * retries


def test_goes_over_the_inter_broker_listener(world: Any, leave: Any) -> None:
    """Not over the control plane, which is for what controllers send (KIP-702 was never merged)."""
    fake = world.broker(3)
    ports = [("CONTROLLER", 9), ("REPLICATION", fake.port), ("CLIENT", 9)]
    endpoints = tuple(EndPoint(name, "PLAINTEXT", "127.0.0.1", port) for name, port in ports)
    zk = world.connect()
    zk.register_broker(Broker(4, endpoints))
    zk.register_controller(4)
    granted, _ = leave(
        listeners="CLIENT://:1,REPLICATION://:2,CONTROLLER://:3",
        listener_security_protocol_map="CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT,"
        "CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="REPLICATION",
        control_plane_listener_name="CONTROLLER",
    )
    assert granted
    assert len(fake.of(ApiKey.CONTROLLED_SHUTDOWN)) == 1


def test_each_timeout_is_for_its_own(
    controller: Controller, leave: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dial may take ``controller.socket.timeout.ms``, an answer ``request.timeout.ms``."""
    seen: list[float | None] = []
    from nodes.controller import shutdown

    class Connection(shutdown.Connection):
        def connect(self, timeout_s: float | None = None) -> None:
            assert self.client_id == "2"
            seen.append(timeout_s)
            super().connect(timeout_s)

        def request(self, entity: Any, timeout_s: float | None = None) -> Any:
            seen.append(self.timeout_s if timeout_s is None else timeout_s)
            return super().request(entity, timeout_s)

    monkeypatch.setattr(shutdown, "Connection", Connection)
    granted, _ = leave(controller_socket_timeout_ms="41000", request_timeout_ms="52000")
    assert granted
    assert seen == [41, 52]


class Zk:
    """As much of ZooKeeper as is looked up, anew for each try. `steps`: what the look for the
    controller answers or raises, one after the other; the last one stays."""

    def __init__(self, *steps: Any, brokers: dict[int, Broker] | None = None) -> None:
        self.steps = list(steps)
        self.brokers = brokers or {}
        self.is_connected = True

    def get_controller_id(self) -> int | None:
        assert self.is_connected, "this would wait until it is"
        step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
        if isinstance(step, Exception):
            raise step
        found: int | None = step
        return found

    def get_broker(self, broker_id: int) -> Broker | None:
        return self.brokers.get(broker_id)


def registered(broker_id: int, port: int, listener: str = "PLAINTEXT") -> Broker:
    return Broker(broker_id, (EndPoint(listener, "PLAINTEXT", "127.0.0.1", port),))


def test_every_try_looks_for_the_controller_and_says_who_it_is_now(world: Any) -> None:
    """The office may have moved, and the broker's session may have been a new one, since."""
    first, second = world.broker(1), world.broker(3)
    first._answer = lambda *_: {"error_code": int(Errors.STALE_CONTROLLER_EPOCH)}
    brokers = {1: registered(1, first.port), 3: registered(3, second.port)}
    epochs = iter([42, 43])
    done = controlled_shutdown(
        config(2), cast(Any, Zk(1, 3, brokers=brokers)), lambda: next(epochs), sleep=lambda _: None
    )
    assert done
    asked = [f.of(ApiKey.CONTROLLED_SHUTDOWN) for f in (first, second)]
    assert [[r.broker_epoch for r in each] for each in asked] == [[42], [43]]


UNREACHABLE = {1: registered(1, 1), 4: registered(4, 9, "OTHER")}


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(SessionExpired(), id="session over"),
        pytest.param(SessionClosed(), id="client closed"),
        pytest.param(None, id="no controller"),
        pytest.param(1, id="nobody listens there"),
        pytest.param(4, id="not on the inter-broker listener"),
        pytest.param(9, id="not registered"),
    ],
)
def test_what_stands_in_the_way_is_tried_again(world: Any, step: Any) -> None:
    """Whatever it is: a pause, then once more."""
    fake = world.broker(7)
    zk = Zk(step, 7, brokers={**UNREACHABLE, 7: registered(7, fake.port)})
    pauses_s: list[float] = []
    assert controlled_shutdown(config(2), cast(Any, zk), lambda: 42, sleep=pauses_s.append)
    assert pauses_s == [5.0]
    assert len(fake.of(ApiKey.CONTROLLED_SHUTDOWN)) == 1


def test_without_zookeeper_nobody_is_waited_for() -> None:
    """It goes unclean, after its tries, and not when ZooKeeper comes back."""
    zk = Zk(1)
    zk.is_connected = False
    pauses_s: list[float] = []
    assert not controlled_shutdown(config(2), cast(Any, zk), lambda: 42, sleep=pauses_s.append)
    assert pauses_s == [5.0]

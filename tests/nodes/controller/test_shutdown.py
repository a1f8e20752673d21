"""A broker's own ControlledShutdown, against a controller behind a real socket (KafkaServer's
controlledShutdown)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nodes.config import BrokerConfig
from nodes.controller.shutdown import controlled_shutdown
from nodes.core.brokers import Broker, EndPoint
from nodes.core.errors import Errors
from nodes.wire.apis import ApiKey


def config(broker_id: int, **properties: str) -> BrokerConfig:
    return BrokerConfig.from_properties(
        {
            "broker.id": str(broker_id),
            "zookeeper.connect": "ignored:1",
            "listeners": "PLAINTEXT://127.0.0.1:1",
            "controlled.shutdown.max.retries": "1",
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
    assert leave(controlled_shutdown_max_retries="2") == (False, [5.0, 5.0])


def test_asks_again_until_nothing_is_left(controller: Controller, leave: Any) -> None:
    """What the answer lists is still led by the broker: it must not go yet."""
    left = [{"topic_name": "t", "partition_index": 0}]
    controller.answers = [{"error_code": 0, "remaining_partitions": left}] * 2
    granted, pauses_s = leave(
        controlled_shutdown_max_retries="3", controlled_shutdown_retry_backoff_ms="250"
    )
    assert (granted, pauses_s) == (True, [0.25, 0.25])
    assert controller.asked() == [(2, 42)] * 3


@pytest.mark.parametrize("retries", [0, 3])
def test_is_refused_once_and_for_each_retry(
    controller: Controller, leave: Any, retries: int
) -> None:
    """``controlled.shutdown.max.retries`` come after the first try; then it goes all the same."""
    controller.answers = [{"error_code": int(Errors.STALE_BROKER_EPOCH)}] * 9
    granted, pauses_s = leave(controlled_shutdown_max_retries=str(retries))
    assert (granted, pauses_s) == (False, [5.0] * retries)
    assert controller.asked() == [(2, 42)] * (1 + retries)


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


def test_waits_for_an_answer_as_long_as_configured(
    controller: Controller, leave: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``controller.socket.timeout.ms``."""
    seen: list[float] = []
    from nodes.controller import shutdown

    class Connection(shutdown.Connection):
        def __init__(self, host: str, port: int, client_id: str, timeout_s: float) -> None:
            seen.append(timeout_s)
            assert client_id == "2"
            super().__init__(host, port, client_id, timeout_s)

    monkeypatch.setattr(shutdown, "Connection", Connection)
    granted, _ = leave(controller_socket_timeout_ms="41000", request_timeout_ms="52000")
    assert granted
    assert seen == [41]

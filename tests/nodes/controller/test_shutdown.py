"""A broker's own ControlledShutdown, against a controller behind a real socket."""

from __future__ import annotations

from nodes.config import BrokerConfig
from nodes.controller.shutdown import controlled_shutdown
from nodes.wire.apis import ApiKey


def config(broker_id: int, retries: int = 1) -> BrokerConfig:
    return BrokerConfig.from_properties(
        {
            "broker.id": str(broker_id),
            "zookeeper.connect": "ignored:1",
            "listeners": "PLAINTEXT://127.0.0.1:1",
            "controlled.shutdown.max.retries": str(retries),
        }
    )


def test_asks_the_controller(world, wait_until):
    controller = world.node(1)
    controller.controller.startup()
    wait_until(lambda: controller.controller.is_active)
    leaving = world.broker(2)
    assert controlled_shutdown(config(2), leaving.zk, lambda: 42)
    (request,) = controller.fake.of(ApiKey.CONTROLLED_SHUTDOWN)
    assert (request.broker_id, request.broker_epoch) == (2, 42)


def test_gives_up_without_a_controller(world):
    waits = []
    leaving = world.broker(2)
    assert not controlled_shutdown(config(2, 2), leaving.zk, lambda: 1, sleep=waits.append)
    assert waits == [5.0, 5.0]

"""An active controller under test, and the brokers that it sees: registrations whose every listener
is a socket of its own."""

from __future__ import annotations

import itertools
from typing import Any

from nodes.wire.apis import ApiKey
from tests.kip291.control_listener import ControlListener
from tests.kip291.parts import eventually
from tests.kip291.registry import Registry

NAMES = ("CONTROLLER", "REPLICATION", "CLIENT")
IDS = itertools.count(100)
_topics = itertools.count()


class Controller:
    """An active controller (broker 1, dual planes), and the cluster it sees."""

    def __init__(self, broker: Any, registry: Registry) -> None:
        self.broker, self.registry = broker, registry
        self._sockets: list[ControlListener] = []
        self._registered: set[int] = set()

    def listener(self) -> ControlListener:
        self._sockets.append(ControlListener())
        return self._sockets[-1]

    def join(self, *names: str, broker_id: int | None = None) -> Broker:
        """A broker with these listeners, in this order, registers."""
        broker = Broker(
            next(IDS) if broker_id is None else broker_id, {n: self.listener() for n in names}
        )
        pairs = [(name, each.port) for name, each in broker.listeners.items()]
        self.registry.register(broker.id, pairs)
        self._registered.add(broker.id)
        return broker

    def settle(self, broker: Broker, name: str = "CONTROLLER") -> ControlListener:
        """The broker's control socket, once everything that was due to it has come: a marker
        topic's UpdateMetadata is behind all that."""
        marker = self.topic(broker.id)
        control = broker[name]
        eventually(lambda: any(marker in names_of(r) for r in control.of(ApiKey.UPDATE_METADATA)))
        return control

    def leave(self, broker: Broker) -> None:
        self.registry.unregister(broker.id)
        self._registered.discard(broker.id)

    def topic(self, *replicas: int) -> str:
        name = f"topic-{next(_topics)}"
        self.registry.create_topic(name, [replicas])
        return name

    def clear(self) -> None:
        for broker_id in self._registered:
            self.registry.unregister(broker_id)
        self._registered.clear()
        for each in self._sockets:
            each.close()


class Broker:
    """See `Controller.join`."""

    def __init__(self, broker_id: int, listeners: dict[str, ControlListener]) -> None:
        self.id, self.listeners = broker_id, listeners

    def __getitem__(self, name: str) -> ControlListener:
        return self.listeners[name]

    def until_told(self, name: str) -> None:
        eventually(
            lambda: self.listeners[name].of(ApiKey.UPDATE_METADATA), f"{self.id} told at {name}"
        )

    def dialled(self) -> set[str]:
        return {name for name, each in self.listeners.items() if each.connections}


def names_of(received: Any) -> set[str]:
    """The topics that a request is about."""
    return {str(topic.topic_name) for topic in received.entity.topic_states}

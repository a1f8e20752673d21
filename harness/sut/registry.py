"""Systems under test by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from harness.sut.dualplane import DualPlaneServer
from harness.sut.kafka_kraft import KafkaKraft
from harness.sut.kafka_zk import KafkaZk
from harness.sut.protocol import SystemUnderTest

SYSTEMS: Final[Mapping[str, Callable[[], SystemUnderTest]]] = {
    DualPlaneServer.name: DualPlaneServer,
    KafkaZk.name: KafkaZk,
    KafkaKraft.name: KafkaKraft,
}


class UnknownSystem(ValueError):
    """The message names what is allowed."""


def get(name: str) -> SystemUnderTest:
    try:
        return SYSTEMS[name]()
    except KeyError:
        allowed = ", ".join(SYSTEMS)
        raise UnknownSystem(f"unknown system under test {name!r}; allowed: {allowed}") from None

"""Brokers for the tests of KIP-291. Every broker of a test is stopped after it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kip291.control_listener import ControlListener
from tests.kip291.parts import RunningBroker

_names = itertools.count()


@pytest.fixture
def start(
    zookeeper: str, zookeeper_chroot: str, tmp_path: Path
) -> Iterator[Callable[..., RunningBroker]]:
    """`start("dual")` or `start("single")`; keywords are configs with underscores for dots. Brokers
    of one test are one cluster. `folder` names the directory, for one that comes back."""
    started: list[RunningBroker] = []

    def make(planes: str, folder: str = "", **properties: str) -> RunningBroker:
        if planes == "dual":
            properties.setdefault("control_plane_listener_name", "CONTROLLER")
        name = folder or f"broker-{next(_names)}"
        broker = RunningBroker(zookeeper + zookeeper_chroot, tmp_path / name, **properties)
        started.append(broker)
        broker.until_told()
        return broker

    yield make
    for broker in reversed(started):
        broker.stop()


@pytest.fixture
def listener() -> Iterator[Callable[[], ControlListener]]:
    made: list[ControlListener] = []

    def make() -> ControlListener:
        made.append(ControlListener())
        return made[-1]

    yield make
    for each in made:
        each.close()

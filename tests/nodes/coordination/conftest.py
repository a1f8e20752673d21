"""Clients of the real ZooKeeper, or of its tree in memory, closed at the end of a test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from nodes.coordination import zk as zk_module
from nodes.coordination.zk import KafkaZkClient
from tests.nodes.controller.memory import MemoryZooKeeper, SharedSession

Connect = Callable[..., KafkaZkClient]


@pytest.fixture
def connect(connect_to_server: Connect) -> Connect:
    return connect_to_server


@pytest.fixture
def connect_to_server(zookeeper: str, zookeeper_chroot: str) -> Iterator[Connect]:
    """Make a started client; all clients of one test share a chroot."""
    clients: list[KafkaZkClient] = []

    def make(
        address: str = zookeeper, session_timeout_ms: int = 30_000, **options: bool
    ) -> KafkaZkClient:
        client = KafkaZkClient(address + zookeeper_chroot, session_timeout_ms, **options)
        clients.append(client)
        client.start()
        return client

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def connect_in_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    tree = MemoryZooKeeper()
    tree.now_ms = lambda: time.time_ns() // 1_000_000
    monkeypatch.setattr(zk_module, "ZooKeeperSession", lambda *_, **__: SharedSession(tree))
    clients: list[KafkaZkClient] = []

    def make(**options: bool) -> KafkaZkClient:
        clients.append(KafkaZkClient("memory:1", 30_000, **options))
        clients[-1].start()
        return clients[-1]

    yield make
    for client in clients:
        client.close()


SERVER = pytest.param("server", marks=pytest.mark.zookeeper)
"""For tests of what the tree in memory does not have."""


@pytest.fixture(params=["in memory", SERVER])
def connect_to_either(request: pytest.FixtureRequest) -> Connect:
    name = "connect_in_memory" if request.param == "in memory" else "connect_to_server"
    made: Connect = request.getfixturevalue(name)
    return made


@pytest.fixture
def zk(connect: Connect) -> KafkaZkClient:
    return connect()

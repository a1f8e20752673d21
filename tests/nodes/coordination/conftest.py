"""Clients of the real ZooKeeper, closed at the end of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from nodes.coordination.zk import KafkaZkClient

Connect = Callable[..., KafkaZkClient]


@pytest.fixture
def connect(zookeeper: str, zookeeper_chroot: str) -> Iterator[Connect]:
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
def zk(connect: Connect) -> KafkaZkClient:
    return connect()

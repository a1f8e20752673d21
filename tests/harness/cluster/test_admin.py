"""What an administrator does in ZooKeeper itself."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest
from kazoo.client import KazooClient

from faults.protocol import FaultFailed
from harness.cluster.admin import ClusterAdmin

_CONTROLLER = "/kafka/controller"


def test_a_controller_is_removed_and_may_be_gone_already(zookeeper: str) -> None:
    nothing: Any = None
    with closing(KazooClient(zookeeper)) as client:
        client.start()
        try:
            client.create(_CONTROLLER, b"{}", makepath=True)
            admin = ClusterAdmin(nothing, nothing, client)
            admin.remove_controller()
            assert client.exists(_CONTROLLER) is None
            admin.remove_controller()
        finally:
            client.stop()


def test_without_zookeeper_there_is_nothing_to_remove() -> None:
    nothing: Any = None
    with pytest.raises(FaultFailed, match="no ZooKeeper"):
        ClusterAdmin(nothing, nothing).remove_controller()

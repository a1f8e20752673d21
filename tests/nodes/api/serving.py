"""A node of `conftest` behind a real listener."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nodes.api.parse import parse
from nodes.metrics import Metrics
from nodes.network.socket_server import SocketServer


@contextmanager
def serving(node: Any) -> Iterator[int]:
    """The port. The node was made with a listener of any free port, as `ANY_PORT` asks for."""
    server = SocketServer(node.config, parse, Metrics())
    node.port = server.bind()["PLAINTEXT"].port
    node.live_brokers = [node.own_broker()]
    node.update_metadata([])
    server.start_handlers(node.apis.handle)
    server.enable_request_processing()
    try:
        yield node.port
    finally:
        server.stop_processing_requests()
        server.shutdown()


ANY_PORT = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "num.network.threads": "1",
    "num.io.threads": "2",
}

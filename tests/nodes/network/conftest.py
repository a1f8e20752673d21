"""A socket server without a broker behind it; frames are ``i16 api key, i32 correlation id``."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nodes.config import BrokerConfig
from nodes.metrics import Metrics
from nodes.network.processor import AnswerAtOnce
from nodes.network.request_channel import Request
from nodes.network.socket_server import SocketServer

PATIENCE_S = 60.0
"""What a busy machine may take for anything; a broken server takes for ever."""


def parse(frame: bytes) -> tuple[Any, bytes]:
    api_key, correlation_id = struct.unpack_from(">hi", frame)
    if api_key == 99:
        raise AnswerAtOnce(frame_of(b"at once"))
    if api_key < 0:
        raise ValueError("negative api key")
    header = SimpleNamespace(
        api_key=api_key, api_version=0, correlation_id=correlation_id, client_id="t", body_offset=6
    )
    return header, frame[6:]


def frame_of(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def request(api_key: int, correlation_id: int, body: bytes = b"") -> bytes:
    return frame_of(struct.pack(">hi", api_key, correlation_id) + body)


def echo(req: Request) -> None:
    req.respond(frame_of(req.correlation_id.to_bytes(4, "big") + req.body))


class Client:
    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.settimeout(PATIENCE_S)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data

    def answer(self) -> bytes:
        return self._read(int.from_bytes(self._read(4), "big"))

    def is_closed_by_peer(self) -> bool:
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.socket.close()


class Running:
    """A started server; `handle` may be replaced while it runs."""

    def __init__(self, properties: dict[str, str], now_ns: Callable[[], int]) -> None:
        self.config = BrokerConfig.from_properties(
            {
                "broker.id": "1",
                "zookeeper.connect": "unused:1",
                "listeners": "DATA://127.0.0.1:0",
                "listener.security.protocol.map": "DATA:PLAINTEXT,CONTROL:PLAINTEXT",
                "inter.broker.listener.name": "DATA",
                "num.network.threads": "1",
                "num.io.threads": "1",
                "biplane.control.priority": "false",
                **properties,
            }
        )
        self.metrics = Metrics()
        self.handle: Callable[[Request], None] = echo
        self.server = SocketServer(self.config, parse, self.metrics, now_ns=now_ns)
        self.ports = {name: e.port for name, e in self.server.bind().items()}
        self.server.start_handlers(self._handle)
        self.server.enable_request_processing()
        self._clients: list[Client] = []

    def _handle(self, req: Request) -> None:
        self.handle(req)

    def client(self, listener: str = "DATA") -> Client:
        client = Client(self.ports[listener])
        self._clients.append(client)
        return client

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        self.server.stop_processing_requests()
        self.server.shutdown()


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    running: list[Running] = []

    def make(now_ns: Callable[[], int] = time.monotonic_ns, **properties: str) -> Running:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        running.append(Running(named, now_ns))
        return running[-1]

    yield make
    for server in running:
        server.stop()


def eventually(condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        pause.wait(0.002)


@pytest.fixture
def wire() -> SimpleNamespace:
    """The helpers, for tests that cannot import this module."""
    return SimpleNamespace(
        request=request, frame_of=frame_of, echo=echo, eventually=eventually, patience_s=PATIENCE_S
    )


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long acceptors would have paused (s). The clock is theirs alone: other threads sleep."""
    found: list[float] = []
    own = SimpleNamespace(sleep=found.append, monotonic_ns=time.monotonic_ns)
    monkeypatch.setattr("nodes.network.acceptor.time", own)
    return found

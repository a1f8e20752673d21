"""What the tests of KIP-291 share: a whole broker in this process, and connections to it.

`RunningBroker` is the real composition (`nodes.broker.KafkaServer`) on a real ZooKeeper. The one
thing put in is a `Gate` in front of its request handlers: it writes down what they begin to
handle, and can hold a plane's handlers, as a slow disk would.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nodes.api.apis import KafkaApis
from nodes.broker import KafkaServer
from nodes.config import BrokerConfig
from nodes.wire.apis import ApiKey
from nodes.wire.codec import (
    decode_response,
    encode_request,
)

PATIENCE_S = 60.0
MAP = "CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT"


def eventually(
    condition: Callable[[], object], what: str = "", timeout_s: float = PATIENCE_S
) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"did not come true: {what or condition}"
        time.sleep(0.005)


# ---- the broker ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that a handler began with."""

    plane: str
    listener: str
    api: ApiKey
    client_id: str | None
    correlation_id: int
    thread: str


class Gate:
    """In front of a broker's handlers. Any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[str] = set()
        self._running: Counter[str] = Counter()
        self._permits: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        """The most requests of a plane that were ever handled at once."""
        self.seen: list[Seen] = []

    def hold(self, plane: str) -> None:
        with self._changed:
            self._held.add(plane)

    def release(self, plane: str | None = None) -> None:
        with self._changed:
            self._held -= {plane} if plane else {"data", "control"}
            self._changed.notify_all()

    def let_one(self, plane: str) -> None:
        """One held request may go on."""
        with self._changed:
            self._permits[plane] += 1
            self._changed.notify_all()

    def running(self, plane: str) -> int:
        return self._running[plane]

    def clients(self, plane: str, prefix: str = "") -> list[str]:
        """Client ids in the order in which their requests were begun with."""
        return [
            str(s.client_id)
            for s in list(self.seen)
            if s.plane == plane and str(s.client_id).startswith(prefix)
        ]

    def around(self, request: Any, handle: Callable[[Any], None]) -> None:
        plane = request.plane
        seen = Seen(
            plane,
            request.listener,
            ApiKey(request.api_key),
            request.client_id,
            request.correlation_id,
            threading.current_thread().name,
        )
        with self._changed:
            self.seen.append(seen)
            self._running[plane] += 1
            self.most[plane] = max(self.most[plane], self._running[plane])
            self._changed.wait_for(
                lambda: plane not in self._held or self._permits[plane] > 0, 4 * PATIENCE_S
            )
            self._permits[plane] = max(0, self._permits[plane] - 1)
        try:
            handle(request)
        finally:
            with self._changed:
                self._running[plane] -= 1


class RunningBroker:
    """Started when made. `ports` by listener name."""

    def __init__(self, zookeeper: str, folder: Path, **properties: str) -> None:
        given = {name.replace("_", "."): value for name, value in properties.items()}
        self.folder = folder
        merged = {
            "broker.id": "1",
            "zookeeper.connect": zookeeper,
            "listeners": "CONTROLLER://127.0.0.1:0,REPLICATION://127.0.0.1:0,CLIENT://127.0.0.1:0",
            "listener.security.protocol.map": MAP,
            "inter.broker.listener.name": "REPLICATION",
            "log.dirs": str(folder / "data"),
            "log.index.size.max.bytes": "65536",
            "auto.create.topics.enable": "false",
            "auto.leader.rebalance.enable": "false",
            "controlled.shutdown.enable": "false",
            "num.network.threads": "1",
            "num.io.threads": "1",
            "zookeeper.session.timeout.ms": "30000",
            "biplane.control.priority": "false",
            "biplane.data.home.core": "false",
            "biplane.trace.path": str(folder / "trace.jsonl"),
            **given,
        }
        self.properties = {name: value for name, value in merged.items() if value}
        self.gate = gate = Gate()

        class GatedApis(KafkaApis):
            def handle(self, request: Any) -> None:
                gate.around(request, super().handle)

        folder.mkdir(parents=True, exist_ok=True)
        self.server = KafkaServer(BrokerConfig.from_properties(self.properties))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nodes.broker.KafkaApis", GatedApis)
            try:
                self.server.startup()
            except BaseException:
                self.server.shutdown()
                raise
        self.id = self.server.config.broker_id
        self.ports = {e.name: e.port for e in self.server.config.listeners}
        self._clients: list[Client] = []

    @property
    def is_dual(self) -> bool:
        return "control.plane.listener.name" in self.properties

    @property
    def controllers_port(self) -> int:
        """Where a controller with this broker's own configuration would dial it."""
        return self.ports["CONTROLLER" if self.is_dual else "REPLICATION"]

    def client(self, client_id: str = "client", port: int | str = "CLIENT") -> Client:
        made = Client(self.ports[port] if isinstance(port, str) else port, client_id)
        self._clients.append(made)
        return made

    def controller(self, client_id: str = "controller") -> Client:
        return self.client(client_id, self.controllers_port)

    def mbeans(self, part: str = "") -> dict[str, dict[str, float | None]]:
        """What the broker's own page says, read over HTTP."""
        url = (self.folder / "data" / "metrics.url").read_text().strip()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{url}/mbeans?name={urllib.request.quote(part)}", timeout=60) as answer:
            found: dict[str, dict[str, float | None]] = json.load(answer)
        return found

    def value(self, mbean: str, attribute: str = "Value") -> float | None:
        return self.mbeans(mbean)[mbean][attribute]

    def queue_size(self, plane: str) -> float | None:
        prefix = "ControlPlane" if plane == "control" else ""
        return self.value(f"kafka.network:type=RequestChannel,name={prefix}RequestQueueSize")

    def until_told(self) -> None:
        """Until its own controller has told it of itself, and nothing is under way."""
        eventually(lambda: any(s.api is ApiKey.UPDATE_METADATA for s in self.gate.seen))
        eventually(lambda: not self.gate.running("data") and not self.gate.running("control"))

    def stop(self) -> None:
        self.gate.release()
        for client in self._clients:
            client.close()
        self.server.shutdown()


# ---- who speaks to it ----------------------------------------------------------------------------


class Client:
    """One connection; sending and reading apart, so that a test can do something in between."""

    def __init__(self, port: int, client_id: str) -> None:
        self.client_id = client_id
        self._sent: list[tuple[int, Any]] = []
        self._next = 1
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.settimeout(PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @property
    def own_port(self) -> int:
        return int(self.socket.getsockname()[1])

    def send(self, entity: Any) -> Client:
        self.socket.sendall(encode_request(entity, self._next, self.client_id))
        self._sent.append((self._next, entity))
        self._next += 1
        return self

    def answer(self, timeout_s: float = PATIENCE_S) -> Any:
        self.socket.settimeout(timeout_s)
        correlation_id, entity = self._sent.pop(0)
        size = int.from_bytes(self._read(4), "big")
        answered, response = decode_response(
            entity.__api_key__, entity.__version__, self._read(size)
        )
        assert answered == correlation_id
        return response

    def ask(self, entity: Any) -> Any:
        return self.send(entity).answer()

    def has_answer(self) -> bool:
        """Whether anything has come in, without taking it."""
        self.socket.settimeout(0)
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return False

    def close(self) -> None:
        self.socket.close()

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            chunk = self.socket.recv(count - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data


def unread_bytes(client: Client) -> int:
    """What the client has sent and its broker has not read, as the kernel counts it."""
    server_port = client.socket.getpeername()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        local, remote = (int(f.rpartition(":")[2], 16) for f in fields[1:3])
        if (local, remote) == (server_port, client.own_port):
            return int(fields[4].rpartition(":")[2], 16)
    raise LookupError("the connection is not in /proc/net/tcp")


def waiting_to_be_accepted(port: int) -> int:
    """Connections that the kernel has made and nobody has taken from it."""
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == "0A":
            return int(fields[4].rpartition(":")[2], 16)
    raise LookupError("nobody listens there")

"""The load counts whole answers, and those with an error, however the bytes come."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from benchmarks.load import LoadSpec, result, running

REQUEST = b"\0\0\0\4ping"
FINE = b"\0\0\0\6\0\0\0\1\0\0"
ERROR = b"\0\0\0\6\0\0\0\1\0\3"
ERROR_AT = 8
SECONDS = 1.5
"""Long enough for some answers, however busy the machine is."""


class Server:
    """Answers each connection's requests: the second half of the connections gets errors."""

    def __init__(self, connections: int, in_pieces: bool) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        self._connections = connections
        self._in_pieces = in_pieces
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        for index in range(self._connections):
            client, _ = self.socket.accept()
            answer = FINE if index < self._connections // 2 else ERROR
            thread = threading.Thread(target=self._answer, args=(client, answer))
            self._threads.append(thread)
            thread.start()

    def _answer(self, client: socket.socket, answer: bytes) -> None:
        with client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                while client.recv(len(REQUEST), socket.MSG_WAITALL) == REQUEST:
                    if self._in_pieces:
                        client.send(answer[:3])
                        client.send(answer[3:])
                    else:
                        client.send(answer)
            except ConnectionError:
                pass

    def close(self) -> None:
        for thread in self._threads:
            thread.join(60)
        self.socket.close()


@pytest.fixture(params=[False, True], ids=["whole", "in pieces"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    made = Server(4, request.param)
    yield made
    made.close()


def test_answers_and_errors_are_counted(server: Server) -> None:
    spec = LoadSpec(
        port=server.port,
        connections=4,
        seconds=SECONDS,
        warmup_seconds=0.0,
        frames_hex=[REQUEST.hex()],
        error_at=ERROR_AT,
    )
    with running(spec) as load:
        said = result(load)
    assert said["per_second"] > 0
    if server._in_pieces:
        return  # what is put together is counted, not looked into
    assert 0 < said["errors"] < said["per_second"] * SECONDS + spec.connections

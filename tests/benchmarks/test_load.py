"""The load counts whole answers, and those with an error, however the bytes come."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from benchmarks.load import LoadSpec, _Client, result, running

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


@pytest.mark.slow
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


@pytest.mark.parametrize("step", [1, 2, 3, 5, 7, 64, 1000])
def test_answers_are_counted_however_they_are_cut(step: int) -> None:
    """Of one that is cut nothing is kept but how much is missing."""
    sizes = [0, 1, 6, 300, 0, 40]
    data = b"".join(size.to_bytes(4, "big") + b"\x07" * size for size in sizes)
    client = _Client.__new__(_Client)
    client.head, client.left = b"", 0
    counted = 0
    for start in range(0, len(data), step):
        counted += client.count_answers(data[start : start + step])
        ended = at = 0
        for size in sizes:
            at += 4 + size
            ended += at <= start + step
        assert counted == ended
        assert len(client.head) < 4
    assert counted == len(sizes)
    assert client.is_between_answers


@pytest.mark.slow
def test_a_flood_of_connections_dials_anew_for_each_request() -> None:
    accepted = 0
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)

        def serve() -> None:
            nonlocal accepted
            with contextlib.suppress(OSError):  # the load has ended, wherever it was
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.settimeout(30)
                        if client.recv(len(REQUEST), socket.MSG_WAITALL) != REQUEST:
                            return
                        accepted += 1
                        client.sendall(FINE)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        spec = LoadSpec(
            port=listener.getsockname()[1],
            connections=1,
            seconds=SECONDS,
            warmup_seconds=0.0,
            frames_hex=[REQUEST.hex()],
            redial=True,
        )
        with running(spec) as load:
            said = result(load)
        assert 0 < said["per_second"] * SECONDS <= accepted
        assert said["errors"] == 0

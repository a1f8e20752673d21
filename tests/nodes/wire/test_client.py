"""The blocking client against a peer that behaves, and peers that do not."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from nodes.wire import codec
from nodes.wire.apis import ApiKey, request_class, response_class
from nodes.wire.client import Connection, ConnectionFailed, RequestTimedOut
from nodes.wire.codec import WireError, build

METADATA = build(request_class(ApiKey.METADATA, 9), topics=None)
ANSWER = build(response_class(ApiKey.METADATA, 9), cluster_id="c", topics=[{"name": "x" * 30000}])


def receive(peer: socket.socket) -> bytes:
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">i", data[:4])[0]:
        more = peer.recv(65536)
        if not more:
            return b""
        data += more
    return data[4:]


def answer(peer: socket.socket) -> None:
    while frame := receive(peer):
        header = codec.parse_header(frame)
        codec.parse_body(header, frame)
        peer.sendall(codec.encode_response(ApiKey.METADATA, 9, header.correlation_id, ANSWER))


@contextmanager
def server(behave: Callable[[socket.socket], None]) -> Iterator[int]:
    """Accepts connections one after the other and lets `behave` have each."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer, suppress(OSError):
                    behave(peer)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(60)


def test_requests_and_answers() -> None:
    with server(answer) as port, Connection("127.0.0.1", port, "me", 60) as connection:
        assert not connection.is_connected
        assert connection.request(METADATA) == ANSWER
        assert connection.request(METADATA) == ANSWER
        assert connection.last_correlation_id == 2
        raw = connection.send_raw(codec.encode_request(METADATA, 99, None))
        assert codec.decode_response(ApiKey.METADATA, 9, raw)[0] == 99


def test_sockets_have_kafkas_options() -> None:
    """Selector.configureSocketChannel: nothing small is held back, and who is gone is found out."""
    with server(answer) as port, Connection("127.0.0.1", port, timeout_s=60) as connection:
        connection.connect()
        assert connection._socket is not None
        assert connection._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert connection._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def test_time_out_closes_the_connection() -> None:
    release = threading.Event()
    with server(lambda peer: bool(release.wait(60)) or None) as port:
        connection = Connection("127.0.0.1", port, "me", 60)
        with pytest.raises(RequestTimedOut):
            connection.request(METADATA, timeout_s=0.05)
        assert not connection.is_connected
        release.set()


def test_reconnects_after_the_peer_closed() -> None:
    def once(peer: socket.socket) -> None:
        header = codec.parse_header(receive(peer))
        peer.sendall(codec.encode_response(ApiKey.METADATA, 9, header.correlation_id, ANSWER))

    with server(once) as port, Connection("127.0.0.1", port, "me", 60) as connection:
        assert connection.request(METADATA) == ANSWER
        with pytest.raises(ConnectionFailed):
            connection.request(METADATA)
        assert connection.request(METADATA) == ANSWER


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (struct.pack(">i", -5), ConnectionFailed),
        (struct.pack(">i", 2**31 - 1), ConnectionFailed),
        (struct.pack(">i", 100) + b"short", ConnectionFailed),
        (codec.encode_response(ApiKey.METADATA, 9, 4711, ANSWER), WireError),
        (struct.pack(">iib", 5, 1, 0), WireError),
    ],
    ids=["negative", "huge", "cut", "other correlation id", "no body"],
)
def test_wrong_answers_close_the_connection(reply: bytes, error: type[Exception]) -> None:
    def behave(peer: socket.socket) -> None:
        receive(peer)
        peer.sendall(reply)

    with server(behave) as port, Connection("127.0.0.1", port, "me", 60) as connection:
        with pytest.raises(error):
            connection.request(METADATA)
        assert not connection.is_connected


def test_refused_and_closed() -> None:
    with socket.socket() as nobody:  # it has the port, and does not listen
        nobody.bind(("127.0.0.1", 0))
        connection = Connection("127.0.0.1", nobody.getsockname()[1], "me", 60)
        with pytest.raises(ConnectionFailed):
            connection.request(METADATA)
    connection.close()
    with pytest.raises(ConnectionFailed, match="was closed"):
        connection.request(METADATA)


def test_close_wakes_a_waiting_request() -> None:
    asked = threading.Event()
    release = threading.Event()

    def behave(peer: socket.socket) -> None:
        receive(peer)
        asked.set()
        release.wait(60)

    with server(behave) as port:
        connection = Connection("127.0.0.1", port, "me", 600)
        caught: list[BaseException] = []

        def ask() -> None:
            try:
                connection.request(METADATA)
            except ConnectionFailed as error:
                caught.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert asked.wait(60)
        connection.close()
        thread.join(60)
        release.set()
        assert len(caught) == 1


def test_unsupported_api_versions_answer_is_read_as_version_0() -> None:
    def behave(peer: socket.socket) -> None:
        receive(peer)
        body = build(response_class(ApiKey.API_VERSIONS, 0), error_code=35)
        peer.sendall(codec.encode_response(ApiKey.API_VERSIONS, 0, 1, body))

    with server(behave) as port, Connection("127.0.0.1", port, "me", 60) as connection:
        answered = connection.request(build(request_class(ApiKey.API_VERSIONS, 3)))
        assert int(answered.error_code) == 35

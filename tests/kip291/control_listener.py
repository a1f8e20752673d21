"""Brokers that exist as listening sockets only: they take in what controllers send."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nodes.wire.apis import ApiKey, response_class
from nodes.wire.codec import build, encode_response, parse_body, parse_header
from tests.kip291.parts import PATIENCE_S


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came in at a `ControlListener`."""

    at_ns: int
    connection: int
    """Which of the listener's connections, from 1."""
    header: Any
    entity: Any

    @property
    def api(self) -> ApiKey:
        return ApiKey(self.header.api_key)


class ControlListener:
    """A listening socket that answers "no error" to what controllers send, and remembers it.

    `answer_with` may be replaced: it gets a `Received` and says what is sent back: the right
    answer's frame as it is or changed, or None to close the connection.
    """

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.connections = 0
        self.received: list[Received] = []
        self.answer_with: Callable[[Received, bytes], bytes | None] = lambda _, frame: frame
        self.flowing = threading.Event()
        self.flowing.set()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def of(self, api: ApiKey) -> list[Received]:
        return [r for r in list(self.received) if r.api is api]

    def close(self) -> None:
        self._server.close()
        self.flowing.set()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            args = (connection, self.connections)
            threading.Thread(target=self._serve, args=args, daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as stream, contextlib.suppress(OSError):
            while size := stream.read(4):
                frame = stream.read(struct.unpack(">i", size)[0])
                header = parse_header(frame)
                received = Received(time.monotonic_ns(), number, header, parse_body(header, frame))
                self.received.append(received)
                self.flowing.wait(2 * PATIENCE_S)
                answer = self.answer_with(received, _no_error(received))
                if answer is None:
                    return
                connection.sendall(answer)


def _no_error(received: Received) -> bytes:
    header, entity = received.header, received.entity
    fields: dict[str, Any] = {"error_code": 0}
    if received.api is ApiKey.LEADER_AND_ISR:
        fields["topics"] = [
            {
                "topic_id": topic.topic_id,
                "partition_errors": [
                    {"partition_index": p.partition_index, "error_code": 0}
                    for p in topic.partition_states
                ],
            }
            for topic in entity.topic_states
        ]
    elif received.api is ApiKey.STOP_REPLICA:
        fields["partition_errors"] = [
            {
                "topic_name": topic.topic_name,
                "partition_index": p.partition_index,
                "error_code": 0,
            }
            for topic in entity.topic_states
            for p in topic.partition_states
        ]
    elif received.api is ApiKey.API_VERSIONS:
        fields["api_keys"] = [
            {"api_key": key, "min_version": low, "max_version": high}
            for key, low, high in ((4, 4, 7), (5, 3, 4), (6, 5, 8), (18, 0, 3))
        ]
        fields["throttle_time"] = 0
    answer = build(response_class(header.api_key, header.api_version), **fields)
    return encode_response(header.api_key, header.api_version, header.correlation_id, answer)

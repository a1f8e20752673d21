"""A load generator that costs little: raw sockets, pre-encoded requests, one process.

``python -m benchmarks.load '{"port": 9092, "connections": 64, "seconds": 5, ...}'`` dials all
connections first, sends the same frame over each of them with `in_flight` requests outstanding,
and prints one line of JSON: requests completed per second in the measured part (after the warm-up)
and the answers' latencies. It reads answers by size only; the first one is checked by the caller
(`sample`, hex).
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

_SIZE = struct.Struct(">i")


@dataclass(kw_only=True)
class LoadSpec:
    """What to do; JSON on the command line. `frames_hex` are dealt to connections in turn."""

    host: str = "127.0.0.1"
    port: int
    connections: int = 64
    in_flight: int = 1
    seconds: float = 4.0
    warmup_seconds: float = 0.5
    frames_hex: list[str] = field(default_factory=list)

    def argument(self) -> str:
        return json.dumps(asdict(self))


class _Client:
    """One connection: counts answers as they come in and keeps its requests in flight."""

    __slots__ = ("buffer", "frame", "sent_ns", "socket", "unsent")

    def __init__(self, spec: LoadSpec, frame: bytes) -> None:
        self.socket = socket.create_connection((spec.host, spec.port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.frame = frame
        self.buffer = b""
        self.unsent = b""
        self.sent_ns = 0

    def send(self, count: int) -> None:
        data = self.unsent + self.frame * count
        self.sent_ns = time.monotonic_ns()
        try:
            self.unsent = data[self.socket.send(data) :]
        except BlockingIOError:
            self.unsent = data

    def answers(self) -> list[bytes]:
        data = self.socket.recv(262144)
        if not data:
            raise ConnectionError("the broker closed the connection")
        data = self.buffer + data
        found, at = [], 0
        while len(data) - at >= 4:
            end = at + 4 + _SIZE.unpack_from(data, at)[0]
            if end > len(data):
                break
            found.append(data[at:end])
            at = end
        self.buffer = data[at:]
        return found


def run(spec: LoadSpec) -> dict[str, Any]:
    frames = [bytes.fromhex(text) for text in spec.frames_hex]
    clients: dict[int, _Client] = {}
    poll = select.epoll()
    for index in range(spec.connections):
        client = _Client(spec, frames[index % len(frames)])
        clients[client.socket.fileno()] = client
        poll.register(client.socket, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    start_ns = time.monotonic_ns()
    measured_ns = start_ns + int(spec.warmup_seconds * 1e9)
    end_ns = measured_ns + int(spec.seconds * 1e9)
    completed = errors = 0
    latencies: list[int] = []
    sample = b""
    for client in clients.values():
        client.send(spec.in_flight)
    now_ns = start_ns
    while now_ns < end_ns and clients:
        events = poll.poll(0.1)
        now_ns = time.monotonic_ns()
        for fd, mask in events:
            client = clients[fd]
            if client.unsent and mask & select.EPOLLOUT:
                client.send(0)
            if not mask & ~select.EPOLLOUT:
                continue
            try:
                answers = client.answers()
            except BlockingIOError:
                continue
            except ConnectionError:
                errors += 1
                del clients[fd]
                continue
            if answers:
                sample = sample or answers[0]
                if now_ns >= measured_ns:
                    completed += len(answers)
                    latencies.append(now_ns - client.sent_ns)
                client.send(len(answers))
    latencies.sort()
    count = len(latencies)
    return {
        "per_second": completed / spec.seconds,
        "errors": errors,
        "p50_ms": latencies[count // 2] / 1e6 if count else None,
        "p99_ms": latencies[count * 99 // 100] / 1e6 if count else None,
        "cpu_seconds": time.process_time(),
        "sample": sample.hex(),
    }


if __name__ == "__main__":
    print(json.dumps(run(LoadSpec(**json.loads(sys.argv[1])))), flush=True)

"""A load generator that costs little: raw sockets, pre-encoded requests, one process.

``python -m benchmarks.load '{"port": 9092, "connections": 64, "seconds": 5, ...}'`` dials all
connections first, sends the same frame over each of them with `in_flight` requests outstanding,
and prints one line of JSON: requests completed per second in the measured part (after the warm-up)
and the answers' latencies. It reads answers by size only; the first bytes are for the caller to
check (`sample`, hex). On a machine with two cores its own cost decides what a broker can show, so
its usual round is a ``recv``, a ``send`` and little else.
"""

from __future__ import annotations

import gc
import json
import select
import socket
import struct
import sys
import time
from array import array
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

    __slots__ = ("buffer", "frame", "recv", "send", "sent_ns", "socket", "unsent")

    def __init__(self, spec: LoadSpec, frame: bytes) -> None:
        self.socket = socket.create_connection((spec.host, spec.port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.recv = self.socket.recv
        self.send = self.socket.send
        self.frame = frame
        self.buffer = b""
        self.unsent = b""
        self.sent_ns = 0

    def request(self, count: int) -> None:
        data = self.unsent + self.frame * count
        self.sent_ns = time.monotonic_ns()
        try:
            self.unsent = data[self.send(data) :]
        except BlockingIOError:
            self.unsent = data

    def count_answers(self, data: bytes) -> int:
        """Whole answers in what has come so far."""
        data = self.buffer + data
        count = at = 0
        while len(data) - at >= 4:
            end = at + 4 + _SIZE.unpack_from(data, at)[0]
            if end > len(data):
                break
            count += 1
            at = end
        self.buffer = data[at:]
        return count


def run(spec: LoadSpec) -> dict[str, Any]:
    frames = [bytes.fromhex(text) for text in spec.frames_hex]
    clients: dict[int, _Client] = {}
    poll = select.epoll()
    for index in range(spec.connections):
        client = _Client(spec, frames[index % len(frames)])
        clients[client.socket.fileno()] = client
        # Level-triggered, and never for room to send: a request is small and the one before it was
        # answered, so there is room; where there is not, the next round tries again.
        poll.register(client.socket, select.EPOLLIN)
    gc.collect()
    gc.disable()
    start_ns = time.monotonic_ns()
    measured_ns = start_ns + int(spec.warmup_seconds * 1e9)
    end_ns = measured_ns + int(spec.seconds * 1e9)
    completed = errors = 0
    latencies = array("q")
    sample = b""
    cut_short: list[_Client] = []
    for client in clients.values():
        client.request(spec.in_flight)
        if client.unsent:
            cut_short.append(client)
    clock_ns = time.monotonic_ns
    now_ns = start_ns
    while now_ns < end_ns and clients:
        if cut_short:
            still = cut_short
            cut_short = []
            for client in still:
                client.request(0)
                if client.unsent:
                    cut_short.append(client)
        events = poll.poll(0.002 if cut_short else 0.1)
        now_ns = clock_ns()
        is_measured = now_ns >= measured_ns
        for fd, _ in events:
            client = clients[fd]
            try:
                data = client.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                errors += 1
                client.socket.close()
                del clients[fd]
                continue
            size = len(data)
            # Nearly always: one whole answer, and room for the next request. The rest is general.
            if not client.buffer and size > 4 and _SIZE.unpack_from(data)[0] == size - 4:
                answers = 1
            else:
                answers = client.count_answers(data)
                if not answers:
                    continue
            if not sample:
                sample = data
            if is_measured:
                completed += answers
                latencies.append(now_ns - client.sent_ns)
            if answers > 1 or client.unsent:
                client.request(answers)
            else:
                frame = client.frame
                client.sent_ns = clock_ns()
                try:
                    sent = client.send(frame)
                except BlockingIOError:
                    sent = 0
                if sent != len(frame):
                    client.unsent = frame[sent:]
            if client.unsent:
                cut_short.append(client)
    ordered = sorted(latencies)
    count = len(ordered)
    return {
        "per_second": completed / spec.seconds,
        "errors": errors,
        "p50_ms": ordered[count // 2] / 1e6 if count else None,
        "p99_ms": ordered[count * 99 // 100] / 1e6 if count else None,
        "cpu_seconds": time.process_time(),
        "sample": sample.hex(),
    }


if __name__ == "__main__":
    print(json.dumps(run(LoadSpec(**json.loads(sys.argv[1])))), flush=True)

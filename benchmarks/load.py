"""A load generator that costs little: raw sockets, pre-encoded requests, one process.

``python -m benchmarks.load`` takes a `LoadSpec` as JSON on its standard input, dials all
connections first, sends the same frame over each of them with `in_flight` requests outstanding,
and prints one line of JSON: requests completed per second in the measured part (after the warm-up)
and the answers' latencies. It cuts answers by size; of each that comes alone, as they do with one
request in flight, it also looks at the error code (`error_at`). On a machine with two cores its own
cost decides what a broker can show, so its usual round is a ``recv``, a ``send`` and little else.
"""

from __future__ import annotations

import gc
import json
import select
import socket
import struct
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from faults.flood.priority import step_back

_SIZE = struct.Struct(">i")
_NO_ERROR = b"\0\0"
_RECEIVE_BYTES = 256 * 1024


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
    step_back: bool = False
    error_at: int = 0
    """Where an answer has its error code, from its size field on; 0: nobody looks."""
    redial: bool = False
    """Each answer ends its connection, and a new one takes its place: a flood of connections. One
    that the broker's full backlog leaves waiting does not hold up the others."""


class _Client:
    """One connection: counts answers as they come in and keeps its requests in flight."""

    __slots__ = ("frame", "head", "left", "poll", "recv", "send", "sent_ns", "socket", "unsent")

    def __init__(self, spec: LoadSpec, frame: bytes, poll: select.epoll, *, again: bool) -> None:
        """Returns when it is connected; `again`: at once, with a first request to be sent then."""
        if again:
            self.socket = socket.socket()
        else:
            self.socket = socket.create_connection((spec.host, spec.port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.recv = self.socket.recv
        self.send = self.socket.send
        self.frame = frame
        self.poll = poll
        self.head = b""
        """A part of an answer's size field."""
        self.left = 0
        """What is still to come of an answer whose size is known."""
        self.unsent: memoryview | None = None
        self.sent_ns = time.monotonic_ns()
        if again:
            with suppress(BlockingIOError):
                self.socket.connect((spec.host, spec.port))
            self.unsent = memoryview(frame)
        poll.register(self.socket, select.EPOLLIN | (select.EPOLLOUT if again else 0))

    def request(self, count: int) -> None:
        """Sends `count` requests, as far as there is room; the rest waits for it."""
        self.sent_ns = time.monotonic_ns()
        if self.unsent is not None:
            self.unsent = memoryview(bytes(self.unsent) + self.frame * count)
            return
        self._send(memoryview(self.frame * count))

    def go_on(self) -> None:
        """There is room again."""
        if self.unsent is not None:
            self._send(self.unsent)

    def left_over(self, sent: int) -> None:
        """`frame` was sent by somebody else, as far as `sent`."""
        self.unsent = memoryview(self.frame)[sent:]
        self.poll.modify(self.socket, select.EPOLLIN | select.EPOLLOUT)

    def _send(self, data: memoryview) -> None:
        waited = self.unsent is not None
        with suppress(BlockingIOError, ConnectionError):  # the next ``recv`` will tell
            data = data[self.send(data) :]
        self.unsent = data if data else None
        if waited != bool(data):
            events = select.EPOLLIN | select.EPOLLOUT if data else select.EPOLLIN
            self.poll.modify(self.socket, events)

    @property
    def is_between_answers(self) -> bool:
        return not self.left and not self.head

    def count_answers(self, data: bytes) -> int:
        """Answers that end in what has come; of large ones nothing is kept."""
        count = at = 0
        while at < len(data):
            if not self.left:
                head = self.head + data[at : at + 4 - len(self.head)]
                at += len(head) - len(self.head)
                self.head = head
                if len(head) < 4:
                    break
                self.head, self.left = b"", _SIZE.unpack(head)[0]
            taken = min(self.left, len(data) - at)
            self.left -= taken
            at += taken
            count += not self.left
        return count


def run(spec: LoadSpec) -> dict[str, Any]:
    frames = [bytes.fromhex(text) for text in spec.frames_hex]
    clients: dict[int, _Client] = {}
    poll = select.epoll()
    for index in range(spec.connections):
        client = _Client(spec, frames[index % len(frames)], poll, again=False)
        clients[client.socket.fileno()] = client
    gc.collect()
    gc.disable()
    print("dialled", flush=True)
    clock_ns = time.monotonic_ns
    now_ns = clock_ns()
    measured_ns = now_ns + int(spec.warmup_seconds * 1e9)
    end_ns = measured_ns + int(spec.seconds * 1e9)
    completed = errors = received = 0
    latencies = array("q")
    error_at = spec.error_at
    for client in clients.values():
        client.request(spec.in_flight)
    while now_ns < end_ns and clients:
        events = poll.poll(0.1)
        now_ns = clock_ns()
        is_measured = now_ns >= measured_ns
        for fd, mask in events:
            client = clients[fd]
            if mask & select.EPOLLOUT:
                client.go_on()
                if mask == select.EPOLLOUT:
                    continue
            try:
                data = client.recv(_RECEIVE_BYTES)
            except ConnectionError:
                data = b""
            if not data:
                errors += 1
                client.socket.close()
                del clients[fd]
                continue
            size = len(data)
            received += size if is_measured else 0
            # Nearly always: one whole answer, and room for the next request. The rest is general.
            if client.is_between_answers and size > 4 and _SIZE.unpack_from(data)[0] == size - 4:
                answers = 1
                if error_at and data[error_at : error_at + 2] != _NO_ERROR:
                    errors += 1
            else:
                answers = client.count_answers(data)
                if not answers:
                    continue
            if is_measured:
                completed += answers
                latencies.append(now_ns - client.sent_ns)
            if spec.redial:
                client.socket.close()
                del clients[fd]
                client = _Client(spec, client.frame, poll, again=True)
                clients[client.socket.fileno()] = client
                continue
            if answers > 1 or client.unsent is not None:
                client.request(answers)
                continue
            client.sent_ns = clock_ns()
            try:
                sent = client.send(client.frame)
            except BlockingIOError:
                sent = 0
            if sent != len(client.frame):
                client.left_over(sent)
    ordered = sorted(latencies)
    count = len(ordered)
    return {
        "per_second": completed / spec.seconds,
        "bytes_per_second": received / spec.seconds,
        "errors": errors,
        "p50_ms": ordered[count // 2] / 1e6 if count else None,
        "p99_ms": ordered[count * 99 // 100] / 1e6 if count else None,
        "cpu_seconds": time.process_time(),
    }


@contextmanager
def running(spec: LoadSpec) -> Iterator[subprocess.Popen[str]]:
    """The load in a process of its own, from the moment when all its connections are dialled;
    `result` waits for it. It is a session of its own, so that it can step back (as floods do)."""
    command = [sys.executable, "-m", "benchmarks.load"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(asdict(spec)))
        process.stdin.close()
        if process.stdout.readline() != "dialled\n":
            raise ConnectionError(f"the load could not connect to port {spec.port}")
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(10)
        process.stdout.close()


def result(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Waits for a load to end by itself, and what it says then."""
    assert process.stdout is not None
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


if __name__ == "__main__":
    loaded = LoadSpec(**json.loads(sys.stdin.read()))
    if loaded.step_back:
        step_back()
    print(json.dumps(run(loaded)), flush=True)
